/*
 * Space while a txg is written (spec 05 4, 10): handing changes to whoever writes the maps, and
 * letting freed space return after two more txgs.
 *
 * While a metaslab's changes are being written it must not be loaded: nobody could say whether its
 * map, read at that moment, has them already. The writer allocates blocks for the map itself, so
 * the allocator does not wait for such a metaslab, it takes another one. One at most is in that
 * state.
 */
#include <errno.h>
#include <string.h>

#include "pool/alloc_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "vdev/vdev.h"

#define IDLE_TXGS      16 /* a metaslab that was not used for so long is unloaded */
#define IDLE_TXGS_FULL 2  /* the same when much memory is in use */
#define LOADED_MAX     64 /* metaslabs per vdev: more is much */
#define MEMORY_SHARE   16 /* of the cache limit, one part in so many: more is much */

bool alloc_dirty(struct pool *pool, uint64_t txg)
{
    for (unsigned i = 0; i < pool->root->children; i++) {
        struct group *g = pool->root->child[i]->allocator;
        if (!g)
            continue;
        MUTEX_GUARD(&g->lock);
        if (bitmap_next(g->dirty[txg & TXG_MASK], 0, g->count) < g->count)
            return true;
    }
    return false;
}

/* Adds the ranges of all that is free or will be to hist. */
static int full_histogram(struct metaslab *m, unsigned shift, uint64_t hist[32])
{
    struct metaslab_impl *s = m->impl;
    const struct rangeset *sets[] = {s->free,  s->defer[0], s->defer[1],
                                     s->freed, s->syncing,  s->lent};

    for (size_t i = 0; i < ARRAY_LEN(sets); i++)
        if (sets[i])
            rangeset_histogram(sets[i], shift, hist, 32);
    return 0;
}

int alloc_histogram(struct metaslab *m, unsigned shift, uint64_t hist[32])
{
    struct metaslab_impl *s = m->impl;

    memset(hist, 0, 32 * sizeof hist[0]);
    MUTEX_GUARD(&s->lock);
    if (s->free)
        return full_histogram(m, shift, hist);
    /* Not loaded: what the header has, and what is freed now. */
    if (m->header_size > 24)
        memcpy(hist, m->histogram, 32 * sizeof hist[0]);
    if (s->syncing)
        rangeset_histogram(s->syncing, shift, hist, 32);
    return 0;
}

int alloc_snapshot(struct metaslab *m, struct rangeset *allocated)
{
    struct metaslab_impl *s = m->impl;

    MUTEX_GUARD(&s->lock);
    if (!s->free)
        return -EBUSY;
    const struct rangeset *sets[6 + TXG_SLOTS] = {s->free,  s->defer[0], s->defer[1],
                                                  s->freed, s->syncing,  s->lent};
    memcpy(&sets[6], s->allocating, sizeof s->allocating);
    int rc = rangeset_add(allocated, m->start, m->start + m->size);
    for (size_t i = 0; i < ARRAY_LEN(sets) && rc == 0; i++) {
        struct range r;
        if (!sets[i])
            continue;
        for (struct range *it = rangeset_first(sets[i], &r); it && rc == 0;
             it = rangeset_after(sets[i], &r))
            rc = rangeset_remove(allocated, r.start, r.end);
    }
    return rc;
}

static void update_room(struct metaslab *m, const struct rangeset *allocs,
                        const struct rangeset *frees)
{
    struct metaslab_impl *s = m->impl;
    uint64_t hist[32] = {0};

    atomic_store(&s->room, atomic_load(&s->room) + set_total(frees) - set_total(allocs));
    if (!s->free)
        return;
    full_histogram(m, m->vdev->ashift, hist);
    atomic_store(&s->frag, fragmentation_of(hist, m->vdev->ashift));
}

struct sync {
    uint64_t txg;
    alloc_sync_fn *fn;
    void *arg;
    struct rangeset *empty;
};

