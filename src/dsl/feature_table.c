/*
 * The features of OpenZFS 2.4 (spec 01 17.5). CAN_READ and CAN_WRITE speak about pools where the feature
 * is active: CAN_READ means that what does not depend on the feature's own data reads right, CAN_WRITE
 * that everything on disk stays right when this program changes the pool.
 *
 * DEFAULT is what OpenZFS 2.1 knows, less what is not written here and what we would rather not have a
 * kernel switch on: a pool we make can be used by 2.1 and later, read and write.
 */
#include <string.h>

#include "dsl/feature.h"

#define RO  FEATURE_READONLY_OK
#define MOS FEATURE_MOS
#define ACT FEATURE_ACTIVATE
#define DS  FEATURE_DATASET
#define R   FEATURE_CAN_READ
#define RW  (FEATURE_CAN_READ | FEATURE_CAN_WRITE)
#define DEF FEATURE_DEFAULT

#define DEPENDS(...) ((const enum feature_id[]){__VA_ARGS__, FEATURE_COUNT})
#define ED           FEATURE_EXTENSIBLE_DATASET

static const struct feature_info table[FEATURE_COUNT] = {
    [FEATURE_ASYNC_DESTROY] = {"async_destroy", "com.delphix:async_destroy",
                               "Datasets are destroyed in the background.", RO | RW | DEF, NULL},
    [FEATURE_EMPTY_BPOBJ] = {"empty_bpobj", "com.delphix:empty_bpobj",
                             "Empty block lists of snapshots share one object.", RO | RW | DEF, NULL},
    [FEATURE_LZ4_COMPRESS] = {"lz4_compress", "org.illumos:lz4_compress", "LZ4 compression.",
                              ACT | RW | DEF, NULL},
    [FEATURE_MULTI_VDEV_CRASH_DUMP] = {"multi_vdev_crash_dump", "com.joyent:multi_vdev_crash_dump",
                                       "Crash dumps to pools of several devices.", RW | DEF, NULL},
    [FEATURE_SPACEMAP_HISTOGRAM] = {"spacemap_histogram", "com.delphix:spacemap_histogram",
                                    "Space maps carry a histogram of free space.", RO | RW | DEF, NULL},
    [FEATURE_ENABLED_TXG] = {"enabled_txg", "com.delphix:enabled_txg",
                             "The txg in which a feature was enabled is kept.", RO | RW | DEF, NULL},
    [FEATURE_HOLE_BIRTH] = {"hole_birth", "com.delphix:hole_birth",
                            "Holes know when they were made, for exact incremental streams.",
                            MOS | ACT | RW | DEF, DEPENDS(FEATURE_ENABLED_TXG)},
    [FEATURE_ZPOOL_CHECKPOINT] = {"zpool_checkpoint", "com.delphix:zpool_checkpoint",
                                  "The pool can be taken back to a checkpoint.", RO | R, NULL},
    [FEATURE_SPACEMAP_V2] = {"spacemap_v2", "com.delphix:spacemap_v2",
                             "Space maps with shorter entries for long segments.",
                             RO | ACT | RW | DEF, NULL},
    [FEATURE_EXTENSIBLE_DATASET] = {"extensible_dataset", "com.delphix:extensible_dataset",
                                    "Datasets carry further named fields, for other features.",
                                    RW | DEF, NULL},
    [FEATURE_BOOKMARKS] = {"bookmarks", "com.delphix:bookmarks", "Bookmarks of snapshots.",
                           RO | RW | DEF, DEPENDS(ED)},
    [FEATURE_FILESYSTEM_LIMITS] = {"filesystem_limits", "com.joyent:filesystem_limits",
                                   "Limits on the number of file systems and snapshots.",
                                   RO | RW | DEF, DEPENDS(ED)},
    [FEATURE_EMBEDDED_DATA] = {"embedded_data", "com.delphix:embedded_data",
                               "Blocks that compress to almost nothing live in their pointer.",
                               MOS | ACT | RW | DEF, NULL},
    [FEATURE_LIVELIST] = {"livelist", "com.delphix:livelist", "Clones are destroyed faster.", RO | RW,
                          DEPENDS(ED)},
    [FEATURE_LOG_SPACEMAP] = {"log_spacemap", "com.delphix:log_spacemap",
                              "Space map changes are logged together and flushed over time.", RO | RW,
                              DEPENDS(FEATURE_SPACEMAP_V2)},
    [FEATURE_LARGE_BLOCKS] = {"large_blocks", "org.open-zfs:large_blocks",
                              "Blocks of more than 128 KB.", DS | RW | DEF, DEPENDS(ED)},
    [FEATURE_LARGE_DNODE] = {"large_dnode", "org.zfsonlinux:large_dnode",
                             "Dnodes of more than 512 bytes.", DS | RW | DEF, DEPENDS(ED)},
    [FEATURE_SHA512] = {"sha512", "org.illumos:sha512", "SHA-512/256 checksums.", DS | RW | DEF,
                        DEPENDS(ED)},
    [FEATURE_SKEIN] = {"skein", "org.illumos:skein", "Skein checksums.", DS | RW | DEF,
                       DEPENDS(ED)},
    [FEATURE_EDONR] = {"edonr", "org.illumos:edonr", "Edon-R checksums.", DS | RW | DEF,
                       DEPENDS(ED)},
    [FEATURE_REDACTION_BOOKMARKS] = {"redaction_bookmarks", "com.delphix:redaction_bookmarks",
                                     "Bookmarks with lists of redacted blocks.", R,
                                     DEPENDS(FEATURE_BOOKMARK_V2, ED, FEATURE_BOOKMARKS)},
    [FEATURE_REDACTED_DATASETS] = {"redacted_datasets", "com.delphix:redacted_datasets",
                                   "Datasets received from redacted streams.", DS | R, DEPENDS(ED)},
    [FEATURE_BOOKMARK_WRITTEN] = {"bookmark_written", "com.delphix:bookmark_written",
                                  "Bookmarks count what was written since.", RW | DEF,
                                  DEPENDS(FEATURE_BOOKMARK_V2, ED, FEATURE_BOOKMARKS)},
    [FEATURE_DEVICE_REMOVAL] = {"device_removal", "com.delphix:device_removal",
                                "Top-level devices can be removed.", MOS | R, NULL},
    [FEATURE_OBSOLETE_COUNTS] = {"obsolete_counts", "com.delphix:obsolete_counts",
                                 "Removed devices forget blocks that were freed.", RO | R,
                                 DEPENDS(ED, FEATURE_DEVICE_REMOVAL)},
    [FEATURE_USEROBJ_ACCOUNTING] = {"userobj_accounting", "org.zfsonlinux:userobj_accounting",
                                    "Objects are counted per user and group.", RO | DS | RW | DEF,
                                    DEPENDS(ED)},
    [FEATURE_BOOKMARK_V2] = {"bookmark_v2", "com.datto:bookmark_v2", "Bookmarks with more fields.",
                             RW | DEF, DEPENDS(ED, FEATURE_BOOKMARKS)},
    [FEATURE_ENCRYPTION] = {"encryption", "com.datto:encryption", "Encrypted datasets.", DS | R,
                            DEPENDS(ED, FEATURE_BOOKMARK_V2)},
    [FEATURE_PROJECT_QUOTA] = {"project_quota", "org.zfsonlinux:project_quota",
                               "Space and objects are counted per project.", RO | DS | RW | DEF,
                               DEPENDS(ED)},
    [FEATURE_ALLOCATION_CLASSES] = {"allocation_classes", "org.zfsonlinux:allocation_classes",
                                    "Special devices for metadata and small blocks.", RO | R, NULL},
    [FEATURE_RESILVER_DEFER] = {"resilver_defer", "com.datto:resilver_defer",
                                "A resilver can wait for the one that is running.", RO | R, NULL},
    [FEATURE_DEVICE_REBUILD] = {"device_rebuild", "org.openzfs:device_rebuild",
                                "Mirrors are rebuilt in the order of the disk.", RO | R, NULL},
    [FEATURE_ZSTD_COMPRESS] = {"zstd_compress", "org.freebsd:zstd_compress", "Zstandard compression.",
                               DS | RW | DEF, DEPENDS(ED)},
    [FEATURE_DRAID] = {"draid", "org.openzfs:draid", "RAID with distributed spares.", MOS | R, NULL},
    [FEATURE_ZILSAXATTR] = {"zilsaxattr", "org.openzfs:zilsaxattr",
                            "The intent log carries extended attributes.", RO | DS | RW, DEPENDS(ED)},
    [FEATURE_HEAD_ERRLOG] = {"head_errlog", "com.delphix:head_errlog",
                             "Error logs are kept per dataset.", ACT | RW, NULL},
    [FEATURE_BLAKE3] = {"blake3", "org.openzfs:blake3", "BLAKE3 checksums.", DS | RW,
                        DEPENDS(ED)},
    [FEATURE_BLOCK_CLONING] = {"block_cloning", "com.fudosecurity:block_cloning",
                               "Files share cloned blocks.", RO | R, NULL},
    [FEATURE_VDEV_ZAPS_V2] = {"vdev_zaps_v2", "com.klarasystems:vdev_zaps_v2",
                              "The root device has properties of its own.", MOS | RW, NULL},
    [FEATURE_REDACTION_LIST_SPILL] = {"redaction_list_spill", "com.delphix:redaction_list_spill",
                                      "Redaction lists for many snapshots.", R,
                                      DEPENDS(FEATURE_REDACTION_BOOKMARKS)},
    [FEATURE_RAIDZ_EXPANSION] = {"raidz_expansion", "org.openzfs:raidz_expansion",
                                 "RAID-Z groups grow by single disks.", MOS | R, NULL},
    [FEATURE_FAST_DEDUP] = {"fast_dedup", "com.klarasystems:fast_dedup",
                            "Deduplication with a log and a quota.", RO | R, NULL},
    [FEATURE_LONGNAME] = {"longname", "org.zfsonlinux:longname", "File names of up to 1023 bytes.",
                          DS | R, DEPENDS(ED)},
    [FEATURE_LARGE_MICROZAP] = {"large_microzap", "com.klarasystems:large_microzap",
                                "Simple directories of more than 128 KB.", RO | DS | R,
                                DEPENDS(ED, FEATURE_LARGE_BLOCKS)},
    [FEATURE_BLOCK_CLONING_ENDIAN] = {"block_cloning_endian", "com.truenas:block_cloning_endian",
                                      "Tables of cloned blocks in one byte order.", RO | R, NULL},
    [FEATURE_DYNAMIC_GANG_HEADER] = {"dynamic_gang_header", "com.klarasystems:dynamic_gang_header",
                                     "Gang headers of more than 512 bytes.", MOS | R, NULL},
    [FEATURE_PHYSICAL_REWRITE] = {"physical_rewrite", "com.truenas:physical_rewrite",
                                  "Files can be rewritten without looking changed.", RO | DS | RW,
                                  DEPENDS(ED)},
};

const struct feature_info *feature_info(enum feature_id f)
{
    return (unsigned)f < FEATURE_COUNT ? &table[f] : NULL;
}

enum feature_id feature_by_name(const char *name)
{
    for (int f = 0; f < FEATURE_COUNT; f++)
        if (strcmp(table[f].name, name) == 0)
            return f;
    return FEATURE_COUNT;
}

enum feature_id feature_by_guid(const char *guid)
{
    for (int f = 0; f < FEATURE_COUNT; f++)
        if (strcmp(table[f].guid, guid) == 0)
            return f;
    return FEATURE_COUNT;
}
