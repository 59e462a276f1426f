/* Reading and writing files (spec 06 7). */
#include <errno.h>
#include <limits.h>

#include "fs/fs_impl.h"
#include "util/buf.h"
#include "util/bytes.h"

#define CHUNK (1u << 20) /* at most this much in one transaction */

static int get_file(struct fs *fs, uint64_t ino, struct znode **zn)
{
    int rc = zn_open(fs, ino, zn);
    if (rc < 0)
        return rc;
    return is_file(*zn) ? 0 : is_dir(*zn) ? -EISDIR : -EINVAL;
}

ssize_t fs_read_with(struct fs *fs, uint64_t ino, uint64_t off, void *data, size_t n,
                     unsigned flags)
{
    struct znode *zn CLEANUP_ZN = NULL;
    int rc = get_file(fs, ino, &zn);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_read_lock(zn);
    uint64_t size = zn->a.size;
    if (!(flags & FS_READ_NOATIME))
        zn_accessed(zn);
    if (off >= size || n == 0)
        return 0;
    n = MIN(n, size - off);
    n = MIN(n, (size_t)SSIZE_MAX);
    rc = dnode_read(zn->dn, off, data, n);
    return rc < 0 ? rc : (ssize_t)n;
}

/* What a write by somebody without privileges leaves of the mode: set-group-id goes with group
 * execution; without it, only if the writer is not of the group (sgid). */
static void kill_suidgid(struct zattr *a, bool sgid)
{
    a->mode &= ~(uint64_t)S_ISUID;
    if (sgid || a->mode & S_IXGRP)
        a->mode &= ~(uint64_t)S_ISGID;
}

struct write {
    uint64_t off;
    const unsigned char *data; /* or, if it is NULL, whole blocks of block_size */
    struct buf **blocks;
    uint32_t block_size;
    size_t n;
    unsigned flags;
};

static int check(struct znode *zn, struct write *w)
{
    if (w->flags & FS_WRITE_APPEND)
        w->off = zn->a.size;
    if (zn_bars(zn) & PFLAG_IMMUTABLE || (zn_bars(zn) & PFLAG_APPENDONLY && w->off < zn->a.size))
        return -EPERM;
    if (w->off >= FILE_SIZE_MAX)
        return -EFBIG;
    w->n = MIN(w->n, FILE_SIZE_MAX - w->off);
    return quota_check(zn->fs, zn->a.uid, zn->a.gid, zn->a.projid, false);
}

static int put(struct znode *zn, const struct write *w, struct tx *tx)
{
    if (w->data)
        return dnode_write(zn->dn, w->off, w->data, w->n, tx);
    uint32_t bs = w->block_size;
    if (dnode_block_size(zn->dn) != bs || w->off % bs != 0 || w->n % bs != 0)
        return -EAGAIN;
    return dnode_put_blocks(zn->dn, w->off / bs, w->n / bs, w->blocks, tx);
}

/* One piece, in a locked file. */
static int write_locked(struct znode *zn, struct write *w, struct tx *tx)
{
    struct zattr a;
    int rc = check(zn, w);
    if (rc < 0)
        return rc;
    zn_attr(zn, &a);
    uint64_t end = w->off + w->n;
    rc = file_grow_block(zn, a.size, end, tx);
    if (rc == 0)
        rc = put(zn, w, tx);
    if (rc < 0) {
        if (end > a.size) /* nothing may be left behind the end */
            dnode_free_range(zn->dn, a.size, UINT64_MAX, tx);
        return rc;
    }
    a.size = MAX(a.size, end);
    if (w->flags & FS_WRITE_KILL_SUIDGID)
        kill_suidgid(&a, w->flags & FS_WRITE_KILL_SGID);
    zattr_touch(zn->fs, &a, true);
    return zn_store(zn, &a, tx);
}

static int write_piece(struct fs *fs, struct znode *zn, struct write *w)
{
    struct fs_tx t CLEANUP_TX = {0};
    int rc = fs_tx_begin(fs, DATASET_TX_WRITE, w->n + COST_WRITE, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    return write_locked(zn, w, &t.tx);
}

int file_write_whole(struct znode *zn, uint64_t off, const void *data, size_t n)
{
    struct write w = {.off = off, .data = data, .n = n};
    return write_piece(zn->fs, zn, &w);
}

ssize_t fs_write(struct fs *fs, uint64_t ino, uint64_t off, const void *data, size_t n,
                 unsigned flags)
{
    struct znode *zn CLEANUP_ZN = NULL;
    size_t done = 0;
    int rc = get_file(fs, ino, &zn);
    if (rc < 0)
        return rc;
    n = MIN(n, (size_t)SSIZE_MAX);
    while (done < n && rc == 0) {
        /* Pieces end at multiples of their size, so that blocks are written whole. */
        struct write w = {
            .off = off + done, .data = (const unsigned char *)data + done, .flags = flags};
        w.n = MIN(n - done, CHUNK - (flags & FS_WRITE_APPEND ? 0 : w.off % CHUNK));
        rc = write_piece(fs, zn, &w);
        if (rc == 0)
            done += w.n;
    }
    if (rc == 0 && flags & FS_WRITE_SYNC)
        rc = fs_fsync(fs, ino, true);
    return done > 0 && rc != -EIO ? (ssize_t)done : rc;
}

/* ---- Copying within the file system ---- */

/* References to the whole blocks of [off, off + n), as far as there is file; the bytes they hold in
 * w, 0 if there are none. */
static int share_blocks(struct znode *zn, uint64_t off, size_t n, struct write *w)
{
    struct znode *locked CLEANUP_LOCK = zn_read_lock(zn);
    uint32_t bs = w->block_size = dnode_block_size(zn->dn);
    n = off < zn->a.size ? MIN(n, zn->a.size - off) : 0;
    if (bs < FS_SHARE_MIN || off % bs != 0 || w->off % bs != 0 || n < bs)
        return 0;
    w->n = n - n % bs;
    zn_accessed(zn);
    return dnode_get_blocks(zn->dn, off / bs, w->n / bs, w->blocks);
}

ssize_t fs_share(struct fs *fs, uint64_t from, uint64_t from_off, uint64_t to, uint64_t to_off,
                 size_t n, unsigned flags)
{
    struct znode *zn CLEANUP_ZN = NULL, *target CLEANUP_ZN = NULL;
    struct buf *blocks[CHUNK / FS_SHARE_MIN] = {NULL};
    struct write w = {.off = to_off, .blocks = blocks, .flags = flags};
    int rc = get_file(fs, from, &zn);
    if (rc == 0)
        rc = get_file(fs, to, &target);
    if (rc == 0)
        rc = share_blocks(zn, from_off, MIN(n, CHUNK), &w);
    if (rc == 0 && w.n > 0)
        rc = write_piece(fs, target, &w);
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        buf_unref(blocks[i]);
    return rc == -EAGAIN ? 0 : rc < 0 ? rc : (ssize_t)w.n;
}
