/*
 * Blocks on their way to the devices: held back or in flight, and waiting for them.
 *
 * block_wait() must wait for all that was submitted before it and not for what is submitted during
 * it. Writes are counted by epoch; a waiter starts the other epoch, whose count is zero because the
 * waiter before saw to that, and waits until its own has drained.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/block_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define UNUSED_MAX 1024

static uint64_t place_hash(const struct blkptr *bp)
{
    return hash_u64(bp->w[0] >> 32 ^ hash_u64(bp->w[1]));
}

/* Same vdev and offset? (A gang leader's size counts its members, its header's does not.) */
static bool same_place(const struct blkptr *a, const struct blkptr *b)
{
    return a->w[0] >> 32 == b->w[0] >> 32 && a->w[1] << 1 == b->w[1] << 1;
}

static struct block_out *map_find(const struct hashmap *map, const struct blkptr *bp)
{
    struct blkptr key = {.w = {bp->w[0], bp->w[1] & ~(1ull << 63)}};

    for (struct hashmap_node *n = hashmap_first(map, place_hash(&key)); n; n = hashmap_next(n)) {
        struct block_out *o = container_of(n, struct block_out, node);
        if (same_place(&o->place, bp))
            return o;
    }
    return NULL;
}

int block_init(struct pool *pool)
{
    struct block_state *s = calloc(1, sizeof *s);
    int rc = s ? hashmap_init(&s->inflight, 256) : -ENOMEM;

    if (rc) {
        free(s);
        return rc;
    }
    s->pool = pool;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->wait_lock, NULL);
    pthread_cond_init(&s->drained, NULL);
    pool->block = s;
    return 0;
}

void block_drain(struct pool *pool)
{
    struct block_state *s = pool->block;

    MUTEX_GUARD(&s->lock);
    s->waiting++;
    while (s->count[0] || s->count[1] || s->requests)
        pthread_cond_wait(&s->drained, &s->lock);
    s->waiting--;
}

void block_fini(struct pool *pool)
{
    struct block_state *s = pool->block;

    if (!s)
        return;
    block_drain(pool);
    while (s->unused) {
        struct block_out *o = s->unused;
        s->unused = o->next;
        free(o);
    }
    while (s->scratch) {
        struct scratch *c = s->scratch;
        s->scratch = c->next;
        free(c->data);
        free(c);
    }
    hashmap_destroy(&s->inflight);
    pthread_cond_destroy(&s->drained);
    pthread_mutex_destroy(&s->wait_lock);
    pthread_mutex_destroy(&s->lock);
    free(s);
    pool->block = NULL;
}

void block_request_begin(struct block_state *s)
{
    MUTEX_GUARD(&s->lock);
    s->requests++;
}

void block_request_end(struct block_state *s)
{
    MUTEX_GUARD(&s->lock);
    if (--s->requests == 0 && s->waiting)
        pthread_cond_broadcast(&s->drained);
}

struct block_out *block_out_new(struct block_state *s, const struct blkptr *place, uint64_t psize,
                                struct buf *data)
{
    struct block_out *o;

    pthread_mutex_lock(&s->lock);
    o = s->unused;
    if (o) {
        s->unused = o->next;
        s->unused_count--;
    }
    pthread_mutex_unlock(&s->lock);
    if (!o && !(o = malloc(sizeof *o))) {
        buf_unref(data);
        return NULL;
    }
    o->prev = o->next = NULL;
    o->state = s;
    o->data = data;
    memcpy(o->place.w, place->w, 2 * BLKPTR_DVAS * sizeof place->w[0]);
    memset(o->place.w + 2 * BLKPTR_DVAS, 0, BLKPTR_SIZE - 2 * BLKPTR_DVAS * sizeof place->w[0]);
    for (int i = 0; i < BLKPTR_DVAS; i++)
        o->place.w[2 * i + 1] &= ~(1ull << 63);
    o->place.w[10] = place->w[10];
    o->psize = psize;
    return o;
}

/* With the lock held. */
static void recycle(struct block_state *s, struct block_out *o)
{
    if (s->unused_count >= UNUSED_MAX) {
        free(o);
        return;
    }
    o->next = s->unused;
    s->unused = o;
    s->unused_count++;
}

void block_out_drop(struct block_out *o)
{
    struct block_state *s = o->state;

    buf_unref(o->data);
    pthread_mutex_lock(&s->lock);
    recycle(s, o);
    pthread_mutex_unlock(&s->lock);
}

/* With the lock held: waits until something has finished. */
static void wait_drained(struct block_state *s)
{
    s->waiting++;
    pthread_cond_wait(&s->drained, &s->lock);
    s->waiting--;
}

static void copy_done(struct vdev_io *io, int rc)
{
    struct block_out *o = io->arg;
    struct block_state *s = o->state;
    struct buf *data = NULL;

    pthread_mutex_lock(&s->lock);
    if (rc && s->rc == 0)
        s->rc = rc;
    if (--o->pending == 0) {
        data = o->data;
        hashmap_remove(&s->inflight, &o->node);
        s->bytes -= o->psize;
        s->count[o->epoch]--;
        recycle(s, o);
        if (s->waiting)
            pthread_cond_broadcast(&s->drained);
    }
    pthread_mutex_unlock(&s->lock);
    buf_unref(data);
}

