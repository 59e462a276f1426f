/*
 * Freeing ranges in open context: partial blocks are zeroed, whole blocks vanish from memory and are
 * noted in the txg's set of freed ranges. As long as that set exists, nobody looks at the pointers of
 * these blocks; the sync thread applies it to the tree before it writes the txg's blocks, so what is
 * written to the range afterwards in the same txg wins.
 */
#include <errno.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"
#include "util/rangeset.h"

/* With the lock: bytes [from, to) of a block become zero. */
static int zero_part(struct dnode *dn, uint64_t blkid, size_t from, size_t to, struct tx *tx)
{
    struct dbuf *db;
    int rc;

    if (blkid > dn->max_blkid || from >= to)
        return 0;
    db = dbuf_get(dn, 0, blkid);
    rc = db ? dbuf_load(db) : -ENOMEM;
    if (rc == 0 && db->state == DBUF_CACHED && !buf_is_zero(db->buf->data + from, to - from)) {
        rc = dbuf_make_dirty(db, tx, true, NULL);
        if (rc == 0)
            memset(db->buf->data + from, 0, to - from);
    }
    if (db)
        dbuf_unhold(db);
    return rc;
}

/* With the lock: the block is a hole from ch's txg on; older versions stay what they are. */
static void void_block(struct dbuf *db, struct change *ch)
{
    if (db->dirty && db->dirty->change == ch)
        dirty_release(db->dirty);
    if (db->dirty && !db->dirty->buf && db->buf)
        dirty_set_aside(db->dirty);
    if (db->state != DBUF_HOLE)
        dbuf_set_buf(db, NULL);
}

static void void_blocks(struct dnode *dn, struct change *ch, uint64_t first, uint64_t end)
{
    struct dbuf *db;

    if (end - first <= dn->table_count) {
        for (uint64_t b = first; b < end; b++) {
            if ((db = dbuf_find(dn, 0, b)))
                void_block(db, ch);
        }
        return;
    }
    for (uint32_t i = 0; i < (dn->table ? dn->table_mask + 1 : 1); i++) {
        for (db = dn->table ? dn->table[i] : dn->one; db; db = db->next) {
            if (db->level == 0 && db->blkid >= first && db->blkid < end &&
                db->blkid != SPILL_BLKID)
                void_block(db, ch);
        }
    }
}

/* The last block was freed, with all from `first` on. The number stays at what was written in this
 * very txg (03 4.5). */
static void lower_max(struct dnode *dn, struct change *ch, uint64_t first)
{
    dn->max_blkid = MAX(first ? first - 1 : 0, ch->raised);
    ch->max_blkid = dn->max_blkid;
    ch->flags |= CHANGE_MAX_BLKID;
}

/* With the lock: frees the whole blocks [first, end). */
static int free_blocks(struct dnode *dn, uint64_t first, uint64_t end, struct tx *tx)
{
    struct change *ch;
    int rc;

    if (first >= end || first > dn->max_blkid)
        return 0;
    ch = change_get(dn, tx);
    if (!ch || (!ch->freed && !(ch->freed = rangeset_new())))
        return -ENOMEM;
    rc = rangeset_add(ch->freed, first, MIN(end, SPILL_BLKID));
    if (rc < 0)
        return rc;
    void_blocks(dn, ch, first, end);
    if (end > dn->max_blkid)
        lower_max(dn, ch, first);
    return 0;
}

int dnode_free_range(struct dnode *dn, uint64_t off, uint64_t n, struct tx *tx)
{
    bool to_end = n > UINT64_MAX - off;
    uint64_t end = to_end ? UINT64_MAX : off + n, bs, first, last;
    int rc = 0;

    if (n == 0)
        return 0;
    objset_announce(dn->os, tx);
    MUTEX_GUARD(&dn->lock);
    if (dn->gone)
        return dn->gone;
    bs = dn->block_size;
    first = off / bs + (off % bs != 0);
    last = to_end ? UINT64_MAX : end / bs;
    if (off % bs != 0)
        rc = zero_part(dn, off / bs, off % bs, last >= first ? bs : end % bs, tx);
    if (rc == 0 && !to_end && end % bs != 0 && last >= first)
        rc = zero_part(dn, last, 0, end % bs, tx);
    return rc < 0 ? rc : free_blocks(dn, first, last, tx);
}
