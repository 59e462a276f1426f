#include <pthread.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "pool_test.h"

#define MIB (1ull << 20)
#define KIB (1u << 10)

static const struct bookmark mark = {54, 7, 0, 3};
static const struct test_vdev vdev12 = {256 * MIB, 12, VDEV_CLASS_NORMAL};

static struct block_policy data_policy(unsigned compress)
{
    return (struct block_policy){.type = 19,
                                 .checksum = CHECKSUM_FLETCHER4,
                                 .compress = (uint8_t)compress,
                                 .copies = 1,
                                 .zero_to_hole = compress != COMPRESS_OFF,
                                 .embed = true,
                                 .fill = 1};
}

/* n bytes that compress well, not at all (noise), or to about share parts of 256. */
static struct buf *some_data(struct env *env, size_t n, unsigned share)
{
    struct buf *b = buf_new_zero(n);

    assert_non_null(b);
    test_fill(env, b->data, n * share / 256);
    return b;
}

static void check_read(struct pool *pool, const struct blkptr *bp, const struct buf *expected)
{
    struct buf *got;
    int rc = block_read(pool, bp, &mark, &got);

    if (rc)
        printf("%s\n", err_text(rc));
    assert_int_equal(rc, 0);
    assert_int_equal(got->size, expected->size);
    assert_memory_equal(got->data, expected->data, got->size);
    buf_unref(got);
}

static struct blkptr write_block(struct test_pool *t, uint64_t txg, const struct block_policy *p,
                                 struct buf *data, const struct blkptr *old)
{
    struct blkptr bp;

    assert_int_equal(block_write(&t->pool, txg, NULL, p, data, old, &bp), 0);
    assert_int_equal(bp_check(&bp), 0);
    return bp;
}

/* ---- Every kind of block ---- */

static void write_one(struct test_pool *t, unsigned compress, unsigned checksum, size_t size,
                      int copies)
{
    struct block_policy p = data_policy(compress);
    struct buf *b = some_data(&t->env, size, (unsigned)test_below(&t->env, 4) * 85);
    struct blkptr bp;

    p.checksum = (uint8_t)checksum;
    p.copies = (uint8_t)copies;
    bp = write_block(t, 5, &p, b, NULL);
    assert_int_equal(bp_hole(&bp) ? 0 : bp_lsize(&bp), bp_hole(&bp) ? 0 : size);
    if (!bp_embedded(&bp) && !bp_hole(&bp)) {
        assert_int_equal(bp_copies(&bp), copies);
        assert_int_equal(bp_birth(&bp), 5);
        assert_int_equal(bp.w[7] | bp.w[8] | bp.w[9], 0);
        assert_true((bp_compress(&bp) != COMPRESS_OFF) == (bp_psize(&bp) < bp_lsize(&bp)));
    }
    if (!bp_hole(&bp))
        check_read(&t->pool, &bp, b);
    buf_unref(b);
}

static void write_read_all(void **state)
{
    static const unsigned compressors[] = {COMPRESS_OFF,    COMPRESS_EMPTY, COMPRESS_LZJB,
                                           COMPRESS_GZIP_1, COMPRESS_ZLE,   COMPRESS_LZ4,
                                           COMPRESS_ZSTD};
    static const unsigned checksums[] = {CHECKSUM_OFF, CHECKSUM_FLETCHER2, CHECKSUM_FLETCHER4,
                                         CHECKSUM_SHA256, CHECKSUM_SHA512};
    static const size_t sizes[] = {512, 1024, 1536, 4096, 4608, 16384, 131072, 1 << 20};
    struct test_pool t = {.env = test_env()};

    for (unsigned ashift = 9; ashift <= 12; ashift += 3) {
        struct test_vdev v[2] = {{512 * MIB, ashift, 0}, {512 * MIB, ashift, 0}};
        test_pool_new(&t, v, 2);
        for (size_t c = 0; c < ARRAY_LEN(compressors); c++)
            for (size_t k = 0; k < ARRAY_LEN(checksums); k++)
                for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
                    for (int copies = 1; copies <= 3; copies++)
                        write_one(&t, compressors[c], checksums[k], sizes[s], copies);
        test_sync(&t, 5);
        test_pool_free(&t);
    }
}

/* ---- What a block becomes (02 6.2) ---- */

static void holes(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_LZ4);
    struct buf *zero = buf_new_zero(4096), *got;
    struct blkptr old = {.w = {[6] = 1, [10] = 7}}, bp;

    test_pool_new(&t, &vdev12, 1);
    bp = write_block(&t, 9, &p, zero, NULL);
    for (int i = 0; i < 16; i++)
        assert_int_equal(bp.w[i], 0);
    bp = write_block(&t, 9, &p, zero, &old);
    assert_true(bp_hole(&bp));
    assert_int_equal(bp.w[6], 0x0013000000000007);
    assert_int_equal(bp_birth(&bp), 9);
    assert_int_equal(block_read(&t.pool, &bp, &mark, &got), 0);
    assert_int_equal(got->size, 4096);
    assert_true(buf_is_zero(got->data, 4096));
    buf_unref(got);
    t.pool.features.hole_birth = false;
    bp = write_block(&t, 9, &p, zero, &old);
    assert_int_equal(bp.w[6] | bp.w[10], 0);
    p = data_policy(COMPRESS_OFF); /* zeros are stored then */
    bp = write_block(&t, 9, &p, zero, NULL);
    assert_false(bp_hole(&bp));
    check_read(&t.pool, &bp, zero);
    buf_unref(zero);
    test_sync(&t, 9);
    test_pool_free(&t);
}

