/*
 * Blocks in memory: the table of a dnode's blocks, reading them, eviction.
 *
 * A block that is being read is in the table with state READING, so nobody reads it twice and
 * whoever writes or frees it meanwhile finds it: he sets the state himself, and the reader, seeing
 * that, drops what he read. The block's pointer is looked up in the parent (which is held, and read
 * first if need be) under the dnode's lock, together with the ranges freed in memory. Because the
 * sync thread changes an indirect block only through its dbuf, and only under the same lock, what is
 * found is never half old and half new.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/workers.h"

/* ---- The table ---- */

static uint32_t block_hash(unsigned level, uint64_t blkid)
{
    return (uint32_t)hash_u64(blkid ^ (uint64_t)level << 56);
}

static struct dbuf **slot_of(struct dnode *dn, unsigned level, uint64_t blkid)
{
    return dn->table ? &dn->table[block_hash(level, blkid) & dn->table_mask] : &dn->one;
}

struct dbuf *dbuf_find(struct dnode *dn, unsigned level, uint64_t blkid)
{
    struct dbuf *db = *slot_of(dn, level, blkid);

    while (db && (db->blkid != blkid || db->level != level))
        db = db->next;
    return db;
}

/* Doubles the table; on failure the chains just get longer. */
static void table_grow(struct dnode *dn)
{
    uint32_t old_count = dn->table ? dn->table_mask + 1 : 1, n = dn->table ? old_count * 2 : 16;
    struct dbuf **old = dn->table ? dn->table : &dn->one, **table = calloc(n, sizeof(*table));

    if (!table)
        return;
    for (uint32_t i = 0; i < old_count; i++) {
        struct dbuf *db = old[i];
        while (db) {
            struct dbuf *next = db->next;
            struct dbuf **slot = &table[block_hash(db->level, db->blkid) & (n - 1)];
            db->next = *slot;
            *slot = db;
            db = next;
        }
    }
    dn->one = NULL;
    free(dn->table);
    dn->table = table;
    dn->table_mask = n - 1;
}

static void table_insert(struct dnode *dn, struct dbuf *db)
{
    struct dbuf **slot;

    if (dn->table_count >= (dn->table ? dn->table_mask + 1 : 4))
        table_grow(dn);
    slot = slot_of(dn, db->level, db->blkid);
    db->next = *slot;
    *slot = db;
    dn->table_count++;
}

static void free_empty_table(struct dnode *dn)
{
    if (dn->table_count > 0)
        return;
    free(dn->table);
    dn->table = NULL;
    dn->one = NULL;
}

static void table_remove(struct dnode *dn, struct dbuf *db)
{
    struct dbuf **p = slot_of(dn, db->level, db->blkid);

    while (*p != db)
        p = &(*p)->next;
    *p = db->next;
    dn->table_count--;
    free_empty_table(dn);
}

/* ---- Life ---- */

static uint32_t memory_size(const struct dbuf *db)
{
    return (uint32_t)(sizeof *db + sizeof(struct dbuf *) + MALLOC_SLACK +
                      (db->buf ? sizeof *db->buf + db->buf->capacity : 0));
}

struct dbuf *dbuf_get(struct dnode *dn, unsigned level, uint64_t blkid)
{
    struct dbuf *db = dbuf_find(dn, level, blkid);
    bool meta = level > 0 || blkid == SPILL_BLKID || object_type_metadata(dn->type);

    if (db) {
        cache_touch(dn->os->cache, &db->item);
    } else {
        db = calloc(1, sizeof *db);
        if (!db)
            return NULL;
        db->item.kind = CACHE_DBUF;
        db->dn = dn;
        db->level = (uint8_t)level;
        db->blkid = blkid;
        dnode_ref(dn);
        table_insert(dn, db);
        cache_insert(dn->os->cache, &db->item, meta ? CACHE_MAIN : CACHE_SMALL, memory_size(db));
    }
    atomic_fetch_add_explicit(&db->holds, 1, memory_order_relaxed);
    return db;
}

void dbuf_unhold(struct dbuf *db)
{
    /* Release: what was done with the block comes before its eviction. */
    atomic_fetch_sub_explicit(&db->holds, 1, memory_order_release);
}

static void wake_waiters(struct dbuf *db)
{
    if (!db->waiters)
        return;
    db->waiters = false;
    cache_wake(db->dn->os->cache, db->dn);
}

void dbuf_set_buf(struct dbuf *db, struct buf *b)
{
    bool same_size = db->buf && b && db->buf->capacity == b->capacity;

    buf_unref(db->buf);
    db->buf = b;
    db->state = b ? DBUF_CACHED : DBUF_HOLE;
    wake_waiters(db);
    if (!same_size)
        cache_resize(db->dn->os->cache, &db->item, memory_size(db));
}

