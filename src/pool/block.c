/* Freeing blocks and what they count. */
#include "pool/block.h"

#include <errno.h>

#include "pool/alloc.h"
#include "pool/block_impl.h"
#include "pool/pool.h"
#include "util/err.h"

int block_free(struct pool *pool, uint64_t txg, struct block_batch *batch, const struct blkptr *bp)
{
    int rc = 0;

    if (bp_embedded(bp) || bp_hole(bp))
        return 0;
    if (bp_dedup(bp) || pool->features.block_cloning)
        return err_set(ENOTSUP, "freeing deduplicated or cloned blocks is not supported");
    rc = bp_check(bp);
    if (rc)
        return rc;
    if (bp_gang(bp))
        return gang_free(pool, txg, batch, bp, 0);
    if (batch)
        block_batch_remove(pool, batch, bp);
    for (int i = 0; i < bp_copies(bp); i++) {
        int one = alloc_free(pool, txg, dva_vdev(bp, i), dva_offset(bp, i), dva_asize(bp, i));
        rc = rc ? rc : one;
    }
    return rc;
}

uint64_t block_dsize(const struct pool *pool, const struct blkptr *bp)
{
    uint64_t sum = 0;

    for (int i = 0; i < bp_copies(bp); i++) {
        const struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, i));
        unsigned ratio = pool->deflate && top ? top->deflate_ratio : 512;
        sum += (dva_asize(bp, i) >> 9) * ratio;
    }
    return sum;
}
