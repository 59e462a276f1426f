/*
 * One metaslab in memory: loading its free set, finding a place in it, and its weight.
 *
 * Finding a place ("dynamic fit", 05 6.1): first fit from a cursor, one cursor per alignment of the
 * size, so that blocks of one size follow each other; when that finds nothing near, or little is
 * left, the smallest range that is large enough.
 */
#include <errno.h>
#include <string.h>

#include "pool/alloc_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/err.h"
#include "util/log.h"
#include "vdev/vdev.h"

#define FIRST_FIT_STEPS 100
#define WEIGH_EVERY     64 /* allocations */

/* The group's condition is used with the group's lock, so the metaslab's is dropped meanwhile. */
void metaslab_wait_work(struct metaslab *m)
{
    struct metaslab_impl *s = m->impl;
    struct group *g = metaslab_group(m);

    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&g->lock);
    while (atomic_load(&s->work) != WORK_NONE)
        pthread_cond_wait(&g->idle, &g->lock);
    pthread_mutex_unlock(&g->lock);
    pthread_mutex_lock(&s->lock);
}

void metaslab_end_work(struct metaslab *m)
{
    struct group *g = metaslab_group(m);

    pthread_mutex_lock(&g->lock);
    atomic_store(&metaslab_impl(m)->work, WORK_NONE);
    pthread_cond_broadcast(&g->idle);
    pthread_mutex_unlock(&g->lock);
}

void metaslab_mark_dirty(struct metaslab *m, uint64_t txg)
{
    struct metaslab_impl *s = m->impl;
    struct group *g = metaslab_group(m);

    if (s->dirty[txg & TXG_MASK])
        return;
    s->dirty[txg & TXG_MASK] = true;
    pthread_mutex_lock(&g->lock);
    bitmap_set(g->dirty[txg & TXG_MASK], m->id);
    pthread_mutex_unlock(&g->lock);
}

/* Everything in the metaslab that set does not have. */
static int complement(const struct metaslab *m, const struct rangeset *set, struct rangeset *out)
{
    uint64_t at = m->start, end = m->start + m->size;
    struct range r;

    for (struct range *it = rangeset_first(set, &r); it; it = rangeset_after(set, &r)) {
        if (r.start < at || r.end > end)
            return err_set(EBADE, "vdev %u metaslab %u: its space map is damaged", m->vdev->id,
                           m->id);
        int rc = rangeset_add(out, at, r.start);
        if (rc)
            return rc;
        at = r.end;
    }
    return rangeset_add(out, at, end);
}

static int subtract(const struct metaslab *m, struct rangeset *set, const struct rangeset *minus)
{
    struct range r;
    int rc = 0;

    if (!minus)
        return 0;
    for (struct range *it = rangeset_first(minus, &r); it && rc == 0;
         it = rangeset_after(minus, &r))
        rc = rangeset_remove_exact(set, r.start, r.end);
    return rc == -ENOENT ? err_set(EBADE,
                                   "vdev %u metaslab %u: its space map contradicts what was "
                                   "freed or allocated",
                                   m->vdev->id, m->id)
                         : rc;
}

static int read_map(struct metaslab *m, struct rangeset *allocated)
{
    struct alloc *a = metaslab_group(m)->alloc;

    return m->object ? a->load(a->arg, m, allocated) : 0;
}

/* The allocatable ranges: what the map has as free, without what was freed too recently and what
 * was taken since. */
static int make_free(struct metaslab *m, const struct rangeset *allocated, struct rangeset *free)
{
    struct metaslab_impl *s = m->impl;
    int rc = complement(m, allocated, free);

    for (int i = 0; i < 2 && rc == 0; i++)
        rc = subtract(m, free, s->defer[i]);
    if (rc == 0)
        rc = subtract(m, free, s->freed);
    for (int i = 0; i < TXG_SLOTS && rc == 0; i++)
        rc = subtract(m, free, s->allocating[i]);
    return rc;
}

static void note_loaded(struct metaslab *m, bool loaded)
{
    struct group *g = metaslab_group(m);

    pthread_mutex_lock(&g->lock);
    (loaded ? bitmap_set : bitmap_clear)(g->loaded, m->id);
    pthread_mutex_unlock(&g->lock);
}

static int load_sets(struct metaslab *m)
{
    struct metaslab_impl *s = m->impl;
    struct rangeset *allocated = rangeset_new(), *free = rangeset_new();
    int rc = allocated && free ? 0 : -ENOMEM;

    pthread_mutex_unlock(&s->lock);
    if (rc == 0)
        rc = read_map(m, allocated);
    pthread_mutex_lock(&s->lock);
    if (rc == 0)
        rc = make_free(m, allocated, free);
    rangeset_free(allocated);
    if (rc)
        rangeset_free(free);
    else
        s->free = free;
    return rc;
}

