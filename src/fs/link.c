/* Hard links (spec 06 8.1) and the targets of symbolic ones. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fs/fs_impl.h"
#include "util/cleanup.h"

/* Can this (locked) file have a name in this (locked) directory? */
static int may_link(struct znode *dir, struct znode *zn)
{
    if (zn_bars(zn) & (PFLAG_IMMUTABLE | PFLAG_APPENDONLY))
        return -EPERM;
    if (zn->a.links >= INT_MAX)
        return -EMLINK;
    if (dir->a.flags & PFLAG_PROJINHERIT && zn->a.flags & PFLAG_PROJID &&
        zn->a.projid != dir->a.projid)
        return -EXDEV;
    return dir_may_add(dir);
}

static int store_both(struct znode *dir, struct znode *zn, struct tx *tx)
{
    struct zattr a, d;
    zn_attr(zn, &a);
    zn_attr(dir, &d);
    a.links++;
    a.parent = dir->object;
    a.flags |= PFLAG_ARCHIVE;
    zattr_touch(dir->fs, &a, false);
    d.size++;
    zattr_touch(dir->fs, &d, true);
    int rc = zn_store(zn, &a, tx);
    if (rc == 0)
        rc = zn_store(dir, &d, tx);
    return rc;
}

static int link_locked(struct znode *dir, struct znode *zn, const char *name, struct tx *tx)
{
    uint64_t value = dir_value(zn);
    bool nameless = zn->a.links == 0; /* made by fs_tmpfile */
    int rc = may_link(dir, zn);
    if (rc == 0)
        rc = zn_prepare(dir, tx);
    if (rc == 0)
        rc = zn_prepare(zn, tx);
    if (rc == 0)
        rc = zap_add(dir->dn, name, 8, 1, &value, tx);
    if (rc < 0)
        return rc;
    if (nameless) {
        rc = unlinked_remove(dir->fs, zn->object, tx);
        if (rc < 0) {
            zap_remove(dir->dn, name, tx);
            return rc;
        }
    }
    rc = store_both(dir, zn, tx);
    if (rc == 0 && nameless)
        zn_mark_unlinked(zn, false);
    return rc;
}

int fs_link(struct fs *fs, uint64_t ino, uint64_t newdir, const char *name, struct fs_attr *attr)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *dir CLEANUP_ZN = NULL, *zn CLEANUP_ZN = NULL;
    int rc = name_check(fs, newdir, name);
    if (rc == 0)
        rc = get_dir(fs, newdir, &dir);
    if (rc == 0)
        rc = zn_open(fs, ino, &zn);
    if (rc < 0)
        return rc;
    if (is_dir(zn))
        return -EPERM;
    rc = fs_tx_begin(fs, DATASET_TX_WRITE, COST_NAME, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(dir);
    struct znode *child CLEANUP_LOCK = zn_write_lock(zn);
    rc = zn_add_lookup(zn);
    if (rc < 0)
        return rc;
    rc = link_locked(dir, zn, name, &t.tx);
    if (rc == 0)
        zn_fill(zn, attr);
    else
        fs_forget(fs, zn->object, 1);
    return rc;
}

/* Old file systems have the target in the object's data. */
static int target_from_data(struct znode *zn, char *buf, size_t cap)
{
    size_t n = MIN(zn->a.size, cap);
    int rc = dnode_read(zn->dn, 0, buf, n);
    return rc < 0 ? rc : (int)n;
}

int fs_readlink(struct fs *fs, uint64_t ino, char *buf, size_t cap)
{
    struct znode *zn CLEANUP_ZN = NULL;
    CLEANUP_FREE unsigned char *target = NULL;
    size_t n;
    int rc = zn_open(fs, ino, &zn);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_read_lock(zn);
    if (zn->type != S_IFLNK)
        return -EINVAL;
    zn_accessed(zn);
    rc = zn_read_sa(zn, SA_SYMLINK, &target, &n);
    if (rc < 0)
        return rc;
    if (!target)
        return target_from_data(zn, buf, cap);
    n = MIN(n, cap);
    memcpy(buf, target, n);
    return n;
}