static void embedding(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_LZ4);
    struct buf *b = buf_new_zero(16384);
    struct blkptr bp;

    test_pool_new(&t, &vdev12, 1);
    memcpy(b->data, "hello", 5);
    bp = write_block(&t, 9, &p, b, NULL);
    assert_true(bp_embedded(&bp));
    assert_int_equal(bp_birth(&bp), 9);
    check_read(&t.pool, &bp, b);
    assert_int_equal(block_dsize(&t.pool, &bp), 0);
    assert_int_equal(block_free(&t.pool, 9, NULL, &bp), 0);
    p.embed = false;
    bp = write_block(&t, 9, &p, b, NULL);
    assert_false(bp_embedded(&bp));
    assert_int_equal(bp_psize(&bp), 4096);
    p.embed = true;
    p.type = 10; /* dnodes never */
    bp = write_block(&t, 9, &p, b, NULL);
    assert_false(bp_embedded(&bp));
    p.type = 19;
    p.level = 1;
    bp = write_block(&t, 9, &p, b, NULL);
    assert_false(bp_embedded(&bp));
    p.level = 0;
    t.pool.features.embedded_data = false;
    bp = write_block(&t, 9, &p, b, NULL);
    assert_false(bp_embedded(&bp));
    buf_unref(b);
    test_sync(&t, 9);
    test_pool_free(&t);
}

/* An embedded block of a real pool: 512 bytes that begin a ZAP. */
static void real_embedded_block(void **state)
{
    static const struct blkptr bp = {.w = {0x0100032117000000, 0x00090643c9804100,
                                           0x000050d9ff00020f, 0, 0, 0, 0x800d008f340001ff, 0, 0, 0,
                                           6}};
    struct test_pool t = {.env = test_env()};
    struct buf *got;

    test_pool_new(&t, &vdev12, 1);
    assert_int_equal(block_read(&t.pool, &bp, &mark, &got), 0);
    assert_int_equal(got->size, 512);
    assert_int_equal(get_le64(got->data), 0x8000000000000003); /* a micro ZAP */
    buf_unref(got);
    test_pool_free(&t);
}

static void compressed_only_if_it_pays(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_LZ4);
    struct buf *b;
    struct blkptr bp;

    test_pool_new(&t, &vdev12, 1);
    b = some_data(&t.env, 8192, 100); /* 3200 bytes of noise: one sector less */
    bp = write_block(&t, 9, &p, b, NULL);
    assert_int_equal(bp_psize(&bp), 4096);
    buf_unref(b);
    b = some_data(&t.env, 8192, 140); /* 4480 bytes: no sector less */
    bp = write_block(&t, 9, &p, b, NULL);
    assert_int_equal(bp_psize(&bp), 8192);
    assert_int_equal(bp_compress(&bp), COMPRESS_OFF);
    buf_unref(b);
    b = some_data(&t.env, 128 * KIB, 230); /* saves less than an eighth */
    bp = write_block(&t, 9, &p, b, NULL);
    assert_int_equal(bp_compress(&bp), COMPRESS_OFF);
    check_read(&t.pool, &bp, b);
    buf_unref(b);
    b = some_data(&t.env, 4096, 10); /* one sector anyway, and too much to embed */
    bp = write_block(&t, 9, &p, b, NULL);
    assert_int_equal(bp_compress(&bp), COMPRESS_OFF);
    buf_unref(b);
    t.pool.no_compress = true;
    b = some_data(&t.env, 128 * KIB, 20);
    bp = write_block(&t, 9, &p, b, NULL);
    assert_int_equal(bp_compress(&bp), COMPRESS_OFF);
    buf_unref(b);
    test_sync(&t, 9);
    test_pool_free(&t);
}

