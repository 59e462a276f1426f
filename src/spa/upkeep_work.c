/*
 * TRIM and initialize: the work. A thread for each top-level vdev that has something to do goes over
 * its metaslabs from the first to the last. It borrows free space (pool/alloc.h), does to the devices what is to be
 * done, and gives it back; those that are at the same place are served together. All that it needs of
 * jobs it copies, for orders may come meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool/txg.h"
#include "spa/upkeep_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"
#include "util/rangeset.h"
#include "util/threads.h"
#include "vdev/change.h"

#define TRIM_MIN      32768u       /* bytes of a range (02 18) */
#define PIECE_TRIM    (128u << 20) /* bytes that are lent at once */
#define PIECE_WRITE   (16u << 20)
#define PIECE_MIN     65536u       /* the same of a slow one */
#define AUTOTRIM_TXGS 32           /* what was freed in so many is gathered (05 17) */
#define ONES_MAX      512          /* devices that are served together */

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- A piece ---- */

/* Some jobs of one top-level vdev that are at the same place. */
struct piece {
    struct vdev *top;
    uint64_t from, most;
    struct vdev_upkeep one[ONES_MAX];
    uint64_t bytes[ONES_MAX];
    int rc[ONES_MAX]; /* the first error */
    size_t n;
    uint64_t end;     /* where they are then */
};

/* What the ranges are too short for is left out. */
static void do_range(struct piece *p, uint64_t start, uint64_t end)
{
    struct vdev_upkeep one[ONES_MAX];
    size_t which[ONES_MAX], n = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (p->rc[i] != 0 || (p->one[i].kind == VDEV_TRIM && end - start < TRIM_MIN))
            continue;
        which[n] = i;
        one[n++] = p->one[i];
    }
    if (n == 0)
        return;
    vdev_upkeep(p->top, start, end - start, one, n);
    for (size_t i = 0; i < n; i++) {
        p->bytes[which[i]] += one[i].bytes;
        if (one[i].rc != -EIO) /* which is counted; the rest of the device may be good */
            p->rc[which[i]] = one[i].rc;
    }
}

static void do_ranges(struct piece *p, const struct rangeset *set)
{
    struct range r;
    for (struct range *it = rangeset_first(set, &r); it; it = rangeset_after(set, &r))
        for (uint64_t at = r.start; at < r.end; at += PIECE_TRIM)
            do_range(p, at, MIN(r.end, at + PIECE_TRIM));
}

static void free_set(struct rangeset **set)
{
    if (*set)
        rangeset_free(*set);
}

static uint64_t last_end(const struct rangeset *set, uint64_t otherwise)
{
    struct range r;
    for (struct range *it = rangeset_first(set, &r); it; it = rangeset_after(set, &r))
        otherwise = r.end;
    return otherwise;
}

/* Of one metaslab. */
static int do_piece(struct piece *p)
{
    struct metaslab *m = alloc_metaslab(p->top, (unsigned)(p->from >> p->top->metaslab_shift));
    CLEANUP(free_set) struct rangeset *set = rangeset_new();
    if (!set)
        return -ENOMEM;
    int rc = alloc_lend(m, p->from, p->most, false, set);
    p->end = (uint64_t)(m->id + 1) << p->top->metaslab_shift;
    if (rc == -EIO)
        return 0; /* nothing of it is written either */
    if (rc != 0)
        return rc;
    do_ranges(p, set);
    if (rangeset_total(set) == p->most)
        p->end = last_end(set, p->end);
    alloc_return(m);
    return 0;
}

/* ---- Choosing ---- */

static uint64_t work_end(const struct vdev *top)
{
    return (uint64_t)alloc_metaslab_count(top) << top->metaslab_shift;
}

static bool works(const struct job *job, const struct vdev *top)
{
    return job->top == top && job->state == SPA_UPKEEP_ACTIVE && !job->away;
}

