/*
 * Versions. A dnode has one `struct change` per txg in flight, a block one `struct dirty`; only the
 * newest version of a block is open for changes. The buffer of an older one was set aside in its
 * record when the newer one was made, so the sync thread can write it in peace.
 *
 * A buffer somebody else has a reference to (a reader who is copying, a device write not finished)
 * is replaced by a copy before it is changed.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"
#include "util/rangeset.h"

void objset_announce(struct objset *os, struct tx *tx)
{
    struct objset_dirty *d = &os->dirty[tx->txg & TXG_MASK];

    if (atomic_load_explicit(&d->announced, memory_order_relaxed) == tx->txg ||
        atomic_exchange(&d->announced, tx->txg) == tx->txg)
        return;
    if (!tx->syncing)
        txg_mark_dirty(os->pool->txg, tx->txg);
    if (os->ops.dirty)
        os->ops.dirty(os->ops_arg, tx);
}

static void count_dirty(struct dnode *dn, struct tx *tx, uint32_t bytes, uint32_t *counted)
{
    if (tx->syncing)
        return;
    *counted += bytes;
    txg_dirty_add(dn->os->pool->txg, tx->txg, bytes);
}

/* With d->lock: does the change reach a block of dnodes that is not known to be counted? It is
 * written, and held in memory for that, as a whole. */
static bool new_block(struct objset_dirty *d, const struct dnode *dn, uint64_t txg)
{
    uint64_t blkid = dn->object / DNODES_PER_BLOCK, tag = blkid << 8 | (txg & 255);
    uint64_t *slot = &d->recent[blkid % RECENT_BLOCKS];
    bool known = *slot == tag || dnode_is_special(dn);

    *slot = tag;
    return !known;
}

static void uncount_dirty(struct dnode *dn, uint64_t txg, uint32_t bytes)
{
    if (bytes)
        txg_dirty_done(dn->os->pool->txg, txg, bytes);
}

struct change *change_get(struct dnode *dn, struct tx *tx)
{
    struct change *ch = dn->changes[tx->txg & TXG_MASK];
    struct objset_dirty *d = &dn->os->dirty[tx->txg & TXG_MASK];
    bool new;

    assert(!ch || ch->txg == tx->txg);
    if (ch)
        return ch;
    ch = calloc(1, sizeof *ch);
    if (!ch)
        return NULL;
    ch->dn = dn;
    ch->txg = tx->txg;
    dn->changes[tx->txg & TXG_MASK] = ch;
    dnode_ref(dn);
    cache_charge(dn->os->cache, CHANGE_MEMORY);
    pthread_mutex_lock(&d->lock);
    ch->next = d->list;
    d->list = ch;
    d->count++;
    new = new_block(d, dn, tx->txg);
    pthread_mutex_unlock(&d->lock);
    count_dirty(dn, tx,
                (uint32_t)(sizeof *dn + image_size(dn->image) + CHANGE_MEMORY +
                           (new ? DNODE_BLOCK_SIZE : 0)),
                &ch->bytes);
    return ch;
}

void change_free(struct change *ch)
{
    uncount_dirty(ch->dn, ch->txg, ch->bytes);
    cache_charge(ch->dn->os->cache, -(int64_t)CHANGE_MEMORY);
    rangeset_free(ch->freed);
    free(ch->bonus);
    free(ch);
}

bool dnode_block_freed(const struct dnode *dn, uint64_t blkid)
{
    for (int i = 0; i < TXG_SLOTS; i++) {
        const struct change *ch = dn->changes[i];
        if (ch && ch->freed && rangeset_contains(ch->freed, blkid, blkid + 1))
            return true;
    }
    return false;
}

bool dnode_dirty(const struct dnode *dn)
{
    struct dnode *m = (struct dnode *)dn;
    bool dirty = false;

    MUTEX_GUARD(&m->lock);
    for (int i = 0; i < TXG_SLOTS; i++)
        dirty |= dn->changes[i] != NULL;
    return dirty;
}