/* 512 bytes on a vdev with larger sectors. */
static void short_blocks_are_padded(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_OFF);
    struct buf *b = some_data(&t.env, 512, 256);
    unsigned char sector[4096];
    struct blkptr bp;

    test_pool_new(&t, &vdev12, 1);
    p.copies = 2;
    memset(sector, 0xff, sizeof sector);
    for (uint64_t at = 0; at < 64 * KIB; at += 4096)
        device_write(t.pool.root->child[0]->device, VDEV_LABEL_START + at, sector, 4096);
    bp = write_block(&t, 9, &p, b, NULL);
    assert_int_equal(block_wait(&t.pool), 0);
    assert_int_equal(bp_psize(&bp), 512);
    assert_int_equal(dva_asize(&bp, 1), 4096);
    assert_int_equal(block_dsize(&t.pool, &bp), 8192);
    assert_int_equal(
        vdev_read(t.pool.root->child[0], dva_offset(&bp, 0), sector, 4096, 9, NULL, NULL), 0);
    assert_memory_equal(sector, b->data, 512);
    assert_true(buf_is_zero(sector + 512, 4096 - 512));
    check_read(&t.pool, &bp, b);
    buf_unref(b);
    test_sync(&t, 9);
    test_pool_free(&t);
}

/* ---- Overwriting within a txg ---- */

static void overwrites_in_place(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_LZ4);
    struct buf *half = some_data(&t.env, 128 * KIB, 128), *less = some_data(&t.env, 128 * KIB, 64),
               *noise = some_data(&t.env, 128 * KIB, 256);
    struct blkptr a, b;

    test_pool_new(&t, &vdev12, 1);
    p.copies = 2;
    a = write_block(&t, 9, &p, half, NULL);
    b = write_block(&t, 9, &p, less, &a); /* smaller: fits, keeps the size */
    assert_true(bp_same_place(&a, &b));
    assert_int_equal(bp_psize(&b), bp_psize(&a));
    assert_int_equal(bp_copies(&b), 2);
    check_read(&t.pool, &b, less);
    a = write_block(&t, 9, &p, half, &b); /* as large as at first */
    assert_true(bp_same_place(&a, &b));
    check_read(&t.pool, &a, half);
    b = write_block(&t, 9, &p, noise, &a); /* too large */
    assert_false(bp_same_place(&a, &b));
    assert_int_equal(block_free(&t.pool, 9, NULL, &a), 0);
    a = write_block(&t, 9, &p, half, &b); /* in an uncompressed block: stored uncompressed */
    assert_true(bp_same_place(&a, &b));
    assert_int_equal(bp_compress(&a), COMPRESS_OFF);
    check_read(&t.pool, &a, half);
    test_sync(&t, 9);
    check_read(&t.pool, &a, half);
    b = write_block(&t, 10, &p, half, &a); /* another txg: never */
    assert_false(bp_same_place(&a, &b));
    check_read(&t.pool, &a, half);
    test_sync(&t, 10);
    buf_unref(half);
    buf_unref(less);
    buf_unref(noise);
    test_pool_free(&t);
}

/* Late passes do not compress, but what was compressed stays where it is while it fits. */
static void late_passes_converge(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_LZ4);
    struct buf *half = some_data(&t.env, 16 * KIB, 128), *more = some_data(&t.env, 16 * KIB, 200),
               *less = some_data(&t.env, 16 * KIB, 60);
    struct blkptr a, b;

    test_pool_new(&t, &vdev12, 1);
    a = write_block(&t, 9, &p, half, NULL);
    t.pool.no_compress = true;
    b = write_block(&t, 9, &p, less, &a);
    assert_true(bp_same_place(&a, &b));
    check_read(&t.pool, &b, less);
    a = write_block(&t, 9, &p, more, &b);
    assert_false(bp_same_place(&a, &b));
    assert_int_equal(bp_compress(&a), COMPRESS_OFF);
    b = write_block(&t, 9, &p, less, &a); /* from now on it never moves */
    assert_true(bp_same_place(&a, &b));
    test_sync(&t, 9);
    buf_unref(half);
    buf_unref(less);
    buf_unref(more);
    test_pool_free(&t);
}

/* ---- The batch ---- */

static void batch_holds_back(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_LZ4);
    struct buf *one = some_data(&t.env, 16 * KIB, 120), *two = some_data(&t.env, 16 * KIB, 110);
    struct block_batch *batch;
    struct blkptr a, b, c;
    uint64_t written;

    test_pool_new(&t, &vdev12, 1);
    p.copies = 3;
    assert_int_equal(block_batch_new(&batch), 0);
    block_set_batch(&t.pool, batch);
    assert_int_equal(block_write(&t.pool, 9, batch, &p, one, NULL, &a), 0);
    assert_int_equal(block_write(&t.pool, 9, batch, &p, one, NULL, &c), 0);
    assert_int_equal(t.pool.root->child[0]->stats.ops[1], 0);
    check_read(&t.pool, &a, one);
    assert_int_equal(block_write(&t.pool, 9, batch, &p, two, &a, &b), 0);
    assert_true(bp_same_place(&a, &b));
    check_read(&t.pool, &b, two);
    assert_int_equal(block_free(&t.pool, 9, batch, &c), 0); /* will not be written at all */
    assert_int_equal(block_batch_submit(&t.pool, batch), 0);
    block_set_batch(&t.pool, NULL);
    assert_int_equal(block_wait(&t.pool), 0);
    written = t.pool.root->child[0]->stats.ops[1];
    assert_int_equal(written, 3);
    check_read(&t.pool, &b, two);
    assert_int_equal(block_batch_submit(&t.pool, batch), 0);
    block_batch_free(batch);
    test_sync(&t, 9);
    buf_unref(one);
    buf_unref(two);
    test_pool_free(&t);
}

