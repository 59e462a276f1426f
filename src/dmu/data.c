/* Reading and writing bytes of an object. */
#include <errno.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

/* One block's part of a request. */
struct piece {
    uint64_t blkid;
    size_t off, n; /* within the block */
    uint32_t block_size;
    bool beyond; /* behind the last block: zeros */
};

static int next_piece(struct dnode *dn, uint64_t off, size_t n, struct piece *p)
{
    MUTEX_GUARD(&dn->lock);
    if (dn->gone)
        return dn->gone;
    p->block_size = dn->block_size;
    p->blkid = off / dn->block_size;
    p->off = off % dn->block_size;
    p->n = MIN(n, dn->block_size - p->off);
    p->beyond = p->blkid > dn->max_blkid;
    return 0;
}

int dnode_contents(struct dnode *dn, uint64_t blkid, struct buf **b)
{
    struct dbuf *db;
    bool missed;
    int rc;

    *b = NULL;
    pthread_mutex_lock(&dn->lock);
    db = dbuf_get(dn, 0, blkid);
    missed = db && db->state == DBUF_EMPTY;
    rc = dn->gone ? dn->gone : db ? dbuf_load(db) : -ENOMEM;
    if (rc == 0 && db->state == DBUF_CACHED)
        *b = buf_ref(db->buf);
    if (db)
        dbuf_unhold(db);
    pthread_mutex_unlock(&dn->lock);
    if (missed)
        cache_trim(dn->os->cache);
    return rc;
}

static int read_piece(struct dnode *dn, const struct piece *p, unsigned char *out)
{
    struct buf *b = NULL;
    int rc = p->beyond ? 0 : dnode_contents(dn, p->blkid, &b);
    size_t have = b && b->size > p->off ? MIN(p->n, b->size - p->off) : 0;

    if (rc < 0)
        return rc;
    if (have)
        memcpy(out, b->data + p->off, have);
    memset(out + have, 0, p->n - have);
    buf_unref(b);
    return 0;
}

int dnode_read(struct dnode *dn, uint64_t off, void *data, size_t n)
{
    unsigned char *out = data;
    struct piece p = {0};
    int rc = 0;

    if (n == 0)
        return 0;
    rc = next_piece(dn, off, n, &p);
    if (rc == 0)
        prefetch_read(dn, p.blkid, (off + n - 1) / p.block_size);
    while (n > 0 && rc == 0) {
        rc = next_piece(dn, off, n, &p);
        if (rc == 0)
            rc = read_piece(dn, &p, out);
        off += p.n;
        out += p.n;
        n -= p.n;
    }
    return rc;
}

/* With the lock: part of a block, changed in place. */
static int write_part(struct dnode *dn, const struct piece *p, const void *data, struct tx *tx)
{
    struct dbuf *db = dbuf_get(dn, 0, p->blkid);
    int rc;

    if (!db)
        return -ENOMEM;
    rc = dbuf_make_dirty(db, tx, true, NULL);
    if (rc == 0)
        memcpy(db->buf->data + p->off, data, p->n);
    dbuf_unhold(db);
    return rc;
}

/* With the lock: a whole block (takes b over). */
static int write_whole(struct dnode *dn, uint64_t blkid, struct buf *b, struct tx *tx)
{
    struct dbuf *db = dbuf_get(dn, 0, blkid);
    int rc;

    if (!db) {
        buf_unref(b);
        return -ENOMEM;
    }
    rc = dbuf_make_dirty(db, tx, false, b);
    dbuf_unhold(db);
    return rc;
}

static int write_piece(struct dnode *dn, const struct piece *p, const void *data, struct tx *tx)
{
    struct buf *b = NULL;

    if (p->n == p->block_size) { /* copied before the lock is taken */
        b = buf_new(p->n);
        if (!b)
            return -ENOMEM;
        memcpy(b->data, data, p->n);
    }
    MUTEX_GUARD(&dn->lock);
    if (dn->gone || dn->block_size != p->block_size) {
        buf_unref(b);
        return dn->gone ? dn->gone : -EAGAIN;
    }
    if (p->blkid > 0 && !is_pow2(p->block_size)) {
        buf_unref(b);
        return err_set(EINVAL, "object %llu: its only block has %u bytes, it cannot get a second",
                       (unsigned long long)dn->object, p->block_size);
    }
    return b ? write_whole(dn, p->blkid, b, tx) : write_part(dn, p, data, tx);
}

int dnode_write(struct dnode *dn, uint64_t off, const void *data, size_t n, struct tx *tx)
{
    const unsigned char *in = data;
    struct piece p = {0};
    int rc = 0;

    objset_announce(dn->os, tx);
    while (n > 0 && rc == 0) {
        rc = next_piece(dn, off, n, &p);
        if (rc == 0)
            rc = write_piece(dn, &p, in, tx);
        if (rc == -EAGAIN) { /* the block size was changed in between */
            rc = 0;
            continue;
        }
        off += p.n;
        in += p.n;
        n -= p.n;
    }
    cache_trim(dn->os->cache);
    return rc;
}

