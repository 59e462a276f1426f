/* The size of files and their holes (spec 06 7, 16.3; 03 4.7). */
#include <errno.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "fs/fs_impl.h"
#include "util/bytes.h"

#define SECTOR 512

/* A file keeps its one block as long as it fits; the block grows with it up to recordsize, then the
 * size is fixed for ever. */
int file_grow_block(struct znode *zn, uint64_t size, uint64_t end, struct tx *tx)
{
    uint32_t bs = dnode_block_size(zn->dn);
    struct objset_props props;
    if (size > bs || end <= bs || dnode_max_blkid(zn->dn) > 0)
        return 0;
    objset_props(zn->fs->os, &props);
    uint64_t limit = props.recordsize;
    if (is_pow2(bs) && bs >= limit)
        return 0;
    if (bs > limit)
        limit = 1ull << high_bit(bs); /* bs is not a power of two: the next one */
    uint64_t wanted = end >= limit ? limit : P2_ROUND_UP(end, (uint64_t)SECTOR);
    if (wanted <= bs)
        return 0;
    int rc = dnode_set_block_size(zn->dn, wanted, 0, tx);
    return rc == -EBUSY ? 0 : rc;
}

int file_set_size(struct znode *zn, struct zattr *a, uint64_t size, struct tx *tx)
{
    int rc = 0;
    if (size > FILE_SIZE_MAX)
        return -EFBIG;
    if (size < a->size) {
        rc = dnode_free_range(zn->dn, size, UINT64_MAX, tx);
        if (size == 0)
            a->flags &= ~PFLAG_SPARSE;
    } else if (size > a->size) {
        rc = file_grow_block(zn, a->size, size, tx);
    }
    if (rc == 0)
        a->size = size;
    return rc;
}

/* ---- fallocate ---- */

/* Nothing is reserved: there has to be room for it now, with a tenth to spare. */
static int check_room(struct fs *fs, uint64_t len)
{
    uint64_t referenced, available, objects;
    dataset_space(fs->ds, &referenced, &available, &objects);
    return len / 10 * 11 > available ? -ENOSPC : 0;
}

/* Frees [off, off+len) as far as there is file. Behind the end all is zero anyway, so a range that
 * reaches the end takes the last block with it. */
static int punch(struct znode *zn, uint64_t off, uint64_t len, struct tx *tx)
{
    uint64_t size = zn->a.size, bs = dnode_block_size(zn->dn), end = off + len;
    if (off >= size)
        return 0;
    if (end >= size)
        end = ROUND_UP(size, bs);
    return dnode_free_range(zn->dn, off, end - off, tx);
}

static int allocate_locked(struct znode *zn, int mode, uint64_t off, uint64_t len, struct tx *tx)
{
    struct zattr a;
    int rc = 0;
    if (zn_bars(zn) & (PFLAG_IMMUTABLE | PFLAG_APPENDONLY))
        return -EPERM;
    if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
        rc = punch(zn, off, len, tx);
    zn_attr(zn, &a);
    if (rc == 0 && !(mode & FALLOC_FL_KEEP_SIZE) && off + len > a.size)
        rc = file_set_size(zn, &a, off + len, tx);
    if (rc < 0)
        return rc;
    zattr_touch(zn->fs, &a, true);
    return zn_store(zn, &a, tx);
}

static int check_mode(int mode)
{
    switch (mode & ~FALLOC_FL_KEEP_SIZE) {
    case 0:
    case FALLOC_FL_ZERO_RANGE:
        return 0;
    case FALLOC_FL_PUNCH_HOLE:
        return mode & FALLOC_FL_KEEP_SIZE ? 0 : -EOPNOTSUPP;
    default:
        return -EOPNOTSUPP;
    }
}

int fs_fallocate(struct fs *fs, uint64_t ino, int mode, uint64_t off, uint64_t len)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *zn CLEANUP_ZN = NULL;
    bool frees = mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE);
    int rc = check_mode(mode);
    if (rc < 0)
        return rc;
    if (len == 0)
        return -EINVAL;
    if (off > FILE_SIZE_MAX || len > FILE_SIZE_MAX - off)
        return -EFBIG;
    rc = zn_open(fs, ino, &zn);
    if (rc < 0)
        return rc;
    if (!is_file(zn))
        return is_dir(zn) ? -EISDIR : -ENODEV;
    if (!frees)
        rc = check_room(fs, len);
    if (rc == 0)
        rc = fs_tx_begin(fs, frees ? DATASET_TX_FREE : DATASET_TX_WRITE, COST_WRITE, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    return allocate_locked(zn, mode, off, len, &t.tx);
}

/* ---- SEEK_DATA, SEEK_HOLE ---- */

int fs_seek(struct fs *fs, uint64_t ino, uint64_t off, int whence, uint64_t *out)
{
    struct znode *zn CLEANUP_ZN = NULL;
    bool hole = whence == SEEK_HOLE;
    if (whence != SEEK_DATA && whence != SEEK_HOLE)
        return -EINVAL;
    int rc = zn_open(fs, ino, &zn);
    if (rc < 0)
        return rc;
    if (!is_file(zn))
        return -EINVAL;
    struct znode *locked CLEANUP_LOCK = zn_read_lock(zn);
    uint64_t size = zn->a.size, at = off;
    if (off >= size)
        return -ENXIO;
    rc = dnode_seek(zn->dn, &at, hole);
    if (rc == -ENXIO && hole) { /* at is the end of the last block */
        at = MAX(at, off);
        rc = 0;
    }
    if (rc == 0 && at >= size && !hole)
        rc = -ENXIO;
    if (rc < 0)
        return rc;
    *out = MIN(at, size);
    return 0;
}
