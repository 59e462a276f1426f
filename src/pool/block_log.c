/*
 * Intent log blocks (spec 06 17.2, 17.3). Their checksum stands inside, in a chain structure at the
 * start (zilog2) or at the end (zilog), and is computed with the seed of the chain, which the
 * pointer holds, in its place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "codec/zil_record.h"
#include "pool/alloc.h"
#include "pool/block_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

enum {
    TYPE_LOG = 9,
    CHAIN_SIZE = ZIL_CHAIN_SIZE,
    CHAIN_USED = ZIL_CHAIN_USED,
    CHAIN_MAGIC = ZIL_CHAIN_TRAILER,
    CHAIN_WORDS = CHAIN_MAGIC + 8,
    USED_UNIT = 4096
};

/* Where the chain structure is, and how many bytes the checksum covers; 0 if they make no sense. */
static size_t covered(const struct blkptr *bp, const unsigned char *block, bool big, size_t *chain)
{
    uint64_t size = bp_psize(bp), used;

    if (bp_checksum(bp) == CHECKSUM_ZILOG) {
        *chain = size - CHAIN_SIZE;
        return size;
    }
    *chain = 0;
    used = get_u64(block + CHAIN_USED, big);
    if (used < CHAIN_SIZE || used > size)
        return 0;
    return MIN(P2_ROUND_UP(used, (uint64_t)USED_UNIT), size);
}

/* The checksum of block, whose words are replaced by the seed for that. */
static void compute(const struct blkptr *bp, unsigned char *block, size_t chain, size_t n, bool big,
                    uint64_t words[4])
{
    for (int i = 0; i < 4; i++)
        put_u64(block + chain + CHAIN_WORDS + 8 * i, bp->w[12 + i], big);
    checksum_info(bp_checksum(bp))->compute(block, n, NULL, big, words);
}

int log_verify(const struct blkptr *bp, const void *data)
{
    size_t size = bp_psize(bp), chain, n;
    unsigned char *copy CLEANUP_FREE = NULL;
    const unsigned char *block = data;
    uint64_t words[4];
    bool big;

    if (size < CHAIN_SIZE)
        return -ESTALE;
    chain = bp_checksum(bp) == CHECKSUM_ZILOG ? size - CHAIN_SIZE : 0;
    big = get_be64(block + chain + CHAIN_MAGIC) == CHECKSUM_TRAILER_MAGIC;
    if (!big && get_le64(block + chain + CHAIN_MAGIC) != CHECKSUM_TRAILER_MAGIC)
        return -ESTALE;
    n = covered(bp, block, big, &chain);
    if (n == 0)
        return -ESTALE;
    copy = malloc(n);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, block, n);
    compute(bp, copy, chain, n, big, words);
    if (bp_crypt(bp)) /* the other two words are the authentication code */
        checksum_fold(bp_checksum(bp), words);
    for (int i = 0; i < (bp_crypt(bp) ? 2 : 4); i++)
        if (get_u64(block + chain + CHAIN_WORDS + 8 * i, big) != words[i])
            return -ESTALE;
    return 0;
}

int block_log_alloc(struct pool *pool, uint64_t txg, uint32_t size, const uint64_t seed[4],
                    struct blkptr *bp)
{
    int rc;

    bp_zero(bp);
    rc = alloc_blocks_class(pool, txg, size, 1, true, VDEV_CLASS_LOG, bp);
    if (rc == -ENOSPC)
        rc = alloc_blocks_class(pool, txg, size, 1, true, VDEV_CLASS_NORMAL, bp);
    if (rc)
        return rc;
    bits_set(&bp->w[6], 0, 16, (size >> 9) - 1);
    bits_set(&bp->w[6], 16, 16, (size >> 9) - 1);
    bits_set(&bp->w[6], 32, 7, COMPRESS_OFF);
    bits_set(&bp->w[6], 40, 8, CHECKSUM_ZILOG2);
    bits_set(&bp->w[6], 48, 8, TYPE_LOG);
    bits_set(&bp->w[6], 63, 1, !BYTES_HOST_BIG);
    bp->w[10] = txg;
    memcpy(&bp->w[12], seed, 4 * sizeof seed[0]);
    return 0;
}

struct log_write {
    struct vdev_io io;
    struct block_state *state;
    struct buf *data;
    void (*done)(void *arg, int rc);
    void *arg;
};

static void written(struct vdev_io *io, int rc)
{
    struct log_write *w = io->arg;
    struct block_state *s = w->state;

    w->done(w->arg, rc);
    buf_unref(w->data);
    free(w);
    block_request_end(s);
}

void block_log_write(struct pool *pool, const struct blkptr *bp, const void *block,
                     void (*done)(void *arg, int rc), void *arg)
{
    struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, 0));
    struct log_write *w = calloc(1, sizeof *w);
    struct buf *data =
        block_padded(block, bp_psize(bp), P2_ROUND_UP(bp_psize(bp), 1ull << top->ashift));
    uint64_t words[4];
    size_t chain, n;

    if (!w || !data) {
        free(w);
        buf_unref(data);
        done(arg, -ENOMEM);
        return;
    }
    put_u64(data->data + CHAIN_MAGIC, CHECKSUM_TRAILER_MAGIC, BYTES_HOST_BIG);
    n = covered(bp, data->data, BYTES_HOST_BIG, &chain);
    compute(bp, data->data, chain, n, BYTES_HOST_BIG, words);
    for (int i = 0; i < 4; i++)
        put_u64(data->data + chain + CHAIN_WORDS + 8 * i, words[i], BYTES_HOST_BIG);
    *w = (struct log_write){.state = pool->block, .data = data, .done = done, .arg = arg};
    w->io = (struct vdev_io){.vdev = top,
                             .write = true,
                             .offset = dva_offset(bp, 0),
                             .size = P2_ROUND_UP(bp_psize(bp), 1ull << top->ashift),
                             .data = data->data,
                             .birth = bp_birth(bp),
                             .done = written,
                             .arg = w};
    block_request_begin(pool->block);
    vdev_submit(&w->io);
}
