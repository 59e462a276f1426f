/* Chains of intent logs: which records a walk gives, and where it ends. On a pool in memory, and
 * with blocks of the reference (data/log/chain.bin: a pointer, then place, size and bytes of each
 * block). */
#include "../pool/pool_test.h"

#include "../support/zil_chain.h"
#include "device/device.h"
#include "vdev/label.h"

#define MIB (1ull << 20)
#define TXG 9

struct test {
    struct test_pool t;
    struct chain_writer c;
    struct zil_header header;
    struct zil_result result;
    uint64_t seqs[64];
    unsigned n, blocks;
    int give; /* what the callback returns */
};

static int setup(void **state)
{
    static struct test test;
    test = (struct test){.t = {.env = test_env()}};
    test_pool_new(&test.t, &(struct test_vdev){256 * MIB, 9, 0}, 1);
    chain_begin(&test.c, &test.t.pool, TXG);
    *state = &test;
    return 0;
}

static int teardown(void **state)
{
    test_pool_free(&((struct test *)*state)->t);
    return 0;
}

static int take(void *arg, const void *data, const struct zil_record_header *h, bool big)
{
    struct test *x = arg;
    struct zil_record r;
    assert_int_equal(big, BYTES_HOST_BIG);
    if (h->type != ZIL_TYPES)
        assert_int_equal(zil_record_decode(data, h, big, &r), 0);
    x->seqs[x->n++] = h->seq;
    return x->give;
}

static int count_block(void *arg, const struct blkptr *bp, uint64_t seq)
{
    struct test *x = arg;
    assert_int_equal(seq, ++x->blocks);
    assert_true(bp_same_place(bp, &x->c.bp[seq - 1]));
    return 0;
}

static int walk(struct test *x, uint64_t uberblock_txg)
{
    const struct zil_walk w = {.pool = &x->t.pool,
                               .header = &x->header,
                               .uberblock_txg = uberblock_txg,
                               .record = take,
                               .block = count_block,
                               .arg = x};
    x->n = x->blocks = 0;
    return zil_walk(&w, &x->result);
}

static void expect(struct test *x, enum zil_end end, unsigned records, unsigned blocks)
{
    assert_int_equal(walk(x, TXG - 1), 0);
    assert_int_equal(x->result.end, end);
    assert_int_equal(x->n, records);
    assert_int_equal(x->result.records, records);
    assert_int_equal(x->result.blocks, blocks);
}

static void three_blocks(struct test *x)
{
    for (int i = 0; i < 3; i++) {
        chain_write(&x->c, 7, 0, "data", 4);
        chain_create(&x->c, ZIL_CREATE, 34, 8, 0100644, "name", NULL);
        chain_end_block(&x->c);
    }
    x->header = chain_header(&x->c);
}

static void whole_chain(void **state)
{
    struct test *x = *state;
    three_blocks(x);
    expect(x, ZIL_END_OF_CHAIN, 6, 3);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(x->seqs[i], i + 1);
    assert_int_equal(x->blocks, 4); /* with the one that is not written */
    assert_int_equal(x->result.last_seq, 6);
    x->give = -EXDEV;
    assert_int_equal(walk(x, TXG - 1), -EXDEV);
    assert_int_equal(x->n, 1);
}

static void nothing(void **state)
{
    struct test *x = *state;
    expect(x, ZIL_END_OF_CHAIN, 0, 0); /* a hole */
    x->header = chain_header(&x->c);   /* as a clean export leaves it */
    expect(x, ZIL_END_OF_CHAIN, 0, 0);
    x->header.log.w[6] ^= 1ull << 48; /* another type */
    expect(x, ZIL_END_DAMAGED, 0, 0);
    x->header = chain_header(&x->c);
    chain_end_block(&x->c); /* a block without records */
    expect(x, ZIL_END_OF_CHAIN, 0, 1);
}

