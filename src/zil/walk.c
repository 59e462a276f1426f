/*
 * The chain of an intent log (spec 06 17.2, 17.8). A block is part of it if its checksum fits the
 * seed that the block before has for it; where that stops, the log ends: the last block is always
 * allocated and not yet written. A log that an import has claimed ends where the claim says.
 */
#include <errno.h>

#include "codec/checksum.h"
#include "dmu/dnode.h"
#include "pool/block.h"
#include "util/buf.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "zil/zil.h"

enum { SEED = 12, SEED_SEQUENCE = 15 /* words of a pointer */ };

static void cleanup_buf(struct buf **b)
{
    buf_unref(*b);
}

struct walk {
    const struct zil_walk *w;
    struct zil_result *out;
    uint64_t first_txg; /* older records are on disk */
    uint64_t last_seq;  /* of all records seen */
    bool over;
};

static int end(struct walk *s, enum zil_end how)
{
    s->out->end = how;
    s->over = true;
    return 0;
}

static bool claimed(const struct walk *s)
{
    return s->w->header->claim_txg != 0;
}

/* Did the log end before the last record that was claimed? */
static bool too_early(const struct walk *s)
{
    const struct zil_header *h = s->w->header;
    return claimed(s) && h->flags & ZIL_HEADER_CLAIM_LR_SEQ && s->last_seq < h->claim_lr_seq;
}

static bool behind_claim(const struct walk *s, uint64_t seq)
{
    const struct zil_header *h = s->w->header;
    return claimed(s) && h->flags & ZIL_HEADER_CLAIM_LR_SEQ && seq > h->claim_lr_seq;
}

/* ---- Records ---- */

/* Has what the record points to reached the disk before the crash? Claiming asks that; afterwards
 * it is known. Cloned blocks must be older than the claim. */
static int check_data(struct walk *s, const void *data, const struct zil_record_header *h, bool big,
                      bool *good)
{
    const unsigned char *at;
    size_t n;
    int rc = zil_record_pointers(data, h, big, &at, &n);
    *good = rc == 0;
    for (size_t i = 0; i < n && !claimed(s) && *good; i++, at += ZIL_POINTER_SIZE) {
        struct blkptr bp;
        struct buf *b;
        bp_decode(&bp, at, big);
        if (bp_hole(&bp) || bp_embedded(&bp))
            continue;
        if (h->type == ZIL_CLONE_RANGE) {
            *good = bp_phys_birth(&bp) < s->first_txg;
        } else if (bp_birth(&bp) >= s->first_txg) {
            rc = block_read_stored(s->w->pool, &bp, NULL, &b);
            *good = rc == 0;
            if (rc == 0)
                buf_unref(b);
        }
    }
    return rc == -ENOMEM ? rc : 0;
}

static int take_record(struct walk *s, const void *data, const struct zil_record_header *h,
                       bool big)
{
    bool good;
    if (h->seq <= s->last_seq)
        return end(s, ZIL_END_DAMAGED);
    if (behind_claim(s, h->seq))
        return end(s, ZIL_END_OF_CLAIM);
    s->last_seq = h->seq;
    if (!s->w->replayed && (h->txg < s->first_txg || h->seq <= s->w->header->replay_seq))
        return 0;
    int rc = check_data(s, data, h, big, &good);
    if (rc == 0 && !good)
        return end(s, claimed(s) ? ZIL_END_DAMAGED : ZIL_END_OF_CLAIM);
    if (rc)
        return rc;
    s->out->records++;
    s->out->last_seq = h->seq;
    return s->w->record ? s->w->record(s->w->arg, data, h, big) : 0;
}

static int take_records(struct walk *s, const struct zil_chain *chain, bool big)
{
    struct zil_record_header h;
    int rc = 0;
    for (size_t at = 0; at < chain->size && rc == 0 && !s->over; at += h.size) {
        if (zil_record_header(chain->records + at, chain->size - at, big, &h) != 0)
            return end(s, ZIL_END_DAMAGED);
        rc = take_record(s, chain->records + at, &h, big);
    }
    return rc;
}

/* ---- Blocks ---- */

