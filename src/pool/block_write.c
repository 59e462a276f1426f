/* Writing a block: from bytes to a pointer (spec 02 6.2, 8; 03 8). */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "codec/compress.h"
#include "pool/alloc.h"
#include "pool/block_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"

enum { TYPE_DNODE = 10, TYPE_OBJSET = 11 };

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

struct block_units block_units(const struct pool *pool)
{
    struct block_units u = {.sector = BLOCK_MIN_SIZE, .largest = BLOCK_MIN_SIZE};

    for (unsigned i = 0; i < vdev_tops(pool->root); i++) {
        const struct vdev *top = vdev_top_at(pool->root, i);
        uint64_t n;
        if (!top->allocator)
            continue;
        n = vdev_min_alloc(top);
        u.sector = MAX(u.sector, 1ull << top->ashift);
        u.largest = MAX(u.largest, n);
        if (top->class != VDEV_CLASS_NORMAL)
            continue;
        u.smallest = u.smallest ? MIN(u.smallest, n) : n;
        u.common = n == u.common ? n : gcd(n, u.common);
    }
    if (u.smallest == 0)
        u.smallest = u.common = BLOCK_MIN_SIZE;
    return u;
}

struct buf *block_padded(const void *data, size_t n, size_t room)
{
    struct buf *b = buf_new(MAX(n, room));

    if (b) {
        memcpy(b->data, data, n);
        memset(b->data + n, 0, b->size - n);
        b->size = n;
    }
    return b;
}

/* What is to be stored. */
struct image {
    struct pool *pool;
    const struct block_policy *policy;
    struct block_units units;
    struct buf *source;
    unsigned compress; /* of the result */
    uint64_t psize;
    size_t length; /* compressed bytes in scratch, before padding; 0 = not compressed */
    struct scratch *scratch;
    uint64_t slot; /* psize of a block of this txg that may be overwritten, or 0 */
};

/* The most bytes a compressor may use (02 6.2 step 4), 0 if it need not try. */
static size_t compress_limit(const struct image *m)
{
    uint64_t size = m->source->size, limit = size - size / 8;

    if (m->pool->no_compress)
        return m->slot < size ? m->slot : 0;
    if (m->policy->compress != COMPRESS_ZLE) {
        limit -= limit % m->units.common;
        if (limit < m->units.smallest)
            limit = m->policy->embed ? BLKPTR_EMBEDDED_MAX : 0;
    }
    return limit;
}

static int try_compress(struct image *m)
{
    size_t limit = compress_limit(m), n = 0;
    uint64_t rounded;
    int rc;

    if (limit == 0)
        return 0;
    m->scratch = scratch_get(m->pool->block, limit);
    if (!m->scratch)
        return -ENOMEM;
    rc = compress_encode(m->policy->compress, m->policy->compress_level, m->source->data,
                         m->source->size, m->scratch->data, limit, &n);
    if (rc == -ENOSPC)
        return 0;
    if (rc)
        return rc;
    rounded = n <= m->units.smallest ? m->units.smallest : ROUND_UP(n, m->units.common);
    m->length = n;
    if (rounded < m->source->size) {
        m->psize = rounded;
        m->compress = m->policy->compress;
    }
    return 0;
}

static bool may_embed(const struct image *m)
{
    const struct block_policy *p = m->policy;

    return p->embed && m->pool->features.embedded_data && p->level == 0 && p->type != TYPE_DNODE &&
           p->type != TYPE_OBJSET && m->length > 0 && m->length <= BLKPTR_EMBEDDED_MAX;
}

static void make_hole(const struct image *m, uint64_t txg, const struct blkptr *old,
                      struct blkptr *bp)
{
    bool birth = m->pool->features.hole_birth && old && bp_birth(old) != 0;

    bp_set_hole(bp, m->policy->type, m->policy->level, m->source->size, birth ? txg : 0);
}

static void make_embedded(const struct image *m, uint64_t txg, struct blkptr *bp)
{
    static const unsigned char payload[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15};
    unsigned char bytes[BLKPTR_EMBEDDED_MAX] = {0};

    memcpy(bytes, m->scratch->data, m->length);
    bp_zero(bp);
    for (size_t i = 0; i < ARRAY_LEN(payload); i++)
        bp->w[payload[i]] = get_u64(bytes + 8 * i, BYTES_HOST_BIG);
    bits_set(&bp->w[6], 0, 25, m->source->size - 1);
    bits_set(&bp->w[6], 25, 7, m->length - 1);
    bits_set(&bp->w[6], 32, 7, m->policy->compress);
    bits_set(&bp->w[6], 39, 1, 1);
    bits_set(&bp->w[6], 48, 8, m->policy->type);
    bits_set(&bp->w[6], 56, 5, m->policy->level);
    bits_set(&bp->w[6], 63, 1, !BYTES_HOST_BIG);
    bp->w[10] = txg;
}

