/*
 * Writing an object set's part of a txg.
 *
 *  1. Every dnode with changes in this txg: its freed ranges, leaves, indirect blocks, each written
 *     once, bottom-up, until its image is final (dnode_sync.c). Dnodes are handled in parallel.
 *  2. The differences in what users, groups and projects own go into the accounting ZAPs, which are
 *     then synced like other objects.
 *  3. The images are copied into the blocks of the meta-dnode; these are the meta-dnode's leaves,
 *     whose tree is written as any other.
 *  4. The objset block, with the special dnodes in it.
 *
 * The changes leave their dnodes as these are written (so that lookups go to the tree), but hold on
 * to them until the images have reached the meta-dnode's blocks: a dnode evicted and read again must
 * not come back old.
 *
 * The MOS is synced several times in one txg. A block written by an earlier pass is born in this txg,
 * and block_write puts the new version in its place if it can; nothing is reported then.
 */
#include <errno.h>
#include <stdlib.h>

#include "dmu/sync_impl.h"
#include "util/cleanup.h"
#include "util/workers.h"

struct batch {
    struct sync *s;
    struct change **v; /* sorted by object */
    size_t n;
};

/* ---- Taking the txg's changes ---- */

static int compare_changes(const void *a, const void *b)
{
    uint64_t x = (*(struct change *const *)a)->dn->object;
    uint64_t y = (*(struct change *const *)b)->dn->object;

    return x < y ? -1 : x > y;
}

static int take_changes(struct sync *s, struct batch *b)
{
    struct objset_dirty *d = &s->os->dirty[s->txg & TXG_MASK];
    bool sorted = true;
    size_t i;

    *b = (struct batch){.s = s};
    MUTEX_GUARD(&d->lock);
    if (d->count == 0)
        return 0;
    b->v = malloc(d->count * sizeof(*b->v));
    if (!b->v)
        return -ENOMEM;
    b->n = i = d->count;
    for (struct change *ch = d->list; ch; ch = ch->next) /* newest first */
        b->v[--i] = ch;
    d->list = NULL;
    d->count = 0;
    for (i = 1; i < b->n && sorted; i++)
        sorted = b->v[i - 1]->dn->object < b->v[i]->dn->object;
    if (!sorted)
        qsort(b->v, b->n, sizeof(*b->v), compare_changes);
    return 0;
}

static int sync_one(void *arg, size_t i)
{
    struct batch *b = arg;

    return dnode_sync_change(b->s, b->v[i]);
}

static int sync_changes(struct batch *b)
{
    return workers_each(b->s->os->pool->workers, b->n, sync_one, b);
}

/* The dnodes are on disk: lets go of them. */
static void finish_change(struct sync *s, struct change *ch)
{
    struct dnode *dn = ch->dn;
    struct objset *os = s->os;
    bool created = ch->flags & CHANGE_CREATE, freed = ch->flags & CHANGE_FREE;

    pthread_mutex_lock(&dn->lock);
    dn->on_disk = !freed;
    pthread_mutex_unlock(&dn->lock);
    if (freed) {
        dbuf_drop_unheld(dn);
        dnode_orphan(dn);
    }
    if (!dnode_is_special(dn) && (created || freed))
        slots_synced(os, dn->object, image_size(dn->image) / DNODE_MIN_SIZE, created, freed);
    change_free(ch);
    dnode_rele(dn);
}

static void finish_changes(struct batch *b, bool failed)
{
    for (size_t i = 0; i < b->n; i++) {
        if (!failed) {
            finish_change(b->s, b->v[i]);
        } else { /* back to the list, for objset_close to find */
            struct objset_dirty *d = &b->s->os->dirty[b->s->txg & TXG_MASK];
            MUTEX_GUARD(&d->lock);
            b->v[i]->next = d->list;
            d->list = b->v[i];
            d->count++;
        }
    }
    free(b->v);
    b->v = NULL;
    b->n = 0;
}

/* ---- The meta-dnode's leaves ---- */

static uint64_t count_dnodes(const unsigned char *block)
{
    uint64_t n = 0;
    unsigned width;
    bool allocated;

    for (unsigned i = 0; i < DNODES_PER_BLOCK; i += width) {
        if (dnode_block_slots(block, i, &width, &allocated) < 0)
            width = 1;
        n += allocated;
    }
    return n;
}