/* When a job may go on, by its rate. */
static uint64_t due(const struct job *job)
{
    if (job->rate == 0 || job->sent == 0)
        return 0;
    return job->since + (uint64_t)((unsigned __int128)job->sent * 1000000000 / job->rate);
}

/* The one that is furthest behind, of those that may go on; else NULL, and *until says when one may (0:
 * there is none). */
static struct job *choose(struct upkeep *u, const struct vdev *top, uint64_t *until)
{
    struct job *best = NULL;
    uint64_t now = nanoseconds();
    *until = 0;
    for (size_t i = 0; i < u->n; i++) {
        struct job *job = &u->job[i];
        if (!works(job, top))
            continue;
        uint64_t at = due(job);
        if (at > now)
            *until = *until ? MIN(*until, at) : at;
        else if (!best || job->at < best->at)
            best = job;
    }
    return best;
}

static void gather(struct upkeep *u, struct piece *p)
{
    uint64_t now = nanoseconds();
    p->n = 0;
    for (size_t i = 0; i < u->n && p->n < ONES_MAX; i++) {
        struct job *job = &u->job[i];
        if (!works(job, p->top) || job->at != p->from || due(job) > now)
            continue;
        uint64_t most = job->kind == VDEV_TRIM ? PIECE_TRIM : PIECE_WRITE;
        if (job->rate != 0)
            most = MAX(MIN(most, job->rate), PIECE_MIN);
        p->most = MIN(p->most, P2_ROUND_UP(most, 1ull << p->top->ashift));
        p->one[p->n] = (struct vdev_upkeep){.guid = job->guid, .kind = job->kind};
        p->bytes[p->n] = 0;
        p->rc[p->n++] = 0;
    }
}

/* With the lock. What was ordered meanwhile stands. */
static void note(struct upkeep *u, const struct piece *p, size_t i)
{
    struct job *job = upkeep_find(u, p->one[i].guid, p->one[i].kind);
    if (!job || job->state != SPA_UPKEEP_ACTIVE || job->at != p->from)
        return;
    if (p->rc[i] == -ENODEV || p->rc[i] == -ENOMEM) {
        job->away = true;
        return;
    }
    if (job->sent == 0)
        job->since = nanoseconds();
    job->sent += p->bytes[i];
    job->at = p->end;
    job->dirty = true;
    if (p->rc[i] == 0 && p->end < work_end(p->top))
        return;
    job->state = p->rc[i] ? SPA_UPKEEP_CANCELED : SPA_UPKEEP_COMPLETE;
    job->time = u->spa->env.now_ns(&u->spa->env) / 1000000000;
    pthread_cond_broadcast(&u->changed);
}

/* ---- What was freed ---- */

static int gather_leaf(struct vdev *leaf, void *arg)
{
    struct piece *p = arg;
    if (p->n < ONES_MAX && vdev_readable(leaf) && vdev_can_trim(leaf) && vdev_has_ranges(leaf))
        p->one[p->n++] = (struct vdev_upkeep){.guid = leaf->guid, .kind = VDEV_TRIM};
    return 0;
}

static void trim_freed(struct upkeep *u, struct piece *p)
{
    struct vdev *root = u->spa->pool.root;
    memset(p->rc, 0, sizeof p->rc);
    p->n = 0;
    unsigned slot = vdev_tree_enter(root);
    vdev_each_leaf(p->top, gather_leaf, p);
    vdev_tree_leave(root, slot);
    for (unsigned i = 0; i < alloc_metaslab_count(p->top) && alloc_freed_bytes(p->top) > 0; i++) {
        CLEANUP(free_set) struct rangeset *set = rangeset_new();
        struct metaslab *m = alloc_metaslab(p->top, i);
        if (!set || alloc_lend(m, 0, 0, true, set) != 0)
            continue;
        do_ranges(p, set);
        alloc_return(m);
    }
}

/* ---- Threads ---- */

