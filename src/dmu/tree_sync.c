/*
 * Writing an object's tree. Leaves are written first, in parallel; then each level of indirect
 * blocks above them, once, from the bottom up. An indirect block that has to change is "touched":
 * brought into memory (a hole is filled with holes of its birth, 03 4.2), given a buffer nobody else
 * refers to, and put on the list of its level.
 *
 * Only the sync thread and the workers it waits for come here, one dnode being handled by one
 * thread at a time except for the parallel writing of blocks, which changes nothing shared. So
 * reading pointers needs no lock; changing them does, because open-context threads read them.
 *
 * Those threads may walk down from the dnode at any moment. Until the top is written they can miss
 * what was written below; so the leaves' records are kept until then, and new levels appear in the
 * dnode together with the pointers to them.
 */
#include <errno.h>
#include <stdlib.h>

#include "dmu/sync_impl.h"
#include "util/cleanup.h"
#include "util/workers.h"

#define PARALLEL_MIN 8 /* blocks from which spreading them over the workers pays */

/* ---- Pointers coming and going ---- */

void tree_kill(struct dnode_sync *ds, const struct blkptr *bp)
{
    struct objset *os = ds->s->os;

    if (bp_hole(bp))
        return;
    if (os->ops.killed)
        os->ops.killed(os->ops_arg, bp, ds->s->tx);
    atomic_fetch_sub(&ds->used, (int64_t)block_dsize(os->pool, bp));
}

static void tree_born(struct dnode_sync *ds, const struct blkptr *bp)
{
    struct objset *os = ds->s->os;

    if (bp_hole(bp))
        return;
    if (os->ops.born)
        os->ops.born(os->ops_arg, bp, ds->s->tx);
    atomic_fetch_add(&ds->used, (int64_t)block_dsize(os->pool, bp));
}

int tree_write_block(struct dnode_sync *ds, const struct policy_for *what, uint64_t fill,
                     struct buf *data, struct blkptr *bp)
{
    struct objset *os = ds->s->os;
    struct block_policy policy;
    struct blkptr old = *bp;
    int rc;

    policy_choose(os, what, &policy);
    policy.fill = fill;
    rc = block_write(os->pool, ds->s->txg, objset_batch(os), &policy, data, &old, bp);
    if (rc < 0)
        return rc;
    if (data->size > BLOCK_OLD_MAX)
        atomic_fetch_or(&os->uses, OBJSET_USES_LARGE_BLOCKS);
    if (bp_same_place(&old, bp)) /* rewritten in this txg, or a hole again */
        return 0;
    tree_kill(ds, &old);
    tree_born(ds, bp);
    return 0;
}

/* ---- Touching ---- */

static int list_add(struct dbuf_list *l, struct dbuf *db)
{
    if (l->count == l->capacity) {
        size_t n = l->capacity ? l->capacity * 2 : 4;
        struct dbuf **items = realloc(l->items, n * sizeof(*items));
        if (!items)
            return -ENOMEM;
        l->items = items;
        l->capacity = n;
    }
    l->items[l->count++] = db;
    return 0;
}

/* The pointer to an indirect block that is a hole; its parent is touched for it. */
static int hole_pointer(struct dnode_sync *ds, unsigned level, uint64_t blkid, struct blkptr *bp)
{
    unsigned char *im = ds->dn->image;
    struct dbuf *parent;
    int rc;

    bp_zero(bp);
    if (level + 1u == ds->levels) {
        if (ds->levels == im[DN_LEVELS] && blkid < im[DN_NBLKPTR])
            bp_decode(bp, image_ptr(im, (unsigned)blkid), BYTES_HOST_BIG);
        return 0;
    }
    rc = tree_touch(ds, level + 1, blkid >> dnode_epbs(ds->dn), &parent);
    if (rc == 0)
        bp_decode(bp, block_ptr(parent, blkid), BYTES_HOST_BIG);
    return rc;
}