static void prepare_copies(struct block_out *o)
{
    struct pool *pool = o->state->pool;

    o->pending = 0;
    for (int i = 0; i < BLKPTR_DVAS && dva_asize(&o->place, i); i++) {
        struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(&o->place, i));
        struct vdev_io *io = &o->io[i];
        io->vdev = top;
        io->write = true;
        io->repair = false;
        io->offset = dva_offset(&o->place, i);
        io->size = P2_ROUND_UP(o->psize, 1ull << top->ashift);
        io->data = o->data->data;
        io->birth = o->place.w[10];
        io->done = copy_done;
        io->arg = o;
        o->pending++;
    }
}

/* With the lock held: from now on it is in flight. */
static void enter(struct block_state *s, struct block_out *o)
{
    hashmap_insert(&s->inflight, &o->node, place_hash(&o->place));
    o->epoch = s->epoch;
    s->count[s->epoch]++;
    s->bytes += o->psize;
}

static void submit_copies(struct block_out *o)
{
    unsigned copies = o->pending; /* o may be gone before the last submit returns */

    for (unsigned i = 0; i < copies; i++)
        vdev_submit(&o->io[i]);
}

static void send_now(struct block_out *o, bool overwrite)
{
    struct block_state *s = o->state;

    prepare_copies(o);
    pthread_mutex_lock(&s->lock);
    while (s->bytes > BLOCK_INFLIGHT_MAX || (overwrite && map_find(&s->inflight, &o->place)))
        wait_drained(s);
    enter(s, o);
    pthread_mutex_unlock(&s->lock);
    submit_copies(o);
}

static void batch_link(struct block_batch *b, struct block_out *o)
{
    hashmap_insert(&b->map, &o->node, place_hash(&o->place));
    o->prev = NULL;
    o->next = b->head;
    if (b->head)
        b->head->prev = o;
    b->head = o;
    b->count++;
}

static void batch_unlink(struct block_batch *b, struct block_out *o)
{
    hashmap_remove(&b->map, &o->node);
    *(o->prev ? &o->prev->next : &b->head) = o->next;
    if (o->next)
        o->next->prev = o->prev;
    b->count--;
}

/* Moves one from the batch to the devices; at every moment a reader finds it. */
void block_out_release(struct block_batch *b, struct block_out *o)
{
    struct block_state *s = o->state;

    prepare_copies(o);
    pthread_mutex_lock(&s->lock);
    while (s->bytes > BLOCK_INFLIGHT_MAX || map_find(&s->inflight, &o->place))
        wait_drained(s);
    batch_unlink(b, o);
    enter(s, o);
    pthread_mutex_unlock(&s->lock);
    submit_copies(o);
}

void block_out_discard(struct block_batch *b, struct block_out *o)
{
    struct block_state *s = o->state;

    pthread_mutex_lock(&s->lock);
    batch_unlink(b, o);
    pthread_mutex_unlock(&s->lock);
    block_out_drop(o);
}

void block_out_send(struct block_out *o, struct block_batch *batch, bool overwrite)
{
    struct block_state *s = o->state;
    struct block_out *old;

    if (!batch) {
        send_now(o, overwrite);
        return;
    }
    pthread_mutex_lock(&s->lock);
    old = overwrite ? map_find(&batch->map, &o->place) : NULL;
    if (old)
        batch_unlink(batch, old);
    batch_link(batch, o);
    pthread_mutex_unlock(&s->lock);
    if (old)
        block_out_drop(old);
}

struct buf *block_out_find(struct pool *pool, const struct blkptr *bp)
{
    struct block_state *s = pool->block;
    struct block_out *o = NULL;

    MUTEX_GUARD(&s->lock);
    if (pool->batch)
        o = map_find(&pool->batch->map, bp);
    if (!o && s->inflight.count)
        o = map_find(&s->inflight, bp);
    return o ? buf_ref(o->data) : NULL;
}

bool block_batch_remove(struct pool *pool, struct block_batch *batch, const struct blkptr *bp)
{
    struct block_state *s = pool->block;
    struct block_out *o;

    pthread_mutex_lock(&s->lock);
    o = map_find(&batch->map, bp);
    if (o)
        batch_unlink(batch, o);
    pthread_mutex_unlock(&s->lock);
    if (o)
        block_out_drop(o);
    return o != NULL;
}

int block_wait(struct pool *pool)
{
    struct block_state *s = pool->block;
    unsigned mine;

    MUTEX_GUARD(&s->wait_lock);
    MUTEX_GUARD(&s->lock);
    mine = s->epoch;
    s->epoch ^= 1;
    while (s->count[mine])
        wait_drained(s);
    return s->rc ? err_set(-s->rc, "writing to pool '%s' failed: %s", pool->name, strerror(-s->rc))
                 : 0;
}

void block_force_gangs(struct pool *pool, uint64_t above)
{
    ((struct block_state *)pool->block)->gang_above = above;
}