/* The block, held, with a buffer of its own in *own if it needs a new one. */
static int prepare_block(struct sync *s, struct change **v, size_t n, struct dbuf **out,
                         struct buf **own)
{
    uint64_t blkid = v[0]->dn->object / DNODES_PER_BLOCK;
    struct dbuf *db;
    int rc = dbuf_hold_level(s->os->meta, 0, blkid, &db);

    *own = NULL;
    if (rc < 0)
        return rc;
    *out = db;
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (v[i]->flags & CHANGE_FREE)
            rc = slots_freeing(s->os, v[i]->dn->object, db);
    }
    if (rc < 0 || (db->state == DBUF_CACHED && !buf_shared(db->buf)))
        return rc;
    *own = db->state == DBUF_HOLE ? buf_new_zero(DNODE_BLOCK_SIZE) : buf_copy(db->buf);
    return *own ? 0 : -ENOMEM;
}

/* Copies the images of v[0..n), all of one block, into it. The block is held by *out. */
static int fill_block(struct sync *s, struct change **v, size_t n, struct dbuf **out,
                      struct leaf *leaf)
{
    struct dnode *meta = s->os->meta;
    struct buf *own;
    struct dbuf *db;
    int rc = prepare_block(s, v, n, out, &own);

    if (rc < 0)
        return rc;
    db = *out;
    MUTEX_GUARD(&meta->lock);
    if (own)
        dbuf_set_buf(db, own);
    for (size_t i = 0; i < n; i++) {
        struct dnode *dn = v[i]->dn;
        unsigned char *to = db->buf->data + dn->object % DNODES_PER_BLOCK * DNODE_MIN_SIZE;
        if (v[i]->flags & CHANGE_FREE)
            memset(to, 0, image_size(dn->image));
        else
            memcpy(to, dn->image, image_size(dn->image));
    }
    *leaf = (struct leaf){.blkid = db->blkid,
                          .fill = count_dnodes(db->buf->data),
                          .data = buf_ref(db->buf)};
    return 0;
}

struct meta_work {
    struct batch *b;
    size_t *starts;      /* first change of each block; blocks + 1 of them */
    size_t blocks;
    struct dbuf **held;
    struct leaf *leaves;
};

static int fill_one(void *arg, size_t i)
{
    struct meta_work *w = arg;
    size_t from = w->starts[i];

    return fill_block(w->b->s, w->b->v + from, w->starts[i + 1] - from, &w->held[i],
                      &w->leaves[i]);
}

/* Special dnodes sort last; the others are those of the meta-dnode's blocks. */
static int plan_blocks(struct meta_work *w)
{
    struct batch *b = w->b;
    size_t n = b->n;

    while (n > 0 && dnode_is_special(b->v[n - 1]->dn))
        n--;
    w->starts = malloc((n + 1) * sizeof(*w->starts));
    if (!w->starts)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || b->v[i]->dn->object / DNODES_PER_BLOCK !=
                          b->v[i - 1]->dn->object / DNODES_PER_BLOCK)
            w->starts[w->blocks++] = i;
    }
    w->starts[w->blocks] = n;
    w->held = calloc(w->blocks + 1, sizeof(*w->held));
    w->leaves = calloc(w->blocks + 1, sizeof(*w->leaves));
    return w->held && w->leaves ? 0 : -ENOMEM;
}

static int write_meta(struct sync *s, struct meta_work *w)
{
    struct dnode *meta = s->os->meta;
    struct dnode_sync ds = {.s = s, .dn = meta, .levels = meta->image[DN_LEVELS]};
    int rc = tree_grow(&ds, MAX(host64(meta->image + DN_MAX_BLKID),
                                w->blocks ? w->leaves[w->blocks - 1].blkid : 0));

    if (rc == 0)
        rc = tree_write_leaves(&ds, w->leaves, w->blocks);
    if (rc == 0)
        rc = tree_finish(&ds);
    if (rc < 0)
        tree_abandon(&ds);
    MUTEX_GUARD(&meta->lock);
    meta->max_blkid = host64(meta->image + DN_MAX_BLKID);
    return rc;
}