static void on_disk_already(void **state)
{
    struct test *x = *state;
    chain_write(&x->c, 7, 0, "old", 3);
    x->c.txg = TXG + 1;
    chain_write(&x->c, 7, 0, "new", 3);
    chain_end_block(&x->c);
    x->header = chain_header(&x->c);
    assert_int_equal(walk(x, TXG), 0);
    assert_int_equal(x->n, 1);
    assert_int_equal(x->seqs[0], 2);
    assert_int_equal(walk(x, TXG - 1), 0);
    assert_int_equal(x->n, 2);
    assert_int_equal(walk(x, TXG + 1), 0);
    assert_int_equal(x->n, 0);
    x->header.claim_txg = TXG + 1; /* then that counts, not the uberblock */
    x->header.claim_blk_seq = 2;
    assert_int_equal(walk(x, TXG - 1), 0);
    assert_int_equal(x->n, 1);
}

static void claimed(void **state)
{
    struct test *x = *state;
    three_blocks(x);
    x->header.claim_txg = TXG;
    x->header.claim_blk_seq = 2;
    x->header.claim_lr_seq = 3;
    expect(x, ZIL_END_OF_CLAIM, 4, 2); /* without its flag the record's number counts nothing */
    x->header.flags = ZIL_HEADER_CLAIM_LR_SEQ;
    expect(x, ZIL_END_OF_CLAIM, 3, 2);
    x->header.replay_seq = 2; /* an attempt came that far */
    expect(x, ZIL_END_OF_CLAIM, 1, 2);
    assert_int_equal(x->seqs[0], 3);
    x->header.claim_blk_seq = 4; /* the last one was claimed, unwritten */
    x->header.claim_lr_seq = 6;
    x->header.replay_seq = 0;
    expect(x, ZIL_END_OF_CHAIN, 6, 3);
    x->header.claim_lr_seq = 7; /* the last record must have been there once */
    expect(x, ZIL_END_DAMAGED, 6, 3);
    x->header.claim_lr_seq = 6;
    x->header.claim_blk_seq = 5; /* one of them must have been there once */
    expect(x, ZIL_END_DAMAGED, 6, 3);
}

static void spoil(struct test *x, unsigned block, size_t at)
{
    struct device *d = x->t.pool.root->child[0]->device;
    uint64_t off = VDEV_LABEL_START + dva_offset(&x->c.bp[block], 0);
    unsigned char bytes[512];
    assert_int_equal(device_read(d, off, bytes, sizeof bytes), 0);
    bytes[at] ^= 1;
    assert_int_equal(device_write(d, off, bytes, sizeof bytes), 0);
}

static void damaged(void **state)
{
    struct test *x = *state;
    three_blocks(x);
    spoil(x, 1, 300);
    expect(x, ZIL_END_OF_CHAIN, 2, 1); /* looks like the end */
    x->header.claim_txg = TXG;
    x->header.claim_blk_seq = 4;
    expect(x, ZIL_END_DAMAGED, 2, 1); /* known not to be */
    assert_int_equal(x->t.pool.root->child[0]->stats.checksum_errors, 0);
}

static void not_in_order(void **state)
{
    struct test *x = *state;
    chain_write(&x->c, 7, 0, "1", 1);
    x->c.seq = 0;
    chain_write(&x->c, 7, 0, "1 again", 7);
    chain_end_block(&x->c);
    x->header = chain_header(&x->c);
    expect(x, ZIL_END_DAMAGED, 1, 1);
}

static void damaged_record(void **state)
{
    struct test *x = *state;
    chain_write(&x->c, 7, 0, "1", 1);
    chain_record(&x->c, ZIL_WRITE);
    put_u64(x->c.block + x->c.record + 8, 1 << 20, BYTES_HOST_BIG);
    chain_end_block(&x->c);
    x->header = chain_header(&x->c);
    expect(x, ZIL_END_DAMAGED, 1, 1);
}

/* A chain cannot go on with another one's block. */
static void another_chain(void **state)
{
    struct test *x = *state;
    chain_write(&x->c, 7, 0, "1", 1);
    x->c.id++;
    chain_end_block(&x->c);
    x->header = chain_header(&x->c);
    chain_write(&x->c, 7, 0, "2", 1);
    chain_end_block(&x->c);
    expect(x, ZIL_END_OF_CHAIN, 0, 0); /* nor is a block valid that goes on so */
    x->header.claim_txg = TXG;
    x->header.claim_blk_seq = 3;
    expect(x, ZIL_END_DAMAGED, 0, 0);
}

