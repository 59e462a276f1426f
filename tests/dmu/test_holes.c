/* What is on disk, byte by byte: holes, trees that collapse, rewriting within a txg, walking. */
#include "dmu_test.h"

#define BS 1024

struct setup {
    struct dmu_pool p;
    struct dnode *dn;
};

static void begin(struct setup *s, const struct objset_props *props)
{
    struct object_params params = {.type = OT_PLAIN_FILE, .block_size = BS, .indirect_shift = 12,
                                   .bonus_type = OT_SA};
    struct tx tx;

    dmu_pool_new(&s->p);
    add_set(&s->p, OBJSET_OTHER, 0, props);
    tx = open_tx(&s->p);
    assert_int_equal(object_create(s->p.sets[0], 0, &params, &tx, &s->dn), 0);
}

static void end(struct setup *s)
{
    dnode_rele(s->dn);
    dmu_pool_free(&s->p);
}

static void write_block(struct setup *s, uint64_t blkid, int byte)
{
    struct tx tx = open_tx(&s->p);
    unsigned char b[BS];

    memset(b, byte, sizeof b);
    assert_int_equal(dnode_write(s->dn, blkid * BS, b, BS, &tx), 0);
}

static void punch(struct setup *s, uint64_t first, uint64_t n)
{
    struct tx tx = open_tx(&s->p);

    assert_int_equal(dnode_free_range(s->dn, first * BS, n * BS, &tx), 0);
}

/* Object 1's dnode on disk: the root's meta-dnode leads to it by pointer 0 of each level. */
static void disk_dnode(struct setup *s, unsigned char out[512])
{
    struct blkptr bp = s->p.roots[0];
    struct buf *b;

    assert_int_equal(block_read(&s->p.t.pool, &bp, NULL, &b), 0);
    for (int level = b->data[2]; level > 0; level--) {
        struct buf *next;
        bp_decode(&bp, b->data + (level == b->data[2] && bp_type(&bp) == OT_OBJSET ? 64 : 0), false);
        assert_int_equal(block_read(&s->p.t.pool, &bp, NULL, &next), 0);
        buf_unref(b);
        b = next;
    }
    memcpy(out, b->data + 512, 512);
    buf_unref(b);
}

/* The pointer at (level, blkid) of the object on disk; walks through holes as zeros. */
static struct blkptr disk_bp(struct setup *s, unsigned level, uint64_t blkid)
{
    unsigned char dn[512];
    struct blkptr bp;
    struct buf *b;

    disk_dnode(s, dn);
    bp_decode(&bp, dn + 64, false);
    for (unsigned l = dn[2] - 1u; l > level; l--) {
        if (bp_hole(&bp))
            return (struct blkptr){0};
        assert_int_equal(block_read(&s->p.t.pool, &bp, NULL, &b), 0);
        bp_decode(&bp, b->data + 128 * (blkid >> (5 * (l - 1 - level)) & 31), false);
        buf_unref(b);
    }
    return bp;
}

static void expect_hole(struct setup *s, unsigned level, uint64_t blkid, uint64_t birth)
{
    struct blkptr bp = disk_bp(s, level, blkid), want;

    bp_set_hole(&want, OT_PLAIN_FILE, level, level ? 4096 : BS, birth);
    assert_memory_equal(&bp, &want, sizeof bp);
}

static void expect_block(struct setup *s, unsigned level, uint64_t blkid, uint64_t birth,
                         uint64_t fill)
{
    struct blkptr bp = disk_bp(s, level, blkid);

    assert_false(bp_hole(&bp));
    assert_int_equal(bp_birth(&bp), birth);
    assert_int_equal(bp_fill(&bp), fill);
}

static void test_zeros(void **state)
{
    struct setup s;
    uint64_t t;

    begin(&s, &test_props);
    write_block(&s, 0, 1);
    write_block(&s, 1, 0); /* never was a block: no birth */
    write_block(&s, 5, 5);
    t = s.p.txg;
    sync_now(&s.p);
    expect_block(&s, 1, 0, t, 2);
    expect_hole(&s, 0, 1, 0);
    expect_hole(&s, 0, 4, 0);
    expect_block(&s, 0, 5, t, 1);
    write_block(&s, 0, 0); /* was a block */
    write_block(&s, 1, 0);
    sync_now(&s.p);
    expect_hole(&s, 0, 0, t + 1);
    expect_hole(&s, 0, 1, 0);
    expect_block(&s, 0, 5, t, 1);
    expect_block(&s, 1, 0, t + 1, 1);
    write_block(&s, 0, 0); /* a born hole, zeros again: 03 4.2 */
    punch(&s, 1, 3);       /* holes stay what they are */
    sync_now(&s.p);
    expect_hole(&s, 0, 0, t + 2);
    expect_hole(&s, 0, 1, 0);
    end(&s);
}

static void test_uncompressed_zeros(void **state)
{
    struct objset_props props = test_props;
    struct setup s;

    props.compress = COMPRESS_OFF;
    begin(&s, &props);
    write_block(&s, 0, 0);
    sync_now(&s.p);
    expect_block(&s, 0, 0, s.p.txg - 1, 1);
    end(&s);
}