/* ---- Gangs ---- */

static struct block_policy gang_policy(int copies)
{
    struct block_policy p = data_policy(COMPRESS_LZ4);

    p.copies = (uint8_t)copies;
    p.metadata = true;
    return p;
}

static void check_gang(struct test_pool *t, const struct blkptr *bp, int copies, uint64_t members)
{
    assert_true(bp_gang(bp));
    assert_true(bp_copies(bp) >= copies);
    for (int i = 0; i < copies; i++)
        assert_true(dva_asize(bp, i) >= bp_psize(bp) + members);
}

static void forced_gangs(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct test_vdev v[] = {vdev12, {256 * MIB, 9, 0}};

    for (int copies = 1; copies <= 3; copies++) {
        struct block_policy p = gang_policy(copies);
        struct buf *b = some_data(&t.env, 128 * KIB, 150);
        struct blkptr bp, again;
        test_pool_new(&t, v, 2);
        block_force_gangs(&t.pool, 32 * KIB);
        bp = write_block(&t, 9, &p, b, NULL);
        check_gang(&t, &bp, copies, 512);
        check_read(&t.pool, &bp, b);
        assert_int_equal(block_wait(&t.pool), 0);
        check_read(&t.pool, &bp, b);
        again = write_block(&t, 9, &p, b, &bp); /* not in place */
        assert_false(bp_same_place(&bp, &again));
        test_sync(&t, 9);
        assert_int_equal(block_free(&t.pool, 10, NULL, &bp), 0);
        assert_int_equal(block_free(&t.pool, 10, NULL, &again), 0);
        assert_int_equal(block_free(&t.pool, 10, NULL, &bp), -EINVAL);
        test_sync(&t, 10);
        assert_int_equal(test_allocated(&t), 0);
        buf_unref(b);
        test_pool_free(&t);
    }
}

static void gangs_in_a_batch(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = gang_policy(3);
    struct buf *b = some_data(&t.env, 128 * KIB, 150);
    struct block_batch *batch;
    struct blkptr bp, kept;

    test_pool_new(&t, &vdev12, 1);
    block_force_gangs(&t.pool, 32 * KIB);
    assert_int_equal(block_batch_new(&batch), 0);
    block_set_batch(&t.pool, batch);
    assert_int_equal(block_write(&t.pool, 9, batch, &p, b, NULL, &bp), 0);
    assert_int_equal(block_write(&t.pool, 9, batch, &p, b, NULL, &kept), 0);
    check_read(&t.pool, &bp, b);
    assert_int_equal(block_free(&t.pool, 9, batch, &bp), 0);
    assert_int_equal(block_batch_submit(&t.pool, batch), 0);
    block_set_batch(&t.pool, NULL);
    block_batch_free(batch);
    test_sync(&t, 9);
    check_read(&t.pool, &kept, b);
    assert_int_equal(block_free(&t.pool, 10, NULL, &kept), 0);
    test_sync(&t, 10);
    assert_int_equal(test_allocated(&t), 0);
    buf_unref(b);
    test_pool_free(&t);
}

/* Fills the pool with sectors, frees `every`-th ones, and gives their number. */
static unsigned fragment(struct test_pool *t, unsigned every, unsigned *txg)
{
    struct blkptr *bp = calloc(70000, sizeof *bp);
    unsigned n = 0, freed = 0;

    while (alloc_blocks(&t->pool, *txg, 4096, 1, false, &bp[n]) == 0)
        n++;
    test_sync(t, *txg);
    ++*txg;
    for (unsigned i = 0; i < n; i += every) {
        assert_int_equal(alloc_free(&t->pool, *txg, 0, dva_offset(&bp[i], 0), dva_asize(&bp[i], 0)),
                         0);
        freed++;
    }
    test_sync(t, *txg);
    ++*txg;
    free(bp);
    return freed;
}

static void gangs_when_space_is_fragmented(void **state)
{
    struct test_vdev small = {128 * MIB, 12, 0};
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_OFF);
    struct buf *b = some_data(&t.env, 128 * KIB, 256), *huge = some_data(&t.env, 16 * MIB, 256);
    unsigned txg = 4;
    uint64_t before, blocks = 0;
    struct blkptr bp, *all = calloc(1000, sizeof *all);
    int rc;

    test_pool_new(&t, &small, 1);
    fragment(&t, 13, &txg);
    before = test_allocated(&t);
    /* More than there is: everything taken for the attempt is given back. */
    assert_int_equal(block_write(&t.pool, txg, NULL, &p, huge, NULL, &bp), -ENOSPC);
    test_sync(&t, txg++);
    assert_int_equal(test_allocated(&t), before);
    while ((rc = block_write(&t.pool, txg, NULL, &p, b, NULL, &all[blocks])) == 0) {
        assert_true(bp_gang(&all[blocks]));
        check_read(&t.pool, &all[blocks], b);
        blocks++;
    }
    assert_int_equal(rc, -ENOSPC);
    assert_true(blocks > 20);
    test_sync(&t, txg++);
    for (uint64_t i = 0; i < blocks; i++) {
        check_read(&t.pool, &all[i], b);
        assert_int_equal(block_free(&t.pool, txg, NULL, &all[i]), 0);
    }
    test_sync(&t, txg);
    assert_int_equal(test_allocated(&t), before);
    buf_unref(b);
    buf_unref(huge);
    free(all);
    test_pool_free(&t);
}