bool dbuf_try_detach(struct cache_item *it)
{
    struct dbuf *db = container_of(it, struct dbuf, item);
    struct dnode *dn = db->dn;
    bool free = false;

    if (pthread_mutex_trylock(&dn->lock) != 0)
        return false;
    if (atomic_load_explicit(&db->holds, memory_order_acquire) == 0) {
        assert(!db->dirty && !db->touched);
        table_remove(dn, db);
        free = true;
    }
    pthread_mutex_unlock(&dn->lock);
    return free;
}

void dbuf_dispose(struct cache_item *it)
{
    struct dbuf *db = container_of(it, struct dbuf, item);
    struct dnode *dn = db->dn;

    assert(!db->dirty && !db->touched);
    buf_unref(db->buf);
    free(db);
    dnode_rele(dn);
}

void dbuf_drop_unheld(struct dnode *dn)
{
    struct dbuf *dropped = NULL;

    {
        MUTEX_GUARD(&dn->lock);
        for (uint32_t i = 0, n = dn->table ? dn->table_mask + 1 : 1; i < n; i++) {
            struct dbuf **slot = dn->table ? &dn->table[i] : &dn->one, *db;
            while ((db = *slot)) {
                if (atomic_load_explicit(&db->holds, memory_order_acquire) > 0) {
                    slot = &db->next;
                    continue;
                }
                *slot = db->next;
                dn->table_count--;
                /* The evictor may have it in its hand: a hold makes him leave it alone. */
                atomic_fetch_add_explicit(&db->holds, 1, memory_order_relaxed);
                db->next = dropped;
                dropped = db;
            }
        }
        free_empty_table(dn);
    }
    while (dropped) {
        struct dbuf *db = dropped;
        dropped = db->next;
        cache_remove(dn->os->cache, &db->item);
        dbuf_dispose(&db->item);
    }
}

/* ---- Reading ---- */

void dbuf_bookmark(const struct dnode *dn, unsigned level, uint64_t blkid, struct bookmark *bm)
{
    *bm = (struct bookmark){dn->os->id, dn->object, level, blkid};
}

/* With dn->lock: 1 if *bp was found without a parent, 0 if the parent at level + 1 has it. */
static int find_top(struct dnode *dn, unsigned level, uint64_t blkid, struct blkptr *bp)
{
    unsigned char *im = dn->image;

    bp_zero(bp);
    if (blkid == SPILL_BLKID) {
        for (int i = 0; i < TXG_SLOTS; i++) {
            if (dn->changes[i] && dn->changes[i]->flags & CHANGE_SPILL_REMOVE)
                return 1;
        }
        if (im[DN_FLAGS] & DNODE_FLAG_SPILL)
            bp_decode(bp, image_spill(im), BYTES_HOST_BIG);
        return 1;
    }
    if (level >= im[DN_LEVELS] || (level == 0 && dnode_block_freed(dn, blkid)))
        return 1;
    if (level + 1 < im[DN_LEVELS])
        return 0;
    if (blkid < im[DN_NBLKPTR])
        bp_decode(bp, image_ptr(im, (unsigned)blkid), BYTES_HOST_BIG);
    return 1;
}

int dbuf_find_bp(struct dnode *dn, unsigned level, uint64_t blkid, struct blkptr *bp)
{
    unsigned epbs;
    struct dbuf *parent;
    int rc;

    {
        MUTEX_GUARD(&dn->lock);
        epbs = dnode_epbs(dn);
        if (find_top(dn, level, blkid, bp) ||
            blkid_up(blkid, epbs, dn->image[DN_LEVELS] - 1 - level) >= dn->image[DN_NBLKPTR])
            return 0;
    }
    rc = dbuf_hold_level(dn, level + 1, blkid >> epbs, &parent);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&dn->lock);
    /* A range freed or a block made a hole while we waited shows here. */
    if (parent->state == DBUF_CACHED && !(level == 0 && dnode_block_freed(dn, blkid)))
        bp_decode(bp, parent->buf->data + BLKPTR_SIZE * (blkid & ((1ull << epbs) - 1)),
                  BYTES_HOST_BIG);
    pthread_mutex_unlock(&dn->lock);
    dbuf_unhold(parent);
    return 0;
}