static void test_collapse(void **state)
{
    struct setup s;
    uint64_t t, seek;

    begin(&s, &test_props);
    for (uint64_t b = 0; b < 100; b += 10)
        write_block(&s, b, 7);
    sync_now(&s.p);
    assert_int_equal(dnode_levels(s.dn), 3);
    t = s.p.txg;
    punch(&s, 32, 32); /* the second L1 block as a whole */
    punch(&s, 0, 5);   /* part of the first */
    punch(&s, 94, 6);
    seek = 35 * BS;
    assert_int_equal(dnode_seek(s.dn, &seek, false), 0);
    assert_int_equal(seek, 70 * BS);
    sync_now(&s.p);
    expect_hole(&s, 1, 1, t);
    expect_hole(&s, 0, 0, t);
    expect_block(&s, 0, 10, t - 1, 1);
    expect_block(&s, 1, 0, t, 3);
    expect_block(&s, 2, 0, t, 6);
    /* One block below the born hole: its neighbours are born holes of the hole's birth. */
    write_block(&s, 40, 8);
    sync_now(&s.p);
    expect_block(&s, 0, 40, t + 1, 1);
    expect_hole(&s, 0, 41, t);
    expect_hole(&s, 0, 33, t);
    expect_hole(&s, 0, 97, 0);
    /* Freed and written again in one txg: the old block goes, the new one comes. */
    punch(&s, 32, 32);
    write_block(&s, 41, 9);
    sync_now(&s.p);
    expect_hole(&s, 0, 40, t + 2);
    expect_block(&s, 0, 41, t + 2, 1);
    /* The last blocks one by one: the tree becomes one hole. */
    for (uint64_t b = 0; b < 100; b++)
        write_block(&s, b, 0);
    sync_now(&s.p);
    expect_hole(&s, 2, 0, t + 3);
    assert_int_equal(dnode_max_blkid(s.dn), 99);
    assert_int_equal(dnode_used(s.dn), 0);
    seek = 0;
    assert_int_equal(dnode_seek(s.dn, &seek, false), -ENXIO);
    assert_int_equal(dnode_seek(s.dn, &seek, true), 0);
    assert_int_equal(seek, 0);
    end(&s);
}

/* New levels above pointers that are born holes must not lose the births. */
static void test_grow_over_holes(void **state)
{
    struct setup s;
    uint64_t t;

    begin(&s, &test_props);
    write_block(&s, 0, 1);
    sync_now(&s.p);
    t = s.p.txg;
    punch(&s, 0, 1);
    sync_now(&s.p);
    expect_hole(&s, 0, 0, t);
    write_block(&s, 2000, 1);
    sync_now(&s.p);
    assert_int_equal(dnode_levels(s.dn), 4);
    expect_hole(&s, 2, 0, t + 1);
    expect_hole(&s, 2, 2, 0);
    end(&s);
}

static void test_max_blkid(void **state)
{
    struct setup s;
    struct tx tx;
    unsigned char dn[512], *data = calloc(1, 900000);

    begin(&s, &test_props);
    tx = open_tx(&s.p);
    /* Written and truncated at once: the number stays high (03 4.5). */
    assert_int_equal(dnode_write(s.dn, 0, memset(data, 1, 900000), 900000, &tx), 0);
    assert_int_equal(dnode_free_range(s.dn, 1234, UINT64_MAX, &tx), 0);
    sync_now(&s.p);
    disk_dnode(&s, dn);
    assert_int_equal(check_u64(dn + 16), 878);
    tx = open_tx(&s.p);
    assert_int_equal(dnode_free_range(s.dn, 1234, UINT64_MAX, &tx), 0);
    assert_int_equal(dnode_max_blkid(s.dn), 1);
    sync_now(&s.p);
    disk_dnode(&s, dn);
    assert_int_equal(check_u64(dn + 16), 1);
    free(data);
    end(&s);
}

/* Several passes in one txg, held back in a batch: blocks keep their places. */
static void test_passes(void **state)
{
    struct dmu_pool p;
    struct object_params params = {.type = OT_OTHER_UINT64, .block_size = 16384};
    struct block_batch *batch;
    struct objset *os;
    struct dnode *dn;
    struct tx tx;
    uint64_t noise[2048], born = 0;
    struct blkptr first = {0};

    dmu_pool_new(&p);
    os = add_set(&p, OBJSET_META, 0, &test_props);
    assert_int_equal(block_batch_new(&batch), 0);
    block_set_batch(&p.t.pool, batch);
    tx_begin_syncing(&tx, &p.t.pool, p.txg);
    assert_int_equal(object_create(os, 0, &params, &tx, &dn), 0);
    for (int pass = 0; pass < 6; pass++) {
        for (unsigned i = 0; i < 2048; i++)
            noise[i] = p.t.env.random(&p.t.env);
        assert_int_equal(dnode_write(dn, 0, noise, sizeof noise, &tx), 0);
        assert_true(objset_dirty(os, p.txg));
        p.t.pool.no_compress = pass > 3;
        assert_int_equal(objset_sync(os, &tx, &p.roots[0]), 0);
        assert_false(objset_dirty(os, p.txg));
        if (pass == 0)
            first = p.roots[0];
        if (pass == 1)
            born = p.born;
    }
    assert_true(bp_same_place(&first, &p.roots[0]));
    assert_int_equal(p.born, born);
    assert_int_equal(block_batch_submit(&p.t.pool, batch), 0);
    block_set_batch(&p.t.pool, NULL);
    block_batch_free(batch);
    test_sync(&p.t, p.txg++);
    check_pool(&p);
    dnode_rele(dn);
    reopen(&p);
    assert_int_equal(dnode_hold(p.sets[0], 1, &dn), 0);
    {
        uint64_t got[2048];
        assert_int_equal(dnode_read(dn, 0, got, sizeof got), 0);
        assert_memory_equal(got, noise, sizeof got);
    }
    dnode_rele(dn);
    dmu_pool_free(&p);
}