/* The contents of an indirect block that was a hole. */
static int expand_hole(struct dnode_sync *ds, unsigned level, uint64_t blkid, struct buf **out)
{
    struct dnode *dn = ds->dn;
    size_t size = (size_t)1 << dn->image[DN_INDIRECT_SHIFT];
    struct blkptr bp, child;
    int rc = hole_pointer(ds, level, blkid, &bp);

    if (rc < 0)
        return rc;
    *out = buf_new_zero(size);
    if (!*out)
        return -ENOMEM;
    if (bp_birth(&bp) == 0)
        return 0;
    bp_set_hole(&child, dn->image[DN_TYPE], level - 1,
                level == 1 ? image_block_size(dn->image) : size, bp_birth(&bp));
    for (size_t i = 0; i < size; i += BLKPTR_SIZE)
        bp_encode(&child, (*out)->data + i);
    return 0;
}

/* A buffer that only the tree refers to; *out NULL: the present one is. */
static int own_buffer(struct dnode_sync *ds, struct dbuf *db, struct buf **out)
{
    *out = NULL;
    if (db->state == DBUF_HOLE)
        return expand_hole(ds, db->level, db->blkid, out);
    if (!buf_shared(db->buf))
        return 0;
    *out = buf_copy(db->buf);
    return *out ? 0 : -ENOMEM;
}

int tree_touch(struct dnode_sync *ds, unsigned level, uint64_t blkid, struct dbuf **out)
{
    struct dnode *dn = ds->dn;
    struct dbuf *db;
    struct buf *own = NULL;
    int rc = dbuf_hold_level(dn, level, blkid, &db);

    if (rc < 0)
        return rc;
    if (db->touched) {
        dbuf_unhold(db);
        *out = db;
        return 0;
    }
    rc = own_buffer(ds, db, &own);
    if (rc == 0)
        rc = list_add(&ds->touched[level], db);
    if (rc < 0) {
        buf_unref(own);
        dbuf_unhold(db);
        return rc;
    }
    pthread_mutex_lock(&dn->lock);
    if (own)
        dbuf_set_buf(db, own);
    db->touched = true;
    pthread_mutex_unlock(&dn->lock);
    *out = db;
    return 0;
}

/* ---- Levels ---- */

/* Copies the dnode's pointers into a new block of the next level. */
static int push_down(struct dnode_sync *ds)
{
    struct dnode *dn = ds->dn;
    unsigned char *im = dn->image;
    struct buf *b = buf_new_zero((size_t)1 << im[DN_INDIRECT_SHIFT]);
    struct dbuf *db;
    int rc = -ENOMEM;

    if (!b)
        return rc;
    memcpy(b->data, image_ptr(im, 0), BLKPTR_SIZE * (size_t)im[DN_NBLKPTR]);
    pthread_mutex_lock(&dn->lock);
    db = dbuf_get(dn, im[DN_LEVELS], 0);
    if (db && (rc = list_add(&ds->touched[im[DN_LEVELS]], db)) == 0) {
        dbuf_set_buf(db, b);
        db->touched = true;
    }
    pthread_mutex_unlock(&dn->lock);
    if (rc < 0) {
        buf_unref(b);
        if (db)
            dbuf_unhold(db);
    }
    return rc;
}

int tree_grow(struct dnode_sync *ds, uint64_t max_blkid)
{
    struct dnode *dn = ds->dn;
    unsigned char *im = dn->image;
    unsigned need = levels_needed(im[DN_NBLKPTR], dnode_epbs(dn), max_blkid);
    bool empty = buf_is_zero(image_ptr(im, 0), BLKPTR_SIZE * (size_t)im[DN_NBLKPTR]);

    ds->levels = MAX(need, (unsigned)im[DN_LEVELS]);
    if (ds->levels > im[DN_LEVELS] && !empty) {
        int rc = push_down(ds);
        if (rc < 0)
            return rc;
    }
    MUTEX_GUARD(&dn->lock);
    set_host64(im + DN_MAX_BLKID, MAX(max_blkid, host64(im + DN_MAX_BLKID)));
    return 0;
}

/* With the lock: the levels in the dnode, before pointers of the new top are put there. */
static void install_levels(struct dnode_sync *ds)
{
    unsigned char *im = ds->dn->image;

    if (ds->levels == im[DN_LEVELS])
        return;
    im[DN_LEVELS] = (unsigned char)ds->levels;
    memset(image_ptr(im, 0), 0, BLKPTR_SIZE * (size_t)im[DN_NBLKPTR]);
}

/* ---- Leaves ---- */

