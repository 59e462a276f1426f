/* The held-back batch: the MOS is written several times in a txg, and only the last version goes
 * out. */
#include <errno.h>
#include <stdlib.h>

#include "pool/block_impl.h"
#include "pool/pool.h"
#include "util/cleanup.h"

void block_set_batch(struct pool *pool, struct block_batch *batch)
{
    struct block_state *s = pool->block;

    MUTEX_GUARD(&s->lock);
    pool->batch = batch;
}

int block_batch_new(struct block_batch **out)
{
    struct block_batch *b = calloc(1, sizeof *b);
    int rc = b ? hashmap_init(&b->map, 256) : -ENOMEM;

    if (rc)
        free(b);
    else
        *out = b;
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct block_out *x = *(struct block_out *const *)a, *y = *(struct block_out *const *)b;

    if (dva_vdev(&x->place, 0) != dva_vdev(&y->place, 0))
        return dva_vdev(&x->place, 0) < dva_vdev(&y->place, 0) ? -1 : 1;
    return x->place.w[1] < y->place.w[1] ? -1 : x->place.w[1] > y->place.w[1];
}

int block_batch_submit(struct pool *pool, struct block_batch *batch)
{
    struct block_out **order CLEANUP_FREE = malloc(batch->count * sizeof *order);
    size_t n = 0;

    if (!order) {
        while (batch->head)
            block_out_release(batch, batch->head);
        return 0;
    }
    for (struct block_out *o = batch->head; o; o = o->next)
        order[n++] = o;
    qsort(order, n, sizeof *order, by_place);
    for (size_t i = 0; i < n; i++)
        block_out_release(batch, order[i]);
    return 0;
}

void block_batch_free(struct block_batch *batch)
{
    if (!batch)
        return;
    while (batch->head)
        block_out_discard(batch, batch->head);
    hashmap_destroy(&batch->map);
    free(batch);
}