/* A header that fills the allocation unit, as the feature dynamic_gang_header makes them. */
static void dynamic_gang_headers(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_OFF);
    struct buf *whole = some_data(&t.env, 20 * KIB, 256), *header = buf_new_zero(4096);
    struct blkptr leader, member[5];
    uint64_t verifier[4] = {0};

    test_pool_new(&t, &vdev12, 1);
    leader = write_block(&t, 9, &p, whole, NULL);
    for (int i = 0; i < 5; i++) {
        struct buf *piece = buf_new(4096);
        memcpy(piece->data, whole->data + 4096 * i, 4096);
        member[i] = write_block(&t, 9, &p, piece, NULL);
        bits_set(&member[i].w[6], 48, 8, 0);
        bp_encode(&member[i], header->data + 128 * (2 * i + 1)); /* unused slots between */
        buf_unref(piece);
    }
    assert_int_equal(alloc_blocks(&t.pool, 9, 4096, 1, true, &leader), 0);
    leader.w[1] |= 1ull << 63;
    verifier[1] = dva_offset(&leader, 0);
    verifier[2] = 9;
    checksum_seal_trailer(header->data, 4096, verifier);
    assert_int_equal(device_write(t.pool.root->child[0]->device,
                                  VDEV_LABEL_START + dva_offset(&leader, 0), header->data, 4096),
                     0);
    assert_int_equal(block_wait(&t.pool), 0);
    check_read(&t.pool, &leader, whole);
    header->data[0] ^= 1;
    device_write(t.pool.root->child[0]->device, VDEV_LABEL_START + dva_offset(&leader, 0),
                 header->data, 4096);
    struct buf *got;
    assert_int_equal(block_read(&t.pool, &leader, &mark, &got), -EBADE);
    buf_unref(header);
    buf_unref(whole);
    test_sync(&t, 9);
    test_pool_free(&t);
}

/* A header that names itself must not take the reader's stack. */
static void hostile_gang(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_OFF);
    struct buf *b = some_data(&t.env, 4096, 256), *got;
    unsigned char header[512] = {0};
    uint64_t verifier[4] = {0};
    struct blkptr bp;

    test_pool_new(&t, &vdev12, 1);
    bp = write_block(&t, 9, &p, b, NULL);
    bp.w[1] |= 1ull << 63;
    bp_encode(&bp, header);
    verifier[1] = dva_offset(&bp, 0);
    verifier[2] = 9;
    checksum_seal_trailer(header, 512, verifier);
    assert_int_equal(block_wait(&t.pool), 0);
    device_write(t.pool.root->child[0]->device, VDEV_LABEL_START + dva_offset(&bp, 0), header, 512);
    assert_int_equal(block_read(&t.pool, &bp, &mark, &got), -EBADE);
    assert_non_null(strstr(err_text(-EBADE), "nested"));
    assert_non_null(strstr(err_text(-EBADE), "dataset 54 object 7 level 0 block 3"));
    assert_int_equal(block_free(&t.pool, 9, NULL, &bp), -EBADE);
    buf_unref(b);
    test_sync(&t, 9);
    test_pool_free(&t);
}

static int no_place(void *arg, uint64_t vdev, uint64_t offset, uint64_t asize)
{
    return 0;
}

/* Headers that name the next one three times: whoever followed all of them would never end. */
static void many_gangs(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_OFF);
    struct buf *b = some_data(&t.env, 4096, 256);
    const struct block_scrub quiet = {0};
    struct blkptr bp;

    test_pool_new(&t, &vdev12, 1);
    bp = write_block(&t, 9, &p, b, NULL);
    for (int i = 0; i < 24; i++) {
        unsigned char header[512] = {0};
        uint64_t verifier[4] = {0};
        struct blkptr leader = write_block(&t, 9, &p, b, NULL);
        bits_set(&bp.w[6], 48, 8, 0);
        for (int k = 0; k < 3; k++)
            bp_encode(&bp, header + BLKPTR_SIZE * k);
        leader.w[1] |= 1ull << 63;
        verifier[1] = dva_offset(&leader, 0);
        verifier[2] = 9;
        checksum_seal_trailer(header, 512, verifier);
        assert_int_equal(block_wait(&t.pool), 0);
        device_write(t.pool.root->child[0]->device, VDEV_LABEL_START + dva_offset(&leader, 0),
                     header, 512);
        bp = leader;
    }
    assert_int_equal(block_each_place(&t.pool, &bp, no_place, NULL), -EBADE);
    assert_non_null(strstr(err_text(-EBADE), "more bytes than its leader"));
    assert_int_equal(block_scrub(&t.pool, &bp, &mark, &quiet), -EBADE);
    assert_non_null(strstr(err_text(-EBADE), "more bytes than its leader"));
    assert_int_equal(block_free(&t.pool, 9, NULL, &bp), -EBADE);
    buf_unref(b);
    test_sync(&t, 9);
    test_pool_free(&t);
}