struct leaf_job {
    struct dnode_sync *ds;
    struct leaf *v;
    struct policy_for what;
};

static unsigned char *leaf_ptr(struct dnode_sync *ds, const struct leaf *l)
{
    return l->parent ? block_ptr(l->parent, l->blkid)
                     : image_ptr(ds->dn->image, (unsigned)l->blkid);
}

static int write_leaf(void *arg, size_t i)
{
    struct leaf_job *job = arg;
    struct leaf *l = &job->v[i];

    bp_decode(&l->bp, leaf_ptr(job->ds, l), BYTES_HOST_BIG);
    return tree_write_block(job->ds, &job->what, l->fill, l->data, &l->bp);
}

static int run(struct dnode_sync *ds, size_t n, int (*fn)(void *arg, size_t i), void *arg)
{
    int rc = 0;

    if (n >= PARALLEL_MIN)
        return workers_each(ds->s->os->pool->workers, n, fn, arg);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = fn(arg, i);
    return rc;
}

/* Touches the parents; those not in memory are all asked for before the first is waited for. */
static int touch_parents(struct dnode_sync *ds, struct leaf *v, size_t n)
{
    struct dnode *dn = ds->dn;
    unsigned epbs = dnode_epbs(dn);
    int rc = 0;

    if (ds->levels == 1)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if (v[i].blkid >> epbs != v[i - 1].blkid >> epbs)
            dbuf_prefetch(dn, 1, v[i].blkid >> epbs);
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (i > 0 && v[i].blkid >> epbs == v[i - 1].blkid >> epbs)
            v[i].parent = v[i - 1].parent;
        else
            rc = tree_touch(ds, 1, v[i].blkid >> epbs, &v[i].parent);
    }
    return rc;
}

enum { AT_ONCE = 128 }; /* leaves handled in one go, so that nobody waits long for the lock */

static void install_leaves(struct dnode_sync *ds, struct leaf *v, size_t n)
{
    for (size_t i = 0; i < n; i += AT_ONCE) {
        MUTEX_GUARD(&ds->dn->lock);
        for (size_t k = i; k < n && k < i + AT_ONCE; k++)
            bp_encode(&v[k].bp, leaf_ptr(ds, &v[k]));
    }
}

void tree_release_leaves(struct dnode_sync *ds, struct leaf *v, size_t n)
{
    for (size_t i = 0; i < n; i += AT_ONCE) {
        MUTEX_GUARD(&ds->dn->lock);
        for (size_t k = i; k < n && k < i + AT_ONCE; k++) {
            struct dbuf *db = v[k].dirty->db;
            dirty_release(v[k].dirty);
            if (!db->dirty && db->blkid < ds->dn->max_blkid)
                cache_passed(ds->dn->os->cache, &db->item);
        }
    }
}

int tree_write_leaves(struct dnode_sync *ds, struct leaf *v, size_t n)
{
    unsigned char *im = ds->dn->image;
    struct leaf_job job = {ds, v, {im[DN_TYPE], 0, im[DN_CHECKSUM], im[DN_COMPRESS], false}};
    int rc = touch_parents(ds, v, n);

    if (rc == 0)
        rc = run(ds, n, write_leaf, &job);
    if (rc == 0)
        install_leaves(ds, v, n);
    return rc;
}

/* ---- Indirect blocks ---- */

struct parent_job {
    struct dnode_sync *ds;
    struct dbuf_list *list;
    struct dbuf **parents;  /* of the items; NULL: the dnode */
    struct blkptr *bps;
};

struct summary {
    uint64_t fill;
    bool data, births; /* is there a block; is there a hole with a birth */
};

static struct summary summarise(const struct buf *b)
{
    struct summary s = {0};

    for (size_t i = 0; i < b->size; i += BLKPTR_SIZE) {
        struct blkptr bp;
        const unsigned char *p = b->data + i;
        if (host64(p) == 0 && host64(p + 8) == 0 && host64(p + 48) == 0)
            continue; /* all zero */
        bp_decode(&bp, p, BYTES_HOST_BIG);
        if (bp_hole(&bp)) {
            s.births |= bp_birth(&bp) != 0;
        } else {
            s.data = true;
            s.fill += bp_fill(&bp);
        }
    }
    return s;
}

