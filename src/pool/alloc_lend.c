/*
 * Free space that is lent out: taken out of the allocatable ranges of a metaslab for as long as its
 * devices are told to forget it, or written over (spec 05 17). On disk nothing of it shows: what is lent
 * counts as free wherever maps and histograms are written.
 */
#include <errno.h>

#include "pool/alloc_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"

static void count_trimmable(struct metaslab *m, uint64_t before)
{
    atomic_fetch_add(&metaslab_group(m)->trimmable, set_total(metaslab_impl(m)->trim) - before);
}

void metaslab_note_freed(struct metaslab *m, const struct rangeset *set)
{
    struct metaslab_impl *s = m->impl;
    uint64_t before = set_total(s->trim);
    struct range r;

    for (struct range *it = rangeset_first(set, &r); it; it = rangeset_after(set, &r))
        if (set_add(&s->trim, r.start, r.end) != 0)
            break; /* what is not noted is not trimmed: no harm */
    count_trimmable(m, before);
}

void metaslab_forget_freed(struct metaslab *m, uint64_t start, uint64_t end)
{
    struct metaslab_impl *s = m->impl;
    uint64_t before = set_total(s->trim);

    if (rangeset_remove(s->trim, start, end) != 0)
        set_free(&s->trim);
    count_trimmable(m, before);
}

static void take_back(struct metaslab *m)
{
    struct metaslab_impl *s = m->impl;

    if (!s->lent || !s->free)
        return;
    if (rangeset_move(s->free, s->lent) == 0)
        set_free(&s->lent);
    metaslab_weigh(m);
}

static int lend(struct metaslab_impl *s, uint64_t start, uint64_t end, struct rangeset *out)
{
    int rc = rangeset_add(out, start, end);

    if (rc == 0)
        rc = set_add(&s->lent, start, end);
    if (rc == 0 && (rc = rangeset_remove(s->free, start, end)) != 0)
        set_remove(&s->lent, start, end);
    return rc;
}

/* From the ranges of set. */
static int lend_some(struct metaslab_impl *s, const struct rangeset *set, uint64_t from,
                     uint64_t most, struct rangeset *out)
{
    struct range r;
    int rc = 0;

    while (rc == 0 && most > 0 && set && rangeset_next(set, from, &r)) {
        uint64_t start = MAX(r.start, from), end = start + MIN(r.end - start, most);
        rc = lend(s, start, end, out);
        most -= end - start;
        from = end;
    }
    return rc;
}

static int load(struct metaslab *m)
{
    int rc;

    while ((rc = metaslab_load(m)) == -EBUSY)
        metaslab_wait_work(m);
    return rc;
}

static int lend_locked(struct metaslab *m, uint64_t from, uint64_t most, bool freed_only,
                       struct rangeset *out)
{
    struct metaslab_impl *s = m->impl;
    int rc = load(m);

    if (rc)
        return rc;
    take_back(m); /* what was left for want of memory */
    if (freed_only) {
        uint64_t before = set_total(s->trim);
        rc = lend_some(s, s->trim, from, UINT64_MAX, out);
        set_free(&s->trim);
        count_trimmable(m, before);
    } else {
        rc = lend_some(s, s->free, from, most, out);
    }
    if (rc) {
        take_back(m);
        rangeset_clear(out);
    }
    metaslab_weigh(m);
    return rc;
}

static void count_loan(struct alloc *a, bool given)
{
    MUTEX_GUARD(&a->lock);
    if (given) {
        a->loans++;
    } else {
        a->loans--;
        a->returned++;
        pthread_cond_broadcast(&a->back);
    }
}

int alloc_lend(struct metaslab *m, uint64_t from, uint64_t most, bool freed_only, struct rangeset *out)
{
    struct metaslab_impl *s = m->impl;
    struct alloc *a = metaslab_group(m)->alloc;
    int rc;

    group_prepare(metaslab_group(m));
    count_loan(a, true);
    pthread_mutex_lock(&s->lock);
    rc = lend_locked(m, from, most, freed_only, out);
    pthread_mutex_unlock(&s->lock);
    if (rc)
        count_loan(a, false);
    return rc;
}

void alloc_return(struct metaslab *m)
{
    struct metaslab_impl *s = m->impl;

    pthread_mutex_lock(&s->lock);
    take_back(m);
    pthread_mutex_unlock(&s->lock);
    count_loan(metaslab_group(m)->alloc, false);
}

bool alloc_wait_for_loans(struct alloc *a)
{
    MUTEX_GUARD(&a->lock);
    if (a->loans == 0)
        return false;
    uint64_t before = a->returned;
    while (a->returned == before)
        pthread_cond_wait(&a->back, &a->lock);
    return true;
}

uint64_t alloc_room(const struct metaslab *m)
{
    group_prepare(metaslab_group(m));
    return atomic_load(&metaslab_impl(m)->room);
}

uint64_t alloc_freed_bytes(const struct vdev *top)
{
    struct group *g = top->allocator;

    return g ? atomic_load(&g->trimmable) : 0;
}
