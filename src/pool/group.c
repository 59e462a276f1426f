/*
 * The metaslabs of one top-level vdev: which one gets the next block.
 *
 * Blocks flow in lanes (alloc_impl.h). A lane stays on its metaslab until a block does not fit or
 * its largest free range has shrunk to a quarter; then it takes the best metaslab (highest weight)
 * that no other lane is on. When several threads want the same lane, each takes the first of the
 * lane's sets whose metaslab is not locked, so a single thread always uses the first set and
 * allocates reproducibly.
 */
#include <errno.h>

#include "pool/alloc_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "vdev/vdev.h"

#define WORN 2 /* powers of two that the largest range may shrink */

bool group_usable(const struct group *g)
{
    return g && vdev_readable(g->vdev) && !g->vdev->non_allocating && !g->vdev->removing &&
           !__atomic_load_n(&g->vdev->joining, __ATOMIC_ACQUIRE);
}

/* Totals and weights from the headers, once. */
void group_prepare(struct group *g)
{
    uint64_t total = 0;

    if (atomic_load(&g->ready))
        return;
    pthread_mutex_lock(&g->lock);
    if (!atomic_load(&g->ready)) {
        for (unsigned i = 0; i < g->count; i++) {
            struct metaslab *m = &g->metaslabs[i];
            int64_t used = m->map_alloc + m->log_alloc;
            uint64_t taken = used < 0 ? 0 : MIN((uint64_t)used, m->size);
            total += taken;
            atomic_store(&g->impl[i].room, m->size - taken);
            metaslab_weigh(m);
            if (m->object == 0)
                atomic_store(&g->impl[i].frag, 0);
            else if (m->header_size > 24)
                atomic_store(&g->impl[i].frag, fragmentation_of(m->histogram, g->vdev->ashift));
        }
        atomic_fetch_add(&g->allocated, total);
        atomic_store(&g->ready, true);
    }
    pthread_mutex_unlock(&g->lock);
}

struct metaslab *group_find(struct group *g, uint64_t offset, uint64_t size)
{
    uint64_t id = offset >> g->vdev->metaslab_shift;
    struct metaslab *m;

    if (id >= g->count || size == 0 || ((offset | size) & ((1ull << g->vdev->ashift) - 1)))
        return NULL;
    m = &g->metaslabs[id];
    if (offset < m->start || size > m->size || offset - m->start > m->size - size)
        return NULL;
    return m;
}

/* Is one of the first `copies` DVAs of bp in metaslab id? */
static bool holds_copy(const struct group *g, unsigned id, const struct blkptr *bp, int copies)
{
    for (int i = 0; i < copies; i++)
        if (dva_vdev(bp, i) == g->vdev->id && dva_offset(bp, i) >> g->vdev->metaslab_shift == id)
            return true;
    return false;
}

static bool in_a_lane(struct group *g, unsigned id)
{
    for (unsigned set = 0; set < g->lane_sets; set++)
        for (unsigned i = 0; i < LANES; i++)
            if (atomic_load(&g->lanes[set][i].current) == id)
                return true;
    return false;
}

struct wish {
    uint64_t size;
    const struct blkptr *bp;
    int copies; /* DVAs of bp to stay away from */
};

/* The heaviest metaslab in which the wish may fit. With the group's lock held. */
static unsigned heaviest(struct group *g, const struct wish *w, bool free_lanes_only)
{
    unsigned best = NO_METASLAB;
    uint64_t best_weight = 0;

    for (unsigned i = 0; i < g->count; i++) {
        struct metaslab_impl *s = &g->impl[i];
        uint64_t weight = atomic_load_explicit(&s->weight, memory_order_relaxed);
        if (weight <= best_weight || w->size > atomic_load(&s->fits))
            continue;
        if (atomic_load(&s->work) == WORK_SYNCING && !bitmap_get(g->loaded, i))
            continue; /* it cannot be loaded now; see alloc_sync.c */
        if (holds_copy(g, i, w->bp, w->copies) || (free_lanes_only && in_a_lane(g, i)))
            continue;
        best = i;
        best_weight = weight;
    }
    return best;
}

static unsigned choose(struct group *g, struct lane *lane, const struct wish *w, unsigned avoid)
{
    unsigned id;

    pthread_mutex_lock(&g->lock);
    id = atomic_load(&lane->current);
    if (id == avoid || id == NO_METASLAB || w->size > atomic_load(&g->impl[id].fits) ||
        holds_copy(g, id, w->bp, w->copies)) { /* else another thread has chosen meanwhile */
        atomic_store(&lane->current, NO_METASLAB);
        id = heaviest(g, w, true);
        if (id == NO_METASLAB)
            id = heaviest(g, w, false);
        atomic_store(&lane->current, id);
        if (id != NO_METASLAB)
            atomic_store(&lane->start_size, (unsigned)(atomic_load(&g->impl[id].weight) >> 54));
    }
    pthread_mutex_unlock(&g->lock);
    return id;
}

static bool worn(const struct lane *lane, struct metaslab_impl *s)
{
    return (atomic_load(&s->weight) >> 54) + WORN <= atomic_load(&lane->start_size);
}

/* Tries one metaslab, whose lock is held. */
static int take_locked(struct group *g, struct lane *lane, unsigned id, uint64_t txg, uint64_t size,
                       uint64_t *offset)
{
    struct metaslab *m = &g->metaslabs[id];
    struct metaslab_impl *s = m->impl;
    int rc = s->free ? 0 : metaslab_load(m);

    rc = rc ? rc : metaslab_take(m, txg, size, offset);
    if (rc == 0 && worn(lane, s))
        atomic_store(&lane->current, NO_METASLAB);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* The first set of the lane whose metaslab nobody has locked; its lock is taken then. */
static struct lane *uncontended(struct group *g, unsigned lane, const struct wish *w, unsigned *id)
{
    for (unsigned set = 0; set < g->lane_sets; set++) {
        struct lane *l = &g->lanes[set][lane];
        *id = atomic_load(&l->current);
        if (*id == NO_METASLAB)
            return l;
        if (holds_copy(g, *id, w->bp, w->copies))
            continue;
        if (pthread_mutex_trylock(&g->impl[*id].lock) == 0)
            return l;
    }
    *id = NO_METASLAB;
    return &g->lanes[0][lane];
}

int group_take(struct group *g, uint64_t txg, uint64_t asize, bool metadata,
               const struct blkptr *bp, int copy, bool hard, uint64_t *offset)
{
    struct wish w = {asize, bp, hard ? 0 : copy};
    unsigned id, failed = NO_METASLAB;
    struct lane *lane = uncontended(g, (metadata ? LANE_COPIES : 0) + (unsigned)copy, &w, &id);
    int rc;

    if (id != NO_METASLAB) {
        rc = take_locked(g, lane, id, txg, asize, offset);
        if (rc == 0 || rc == -ENOMEM)
            return rc;
        failed = id;
    }
    while ((id = choose(g, lane, &w, failed)) != NO_METASLAB) {
        pthread_mutex_lock(&g->impl[id].lock);
        rc = take_locked(g, lane, id, txg, asize, offset);
        if (rc == 0 || rc == -ENOMEM)
            return rc;
        failed = id;
    }
    return -ENOSPC;
}