static int sync_metaslab(struct metaslab *m, const struct sync *y)
{
    struct metaslab_impl *s = m->impl;
    struct rangeset **allocating = &s->allocating[y->txg & TXG_MASK];
    struct rangeset **freeing = &s->freeing[y->txg & TXG_MASK];
    struct rangeset *allocs;
    int rc;

    pthread_mutex_lock(&s->lock);
    while (atomic_load(&s->work) != WORK_NONE)
        metaslab_wait_work(m);
    s->dirty[y->txg & TXG_MASK] = false;
    allocs = *allocating;
    s->syncing = *freeing;
    *allocating = *freeing = NULL;
    if (set_empty(allocs) && set_empty(s->syncing)) { /* undone */
        set_free(&allocs);
        set_free(&s->syncing);
        pthread_mutex_unlock(&s->lock);
        return 0;
    }
    atomic_store(&s->work, WORK_SYNCING);
    pthread_mutex_unlock(&s->lock);

    rc = y->fn(y->arg, m, allocs ? allocs : y->empty, s->syncing ? s->syncing : y->empty);

    pthread_mutex_lock(&s->lock);
    if (rc == 0) {
        update_room(m, allocs, s->syncing);
        set_free(&allocs);
        rc = set_move(&s->freed, &s->syncing);
    }
    if (rc) { /* the txg has failed; nothing is forgotten, though */
        set_move(allocating, &allocs);
        set_move(freeing, &s->syncing);
        metaslab_mark_dirty(m, y->txg);
        set_free(&allocs);
        set_free(&s->syncing);
    }
    metaslab_end_work(m);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* The first dirty metaslab from i on, its bit cleared; count if there is none. */
static unsigned next_dirty(struct group *g, uint64_t txg, unsigned i)
{
    MUTEX_GUARD(&g->lock);
    i = bitmap_next(g->dirty[txg & TXG_MASK], i, g->count);
    if (i < g->count) {
        bitmap_clear(g->dirty[txg & TXG_MASK], i);
        bitmap_set(g->rotating, i);
    }
    return i;
}

static int sync_group(struct group *g, const struct sync *y, bool *any)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && (i = next_dirty(g, y->txg, i)) < g->count; i++) {
        *any = true;
        rc = sync_metaslab(&g->metaslabs[i], y);
    }
    return rc;
}

int alloc_sync(struct pool *pool, uint64_t txg, alloc_sync_fn *fn, void *arg, bool *any)
{
    struct sync y = {txg, fn, arg, rangeset_new()};
    int rc = y.empty ? 0 : -ENOMEM;

    *any = false;
    for (unsigned i = 0; i < pool->root->children && rc == 0; i++) {
        struct group *g = pool->root->child[i]->allocator;
        if (!g)
            continue;
        group_prepare(g);
        rc = sync_group(g, &y, any);
    }
    rangeset_free(y.empty);
    return rc;
}

/* Makes the ranges allocatable. */
static void release(struct metaslab *m, struct rangeset **set)
{
    struct metaslab_impl *s = m->impl;
    struct group *g = metaslab_group(m);
    uint64_t total = set_total(*set);
    struct range r;

    if (atomic_load(&g->alloc->pool->autotrim))
        metaslab_note_freed(m, *set);
    if (s->free) {
        if (rangeset_move(s->free, *set) != 0) {
            total -= set_total(*set); /* the rest is tried again */
        } else {
            set_free(set);
        }
        metaslab_weigh(m);
    } else {
        for (struct range *it = rangeset_first(*set, &r); it; it = rangeset_after(*set, &r)) {
            uint64_t weight = (uint64_t)(high_bit(r.end - r.start) - 1) << 54 | 1;
            if (weight > atomic_load(&s->weight))
                atomic_store(&s->weight, weight);
        }
        atomic_store(&s->fits, m->size); /* neighbours may have joined: only the map can tell */
        set_free(set);
    }
    atomic_fetch_sub(&g->allocated, total);
}

