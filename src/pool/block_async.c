/* Reading without waiting: one request for the first copy, the rest in a worker. */
#include <errno.h>
#include <stdlib.h>

#include "pool/block_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/workers.h"

struct async {
    struct pool *pool;
    struct blkptr bp;
    struct bookmark bm;
    bool has_bm;
    const struct crypt_key *key;
    void (*fn)(void *arg, struct buf *data, int rc);
    void *arg;
    struct vdev_io io;
    struct buf *stored; /* what io has read, NULL if nothing was read yet */
};

static void async_end(struct async *a, struct buf *data, int rc)
{
    struct block_state *s = a->pool->block;

    a->fn(a->arg, data, rc);
    free(a);
    block_request_end(s);
}

/* In a worker: verifies and expands what was read, or reads in the ordinary way. */
static void async_finish(void *arg)
{
    struct async *a = arg;
    struct buf *data = NULL, *stored = STEAL(a->stored);
    int rc;

    rc = stored ? block_verify(a->pool, &a->bp, stored->data) : -EIO;
    if (rc == 0) {
        stored->size = bp_psize(&a->bp);
        rc = read_open(&a->bp, a->key, stored, &data);
    } else {
        buf_unref(stored);
    }
    if (rc)
        rc = block_read_key(a->pool, &a->bp, a->has_bm ? &a->bm : NULL, a->key, &data);
    async_end(a, data, rc);
}

static void to_worker(struct async *a)
{
    if (workers_submit(a->pool->workers, async_finish, a) != 0) {
        buf_unref(STEAL(a->stored));
        async_end(a, NULL, -ENOMEM);
    }
}

static void async_read_done(struct vdev_io *io, int rc)
{
    struct async *a = io->arg;

    if (rc)
        buf_unref(STEAL(a->stored)); /* the worker will try all copies */
    to_worker(a);
}

/* Can its first copy be read by a single request? */
static bool simple(struct pool *pool, const struct blkptr *bp, const struct crypt_key *key)
{
    struct buf *held;

    if (bp_check(bp) != 0 || bp_embedded(bp) || bp_hole(bp) || bp_gang(bp) ||
        block_key_check(bp, key) != 0 || place_check(pool, bp, 0, bp_psize(bp)) != 0)
        return false;
    held = block_out_find(pool, bp);
    buf_unref(held);
    return !held;
}

void block_read_async(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                      const struct crypt_key *key,
                      void (*fn)(void *arg, struct buf *data, int rc), void *arg)
{
    struct block_state *s = pool->block;
    struct async *a = calloc(1, sizeof *a);

    if (!a) {
        fn(arg, NULL, -ENOMEM);
        return;
    }
    *a = (struct async){.pool = pool, .bp = *bp, .has_bm = bm != NULL, .key = key, .fn = fn,
                        .arg = arg};
    if (bm)
        a->bm = *bm;
    block_request_begin(s);
    if (simple(pool, bp, key))
        a->stored = buf_new(block_room(pool, bp));
    if (!a->stored) {
        to_worker(a);
        return;
    }
    a->io = (struct vdev_io){.vdev = vdev_lookup_top(pool->root, dva_vdev(bp, 0)),
                             .offset = dva_offset(bp, 0),
                             .data = a->stored->data,
                             .birth = bp_phys_birth(bp),
                             .done = async_read_done,
                             .arg = a};
    a->io.size = P2_ROUND_UP(bp_psize(bp), 1ull << a->io.vdev->ashift);
    vdev_submit(&a->io);
}