/* Nothing but holes below: the block becomes one. Their births are replaced by one that is not
 * older, so that nobody takes the range for unchanged. */
static void collapse(struct dnode_sync *ds, struct dbuf *db, bool births, struct blkptr *bp)
{
    struct blkptr old = *bp;
    bool born = ds->s->hole_birth && (births || bp_birth(&old) != 0);

    bp_set_hole(bp, ds->dn->image[DN_TYPE], db->level, db->buf->size, born ? ds->s->txg : 0);
    tree_kill(ds, &old);
}

static int write_parent(void *arg, size_t i)
{
    struct parent_job *job = arg;
    struct dnode_sync *ds = job->ds;
    struct dbuf *db = job->list->items[i];
    struct summary sum = summarise(db->buf);
    struct policy_for what = {ds->dn->image[DN_TYPE], db->level, 0, 0, false};
    unsigned char *im = ds->dn->image;

    bp_zero(&job->bps[i]);
    if (job->parents[i])
        bp_decode(&job->bps[i], block_ptr(job->parents[i], db->blkid), BYTES_HOST_BIG);
    else if (ds->levels == im[DN_LEVELS])
        bp_decode(&job->bps[i], image_ptr(im, (unsigned)db->blkid), BYTES_HOST_BIG);
    if (sum.data)
        return tree_write_block(ds, &what, sum.fill, db->buf, &job->bps[i]);
    collapse(ds, db, sum.births, &job->bps[i]);
    return 0;
}

static void install_parents(struct dnode_sync *ds, struct parent_job *job)
{
    MUTEX_GUARD(&ds->dn->lock);
    if (!job->parents[0])
        install_levels(ds);
    for (size_t i = 0; i < job->list->count; i++) {
        struct dbuf *db = job->list->items[i];
        bp_encode(&job->bps[i], job->parents[i] ? block_ptr(job->parents[i], db->blkid)
                                                : image_ptr(ds->dn->image, (unsigned)db->blkid));
        if (bp_hole(&job->bps[i]))
            dbuf_set_buf(db, NULL);
    }
}

static void release_list(struct dbuf_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct dnode *dn = l->items[i]->dn;
        pthread_mutex_lock(&dn->lock);
        l->items[i]->touched = false;
        pthread_mutex_unlock(&dn->lock);
        dbuf_unhold(l->items[i]);
    }
    free(l->items);
    *l = (struct dbuf_list){0};
}

static int write_level(struct dnode_sync *ds, unsigned level)
{
    struct dbuf_list *l = &ds->touched[level];
    struct parent_job job = {.ds = ds, .list = l};
    unsigned epbs = dnode_epbs(ds->dn);
    int rc = 0;

    job.parents = calloc(l->count, sizeof(*job.parents));
    job.bps = calloc(l->count, sizeof(*job.bps));
    if (!job.parents || !job.bps)
        rc = -ENOMEM;
    if (level + 1 < ds->levels) {
        for (size_t i = 0; i < l->count && rc == 0; i++)
            rc = tree_touch(ds, level + 1, l->items[i]->blkid >> epbs, &job.parents[i]);
    }
    if (rc == 0)
        rc = run(ds, l->count, write_parent, &job);
    if (rc == 0)
        install_parents(ds, &job);
    release_list(l);
    free(job.parents);
    free(job.bps);
    return rc;
}

int tree_finish(struct dnode_sync *ds)
{
    unsigned char *im = ds->dn->image;
    uint64_t used;

    for (unsigned level = 1; level < ds->levels; level++) {
        int rc = ds->touched[level].count ? write_level(ds, level) : 0;
        if (rc < 0)
            return rc;
    }
    MUTEX_GUARD(&ds->dn->lock);
    install_levels(ds);
    used = image_used(im) + (uint64_t)atomic_exchange(&ds->used, 0);
    if (used != 0 || image_used(im) != 0) {
        im[DN_FLAGS] |= DNODE_FLAG_USED_BYTES;
        set_host64(im + DN_USED, used);
    }
    return 0;
}

void tree_abandon(struct dnode_sync *ds)
{
    for (unsigned level = 0; level <= LEVELS_MAX; level++)
        release_list(&ds->touched[level]);
}