/* All but DVAs and checksum. */
static void describe(const struct image *m, uint64_t txg, struct blkptr *bp)
{
    bp_zero(bp);
    bits_set(&bp->w[6], 0, 16, (m->source->size >> 9) - 1);
    bits_set(&bp->w[6], 16, 16, (m->psize >> 9) - 1);
    bits_set(&bp->w[6], 32, 7, m->compress);
    bits_set(&bp->w[6], 40, 8, m->policy->checksum);
    bits_set(&bp->w[6], 48, 8, m->policy->type);
    bits_set(&bp->w[6], 56, 5, m->policy->level);
    bits_set(&bp->w[6], 63, 1, !BYTES_HOST_BIG);
    bp->w[10] = txg;
    bp->w[11] = m->policy->fill;
}

/* The physical size of old if new data may be written over it, else 0. */
static uint64_t reusable(const struct blkptr *old, uint64_t txg)
{
    if (!old || bp_embedded(old) || bp_hole(old) || bp_gang(old) || bp_dedup(old))
        return 0;
    return bp_birth(old) == txg && bp_phys_birth(old) == txg ? bp_psize(old) : 0;
}

/* Makes the image fit the old block if it can: compressed data is padded, its decompressor knows
 * where it ends; otherwise the size must be the same. */
static bool fit_slot(struct image *m)
{
    uint64_t lsize = m->source->size;

    if (m->slot == 0)
        return false;
    if (m->compress != COMPRESS_OFF && m->psize <= m->slot && m->slot < lsize) {
        m->psize = m->slot;
        return true;
    }
    if (m->slot == lsize) {
        m->psize = lsize;
        m->compress = COMPRESS_OFF;
        return true;
    }
    return false;
}

/* The bytes to be stored: psize of them, and zeros up to the largest sector. */
static struct buf *stored_bytes(const struct image *m)
{
    size_t room = P2_ROUND_UP(m->psize, m->units.sector);

    if (m->compress != COMPRESS_OFF) {
        struct buf *b = block_padded(m->scratch->data, m->length, room);
        if (b)
            b->size = m->psize;
        return b;
    }
    if (room == m->psize)
        return buf_ref(m->source);
    return block_padded(m->source->data, m->psize, room);
}

static int store_new(struct image *m, uint64_t txg, struct block_batch *batch, struct buf *data,
                     struct blkptr *bp)
{
    struct block_state *s = m->pool->block;
    struct block_out *o;
    int rc = s->gang_above && m->psize > s->gang_above
                 ? -ENOSPC
                 : alloc_blocks(m->pool, txg, m->psize, m->policy->copies, m->policy->metadata, bp);

    if (rc == -ENOSPC)
        return gang_write(m->pool, txg, batch, m->policy->copies, m->policy->metadata, data, bp);
    if (rc) {
        buf_unref(data);
        return rc;
    }
    o = block_out_new(s, bp, m->psize, data);
    if (!o) {
        alloc_undo(m->pool, txg, bp);
        return -ENOMEM;
    }
    block_out_send(o, batch, false);
    return 0;
}

static int store(struct image *m, uint64_t txg, struct block_batch *batch, const struct blkptr *old,
                 struct blkptr *bp)
{
    struct blkptr next;
    struct block_out *o;
    struct buf *data;
    bool overwrite = fit_slot(m);
    int rc;

    if (m->compress == COMPRESS_OFF)
        m->psize = m->source->size;
    data = stored_bytes(m);
    if (!data)
        return -ENOMEM;
    describe(m, txg, &next);
    rc = block_seal(m->pool, &next, data->data);
    if (rc) {
        buf_unref(data);
        return rc;
    }
    if (overwrite) {
        memcpy(next.w, old->w, 2 * BLKPTR_DVAS * sizeof next.w[0]);
        o = block_out_new(m->pool->block, &next, m->psize, data);
        if (!o)
            return -ENOMEM;
        block_out_send(o, batch, true);
    } else {
        rc = store_new(m, txg, batch, data, &next);
    }
    if (rc == 0)
        *bp = next;
    return rc;
}

int block_write(struct pool *pool, uint64_t txg, struct block_batch *batch,
                const struct block_policy *policy, struct buf *data, const struct blkptr *old,
                struct blkptr *bp)
{
    struct image m = {.pool = pool,
                      .policy = policy,
                      .units = block_units(pool),
                      .source = data,
                      .compress = COMPRESS_OFF,
                      .psize = data->size,
                      .slot = reusable(old, txg)};
    int rc = 0;

    assert(data->size > 0 && data->size % BLOCK_MIN_SIZE == 0 && data->size <= BLOCK_MAX_SIZE);
    if (policy->zero_to_hole && buf_is_zero(data->data, data->size)) {
        make_hole(&m, txg, old, bp);
        return 0;
    }
    if (policy->compress != COMPRESS_OFF && policy->compress != COMPRESS_EMPTY)
        rc = try_compress(&m);
    if (rc == 0 && may_embed(&m))
        make_embedded(&m, txg, bp);
    else if (rc == 0)
        rc = store(&m, txg, batch, old, bp);
    if (m.scratch)
        scratch_put(pool->block, m.scratch);
    return rc;
}