/* freed -> defer[txg] -> allocatable, or freed -> allocatable when space is very short. */
static void rotate(struct metaslab *m, uint64_t txg, bool short_of_space)
{
    struct metaslab_impl *s = m->impl;
    struct group *g = metaslab_group(m);
    struct rangeset **slot = &s->defer[txg & 1];
    uint64_t before, after;

    pthread_mutex_lock(&s->lock);
    before = set_total(s->defer[0]) + set_total(s->defer[1]);
    if (*slot)
        release(m, slot);
    if (short_of_space && s->freed)
        release(m, &s->freed);
    set_move(slot, &s->freed);
    after = set_total(s->defer[0]) + set_total(s->defer[1]);
    atomic_fetch_add(&g->deferred, after - before);
    if (!s->freed && !s->defer[0] && !s->defer[1]) {
        pthread_mutex_lock(&g->lock);
        bitmap_clear(g->rotating, m->id);
        pthread_mutex_unlock(&g->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

static bool unloadable(const struct metaslab_impl *s, uint64_t txg, unsigned idle)
{
    for (int i = 0; i < TXG_SLOTS; i++)
        if (!set_empty(s->allocating[i]))
            return false;
    return s->free && !s->lent && atomic_load(&s->work) == WORK_NONE && s->used_txg + idle < txg;
}

/* The first bit from i on of one of the group's bitmaps. */
static unsigned next_bit(struct group *g, const uint64_t *map, unsigned i)
{
    MUTEX_GUARD(&g->lock);
    return bitmap_next(map, i, g->count);
}

/* Bytes of the metaslab's sets. */
static int64_t memory_of(struct metaslab_impl *s)
{
    const struct rangeset *sets[] = {s->free, s->freed, s->defer[0], s->defer[1], s->lent, s->trim};
    int64_t sum = 0;

    for (size_t i = 0; i < ARRAY_LEN(sets); i++)
        sum += sets[i] ? (int64_t)rangeset_memory(sets[i]) : 0;
    return sum;
}

/* The first metaslab from i on that has sets. */
static unsigned next_with_sets(struct group *g, unsigned i)
{
    MUTEX_GUARD(&g->lock);
    return MIN(bitmap_next(g->loaded, i, g->count), bitmap_next(g->rotating, i, g->count));
}

/* What all sets take; and the cache is told to make room for it. */
static int64_t measure(struct group *g)
{
    int64_t sum = 0;

    for (unsigned i = 0; (i = next_with_sets(g, i)) < g->count; i++) {
        MUTEX_GUARD(&g->impl[i].lock);
        sum += memory_of(&g->impl[i]);
    }
    pool_hold_memory(g->alloc->pool, sum - g->memory);
    g->memory = sum;
    return sum;
}

static void unload_idle(struct group *g, uint64_t txg)
{
    uint64_t memory = (uint64_t)measure(g);
    unsigned loaded = 0, idle;

    for (unsigned i = 0; (i = next_bit(g, g->loaded, i)) < g->count; i++)
        loaded++;
    idle = loaded > LOADED_MAX || memory > g->alloc->pool->cache_limit / MEMORY_SHARE
               ? IDLE_TXGS_FULL
               : IDLE_TXGS;
    for (unsigned i = 0; (i = next_bit(g, g->loaded, i)) < g->count; i++) {
        MUTEX_GUARD(&g->impl[i].lock);
        if (unloadable(&g->impl[i], txg, idle))
            metaslab_unload(&g->metaslabs[i]);
    }
}

void alloc_sync_done(struct pool *pool, uint64_t txg)
{
    bool short_of_space = alloc_short_of_space(pool);

    for (unsigned i = 0; i < pool->root->children; i++) {
        struct group *g = pool->root->child[i]->allocator;
        if (!g)
            continue;
        group_prepare(g);
        for (unsigned k = 0; (k = next_bit(g, g->rotating, k)) < g->count; k++)
            rotate(&g->metaslabs[k], txg, short_of_space || g->vdev->removing);
        unload_idle(g, txg);
    }
}