static int fit_size(struct dnode *dn, unsigned level, uint64_t blkid, struct buf **b)
{
    struct buf *bigger;
    size_t want;

    {
        MUTEX_GUARD(&dn->lock);
        want = level > 0 ? (size_t)1 << dn->image[DN_INDIRECT_SHIFT] : dn->block_size;
    }
    if (blkid == SPILL_BLKID || (*b)->size == want)
        return 0;
    if (level > 0 || (*b)->size > want)
        return err_set(EBADE, "object %llu of set %llu: block %u:%llu has %zu bytes instead of %zu",
                       (unsigned long long)dn->object, (unsigned long long)dn->os->id, level,
                       (unsigned long long)blkid, (*b)->size, want);
    bigger = buf_new_zero(want);
    if (!bigger)
        return -ENOMEM;
    memcpy(bigger->data, (*b)->data, (*b)->size);
    buf_unref(*b);
    *b = bigger;
    return 0;
}

int dbuf_accept(struct dnode *dn, unsigned level, uint64_t blkid, const struct blkptr *bp,
                struct buf **b)
{
    bool foreign = bp_big_endian(bp) != BYTES_HOST_BIG;
    struct buf *own;
    int rc;

    if (foreign) {
        own = buf_shared(*b) ? buf_copy(*b) : buf_ref(*b);
        buf_unref(*b);
        *b = own;
        if (!own)
            return -ENOMEM;
        block_swap(blkid == SPILL_BLKID ? dn->bonus_type : dn->type, level, own->data, own->size);
    }
    rc = fit_size(dn, level, blkid, b);
    if (rc < 0) {
        buf_unref(*b);
        *b = NULL;
    }
    return rc;
}

/* ---- Who reads ---- */

static void begin_reading(struct dbuf *db, const void *reader, bool ahead)
{
    db->state = DBUF_READING;
    db->reader = reader;
    db->ahead = ahead;
}

/* With the lock: ends this reader's attempt, taking b (NULL: a hole). False if he was overtaken. */
static bool end_reading(struct dbuf *db, const void *reader, struct buf *b, int rc)
{
    if (db->state != DBUF_READING || db->reader != reader) {
        buf_unref(b);
        return false;
    }
    if (rc == 0) {
        dbuf_set_buf(db, b);
    } else {
        db->state = DBUF_EMPTY;
        wake_waiters(db);
    }
    return true;
}


/* Reads the block; *out is NULL for a hole. */
static int read_block(struct dbuf *db, struct buf **out)
{
    struct dnode *dn = db->dn;
    struct bookmark bm;
    struct blkptr bp;
    int rc = dbuf_find_bp(dn, db->level, db->blkid, &bp);

    *out = NULL;
    if (rc < 0 || bp_hole(&bp))
        return rc;
    dbuf_bookmark(dn, db->level, db->blkid, &bm);
    rc = block_read_key(dn->os->pool, &bp, &bm, dn->os->key, out);
    return rc < 0 ? rc : dbuf_accept(dn, db->level, db->blkid, &bp, out);
}

/* With the lock: does it take no look at a parent to know that there is nothing on disk? */
static bool known_hole(struct dbuf *db)
{
    struct dnode *dn = db->dn;
    struct blkptr bp;

    if (db->level == 0 && db->blkid != SPILL_BLKID && db->blkid > host64(dn->image + DN_MAX_BLKID))
        return true;
    return find_top(dn, db->level, db->blkid, &bp) && bp_hole(&bp);
}

int dbuf_load(struct dbuf *db)
{
    struct dnode *dn = db->dn;
    struct cache *c = dn->os->cache;

    for (;;) {
        if (db->state == DBUF_CACHED || db->state == DBUF_HOLE)
            return 0;
        if (db->state == DBUF_READING && !(db->ahead && workers_inside())) {
            uint64_t number = cache_wait_number(c, dn);
            db->waiters = true;
            pthread_mutex_unlock(&dn->lock);
            cache_wait_for(c, dn, number);
            pthread_mutex_lock(&dn->lock);
        } else if (db->state == DBUF_EMPTY && known_hole(db)) {
            dbuf_set_buf(db, NULL);
        } else {
            struct buf *b;
            int rc;
            begin_reading(db, &b, false);
            pthread_mutex_unlock(&dn->lock);
            rc = read_block(db, &b);
            pthread_mutex_lock(&dn->lock);
            if (end_reading(db, &b, b, rc) && rc < 0)
                return rc;
        }
    }
}

int dbuf_hold_level(struct dnode *dn, unsigned level, uint64_t blkid, struct dbuf **out)
{
    struct dbuf *db;
    bool missed;
    int rc;

    pthread_mutex_lock(&dn->lock);
    db = dbuf_get(dn, level, blkid);
    missed = db && db->state != DBUF_CACHED;
    rc = db ? dbuf_load(db) : -ENOMEM;
    pthread_mutex_unlock(&dn->lock);
    if (missed)
        cache_trim(dn->os->cache);
    if (rc < 0 && db)
        dbuf_unhold(db);
    *out = rc < 0 ? NULL : db;
    return rc;
}