static void wait_until(struct upkeep *u, uint64_t until)
{
    struct timespec t;
    uint64_t now = nanoseconds();
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t at = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec + (until > now ? until - now : 0);
    t = (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
    pthread_cond_timedwait(&u->changed, &u->lock, &t);
}

/* With the lock, which is dropped meanwhile. False: there is nothing to do. */
static bool do_something(struct worker *w, struct piece *p)
{
    struct upkeep *u = w->upkeep;
    uint64_t until;
    struct job *job = choose(u, w->top, &until);
    bool freed = w->freed;
    if (!job && !freed && until == 0)
        return false;
    if (!job && !freed) {
        wait_until(u, until);
        return true;
    }
    p->top = w->top;
    w->freed = false;
    if (job) {
        p->from = MIN(job->at, work_end(w->top) - 1);
        job->at = p->from;
        p->most = UINT64_MAX;
        gather(u, p);
    }
    pthread_mutex_unlock(&u->lock);
    if (freed)
        trim_freed(u, p);
    int rc = job ? do_piece(p) : 0;
    pthread_mutex_lock(&u->lock);
    for (size_t i = 0; i < p->n && job; i++) {
        p->rc[i] = p->rc[i] ? p->rc[i] : rc;
        note(u, p, i);
    }
    return true;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct upkeep *u = w->upkeep;
    CLEANUP_FREE struct piece *p = malloc(sizeof *p);
    pthread_mutex_lock(&u->lock);
    while (p && !u->stop && do_something(w, p))
        ;
    w->at_end = true;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

static struct worker *worker_of(struct upkeep *u, struct vdev *top)
{
    struct worker *w = u->workers;
    while (w && w->top != top)
        w = w->next;
    if (w || !(w = calloc(1, sizeof *w)))
        return w;
    *w = (struct worker){.upkeep = u, .top = top, .next = u->workers};
    return u->workers = w;
}

static void start(struct upkeep *u, struct worker *w)
{
    if (u->stop || !w || (w->runs && !w->at_end))
        return;
    if (w->runs)
        pthread_join(w->thread, NULL); /* it has only to return */
    w->at_end = false;
    w->runs = thread_start(&w->thread, "upkeep", work, w) == 0;
}

static void look_for_freed(struct upkeep *u)
{
    struct vdev *root = u->spa->pool.root;
    uint64_t txg = txg_synced_number(u->spa->pool.txg);
    if (!atomic_load(&u->spa->pool.autotrim) || txg < u->trimmed_txg + AUTOTRIM_TXGS)
        return;
    u->trimmed_txg = txg;
    for (unsigned i = 0; i < vdev_tops(root); i++) {
        struct vdev *top = vdev_top_at(root, i);
        struct worker *w = alloc_freed_bytes(top) > 0 ? worker_of(u, top) : NULL;
        if (w)
            w->freed = true;
        start(u, w);
    }
}

void upkeep_wake(struct upkeep *u)
{
    uint64_t until;
    look_for_freed(u);
    for (size_t i = 0; i < u->n; i++)
        if (choose(u, u->job[i].top, &until) || until > 0)
            start(u, worker_of(u, u->job[i].top));
    pthread_cond_broadcast(&u->changed);
}

void upkeep_pause(struct upkeep *u)
{
    pthread_mutex_lock(&u->lock);
    u->stop = true;
    pthread_cond_broadcast(&u->changed);
    for (struct worker *w = u->workers; w; w = w->next) {
        while (w->runs && !w->at_end)
            pthread_cond_wait(&u->changed, &u->lock);
        if (w->runs)
            pthread_join(w->thread, NULL);
        w->runs = false;
    }
    pthread_mutex_unlock(&u->lock);
}

void upkeep_resume(struct upkeep *u)
{
    MUTEX_GUARD(&u->lock);
    u->stop = false;
    u->trimmed_txg = txg_synced_number(u->spa->pool.txg);
    upkeep_wake(u);
}