/* Can this be a block of a log at all? */
static bool is_log_pointer(const struct blkptr *bp)
{
    unsigned sum = bp_checksum(bp);
    return !bp_hole(bp) && !bp_embedded(bp) && bp_check(bp) == 0 && !bp_gang(bp) &&
           bp_type(bp) == OT_INTENT_LOG && (sum == CHECKSUM_ZILOG || sum == CHECKSUM_ZILOG2) &&
           bp_psize(bp) == bp_lsize(bp);
}

/* The seed of the next block is this one's, one further; else this one is not valid (17.2). */
static bool follows(const struct blkptr *bp, const struct blkptr *next)
{
    return is_log_pointer(next) && bp_checksum(next) == bp_checksum(bp) &&
           bp_crypt(next) == bp_crypt(bp) && next->w[SEED] == bp->w[SEED] &&
           next->w[SEED + 1] == bp->w[SEED + 1] && next->w[SEED + 2] == bp->w[SEED + 2] &&
           next->w[SEED_SEQUENCE] == bp->w[SEED_SEQUENCE] + 1;
}

/* Was there a block behind this one when the log was claimed? */
static bool within_claim(const struct walk *s, uint64_t seq)
{
    return claimed(s) && seq < s->w->header->claim_blk_seq;
}

/* The chain's end if the block does not fit its seed. */
static int read_block(struct walk *s, const struct blkptr *bp, struct buf **out)
{
    const struct bookmark bm = {bp->w[SEED + 2], 0, -2, bp->w[SEED_SEQUENCE]};
    int rc = block_read_key(s->w->pool, bp, &bm, NULL, out);
    if (rc == -EBADE)
        return end(s, within_claim(s, bp->w[SEED_SEQUENCE]) ? ZIL_END_DAMAGED : ZIL_END_OF_CHAIN);
    if (rc || !s->w->key || !bp_crypt(bp))
        return rc;
    buf_unref(STEAL(*out));
    return block_read_key(s->w->pool, bp, &bm, s->w->key, out); /* that it is whole is known now */
}

static bool big_endian(const struct buf *b, const struct blkptr *bp)
{
    size_t at = bp_checksum(bp) == CHECKSUM_ZILOG ? b->size - ZIL_CHAIN_SIZE : 0;
    return get_be64(b->data + at + ZIL_CHAIN_TRAILER) == CHECKSUM_TRAILER_MAGIC;
}

/* One block; *bp becomes the next one's pointer. */
static int take_block(struct walk *s, struct blkptr *bp)
{
    struct buf *b CLEANUP(cleanup_buf) = NULL;
    struct zil_chain chain;
    struct blkptr next;
    uint64_t seq = bp->w[SEED_SEQUENCE];
    if (claimed(s) && seq > s->w->header->claim_blk_seq)
        return end(s, ZIL_END_OF_CLAIM);
    int rc = s->w->block ? s->w->block(s->w->arg, bp, seq) : 0;
    if (rc == 0)
        rc = read_block(s, bp, &b);
    if (rc || s->over)
        return rc;
    bool big = big_endian(b, bp);
    if (zil_chain_decode(b->data, b->size, bp_checksum(bp) == CHECKSUM_ZILOG, big, &chain) != 0)
        return end(s, ZIL_END_DAMAGED);
    bp_decode(&next, chain.next, big);
    if (!follows(bp, &next))
        return end(s, within_claim(s, seq) ? ZIL_END_DAMAGED : ZIL_END_OF_CHAIN);
    s->out->blocks++;
    rc = take_records(s, &chain, big);
    *bp = next;
    return rc;
}

int zil_walk(const struct zil_walk *w, struct zil_result *out)
{
    struct blkptr bp = w->header->log;
    struct walk s = {.w = w, .out = out};
    int rc = 0;
    *out = (struct zil_result){.end = ZIL_END_OF_CHAIN};
    s.first_txg = claimed(&s) ? w->header->claim_txg : w->uberblock_txg + 1;
    if (bp_hole(&bp))
        return 0;
    if (!is_log_pointer(&bp))
        return end(&s, ZIL_END_DAMAGED);
    while (rc == 0 && !s.over)
        rc = take_block(&s, &bp);
    if (rc == 0 && too_early(&s))
        out->end = ZIL_END_DAMAGED;
    return rc;
}