struct seen {
    uint64_t blocks, space, last_birth;
};

/* So little memory that the leaves of a txg are written in many rounds, while levels are added and
 * ranges freed. */
static void test_rounds(void **state)
{
    enum { N = 400, STRIDE = 37, TXGS = 4 };
    unsigned char want[N] = {0}, b[BS];
    struct setup s;

    begin(&s, &test_props);
    s.p.t.pool.cache_limit = 64 << 10;
    for (int t = 0; t < TXGS; t++) {
        int n = N >> (TXGS - 1 - t);
        for (int i = t; i < n; i += t + 1) {
            want[i] = (unsigned char)(1 + (i + t) % 255);
            write_block(&s, (uint64_t)i * STRIDE, want[i]);
        }
        if (t > 0) {
            punch(&s, (uint64_t)n / 4 * STRIDE, (uint64_t)n / 8 * STRIDE);
            memset(want + n / 4, 0, (size_t)n / 8);
        }
        sync_now(&s.p);
        for (int i = 0; i < n; i++) {
            assert_int_equal(dnode_read(s.dn, (uint64_t)i * STRIDE * BS, b, BS), 0);
            assert_int_equal(b[0], want[i]);
            assert_int_equal(b[BS - 1], want[i]);
        }
    }
    end(&s);
}

static int see(void *arg, const struct blkptr *bp, const struct bookmark *bm)
{
    struct seen *s = arg;

    s->blocks++;
    for (int i = 0; i < bp_copies(bp); i++)
        s->space += dva_asize(bp, i);
    s->last_birth = bp_birth(bp);
    return 0;
}

static void test_walk(void **state)
{
    struct setup s;
    struct seen all = {0}, young = {0};

    begin(&s, &test_props);
    for (uint64_t b = 0; b < 200; b += 3)
        write_block(&s, b, 7);
    sync_now(&s.p);
    write_block(&s, 50, 8);
    sync_now(&s.p);
    assert_int_equal(objset_walk(&s.p.t.pool, 54, &s.p.roots[0], 0, see, &all), 0);
    assert_int_equal(all.space, test_allocated(&s.p.t));
    assert_int_equal(objset_walk(&s.p.t.pool, 54, &s.p.roots[0], s.p.txg - 2, see, &young), 0);
    /* Root, six levels of the meta-dnode, three of the object. */
    assert_int_equal(young.blocks, 1 + 6 + 3);
    assert_int_equal(young.last_birth, s.p.txg - 1);
    end(&s);
}

/* A set opened at another root forgets what it knew; dnodes held are stale. */
static void test_reset(void **state)
{
    struct setup s;
    struct blkptr old;
    struct dnode *dn;
    struct tx tx;
    unsigned char b[BS];

    begin(&s, &test_props);
    write_block(&s, 0, 1);
    sync_now(&s.p);
    old = s.p.roots[0];
    /* The old tree stays on the devices for two more txgs. */
    write_block(&s, 0, 2);
    tx_begin_syncing(&tx, &s.p.t.pool, s.p.txg++);
    assert_int_equal(objset_sync(s.p.sets[0], &tx, &s.p.roots[0]), 0);
    assert_int_equal(objset_reset(s.p.sets[0], &old), 0);
    assert_int_equal(dnode_read(s.dn, 0, b, 1), -ESTALE);
    tx = open_tx(&s.p);
    assert_int_equal(dnode_write(s.dn, 0, b, 1, &tx), -ESTALE);
    assert_int_equal(dnode_hold(s.p.sets[0], 1, &dn), 0);
    assert_ptr_not_equal(dn, s.dn);
    assert_int_equal(dnode_read(dn, 0, b, 1), 0);
    assert_int_equal(b[0], 1);
    dnode_rele(dn);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeros),          cmocka_unit_test(test_uncompressed_zeros),
        cmocka_unit_test(test_collapse),       cmocka_unit_test(test_grow_over_holes),
        cmocka_unit_test(test_max_blkid),      cmocka_unit_test(test_passes),
        cmocka_unit_test(test_walk),           cmocka_unit_test(test_reset),
        cmocka_unit_test(test_rounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