static int sync_meta(struct sync *s, struct batch *b)
{
    struct meta_work w = {.b = b};
    int rc = plan_blocks(&w);

    if (rc == 0) {
        for (size_t i = 1; i < w.blocks; i++) {
            uint64_t blkid = b->v[w.starts[i]]->dn->object / DNODES_PER_BLOCK;
            if (blkid <= host64(s->os->meta->image + DN_MAX_BLKID))
                dbuf_prefetch(s->os->meta, 0, blkid);
        }
        rc = workers_each(s->os->pool->workers, w.blocks, fill_one, &w);
    }
    if (rc == 0 && w.blocks > 0)
        rc = write_meta(s, &w);
    for (size_t i = 0; w.held && w.leaves && i < w.blocks; i++) {
        buf_unref(w.leaves[i].data);
        if (w.held[i])
            dbuf_unhold(w.held[i]);
    }
    free(w.starts);
    free(w.held);
    free(w.leaves);
    return rc;
}

/* ---- The objset block ---- */

static uint64_t count_objects(const struct dnode *meta)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < meta->image[DN_NBLKPTR]; i++) {
        struct blkptr bp;
        bp_decode(&bp, image_ptr(meta->image, i), BYTES_HOST_BIG);
        n += bp_hole(&bp) ? 0 : bp_fill(&bp);
    }
    return n;
}

static void assemble(struct objset *os, struct objset_dirty *d)
{
    MUTEX_GUARD(&os->lock);
    memcpy(os->phys, os->meta->image, DNODE_MIN_SIZE);
    for (int i = 0; i < 3; i++) {
        if (os->special[i])
            memcpy(os->phys + OBJSET_OFF_SPECIAL + i * DNODE_MIN_SIZE, os->special[i]->image,
                   DNODE_MIN_SIZE);
    }
    set_host64(os->phys + OBJSET_OFF_FLAGS, os->flags);
    if (d->zil_set)
        memcpy(os->phys + OBJSET_OFF_ZIL, d->zil, OBJSET_ZIL_HEADER_SIZE);
    d->self = d->zil_set = false;
    /* Old sets grow when a project dnode may come (03 5.1). */
    if (os->phys_size < OBJSET_SIZE && (os->pool->features.project_quota || os->special[2]))
        os->phys_size = OBJSET_SIZE;
    else if (os->phys_size < 2048 && (os->special[0] || os->special[1]))
        os->phys_size = 2048;
}

static int write_objset(struct sync *s)
{
    struct objset *os = s->os;
    struct objset_dirty *d = &os->dirty[s->txg & TXG_MASK];
    struct dnode_sync ds = {.s = s, .dn = os->meta, .levels = 1}; /* its used does not count this block */
    struct policy_for what = {.type = OT_OBJSET};
    struct blkptr bp = os->root;
    struct buf *b;
    int rc;

    {
        MUTEX_GUARD(&d->lock);
        assemble(os, d);
    }
    b = buf_new(os->phys_size);
    if (!b)
        return -ENOMEM;
    memcpy(b->data, os->phys, os->phys_size);
    rc = tree_write_block(&ds, &what, count_objects(os->meta), b, &bp);
    buf_unref(b);
    if (rc == 0) {
        MUTEX_GUARD(&os->lock);
        os->root = bp;
    }
    return rc;
}

/* ---- All of it ---- */

static bool accounted(const struct objset *os)
{
    return os->type == OBJSET_ZPL && os->flags & OBJSET_FLAG_USERACCOUNTING;
}

static int sync_accounts(struct sync *s, struct batch *specials)
{
    int rc = accounts_apply(s->accounts, s->os, s->tx);

    if (rc == 0)
        rc = take_changes(s, specials);
    return rc == 0 ? sync_changes(specials) : rc;
}

static int run_sync(struct sync *s)
{
    struct batch changes = {0}, specials = {0};
    int rc = take_changes(s, &changes);

    if (rc == 0)
        rc = sync_changes(&changes);
    if (rc == 0 && s->accounts)
        rc = sync_accounts(s, &specials);
    if (rc == 0)
        rc = sync_meta(s, &changes);
    if (rc == 0)
        rc = write_objset(s);
    finish_changes(&changes, rc < 0);
    finish_changes(&specials, rc < 0);
    return rc;
}

int objset_sync(struct objset *os, struct tx *tx, struct blkptr *root)
{
    struct sync s = {.os = os, .tx = tx, .txg = tx->txg,
                     .hole_birth = os->pool->features.hole_birth};
    int rc = 0;

    if (objset_dirty(os, tx->txg)) {
        if (accounted(os))
            rc = accounts_new(&s.accounts, os->flags);
        if (rc == 0)
            rc = run_sync(&s);
        accounts_free(s.accounts);
        cache_retry(os->cache);
        cache_trim(os->cache);
    }
    *root = os->root;
    return rc;
}
