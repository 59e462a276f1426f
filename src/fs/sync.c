/* Durability, and the numbers of the whole (spec 06 13.2). */
#include <errno.h>

#include "fs/fs_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"

/* There is no intent log yet: the txg that holds the last change must reach the disk. */
int fs_fsync(struct fs *fs, uint64_t ino, bool datasync)
{
    struct znode *zn CLEANUP_ZN = NULL;
    int rc = zn_open(fs, ino, &zn);
    if (rc < 0)
        return rc;
    uint64_t txg = atomic_load(&zn->last_txg);
    if (fs->pool->in_memory)
        return 0;
    if (txg <= txg_synced_number(fs->pool->txg))
        return txg_suspended(fs->pool->txg) ? -EIO : 0;
    return txg_wait_synced(fs->pool->txg, txg);
}

int fs_sync(struct fs *fs)
{
    return fs->readonly ? 0 : txg_wait_synced(fs->pool->txg, 0);
}

int fs_statfs(struct fs *fs, struct fs_statfs *out)
{
    struct objset_props props;
    uint64_t referenced, available, objects;
    objset_props(fs->os, &props);
    dataset_space(fs->ds, &referenced, &available, &objects);
    uint32_t size = props.recordsize;
    referenced = ROUND_UP(referenced, (uint64_t)size);
    *out = (struct fs_statfs){
        .bsize = size,
        .frsize = size,
        .blocks = (referenced + available) / size,
        .bfree = available / size,
        .bavail = available / size,
        .ffree = MIN(OBJECT_MAX - objects, available >> 9),
        .namelen = FS_NAME_MAX,
        .fsid = fs->fsid,
    };
    out->files = out->ffree + objects;
    return 0;
}
