/*
 * The gate in front of a vdev tree: requests and walkers are inside, and whoever changes the tree
 * shuts it, waits until everybody is out, and opens it again.
 *
 * Being inside is counted per processor, so that requests on different cores share nothing but a
 * flag that hardly ever changes. Both sides write before they read, in one order for all threads
 * (as in pool/txg.c): either who enters sees the flag and takes the count back, or who shuts the
 * gate sees the count.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/threads.h"
#include "vdev/change.h"
#include "vdev/gate_impl.h"
#include "vdev/leaf_impl.h"
#include "vdev/vdev_impl.h"

#define SLOTS_MAX 64

struct gate_count {
    _Alignas(64) _Atomic unsigned inside;
};

struct vdev_gate {
    _Atomic bool shut;
    unsigned slots;
    struct gate_count *counts;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t out;   /* somebody has left a shut gate */
    pthread_cond_t open;
    struct vdev_io *waiting, **tail; /* requests, oldest first */
    void **retired;
    size_t retirements, room;
};

struct vdev_gate *gate_new(void)
{
    struct vdev_gate *g CLEANUP_FREE = calloc(1, sizeof *g);
    void *counts = NULL;

    if (!g)
        return NULL;
    g->slots = MIN(thread_cpu_count(), (unsigned)SLOTS_MAX);
    if (posix_memalign(&counts, _Alignof(struct gate_count), g->slots * sizeof *g->counts) != 0)
        return NULL;
    memset(counts, 0, g->slots * sizeof *g->counts);
    g->counts = counts;
    g->tail = &g->waiting;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->out, NULL);
    pthread_cond_init(&g->open, NULL);
    return STEAL(g);
}

void gate_free(struct vdev_gate *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->retirements; i++)
        free(g->retired[i]);
    free(g->retired);
    free(g->counts);
    pthread_cond_destroy(&g->open);
    pthread_cond_destroy(&g->out);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

int gate_retire_room(struct vdev_gate *g)
{
    void **more;

    if (!g || g->retirements < g->room)
        return 0;
    more = realloc(g->retired, (g->room + 8) * sizeof *more);
    if (!more)
        return -ENOMEM;
    g->retired = more;
    g->room += 8;
    return 0;
}

void gate_retire(struct vdev_gate *g, void *memory)
{
    if (!g)
        free(memory);
    else
        g->retired[g->retirements++] = memory;
}

static bool try_enter(struct vdev_gate *g, unsigned *slot)
{
    int cpu = sched_getcpu();

    *slot = (unsigned)(cpu < 0 ? 0 : cpu) % g->slots;
    atomic_fetch_add(&g->counts[*slot].inside, 1);
    if (!atomic_load(&g->shut))
        return true;
    gate_leave(g, *slot);
    return false;
}

unsigned gate_enter(struct vdev_gate *g)
{
    unsigned slot = 0;

    while (g && !try_enter(g, &slot)) {
        MUTEX_GUARD(&g->lock);
        while (atomic_load(&g->shut))
            pthread_cond_wait(&g->open, &g->lock);
    }
    return slot;
}

void gate_leave(struct vdev_gate *g, unsigned slot)
{
    if (!g)
        return;
    atomic_fetch_sub(&g->counts[slot].inside, 1);
    if (!atomic_load(&g->shut))
        return;
    MUTEX_GUARD(&g->lock);
    pthread_cond_signal(&g->out);
}

bool gate_admit(struct vdev_gate *g, struct vdev_io *io, unsigned *slot)
{
    while (!try_enter(g, slot)) {
        MUTEX_GUARD(&g->lock);
        if (!atomic_load(&g->shut))
            continue;
        io->next = NULL;
        *g->tail = io;
        g->tail = &io->next;
        return false;
    }
    return true;
}

static unsigned inside(const struct vdev_gate *g)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < g->slots; i++)
        sum += atomic_load(&g->counts[i].inside);
    return sum;
}

static int drain_leaf(struct vdev *leaf, void *arg)
{
    leaf_queue_drain(leaf);
    return 0;
}

unsigned vdev_tree_enter(struct vdev *root)
{
    return gate_enter(root->gate);
}

void vdev_tree_leave(struct vdev *root, unsigned slot)
{
    gate_leave(root->gate, slot);
}

void vdev_tree_lock(struct vdev *root)
{
    struct vdev_gate *g = root->gate;

    pthread_mutex_lock(&g->lock);
    atomic_store(&g->shut, true);
    while (inside(g) != 0)
        pthread_cond_wait(&g->out, &g->lock);
    pthread_mutex_unlock(&g->lock);
    /* A request is told to be done before its leaf's queue is done with it. */
    vdev_each_leaf(root, drain_leaf, NULL);
}

void vdev_tree_unlock(struct vdev *root)
{
    struct vdev_gate *g = root->gate;
    struct vdev_io *io, *next;

    pthread_mutex_lock(&g->lock);
    io = g->waiting;
    g->waiting = NULL;
    g->tail = &g->waiting;
    atomic_store(&g->shut, false);
    pthread_cond_broadcast(&g->open);
    pthread_mutex_unlock(&g->lock);
    for (; io; io = next) {
        next = io->next;
        vdev_submit(io);
    }
}
