/* chmod, chown, truncate, utimes: one call, one transaction. */
#include <errno.h>

#include "fs/fs_impl.h"

static void set_time(const struct fs *fs, struct ztime *t, unsigned mask, unsigned given,
                     unsigned now, const struct timespec *ts)
{
    if (mask & now)
        fs_now(fs, t);
    else if (mask & given)
        *t = (struct ztime){ts->tv_sec, ts->tv_nsec};
}

static int may_set(const struct znode *zn, const struct fs_setattr *set)
{
    if (zn_bars(zn) & PFLAG_IMMUTABLE)
        return -EPERM;
    /* What utimes(file, NULL) and open(O_TRUNC) do not do to an append-only file. */
    if (zn_bars(zn) & PFLAG_APPENDONLY && set->mask & (FS_SET_MODE | FS_SET_UID | FS_SET_GID |
                                                       FS_SET_SIZE | FS_SET_ATIME | FS_SET_MTIME))
        return -EPERM;
    return 0;
}

static void change_ids(struct zattr *a, const struct fs_setattr *set)
{
    if (set->mask & FS_SET_UID)
        a->uid = set->uid;
    if (set->mask & FS_SET_GID)
        a->gid = set->gid;
}

static void change_mode(struct znode *zn, struct zattr *a, const struct fs_setattr *set)
{
    if (set->mask & FS_SET_MODE)
        a->mode = (a->mode & S_IFMT) | (set->mode & 07777);
    if (set->mask & FS_SET_KILL_SUIDGID && !is_dir(zn)) {
        a->mode &= ~(uint64_t)S_ISUID;
        if (a->mode & S_IXGRP || set->mask & FS_SET_KILL_SGID)
            a->mode &= ~(uint64_t)S_ISGID;
    }
}

/* New permission bits change the access lists that mirror them. */
static int store_mode(struct znode *zn, struct zattr *a, struct tx *tx)
{
    int rc = zn_store_mode(zn, a, tx);
    return rc == 0 ? acl_follow_mode(zn, a, tx) : rc;
}

/* The hidden directory of attributes belongs to whom the file belongs. */
static int chown_hidden(struct znode *zn, struct tx *tx)
{
    struct znode *hidden CLEANUP_ZN = NULL;
    struct zattr a;
    if (zn->a.xattr == 0)
        return 0;
    int rc = zn_get(zn->fs, zn->a.xattr, &hidden);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(hidden);
    zn_attr(hidden, &a);
    a.uid = zn->a.uid;
    a.gid = zn->a.gid;
    return zn_store(hidden, &a, tx);
}

static int set_locked(struct znode *zn, const struct fs_setattr *set, struct tx *tx)
{
    struct zattr a;
    int rc = may_set(zn, set);
    if (rc < 0)
        return rc;
    zn_attr(zn, &a);
    uint64_t old_mode = a.mode;
    change_ids(&a, set);
    change_mode(zn, &a, set);
    if (set->mask & FS_SET_SIZE)
        rc = file_set_size(zn, &a, set->size, tx);
    if (rc < 0)
        return rc;
    zattr_touch(zn->fs, &a, set->mask & FS_SET_SIZE);
    set_time(zn->fs, &a.atime, set->mask, FS_SET_ATIME, FS_SET_ATIME_NOW, &set->atime);
    set_time(zn->fs, &a.mtime, set->mask, FS_SET_MTIME, FS_SET_MTIME_NOW, &set->mtime);
    set_time(zn->fs, &a.ctime, set->mask, FS_SET_CTIME, 0, &set->ctime);
    a.flags |= PFLAG_ARCHIVE;
    rc = (old_mode ^ a.mode) & 0777 ? store_mode(zn, &a, tx) : zn_store(zn, &a, tx);
    if (rc == 0 && set->mask & (FS_SET_UID | FS_SET_GID))
        rc = chown_hidden(zn, tx);
    return rc;
}

/* Whoever gets a file must have room for it. */
static int check_quota(struct fs *fs, struct znode *zn, const struct fs_setattr *set)
{
    struct zattr a;
    if (!(set->mask & (FS_SET_UID | FS_SET_GID)))
        return 0;
    zn_attr(zn, &a);
    uint64_t uid = set->mask & FS_SET_UID ? set->uid : a.uid;
    uint64_t gid = set->mask & FS_SET_GID ? set->gid : a.gid;
    if (uid == a.uid && gid == a.gid)
        return 0;
    return quota_check(fs, uid, gid, a.projid, false);
}

int fs_setattr(struct fs *fs, uint64_t ino, const struct fs_setattr *set, struct fs_attr *attr)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *zn CLEANUP_ZN = NULL;
    int rc = zn_open(fs, ino, &zn);
    if (rc < 0)
        return rc;
    if (set->mask & FS_SET_SIZE && !is_file(zn))
        return is_dir(zn) ? -EISDIR : -EINVAL;
    if (set->mask & FS_SET_MODE && zn->type == S_IFLNK)
        return -EOPNOTSUPP;
    rc = check_quota(fs, zn, set);
    if (rc < 0)
        return rc;
    struct zattr now;
    zn_attr(zn, &now);
    /* Attributes are overwritten: that works on a full file system too. */
    bool grows = set->mask & FS_SET_SIZE && set->size > now.size;
    rc = fs_tx_begin(fs, grows ? DATASET_TX_WRITE : DATASET_TX_FREE,
                     set->mask & FS_SET_SIZE ? COST_WRITE : COST_ATTR, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    rc = set_locked(zn, set, &t.tx);
    if (rc == 0)
        zn_fill(zn, attr);
    return rc;
}