/* ---- Whole blocks, shared instead of copied ---- */

static void release_blocks(struct buf **blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_unref(blocks[i]);
        blocks[i] = NULL;
    }
}

int dnode_get_blocks(struct dnode *dn, uint64_t blkid, size_t count, struct buf **blocks)
{
    uint32_t block_size = dnode_block_size(dn);
    int rc = 0;

    prefetch_read(dn, blkid, blkid + count - 1);
    for (size_t i = 0; i < count; i++) {
        struct piece p;
        blocks[i] = NULL;
        rc = next_piece(dn, (blkid + i) * block_size, block_size, &p);
        if (rc == 0 && p.block_size != block_size)
            rc = -EAGAIN;
        if (rc == 0 && !p.beyond)
            rc = dnode_contents(dn, p.blkid, &blocks[i]);
        if (rc == 0 && blocks[i] && blocks[i]->size != block_size)
            rc = -EAGAIN;
        if (rc < 0) {
            release_blocks(blocks, i + 1);
            return rc;
        }
    }
    return 0;
}

static int put_block(struct dnode *dn, uint64_t blkid, struct buf *b, struct tx *tx)
{
    MUTEX_GUARD(&dn->lock);
    if (dn->gone)
        return dn->gone;
    if (b->size != dn->block_size || !is_pow2(b->size))
        return -EAGAIN;
    return write_whole(dn, blkid, buf_ref(b), tx);
}

int dnode_put_blocks(struct dnode *dn, uint64_t blkid, size_t count, struct buf *const *blocks,
                     struct tx *tx)
{
    uint32_t block_size = dnode_block_size(dn);
    int rc = 0;

    objset_announce(dn->os, tx);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = blocks[i] ? put_block(dn, blkid + i, blocks[i], tx)
                       : dnode_free_range(dn, (blkid + i) * block_size, block_size, tx);
    cache_trim(dn->os->cache);
    return rc;
}

/* ---- The block size ---- */

/* With the lock: can the block's buffer be made longer where it is? Only if it is this txg's own. */
static bool has_room(const struct dbuf *db, uint32_t size, const struct change *ch)
{
    return size <= db->buf->capacity && db->dirty && db->dirty->change == ch &&
           !buf_shared(db->buf);
}

/* With the lock: block 0 in its new size. A file that grows is likely to grow on: it gets room, so
 * that it is not copied at each write. */
static int resize_block(struct dbuf *db, uint32_t size, const struct change *ch, struct tx *tx)
{
    size_t keep = MIN((size_t)size, db->buf->size);
    struct buf *b = db->buf;

    if (!has_room(db, size, ch)) {
        b = buf_new(size > keep ? (size_t)1 << high_bit(size - 1) : size);
        if (!b)
            return -ENOMEM;
        memcpy(b->data, db->buf->data, keep);
    }
    memset(b->data + keep, 0, size - keep);
    b->size = size;
    return dbuf_make_dirty(db, tx, true, b == db->buf ? NULL : b);
}

/* With the lock: changes the size of block 0, whose state is CACHED or HOLE. */
static int change_block_size(struct dnode *dn, struct dbuf *db, uint32_t size, uint8_t shift,
                             struct tx *tx)
{
    struct change *ch;
    int rc = 0;

    if (dn->max_blkid > 0 || (shift && shift != dn->indirect_shift && dn->image[DN_LEVELS] > 1))
        return -EBUSY;
    ch = change_get(dn, tx);
    if (!ch)
        return -ENOMEM;
    if (size != dn->block_size && db->state == DBUF_CACHED)
        rc = resize_block(db, size, ch, tx);
    if (rc < 0)
        return rc;
    ch->flags |= CHANGE_BLOCK_SIZE;
    ch->block_size = dn->block_size = size;
    ch->indirect_shift = dn->indirect_shift = shift ? shift : dn->indirect_shift;
    return 0;
}

int dnode_set_block_size(struct dnode *dn, uint32_t size, uint8_t indirect_shift, struct tx *tx)
{
    struct dbuf *db;
    int rc;

    size = P2_ROUND_UP(size ? size : 512u, 512u);
    if (size > BLOCK_MAX_SIZE || (indirect_shift && (indirect_shift < 10 || indirect_shift > 17)))
        return -EINVAL;
    objset_announce(dn->os, tx);
    MUTEX_GUARD(&dn->lock);
    if (dn->gone)
        return dn->gone;
    if (size == dn->block_size && (!indirect_shift || indirect_shift == dn->indirect_shift))
        return 0;
    db = dbuf_get(dn, 0, 0);
    rc = db ? dbuf_load(db) : -ENOMEM;
    if (rc == 0)
        rc = change_block_size(dn, db, size, indirect_shift, tx);
    if (db)
        dbuf_unhold(db);
    return rc;
}
