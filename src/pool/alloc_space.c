/* Totals (spec 05 8.2, 8.3). */
#include <string.h>

#include "pool/alloc_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "vdev/vdev.h"

static uint64_t deflate(const struct vdev *top, uint64_t raw)
{
    return (raw >> 9) * top->deflate_ratio;
}

void alloc_vdev_space(const struct vdev *top, struct alloc_space *out)
{
    struct group *g = top->allocator;

    *out = (struct alloc_space){.fragmentation = FRAG_UNKNOWN};
    if (!g)
        return;
    group_prepare(g);
    out->size = g->size;
    out->alloc = atomic_load(&g->allocated);
    out->dspace = deflate(top, g->size);
    out->deferred = deflate(top, atomic_load(&g->deferred));
    out->fragmentation = group_fragmentation(g);
}

void alloc_space(struct pool *pool, struct alloc_space *out)
{
    unsigned __int128 frag = 0;
    uint64_t known = 0;

    *out = (struct alloc_space){.fragmentation = FRAG_UNKNOWN};
    for (unsigned i = 0; i < vdev_tops(pool->root); i++) {
        struct vdev *top = vdev_top_at(pool->root, i);
        struct alloc_space s;
        if (!top->allocator || top->class != VDEV_CLASS_NORMAL)
            continue;
        alloc_vdev_space(top, &s);
        out->size += s.size;
        out->alloc += s.alloc;
        out->deferred += s.deferred;
        if (!top->non_allocating)
            out->dspace += s.dspace;
        if (s.fragmentation != FRAG_UNKNOWN) {
            frag += (unsigned __int128)s.fragmentation * s.size;
            known += s.size;
        }
    }
    if (known)
        out->fragmentation = (unsigned)(frag / known);
}

/* Free space of the normal class is no more than the slop: deferring frees would do harm. */
bool alloc_short_of_space(struct pool *pool)
{
    struct alloc_space s;
    uint64_t slop, used;

    alloc_space(pool, &s);
    if (s.size == 0)
        return false;
    slop = MIN(s.dspace / 32, 128ull << 30);
    slop = MAX(slop, MIN(s.dspace / 2, 128ull << 20));
    used = (uint64_t)((unsigned __int128)s.alloc * s.dspace / s.size);
    return s.dspace < used + slop;
}
