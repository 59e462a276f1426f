/* Giving space back and taking a given range (spec 05 4). Ranges come from pointers on disk, so
 * each is checked: a wrong one must not free what belongs to others. */
#include <errno.h>

#include "pool/alloc_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/vdev.h"

static struct metaslab *find(struct pool *pool, uint64_t vdev, uint64_t offset, uint64_t size)
{
    struct vdev *top = vdev_lookup_top(pool->root, vdev);
    struct group *g = top ? top->allocator : NULL;
    struct metaslab *m = g ? group_find(g, offset, size) : NULL;

    if (!m)
        err_set(EINVAL, "%llu bytes at %llu of vdev %llu are no place for a block",
                (unsigned long long)size, (unsigned long long)offset, (unsigned long long)vdev);
    else
        group_prepare(g);
    return m;
}

/* False if the range was not allocated in txg, or is written as allocated already. */
static bool undo_range(struct metaslab *m, uint64_t txg, uint64_t offset, uint64_t size)
{
    struct metaslab_impl *s = m->impl;

    MUTEX_GUARD(&s->lock);
    if (!s->free || set_remove(&s->allocating[txg & TXG_MASK], offset, offset + size) != 0)
        return false;
    if (rangeset_add(s->free, offset, offset + size) != 0) {
        set_add(&s->allocating[txg & TXG_MASK], offset, offset + size);
        return false;
    }
    metaslab_weigh(m);
    return true;
}

void alloc_undo(struct pool *pool, uint64_t txg, const struct blkptr *bp)
{
    for (int i = 0; i < BLKPTR_DVAS; i++) {
        uint64_t offset = dva_offset(bp, i), size = dva_asize(bp, i);
        struct metaslab *m = size ? find(pool, dva_vdev(bp, i), offset, size) : NULL;

        if (m && undo_range(m, txg, offset, size))
            atomic_fetch_sub(&metaslab_group(m)->allocated, size);
        else if (m)
            alloc_free(pool, txg, dva_vdev(bp, i), offset, size);
    }
}

/* Any of it free or being freed already? */
static bool is_free(const struct metaslab_impl *s, uint64_t start, uint64_t end)
{
    const struct rangeset *sets[] = {s->free,     s->syncing,  s->freed,
                                     s->defer[0], s->defer[1], s->lent};

    for (size_t i = 0; i < ARRAY_LEN(sets); i++)
        if (sets[i] && rangeset_overlaps(sets[i], start, end))
            return true;
    for (int i = 0; i < TXG_SLOTS; i++)
        if (s->freeing[i] && rangeset_overlaps(s->freeing[i], start, end))
            return true;
    return false;
}

int alloc_free(struct pool *pool, uint64_t txg, uint64_t vdev, uint64_t offset, uint64_t asize)
{
    struct metaslab *m = find(pool, vdev, offset, asize);
    struct metaslab_impl *s;
    int rc;

    if (!m)
        return -EINVAL;
    s = m->impl;
    MUTEX_GUARD(&s->lock);
    if (is_free(s, offset, offset + asize))
        return err_set(EINVAL, "%llu bytes at %llu of vdev %llu are free already",
                       (unsigned long long)asize, (unsigned long long)offset,
                       (unsigned long long)vdev);
    rc = set_add(&s->freeing[txg & TXG_MASK], offset, offset + asize);
    if (rc == 0)
        metaslab_mark_dirty(m, txg);
    return rc;
}

int alloc_claim(struct pool *pool, uint64_t txg, uint64_t vdev, uint64_t offset, uint64_t asize)
{
    struct metaslab *m = find(pool, vdev, offset, asize);
    struct metaslab_impl *s;
    int rc;

    if (!m)
        return -EINVAL;
    s = m->impl;
    MUTEX_GUARD(&s->lock);
    rc = metaslab_load(m);
    if (rc)
        return rc;
    rc = rangeset_remove_exact(s->free, offset, offset + asize);
    if (rc == -ENOENT)
        return err_set(EINVAL, "%llu bytes at %llu of vdev %llu are not free",
                       (unsigned long long)asize, (unsigned long long)offset,
                       (unsigned long long)vdev);
    if (rc)
        return rc;
    rc = set_add(&s->allocating[txg & TXG_MASK], offset, offset + asize);
    if (rc) {
        rangeset_add(s->free, offset, offset + asize);
        return rc;
    }
    if (s->trim)
        metaslab_forget_freed(m, offset, offset + asize);
    s->used_txg = MAX(s->used_txg, txg);
    metaslab_mark_dirty(m, txg);
    atomic_fetch_add(&metaslab_group(m)->allocated, asize);
    return 0;
}

int alloc_load(struct metaslab *m)
{
    struct metaslab_impl *s = m->impl;

    group_prepare(metaslab_group(m));
    MUTEX_GUARD(&s->lock);
    return metaslab_load(m);
}