int metaslab_load(struct metaslab *m)
{
    struct metaslab_impl *s = m->impl;
    int rc;

    while (!s->free && !s->failed && atomic_load(&s->work) == WORK_LOADING)
        metaslab_wait_work(m);
    if (s->free)
        return 0;
    if (s->failed)
        return err_set(EIO, "vdev %u metaslab %u: its space map cannot be read", m->vdev->id,
                       m->id);
    if (atomic_load(&s->work) == WORK_SYNCING)
        return -EBUSY;
    atomic_store(&s->work, WORK_LOADING);
    rc = load_sets(m);
    if (rc && rc != -ENOMEM) {
        log_error("vdev %u metaslab %u cannot be used: %s", m->vdev->id, m->id, err_text(rc));
        s->failed = true;
    }
    metaslab_end_work(m);
    if (rc == 0)
        note_loaded(m, true);
    if (rc == 0 || s->failed)
        metaslab_weigh(m);
    return rc;
}

void metaslab_unload(struct metaslab *m)
{
    struct metaslab_impl *s = m->impl;

    metaslab_weigh(m);
    set_free(&s->free);
    note_loaded(m, false);
}

/* (log2 of the size class, number of ranges in it) of a histogram; shift: log2 of bucket 0. */
static uint64_t weight_of_histogram(const uint64_t hist[32], unsigned shift)
{
    for (unsigned i = 32; i-- > 0;)
        if (hist[i])
            return (uint64_t)(i + shift) << 54 | MIN(hist[i], (1ull << 54) - 1);
    return 0;
}

/* From the header: what can be known without reading the map. */
static void weigh_unloaded(struct metaslab *m)
{
    struct metaslab_impl *s = m->impl;
    uint64_t weight = weight_of_histogram(m->histogram, m->vdev->ashift);
    int64_t used = m->map_alloc + m->log_alloc;
    uint64_t room = used < 0 ? m->size : (uint64_t)used < m->size ? m->size - (uint64_t)used : 0;

    if (m->object == 0)
        weight = (uint64_t)(high_bit(m->size) - 1) << 54 | 1;
    else if (weight == 0 && room)
        weight = (uint64_t)(high_bit(room) - 1) << 54; /* no histogram: any number is a guess */
    atomic_store(&s->weight, room ? weight : 0);
    atomic_store(&s->fits, room);
}

void metaslab_weigh(struct metaslab *m)
{
    struct metaslab_impl *s = m->impl;
    uint64_t hist[32] = {0};

    s->since_weighed = 0;
    if (s->failed) {
        atomic_store(&s->weight, 0);
        atomic_store(&s->fits, 0);
    } else if (s->free) {
        rangeset_histogram(s->free, m->vdev->ashift, hist, 32);
        atomic_store(&s->weight, weight_of_histogram(hist, m->vdev->ashift));
        atomic_store(&s->fits, rangeset_largest(s->free));
    } else {
        weigh_unloaded(m);
    }
}

static uint64_t *cursor_of(struct metaslab_impl *s, uint64_t size)
{
    unsigned i = (unsigned)__builtin_ctzll(size);

    return &s->cursor[i < 9 ? 0 : MIN(i - 9, CURSORS - 1u)];
}

static bool find_fit(const struct metaslab *m, uint64_t size, struct range *out)
{
    struct metaslab_impl *s = m->impl;
    uint64_t *cursor = cursor_of(s, size);

    if (rangeset_total(s->free) >= m->size / 25) {
        if (rangeset_first_fit(s->free, *cursor, size, FIRST_FIT_STEPS, out))
            return true;
        if (rangeset_first_fit(s->free, m->start, size, FIRST_FIT_STEPS, out))
            return true;
    }
    return rangeset_best_fit(s->free, size, out);
}

int metaslab_take(struct metaslab *m, uint64_t txg, uint64_t size, uint64_t *offset)
{
    struct metaslab_impl *s = m->impl;
    struct range r;
    int rc;

    if (size > atomic_load(&s->fits) || !find_fit(m, size, &r)) {
        metaslab_weigh(m);
        if (atomic_load(&s->fits) >= size)
            atomic_store(&s->fits, size - 1);
        return -ENOSPC;
    }
    rc = set_add(&s->allocating[txg & TXG_MASK], r.start, r.start + size);
    if (rc == 0) {
        rc = rangeset_remove(s->free, r.start, r.start + size);
        if (rc)
            set_remove(&s->allocating[txg & TXG_MASK], r.start, r.start + size);
    }
    if (rc == -EEXIST) { /* never, unless memory is damaged */
        s->failed = true;
        metaslab_weigh(m);
        return -ENOSPC;
    }
    if (rc)
        return rc;
    if (s->trim)
        metaslab_forget_freed(m, r.start, r.start + size);
    *offset = r.start;
    *cursor_of(s, size) = r.start + size;
    s->used_txg = MAX(s->used_txg, txg);
    metaslab_mark_dirty(m, txg);
    if (++s->since_weighed >= WEIGH_EVERY)
        metaslab_weigh(m);
    return 0;
}