/* ---- Damage and faults ---- */

static void spoil(struct test_pool *t, const struct blkptr *bp, int i)
{
    struct device *d = t->pool.root->child[dva_vdev(bp, i)]->device;
    unsigned char byte;
    uint64_t at = VDEV_LABEL_START + dva_offset(bp, i) + bp_psize(bp) / 2;

    assert_int_equal(device_read(d, at, &byte, 1), 0);
    byte ^= 0x40;
    assert_int_equal(device_write(d, at, &byte, 1), 0);
}

static void bad_copies_are_replaced(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct test_vdev v[] = {vdev12, vdev12};
    struct block_policy p = data_policy(COMPRESS_LZ4);
    struct buf *b = some_data(&t.env, 128 * KIB, 130), *got;
    struct blkptr bp;

    test_pool_new(&t, v, 2);
    p.copies = 3;
    bp = write_block(&t, 9, &p, b, NULL);
    test_sync(&t, 9);
    spoil(&t, &bp, 0);
    spoil(&t, &bp, 1);
    t.pool.writable = false; /* nothing is repaired then */
    check_read(&t.pool, &bp, b);
    t.pool.writable = true;
    check_read(&t.pool, &bp, b);
    spoil(&t, &bp, 2); /* the first two are good again */
    check_read(&t.pool, &bp, b);
    spoil(&t, &bp, 0);
    spoil(&t, &bp, 1);
    assert_int_equal(block_read(&t.pool, &bp, &mark, &got), -EBADE);
    assert_non_null(strstr(err_text(-EBADE), "dataset 54 object 7 level 0 block 3"));
    assert_true(t.pool.root->child[0]->stats.checksum_errors > 0);
    buf_unref(b);
    test_pool_free(&t);
}

static void impossible_places(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = data_policy(COMPRESS_OFF);
    struct buf *b = some_data(&t.env, 4096, 256), *got;
    struct blkptr bp, bad;

    test_pool_new(&t, &vdev12, 1);
    bp = write_block(&t, 9, &p, b, NULL);
    bad = bp;
    dva_set(&bad, 0, 5, dva_offset(&bp, 0), 4096, false);
    assert_int_equal(block_read(&t.pool, &bad, &mark, &got), -EIO);
    assert_non_null(strstr(err_text(-EIO), "vdev 5 does not exist"));
    dva_set(&bad, 0, 0, 1ull << 60, 4096, false);
    assert_int_equal(block_read(&t.pool, &bad, &mark, &got), -EIO);
    dva_set(&bad, 0, 0, t.pool.root->child[0]->asize, 4096, false);
    assert_int_equal(block_read(&t.pool, &bad, &mark, &got), -EIO);
    dva_set(&bad, 0, 0, 512, 4096, false);
    assert_int_equal(block_read(&t.pool, &bad, &mark, &got), -EIO);
    dva_set(&bad, 0, 5, 0, 4096, true);
    assert_int_equal(block_read(&t.pool, &bad, &mark, &got), -EIO);
    bad = bp;
    bits_set(&bad.w[6], 0, 16, 15); /* uncompressed, yet larger than what is stored */
    assert_int_equal(block_read(&t.pool, &bad, &mark, &got), -EBADE);
    bad = bp;
    bits_set(&bad.w[6], 32, 7, COMPRESS_LZ4);
    bits_set(&bad.w[6], 0, 16, 255);
    assert_int_equal(block_read(&t.pool, &bad, &mark, &got), -EBADE); /* noise as lz4 */
    bad = bp;
    bits_set(&bad.w[6], 40, 8, CHECKSUM_EDONR);
    t.pool.has_salt = false;
    assert_int_equal(block_read(&t.pool, &bad, &mark, &got), -ENOTSUP);
    bad = bp;
    bits_set(&bad.w[6], 61, 1, 1);
    assert_int_equal(block_read(&t.pool, &bad, &mark, &got), -EACCES); /* encrypted */
    bits_set(&bad.w[6], 62, 1, 1);
    assert_int_equal(block_free(&t.pool, 9, NULL, &bad), -ENOTSUP); /* dedup */
    buf_unref(b);
    test_sync(&t, 9);
    test_pool_free(&t);
}

