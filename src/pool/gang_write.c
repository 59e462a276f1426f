/*
 * Gang blocks (spec 02 9): when there is no room for a block in one piece, its pointer names a
 * header with pointers to up to three pieces, each of which may be a gang itself.
 *
 * Writing allocates the whole tree first and keeps what is to be written in a list; only when
 * everything has a place is the list sent. So there is nothing to call back if space runs out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "pool/alloc.h"
#include "pool/gang_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"

struct plan {
    struct pool *pool;
    uint64_t txg, unit;
    int copies;
    bool metadata;
    size_t sector;
    struct block_out *list;
};

static int plan_add(struct plan *p, const struct blkptr *place, uint64_t psize, struct buf *data)
{
    struct block_out *o = block_out_new(p->pool->block, place, psize, data);

    if (!o) {
        alloc_undo(p->pool, p->txg, place);
        return -ENOMEM;
    }
    o->next = p->list;
    p->list = o;
    return 0;
}

static int plan_data(struct plan *p, const struct blkptr *bp, const unsigned char *data, size_t n)
{
    struct buf *b = block_padded(data, n, P2_ROUND_UP(n, p->sector));

    if (!b) {
        alloc_undo(p->pool, p->txg, bp);
        return -ENOMEM;
    }
    return plan_add(p, bp, n, b);
}

static int plan_gang(struct plan *p, const unsigned char *data, size_t n, struct blkptr *bp,
                     unsigned depth);

/* One piece: in one place or, if it must be, a gang again. */
static int plan_piece(struct plan *p, const struct blkptr *leader, const unsigned char *data,
                      size_t n, struct blkptr *bp, unsigned depth)
{
    int rc;

    bp_zero(bp);
    bits_set(&bp->w[6], 0, 16, (n >> 9) - 1);
    bits_set(&bp->w[6], 16, 16, (n >> 9) - 1);
    bits_set(&bp->w[6], 32, 7, COMPRESS_OFF);
    bits_set(&bp->w[6], 40, 8, bp_checksum(leader));
    bits_set(&bp->w[6], 63, 1, !BYTES_HOST_BIG);
    bp->w[10] = p->txg;
    rc = block_seal(p->pool, bp, data);
    rc = rc ? rc : alloc_blocks(p->pool, p->txg, n, p->copies, p->metadata, bp);
    if (rc == -ENOSPC && n > p->unit && depth < GANG_DEPTH_MAX)
        return plan_gang(p, data, n, bp, depth + 1);
    return rc ? rc : plan_data(p, bp, data, n);
}

/* The pieces and the header that names them. Each DVA of bp grows by what the pieces take in it. */
static int plan_pieces(struct plan *p, const unsigned char *data, size_t n, struct blkptr *bp,
                       unsigned depth, struct buf *header)
{
    size_t at = 0;
    int rc = 0;

    for (unsigned i = 0; at < n && rc == 0; i++) {
        unsigned left = gang_slots(GANG_HEADER_SIZE) - i;
        size_t piece = MIN(n - at, ROUND_UP((n - at + left - 1) / left, p->unit));
        struct blkptr member;
        rc = plan_piece(p, bp, data + at, piece, &member, depth);
        if (rc)
            return rc;
        bp_encode(&member, header->data + BLKPTR_SIZE * i);
        for (int d = 0; d < BLKPTR_DVAS && dva_asize(bp, d); d++)
            dva_set(bp, d, dva_vdev(bp, d), dva_offset(bp, d),
                    dva_asize(bp, d) + dva_asize(&member, d), true);
        at += piece;
    }
    return rc;
}

static int plan_gang(struct plan *p, const unsigned char *data, size_t n, struct blkptr *bp,
                     unsigned depth)
{
    struct buf *header CLEANUP(gang_buf_free) =
        buf_new_zero(P2_ROUND_UP((size_t)GANG_HEADER_SIZE, p->sector));
    struct blkptr place;
    uint64_t verifier[4];
    int rc;

    if (!header)
        return -ENOMEM;
    header->size = GANG_HEADER_SIZE;
    rc = alloc_blocks(p->pool, p->txg, GANG_HEADER_SIZE, MIN(p->copies + 1, BLKPTR_DVAS),
                      p->metadata, bp);
    if (rc)
        return rc;
    place = *bp;
    for (int d = 0; d < BLKPTR_DVAS && dva_asize(bp, d); d++)
        dva_set(bp, d, dva_vdev(bp, d), dva_offset(bp, d), dva_asize(bp, d), true);
    rc = plan_pieces(p, data, n, bp, depth, header);
    if (rc) {
        alloc_undo(p->pool, p->txg, &place);
        return rc;
    }
    gang_verifier(bp, verifier);
    checksum_seal_trailer(header->data, GANG_HEADER_SIZE, verifier);
    return plan_add(p, &place, GANG_HEADER_SIZE, STEAL(header));
}

static void plan_end(struct plan *p, int rc, struct block_batch *batch)
{
    while (p->list) {
        struct block_out *o = p->list;
        p->list = o->next;
        if (rc == 0) {
            block_out_send(o, batch, false);
        } else {
            alloc_undo(p->pool, p->txg, &o->place);
            block_out_drop(o);
        }
    }
}

int gang_write(struct pool *pool, uint64_t txg, struct block_batch *batch, int copies,
               bool metadata, struct buf *data, struct blkptr *bp)
{
    struct plan p = {.pool = pool, .txg = txg, .copies = copies, .metadata = metadata};
    int rc = -ENOSPC;

    p.sector = block_units(pool).sector;
    p.unit = block_units(pool).largest;
    if (bp_psize(bp) > p.unit)
        rc = plan_gang(&p, data->data, bp_psize(bp), bp, 0);
    plan_end(&p, rc, batch);
    buf_unref(data);
    return rc;
}
