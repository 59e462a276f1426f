/*
 * Feature flags (spec 01 17): one table of all features of 2.4 (name, GUID, flags, dependencies, what we
 * can do with it), and their reference counts in the MOS.
 */
#ifndef DSL_FEATURE_H
#define DSL_FEATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dsl;
struct nvlist;
struct tx;

/* In the order of "zpool get all". */
enum feature_id {
    FEATURE_ASYNC_DESTROY, FEATURE_EMPTY_BPOBJ, FEATURE_LZ4_COMPRESS,
    FEATURE_MULTI_VDEV_CRASH_DUMP, FEATURE_SPACEMAP_HISTOGRAM, FEATURE_ENABLED_TXG,
    FEATURE_HOLE_BIRTH, FEATURE_EXTENSIBLE_DATASET, FEATURE_EMBEDDED_DATA, FEATURE_BOOKMARKS,
    FEATURE_FILESYSTEM_LIMITS, FEATURE_LARGE_BLOCKS, FEATURE_LARGE_DNODE, FEATURE_SHA512,
    FEATURE_SKEIN, FEATURE_EDONR, FEATURE_USEROBJ_ACCOUNTING, FEATURE_ENCRYPTION,
    FEATURE_PROJECT_QUOTA, FEATURE_DEVICE_REMOVAL, FEATURE_OBSOLETE_COUNTS,
    FEATURE_ZPOOL_CHECKPOINT, FEATURE_SPACEMAP_V2, FEATURE_ALLOCATION_CLASSES,
    FEATURE_RESILVER_DEFER, FEATURE_BOOKMARK_V2, FEATURE_REDACTION_BOOKMARKS,
    FEATURE_REDACTED_DATASETS, FEATURE_BOOKMARK_WRITTEN, FEATURE_LOG_SPACEMAP, FEATURE_LIVELIST,
    FEATURE_DEVICE_REBUILD, FEATURE_ZSTD_COMPRESS, FEATURE_DRAID, FEATURE_ZILSAXATTR,
    FEATURE_HEAD_ERRLOG, FEATURE_BLAKE3, FEATURE_BLOCK_CLONING, FEATURE_VDEV_ZAPS_V2,
    FEATURE_REDACTION_LIST_SPILL, FEATURE_RAIDZ_EXPANSION, FEATURE_FAST_DEDUP, FEATURE_LONGNAME,
    FEATURE_LARGE_MICROZAP, FEATURE_DYNAMIC_GANG_HEADER, FEATURE_BLOCK_CLONING_ENDIAN,
    FEATURE_PHYSICAL_REWRITE, FEATURE_COUNT
};

enum {
    FEATURE_READONLY_OK = 1, /* read-only compatible */
    FEATURE_MOS = 2,         /* needed to read the MOS: listed in labels while active */
    FEATURE_ACTIVATE = 4,    /* active as soon as enabled */
    FEATURE_DATASET = 8,     /* per dataset */
    FEATURE_CAN_READ = 16,   /* this program reads pools where it is active */
    FEATURE_CAN_WRITE = 32,  /* and keeps them right when writing */
    FEATURE_DEFAULT = 64     /* enabled in pools we create, unless told otherwise */
};

struct feature_info {
    const char *name, *guid, *text;
    unsigned flags;
    const enum feature_id *depends; /* ends with FEATURE_COUNT; NULL if none */
};
const struct feature_info *feature_info(enum feature_id f);
enum feature_id feature_by_name(const char *name); /* FEATURE_COUNT if unknown */
enum feature_id feature_by_guid(const char *guid);

bool feature_enabled(const struct dsl *dsl, enum feature_id f);
uint64_t feature_refs(const struct dsl *dsl, enum feature_id f); /* > 0: active */
uint64_t feature_enabled_txg(const struct dsl *dsl, enum feature_id f);

/* Syncing context. enable also enables what it depends on. */
int feature_enable(struct dsl *dsl, enum feature_id f, struct tx *tx);
int feature_change(struct dsl *dsl, enum feature_id f, int64_t delta, struct tx *tx);
/* True once after a MOS feature became active or inactive: labels must be rewritten. */
bool feature_labels_dirty(struct dsl *dsl);
/* The list for labels and config: active MOS features (01 17.4). */
int feature_label_list(const struct dsl *dsl, struct nvlist **out);

/* Can a pool with these tables be opened? 0; -ENOTSUP if an active feature can't be read, -EROFS if it can
 * only be read; the sentence names feature and GUID. */
int feature_check(const struct dsl *dsl, bool write);
/* The same for a label's list, before the MOS can be read. */
int feature_check_label(const struct nvlist *features_for_read);

#endif