static _Atomic int fail_writes, fail_reads;

static int faulty(void *arg, enum device_op op, uint64_t offset, size_t n)
{
    if (op == DEVICE_WRITE && offset >= VDEV_LABEL_START)
        return fail_writes ? -EIO : 0;
    return op == DEVICE_READ && fail_reads ? -EIO : 0;
}

static void write_errors_stay(void **state)
{
    struct test_pool t = {.env = test_env(), .fault = faulty};
    struct block_policy p = data_policy(COMPRESS_OFF);
    struct buf *b = some_data(&t.env, 4096, 256), *got;
    struct blkptr bp;

    fail_writes = fail_reads = 0;
    test_pool_new(&t, &vdev12, 1);
    bp = write_block(&t, 9, &p, b, NULL);
    assert_int_equal(block_wait(&t.pool), 0);
    fail_reads = 1;
    assert_int_equal(block_read(&t.pool, &bp, &mark, &got), -EIO);
    fail_reads = 0;
    check_read(&t.pool, &bp, b);
    fail_writes = 1;
    bp = write_block(&t, 9, &p, b, NULL); /* the error comes later */
    assert_int_equal(block_wait(&t.pool), -EIO);
    fail_writes = 0;
    bp = write_block(&t, 9, &p, b, NULL);
    assert_int_equal(block_wait(&t.pool), -EIO);
    assert_int_equal(t.pool.root->child[0]->stats.write_errors, 1);
    buf_unref(b);
    test_pool_free(&t);
}

/* ---- Reading without waiting ---- */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned done;
    struct buf *data[64];
    int rc[64];
};

struct ticket {
    struct waiter *w;
    unsigned i;
};

static void arrived(void *arg, struct buf *data, int rc)
{
    struct ticket *k = arg;

    pthread_mutex_lock(&k->w->lock);
    k->w->data[k->i] = data;
    k->w->rc[k->i] = rc;
    k->w->done++;
    pthread_cond_signal(&k->w->cond);
    pthread_mutex_unlock(&k->w->lock);
}

static void asynchronous_reads(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct waiter w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, {0}, {0}};
    struct buf *b[64];
    struct blkptr bp[64];
    struct ticket ticket[64];

    test_pool_new(&t, &vdev12, 1);
    for (unsigned i = 0; i < 64; i++) {
        struct block_policy p = data_policy(i % 2 ? COMPRESS_LZ4 : COMPRESS_OFF);
        p.copies = 2;
        b[i] = some_data(&t.env, 4096 << i % 6, i % 5 * 40 + 20);
        block_force_gangs(&t.pool, i % 7 == 0 ? 8192 : 0);
        bp[i] = write_block(&t, 9, &p, b[i], NULL);
    }
    test_sync(&t, 9);
    spoil(&t, &bp[2], 0); /* the second copy is needed */
    spoil(&t, &bp[6], 0);
    spoil(&t, &bp[6], 1);
    for (unsigned i = 0; i < 64; i++) {
        ticket[i] = (struct ticket){&w, i};
        block_read_async(&t.pool, &bp[i], i % 2 ? &mark : NULL, NULL, arrived, &ticket[i]);
    }
    pthread_mutex_lock(&w.lock);
    while (w.done < 64)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(w.rc[i], i == 6 ? -EBADE : 0);
        if (i != 6) {
            assert_int_equal(w.data[i]->size, b[i]->size);
            assert_memory_equal(w.data[i]->data, b[i]->data, b[i]->size);
        }
        buf_unref(w.data[i]);
        buf_unref(b[i]);
    }
    test_pool_free(&t);
}

/* ---- Intent log blocks ---- */

/* One of a real pool: its pointer and its bytes. */
static void real_log_block(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct device *d;
    unsigned char *bytes;
    struct buf *got;
    struct blkptr bp;
    uint64_t at;
    size_t n;

    test_pool_new(&t, &(struct test_vdev){256 * MIB, 9, 0}, 1);
    d = t.pool.root->child[0]->device;
    bytes = test_load("log/zilog2.bin", &n);
    bp_decode(&bp, bytes, false);
    assert_int_equal(n, BLKPTR_SIZE + bp_psize(&bp));
    at = VDEV_LABEL_START + dva_offset(&bp, 0);
    assert_int_equal(device_write(d, at, bytes + BLKPTR_SIZE, n - BLKPTR_SIZE), 0);
    assert_int_equal(block_read(&t.pool, &bp, &mark, &got), 0);
    assert_memory_equal(got->data, bytes + BLKPTR_SIZE, n - BLKPTR_SIZE);
    buf_unref(got);
    bp.w[15]++; /* another place in the chain */
    assert_int_equal(block_read(&t.pool, &bp, &mark, &got), -EBADE);
    bp.w[15]--;
    bytes[BLKPTR_SIZE + 200] ^= 1;
    device_write(d, at, bytes + BLKPTR_SIZE, n - BLKPTR_SIZE);
    assert_int_equal(block_read(&t.pool, &bp, &mark, &got), -EBADE);
    bytes[BLKPTR_SIZE + 137] = 0xff; /* more used than there is */
    device_write(d, at, bytes + BLKPTR_SIZE, n - BLKPTR_SIZE);
    assert_int_equal(block_read(&t.pool, &bp, &mark, &got), -EBADE);
    assert_int_equal(t.pool.root->child[0]->stats.checksum_errors, 0);
    free(bytes);
    test_pool_free(&t);
}