static void raise_max_blkid(struct dnode *dn, struct change *ch, uint64_t blkid)
{
    if (blkid == SPILL_BLKID || blkid <= dn->max_blkid)
        return;
    dn->max_blkid = ch->max_blkid = ch->raised = blkid;
    ch->flags |= CHANGE_MAX_BLKID;
}

/* A record of tx's txg in front of the block's records. */
static struct dirty *add_record(struct dbuf *db, struct change *ch)
{
    struct dirty *d = calloc(1, sizeof *d);

    if (!d)
        return NULL;
    d->db = db;
    d->change = ch;
    d->older = db->dirty;
    db->dirty = d;
    d->prev = ch->last_write;
    if (d->prev)
        d->prev->next = d;
    else
        ch->writes = d;
    ch->last_write = d;
    ch->write_count++;
    atomic_fetch_add_explicit(&db->holds, 1, memory_order_relaxed);
    d->charged = DIRTY_MEMORY;
    cache_charge(db->dn->os->cache, DIRTY_MEMORY);
    return d;
}

/* Counts the record's block, which may have grown since it was made. */
static void count_record(struct dirty *d, struct tx *tx)
{
    struct dbuf *db = d->db;
    uint32_t bytes = (uint32_t)(db->buf->capacity + sizeof *db + DIRTY_MEMORY);

    if (bytes > d->bytes)
        count_dirty(db->dn, tx, bytes - d->bytes, &d->bytes);
}

void dirty_set_aside(struct dirty *d)
{
    uint32_t bytes = (uint32_t)d->db->buf->capacity;

    d->buf = buf_ref(d->db->buf);
    d->charged += bytes;
    cache_charge(d->db->dn->os->cache, bytes);
}

void dirty_release(struct dirty *d)
{
    struct change *ch = d->change;
    struct dirty **p = &d->db->dirty;

    while (*p != d)
        p = &(*p)->older;
    *p = d->older;
    if (d->prev)
        d->prev->next = d->next;
    else
        ch->writes = d->next;
    if (d->next)
        d->next->prev = d->prev;
    else
        ch->last_write = d->prev;
    ch->write_count--;
    uncount_dirty(d->db->dn, ch->txg, d->bytes);
    cache_charge(d->db->dn->os->cache, -(int64_t)d->charged);
    buf_unref(d->buf);
    dbuf_unhold(d->db);
    free(d);
}

/* The contents for the new version: fresh, or what is there now, in a buffer of its own. NULL: the
 * present buffer will do. */
static int own_contents(struct dbuf *db, bool set_aside, bool keep, struct buf **fresh)
{
    if (*fresh)
        return 0;
    if (db->state == DBUF_CACHED && !set_aside && !buf_shared(db->buf))
        return 0;
    if (db->state == DBUF_CACHED && keep)
        *fresh = buf_copy(db->buf);
    else
        *fresh = buf_new_zero(db->state == DBUF_CACHED ? db->buf->size : db->dn->block_size);
    return *fresh ? 0 : -ENOMEM;
}

int dbuf_make_dirty(struct dbuf *db, struct tx *tx, bool keep, struct buf *fresh)
{
    struct change *ch;
    struct dirty *d;
    bool set_aside, present;
    int rc = keep && !fresh ? dbuf_load(db) : 0;

    ch = rc == 0 ? change_get(db->dn, tx) : NULL;
    if (!ch) {
        buf_unref(fresh);
        return rc ? rc : -ENOMEM;
    }
    d = db->dirty;
    present = d && d->change == ch;
    assert(!d || d->change->txg <= tx->txg);
    set_aside = d && !present && !d->buf && db->buf;
    rc = own_contents(db, set_aside, keep, &fresh);
    if (rc == 0 && !present && !add_record(db, ch))
        rc = -ENOMEM;
    if (rc < 0) {
        buf_unref(fresh);
        return rc;
    }
    if (set_aside)
        dirty_set_aside(d);
    if (fresh)
        dbuf_set_buf(db, fresh);
    count_record(db->dirty, tx);
    raise_max_blkid(db->dn, ch, db->blkid);
    return 0;
}
