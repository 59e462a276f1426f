/* The header of an intent log, in the root block of an object set (spec 06 17.1). */
#include "dmu/tx.h"
#include "util/bytes.h"
#include "zil/zil.h"

enum {
    CLAIM_TXG = 0,
    REPLAY_SEQ = 8,
    LOG = 16,
    CLAIM_BLK_SEQ = 144,
    FLAGS = 152,
    CLAIM_LR_SEQ = 160
};

void zil_header_decode(const unsigned char b[OBJSET_ZIL_HEADER_SIZE], struct zil_header *out)
{
    *out = (struct zil_header){.claim_txg = get_u64(b + CLAIM_TXG, BYTES_HOST_BIG),
                               .replay_seq = get_u64(b + REPLAY_SEQ, BYTES_HOST_BIG),
                               .claim_blk_seq = get_u64(b + CLAIM_BLK_SEQ, BYTES_HOST_BIG),
                               .flags = get_u64(b + FLAGS, BYTES_HOST_BIG),
                               .claim_lr_seq = get_u64(b + CLAIM_LR_SEQ, BYTES_HOST_BIG)};
    bp_decode(&out->log, b + LOG, BYTES_HOST_BIG);
}

void zil_header_get(const struct objset *os, struct zil_header *out)
{
    unsigned char b[OBJSET_ZIL_HEADER_SIZE];
    objset_zil_header(os, b);
    zil_header_decode(b, out);
}

void zil_header_set(struct objset *os, const struct zil_header *h, struct tx *tx)
{
    unsigned char b[OBJSET_ZIL_HEADER_SIZE] = {0};
    put_u64(b + CLAIM_TXG, h->claim_txg, BYTES_HOST_BIG);
    put_u64(b + REPLAY_SEQ, h->replay_seq, BYTES_HOST_BIG);
    bp_encode(&h->log, b + LOG);
    put_u64(b + CLAIM_BLK_SEQ, h->claim_blk_seq, BYTES_HOST_BIG);
    put_u64(b + FLAGS, h->flags, BYTES_HOST_BIG);
    put_u64(b + CLAIM_LR_SEQ, h->claim_lr_seq, BYTES_HOST_BIG);
    objset_set_zil_header(os, b, tx);
}