/* ---- Data in blocks of their own ---- */

static struct blkptr data_block(struct test *x, uint64_t txg)
{
    struct block_policy policy = {
        .type = 19, .checksum = CHECKSUM_FLETCHER4, .compress = 2, .copies = 1, .fill = 1};
    struct buf *b = buf_new(4096);
    struct blkptr bp, hole;
    bp_zero(&hole);
    test_fill(&x->t.env, b->data, b->size);
    assert_int_equal(block_write(&x->t.pool, txg, NULL, &policy, b, &hole, &bp), 0);
    assert_int_equal(block_wait(&x->t.pool), 0);
    buf_unref(b);
    return bp;
}

static void indirect(struct chain_writer *c, const struct blkptr *bp)
{
    unsigned char bytes[ZIL_POINTER_SIZE];
    bp_encode(bp, bytes);
    chain_record(c, ZIL_WRITE);
    CHAIN_WORDS(c, 7, 0, 4096, 0);
    chain_add(c, bytes, sizeof bytes);
}

static void data_not_written(void **state)
{
    struct test *x = *state;
    struct blkptr good = data_block(x, TXG), bad = good;
    indirect(&x->c, &good);
    bad.w[12]++; /* the checksum of what was to be written */
    indirect(&x->c, &bad);
    indirect(&x->c, &good);
    chain_end_block(&x->c);
    x->header = chain_header(&x->c);
    expect(x, ZIL_END_OF_CLAIM, 1, 1);
    x->header.claim_txg = TXG; /* then it was there, and whoever replays finds out */
    x->header.claim_blk_seq = 2;
    expect(x, ZIL_END_OF_CHAIN, 3, 1);
    x->header.claim_txg = 0;
    assert_int_equal(walk(x, TXG - 1), 0);
    assert_int_equal(x->n, 1);
}

static void cloned_too_young(void **state)
{
    struct test *x = *state;
    unsigned char bytes[ZIL_POINTER_SIZE];
    for (uint64_t txg = TXG - 1; txg <= TXG; txg++) {
        struct blkptr bp = data_block(x, txg);
        bp_encode(&bp, bytes);
        chain_record(&x->c, ZIL_CLONE_RANGE);
        CHAIN_WORDS(&x->c, 7, 0, 4096, 4096, 1);
        chain_add(&x->c, bytes, sizeof bytes);
    }
    chain_end_block(&x->c);
    x->header = chain_header(&x->c);
    expect(x, ZIL_END_OF_CLAIM, 1, 1);
}

/* ---- Blocks of the reference ---- */

static void reference(void **state)
{
    struct test *x = *state;
    struct device *d = x->t.pool.root->child[0]->device;
    struct zil_walk w = {
        .pool = &x->t.pool, .header = &x->header, .uberblock_txg = 16, .record = take, .arg = x};
    size_t n, at = ZIL_POINTER_SIZE;
    unsigned char *file = test_load("log/chain.bin", &n), *block = calloc(1, 4096);
    while (at < n) {
        uint64_t place = get_le64(file + at), size = get_le64(file + at + 8);
        memset(block, 0, 4096);
        memcpy(block, file + at + 16, size);
        assert_int_equal(device_write(d, VDEV_LABEL_START + place, block, 4096), 0);
        at += 16 + size;
    }
    bp_decode(&x->header.log, file, false);
    assert_int_equal(zil_walk(&w, &x->result), 0);
    assert_int_equal(x->result.end, ZIL_END_OF_CHAIN);
    assert_int_equal(x->result.blocks, 5);
    assert_int_equal(x->result.records, 5);
    assert_int_equal(x->seqs[0], 37);
    assert_int_equal(x->result.last_seq, 41);
    free(block);
    free(file);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whole_chain),      TEST(nothing),          TEST(on_disk_already), TEST(claimed),
        TEST(damaged),          TEST(not_in_order),     TEST(damaged_record),  TEST(another_chain),
        TEST(data_not_written), TEST(cloned_too_young), TEST(reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