static void log_written(void *arg, int rc)
{
    *(int *)arg = rc;
}

static void log_blocks(void **state)
{
    struct test_vdev v[] = {vdev12, {64 * MIB, 12, VDEV_CLASS_LOG}};
    struct test_pool t = {.env = test_env()};
    const uint64_t seed[4] = {11, 22, 33, 1};
    unsigned char block[12288];
    struct blkptr bp;
    struct buf *got;

    test_fill(&t.env, block, sizeof block);
    for (unsigned n = 1; n <= 2; n++) {
        int rc = 1;
        test_pool_new(&t, v, n);
        assert_int_equal(block_log_alloc(&t.pool, 9, sizeof block, seed, &bp), 0);
        assert_int_equal(dva_vdev(&bp, 0), n - 1);
        assert_int_equal(bp_check(&bp), 0);
        assert_int_equal(block_read(&t.pool, &bp, &mark, &got), -EBADE); /* not written yet */
        put_u64(block + 136, n == 1 ? 400 : sizeof block, BYTES_HOST_BIG);
        block_log_write(&t.pool, &bp, block, log_written, &rc);
        assert_int_equal(rc, 0);
        assert_int_equal(block_read(&t.pool, &bp, &mark, &got), 0);
        assert_memory_equal(got->data, block, 144);
        assert_memory_equal(got->data + 184, block + 184, sizeof block - 184);
        buf_unref(got);
        test_sync(&t, 9);
        test_pool_free(&t);
    }
}

/* ---- Many threads ---- */

struct writer {
    struct test_pool *t;
    struct env env;
    pthread_t thread;
};

static void *write_much(void *arg)
{
    struct writer *w = arg;
    struct blkptr bp = {{0}}, old;
    struct buf *last = NULL;

    for (int i = 0; i < 400; i++) {
        struct block_policy p = data_policy(i % 3 ? COMPRESS_LZ4 : COMPRESS_OFF);
        struct buf *b = some_data(&w->env, (size_t)512 << test_below(&w->env, 9),
                                  (unsigned)test_below(&w->env, 257));
        p.copies = (uint8_t)(1 + test_below(&w->env, 3));
        p.zero_to_hole = false;
        old = bp;
        assert_int_equal(block_write(&w->t->pool, 9, NULL, &p, b, &old, &bp), 0);
        if (!bp_hole(&old) && !bp_same_place(&old, &bp))
            assert_int_equal(block_free(&w->t->pool, 9, NULL, &old), 0);
        check_read(&w->t->pool, &bp, b);
        if (i % 50 == 0)
            assert_int_equal(block_wait(&w->t->pool), 0);
        buf_unref(last);
        last = b;
    }
    check_read(&w->t->pool, &bp, last);
    buf_unref(last);
    return NULL;
}

/* On files, where writes are really under way. */
static void writers_and_readers(void **state)
{
    struct test_pool t = {.env = test_env(), .files = true};
    struct test_vdev v[] = {vdev12, {256 * MIB, 9, 0}};
    struct writer w[4];

    test_pool_new(&t, v, 2);
    for (int i = 0; i < 4; i++) {
        w[i].t = &t;
        env_init_seeded(&w[i].env, t.env.random(&t.env));
        pthread_create(&w[i].thread, NULL, write_much, &w[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(w[i].thread, NULL);
    test_sync(&t, 9);
    test_pool_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_read_all),
        cmocka_unit_test(holes),
        cmocka_unit_test(embedding),
        cmocka_unit_test(real_embedded_block),
        cmocka_unit_test(compressed_only_if_it_pays),
        cmocka_unit_test(short_blocks_are_padded),
        cmocka_unit_test(overwrites_in_place),
        cmocka_unit_test(late_passes_converge),
        cmocka_unit_test(batch_holds_back),
        cmocka_unit_test(forced_gangs),
        cmocka_unit_test(gangs_in_a_batch),
        cmocka_unit_test(gangs_when_space_is_fragmented),
        cmocka_unit_test(dynamic_gang_headers),
        cmocka_unit_test(hostile_gang),
        cmocka_unit_test(many_gangs),
        cmocka_unit_test(bad_copies_are_replaced),
        cmocka_unit_test(impossible_places),
        cmocka_unit_test(write_errors_stay),
        cmocka_unit_test(asynchronous_reads),
        cmocka_unit_test(real_log_block),
        cmocka_unit_test(log_blocks),
        cmocka_unit_test(writers_and_readers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
