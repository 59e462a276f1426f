/*
 * Reading small files ahead. None of them is long enough for prefetch.c, but cp -r, tar and compilers
 * read one after the other, and what was created together has numbers next to each other. So
 * when several files of a neighbourhood had to be read from disk, a thread reads the beginnings of
 * the others, a group of objects at a time, and stays a group ahead of the reader.
 */
#include <stdlib.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"
#include "util/threads.h"

#define GROUP       DNODES_PER_BLOCK /* objects, whose dnodes come in one read */
#define NEAR        (2 * GROUP)      /* objects between neighbours, at most */
#define ENOUGH      3                /* neighbours among the recent ones that were read from disk */
#define GROUP_BYTES (4ull << 20)     /* of a group, at most, */
#define GROUP_SHARE 32               /* ... and of the cache's limit one part in so many */
#define WAITING_MAX 8                /* groups; what is more is left to its reader */

struct request {
    struct objset *os; /* its async counts the request */
    uint64_t group;
};

struct neighbour_reader {
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work;
    struct request waiting[WAITING_MAX]; /* oldest first */
    unsigned count;
    bool stop;
};

/* Reads the first block of a file, unless it is in memory. Returns the bytes it takes there. */
static uint64_t read_beginning(struct objset *os, uint64_t object)
{
    struct dnode *dn;
    struct buf *b = NULL;
    uint64_t bytes = 0;

    if (dnode_hold(os, object, &dn) != 0)
        return 0;
    if (dnode_type(dn) == OT_PLAIN_FILE && dnode_block_absent(dn, 0) &&
        dnode_contents(dn, 0, &b) == 0 && b)
        bytes = b->size;
    buf_unref(b);
    dnode_rele(dn);
    return bytes;
}

static void read_group(const struct request *r)
{
    uint64_t first = MAX(r->group * GROUP, 1ull), left;

    left = MIN(GROUP_BYTES, cache_limit(r->os->cache) / GROUP_SHARE);
    for (uint64_t object = first; object < (r->group + 1) * GROUP && left > 0; object++)
        left -= MIN(left, read_beginning(r->os, object));
}

static void *reader_main(void *arg)
{
    struct neighbour_reader *n = arg;

    pthread_mutex_lock(&n->lock);
    while (!n->stop) {
        if (n->count == 0) {
            pthread_cond_wait(&n->work, &n->lock);
            continue;
        }
        struct request r = n->waiting[0];
        n->count--;
        memmove(n->waiting, n->waiting + 1, n->count * sizeof r);
        pthread_mutex_unlock(&n->lock);
        read_group(&r);
        objset_async_end(r.os);
        pthread_mutex_lock(&n->lock);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

static void reader_destroy(struct neighbour_reader *n)
{
    pthread_mutex_destroy(&n->lock);
    pthread_cond_destroy(&n->work);
    free(n);
}

/* The cache's reader, which begins with the first request. NULL: no memory, no thread. */
static struct neighbour_reader *reader_get(struct cache *c)
{
    struct neighbour_reader *n = atomic_load(&c->neighbours), *none = NULL;

    if (n || !(n = calloc(1, sizeof *n)))
        return n;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->work, NULL);
    pthread_mutex_lock(&n->lock); /* it does nothing before it is known to be the one */
    if (thread_start(&n->thread, "tarn-ahead", reader_main, n) != 0) {
        pthread_mutex_unlock(&n->lock);
        reader_destroy(n);
        return NULL;
    }
    bool first = atomic_compare_exchange_strong(&c->neighbours, &none, n);
    n->stop = !first;
    pthread_mutex_unlock(&n->lock);
    if (first)
        return n;
    pthread_join(n->thread, NULL);
    reader_destroy(n);
    return none;
}

void neighbours_stop(struct cache *c)
{
    struct neighbour_reader *n = atomic_load(&c->neighbours);

    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    n->stop = true;
    pthread_cond_signal(&n->work);
    pthread_mutex_unlock(&n->lock);
    pthread_join(n->thread, NULL);
    reader_destroy(n);
}

static void ask(struct objset *os, uint64_t group)
{
    struct neighbour_reader *n = reader_get(os->cache);

    if (!n)
        return;
    objset_async_begin(os);
    {
        MUTEX_GUARD(&n->lock);
        if (n->count < WAITING_MAX) {
            n->waiting[n->count++] = (struct request){os, group};
            pthread_cond_signal(&n->work);
            return;
        }
    }
    objset_async_end(os);
}

/* With the lock: notes that a file had to be read from disk. Have enough of its neighbours, too? */
static bool in_company(struct neighbours *n, uint64_t object)
{
    unsigned near = 0;

    for (unsigned i = 0; i < NEIGHBOURS_RECENT; i++) {
        uint64_t other = n->missed[i];
        near += other != 0 && other != object && other < object + NEAR && object < other + NEAR;
    }
    n->missed[n->next++ % NEIGHBOURS_RECENT] = object;
    return near >= ENOUGH;
}

void neighbours_read(struct dnode *dn)
{
    struct neighbours *n = &dn->os->neighbours;
    uint64_t group = dn->object / GROUP, from, to;
    bool next = group + 1 == atomic_load_explicit(&n->end, memory_order_relaxed);

    if (dnode_type(dn) != OT_PLAIN_FILE || (!next && !dnode_block_absent(dn, 0)))
        return;
    {
        MUTEX_GUARD(&n->lock);
        from = to = atomic_load(&n->end);
        if (group + 1 == to) { /* the last one that was asked for has been reached */
            to++;
        } else if ((group < n->start || group >= to) && in_company(n, dn->object)) {
            n->start = from = group;
            to = group + 2;
        }
        atomic_store(&n->end, to);
    }
    while (from < to)
        ask(dn->os, from++);
}