/* ---- Reading ahead ---- */

struct ahead {
    struct dbuf *db; /* held */
    struct blkptr bp;
};

void objset_async_begin(struct objset *os)
{
    MUTEX_GUARD(&os->lock);
    os->async++;
}

void objset_async_end(struct objset *os)
{
    MUTEX_GUARD(&os->lock);
    if (--os->async == 0)
        pthread_cond_broadcast(&os->idle);
}

static void ahead_done(void *arg, struct buf *b, int rc)
{
    struct ahead *a = arg;
    struct dbuf *db = a->db;
    struct objset *os = db->dn->os;

    if (rc == 0)
        rc = dbuf_accept(db->dn, db->level, db->blkid, &a->bp, &b);
    else
        b = NULL;
    {
        MUTEX_GUARD(&db->dn->lock);
        end_reading(db, a, b, rc);
    }
    dbuf_unhold(db);
    free(a);
    cache_trim(os->cache);
    objset_async_end(os);
}

/* With the lock: the block, held and READING, if it has to be read. */
static struct dbuf *ahead_begin(struct dnode *dn, unsigned level, uint64_t blkid,
                                const struct ahead *a)
{
    struct dbuf *db = dbuf_find(dn, level, blkid);

    if (dn->gone || (db && db->state != DBUF_EMPTY))
        return NULL;
    db = dbuf_get(dn, level, blkid);
    if (db)
        begin_reading(db, a, true);
    return db;
}

void dbuf_prefetch(struct dnode *dn, unsigned level, uint64_t blkid)
{
    struct objset *os = dn->os;
    struct ahead *a = malloc(sizeof *a);
    struct bookmark bm;
    struct dbuf *db;

    pthread_mutex_lock(&dn->lock);
    db = a ? ahead_begin(dn, level, blkid, a) : NULL;
    pthread_mutex_unlock(&dn->lock);
    if (!db) {
        free(a);
        return;
    }
    objset_async_begin(os);
    a->db = db;
    if (dbuf_find_bp(dn, level, blkid, &a->bp) == 0 && !bp_hole(&a->bp)) {
        dbuf_bookmark(dn, level, blkid, &bm);
        block_read_async(os->pool, &a->bp, &bm, os->key, ahead_done, a);
        return;
    }
    /* A hole, or an error: whoever needs the block finds out. */
    pthread_mutex_lock(&dn->lock);
    end_reading(db, a, NULL, -EAGAIN);
    pthread_mutex_unlock(&dn->lock);
    dbuf_unhold(db);
    free(a);
    objset_async_end(os);
}

/* ---- The interface of level-0 blocks ---- */

int dbuf_hold(struct dnode *dn, uint64_t blkid, unsigned flags, struct dbuf **out)
{
    struct cache *c = dn->os->cache;
    struct dbuf *db = NULL;
    struct buf *b;
    bool missed = false;
    int rc;

    *out = NULL;
    pthread_mutex_lock(&dn->lock);
    rc = dn->gone;
    if (rc == 0 && !(db = dbuf_get(dn, 0, blkid)))
        rc = -ENOMEM;
    if (rc == 0 && !(flags & DBUF_NO_READ)) {
        missed = db->state == DBUF_EMPTY;
        rc = dbuf_load(db);
    }
    if (rc == 0 && db->state != DBUF_CACHED) {
        b = buf_new_zero(dn->block_size);
        if (b)
            dbuf_set_buf(db, b);
        else
            rc = -ENOMEM;
    }
    pthread_mutex_unlock(&dn->lock);
    if (missed)
        cache_trim(c);
    if (rc < 0 && db)
        dbuf_unhold(db);
    if (rc == 0)
        *out = db;
    return rc;
}

void dbuf_rele(struct dbuf *db)
{
    if (db)
        dbuf_unhold(db);
}

void *dbuf_data(struct dbuf *db)
{
    return db->buf->data;
}

size_t dbuf_size(const struct dbuf *db)
{
    return db->buf->size;
}

uint64_t dbuf_blkid(const struct dbuf *db)
{
    return db->blkid;
}

int dbuf_dirty(struct dbuf *db, struct tx *tx)
{
    struct dnode *dn = db->dn;

    objset_announce(dn->os, tx);
    MUTEX_GUARD(&dn->lock);
    return dn->gone ? dn->gone : dbuf_make_dirty(db, tx, true, NULL);
}
