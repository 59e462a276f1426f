/* Taking names away, and the queue of files that have none left (spec 06 8.3). */
#include <errno.h>

#include "fs/fs_impl.h"

int unlinked_add(struct fs *fs, uint64_t object, struct tx *tx)
{
    char key[17];
    zap_int_key(object, key);
    return zap_update(fs->unlinked_dn, key, 8, 1, &object, tx);
}

int unlinked_remove(struct fs *fs, uint64_t object, struct tx *tx)
{
    char key[17];
    zap_int_key(object, key);
    int rc = zap_remove(fs->unlinked_dn, key, tx);
    return rc == -ENOENT ? 0 : rc;
}

int drop_link(struct znode *zn, struct tx *tx)
{
    struct zattr a;
    zn_attr(zn, &a);
    a.links = is_dir(zn) || a.links == 0 ? 0 : a.links - 1;
    zattr_touch(zn->fs, &a, false);
    int rc = zn_prepare(zn, tx);
    if (rc == 0 && a.links == 0)
        rc = unlinked_add(zn->fs, zn->object, tx);
    if (rc == 0)
        rc = zn_store(zn, &a, tx);
    if (rc == 0 && a.links == 0)
        zn_mark_unlinked(zn, true);
    return rc;
}

static int check(struct znode *dir, struct znode *zn, bool directory)
{
    bool empty;
    if (is_dir(zn) != directory)
        return directory ? -ENOTDIR : -EISDIR;
    int rc = dir_may_remove(dir, zn);
    if (rc == 0 && directory) {
        rc = dir_empty(zn, &empty);
        if (rc == 0 && !empty)
            rc = -ENOTEMPTY;
    }
    return rc;
}

static int remove_name(struct znode *dir, const char *name, struct znode *zn, struct tx *tx)
{
    struct zattr a;
    uint64_t value = dir_value(zn);
    int rc = zn_prepare(dir, tx);
    if (rc == 0)
        rc = zap_remove(dir->dn, name, tx);
    if (rc < 0)
        return rc;
    zn_attr(dir, &a);
    a.size -= a.size > 2;
    a.links -= is_dir(zn) && a.links > 2;
    zattr_touch(dir->fs, &a, true);
    rc = drop_link(zn, tx);
    if (rc == 0)
        rc = zn_store(dir, &a, tx);
    if (rc < 0)
        zap_add(dir->dn, name, 8, 1, &value, tx);
    return rc;
}

static int unlink_any(struct fs *fs, uint64_t ino, const char *name, bool directory)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *dir CLEANUP_ZN = NULL, *zn CLEANUP_ZN = NULL;
    uint64_t value;
    int rc = get_dir(fs, ino, &dir);
    if (rc < 0)
        return rc;
    reaper_throttle(fs);
    rc = fs_tx_begin(fs, DATASET_TX_FREE, COST_NAME, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(dir);
    rc = dir_find(dir, name, &value);
    if (rc == 0)
        rc = zn_get(fs, value & OBJECT_MASK, &zn);
    if (rc < 0)
        return rc;
    struct znode *child CLEANUP_LOCK = zn_write_lock(zn);
    rc = check(dir, zn, directory);
    return rc < 0 ? rc : remove_name(dir, name, zn, &t.tx);
}

int fs_unlink(struct fs *fs, uint64_t dir, const char *name)
{
    return unlink_any(fs, dir, name, false);
}

int fs_rmdir(struct fs *fs, uint64_t dir, const char *name)
{
    return unlink_any(fs, dir, name, true);
}
