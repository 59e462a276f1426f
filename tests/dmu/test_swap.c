/* A set written by a host of the other byte order, made by hand, and read. */
#include "dmu_test.h"

static void put16(unsigned char *p, uint16_t v)
{
    put_u16(p, v, !BYTES_HOST_BIG);
}
static void put64(unsigned char *p, uint64_t v)
{
    put_u64(p, v, !BYTES_HOST_BIG);
}

/* Writes bytes as they are and gives a pointer that says they are foreign. The checksum is off: it
 * would depend on the byte order. */
static struct blkptr foreign_block(struct dmu_pool *p, const void *bytes, size_t n, uint8_t type,
                                   uint8_t level, uint64_t fill)
{
    struct block_policy policy = {.type = type, .level = level, .checksum = CHECKSUM_OFF,
                                  .compress = COMPRESS_OFF, .copies = 1, .fill = fill};
    struct buf *b = buf_new(n);
    struct blkptr bp;

    memcpy(b->data, bytes, n);
    assert_int_equal(block_write(&p->t.pool, p->txg, NULL, &policy, b, NULL, &bp), 0);
    buf_unref(b);
    bp.w[6] ^= 1ull << 63;
    return bp;
}

static void put_bp(unsigned char *p, const struct blkptr *bp)
{
    for (int i = 0; i < 16; i++)
        put64(p + 8 * i, bp->w[i]);
}

static void put_dnode(unsigned char *dn, uint8_t type, uint8_t levels, uint8_t nblkptr,
                      uint16_t sectors, uint64_t max, uint64_t used)
{
    dn[0] = type;
    dn[1] = 12;
    dn[2] = levels;
    dn[3] = nblkptr;
    dn[7] = 1;
    put16(dn + 8, sectors);
    put64(dn + 16, max);
    put64(dn + 24, used);
}

/* Object 1: u64 data in two blocks below an indirect one; object 2: two slots, u64 bonus, spill. */
static void make_objects(struct dmu_pool *p, unsigned char *block)
{
    unsigned char data[1024], indirect[4096] = {0}, *dn = block + 512;
    struct blkptr bp;

    for (unsigned b = 0; b < 2; b++) {
        for (unsigned i = 0; i < 128; i++)
            put64(data + 8 * i, 1000 * b + i);
        bp = foreign_block(p, data, sizeof data, OT_OTHER_UINT64, 0, 1);
        put_bp(indirect + 128 * b, &bp);
    }
    bp = foreign_block(p, indirect, sizeof indirect, OT_OTHER_UINT64, 1, 2);
    put_dnode(dn, OT_OTHER_UINT64, 2, 1, 2, 1, 6144);
    put_bp(dn + 64, &bp);
    dn = block + 1024;
    put_dnode(dn, OT_PLAIN_FILE, 1, 1, 1, 0, 512);
    dn[4] = OT_UINT64_METADATA;
    dn[7] = 5;
    dn[12] = 1;
    put16(dn + 10, 24);
    for (unsigned i = 0; i < 3; i++)
        put64(dn + 192 + 8 * i, 77 + i);
    for (unsigned i = 0; i < 64; i++)
        put64(data + 8 * i, 5000 + i);
    bp = foreign_block(p, data, 512, OT_UINT64_METADATA, 0, 1);
    put_bp(dn + 1024 - 128, &bp);
}

static struct blkptr make_set(struct dmu_pool *p)
{
    unsigned char *block = calloc(1, 16384), *os = calloc(1, 4096);
    struct blkptr bp;

    make_objects(p, block);
    bp = foreign_block(p, block, 16384, OT_DNODE, 0, 2);
    put_dnode(os, OT_DNODE, 1, 3, 32, 0, 16384);
    put_bp(os + 64, &bp);
    put64(os + 512, 4711); /* claim txg in the ZIL header */
    put64(os + 704, OBJSET_OTHER);
    bp = foreign_block(p, os, 4096, OT_OBJSET, 0, 2);
    free(block);
    free(os);
    return bp;
}

static void test_foreign(void **state)
{
    struct dmu_pool p;
    struct objset *os;
    struct dnode *dn;
    struct blkptr root;
    uint64_t object = 0;
    uint64_t data[256], bonus[3];
    unsigned char *spill, zil[OBJSET_ZIL_HEADER_SIZE];
    size_t len;

    dmu_pool_new(&p);
    root = make_set(&p);
    assert_int_equal(objset_open(&os, &p.t.pool, 54, &root, &test_props, NULL, NULL), 0);
    assert_int_equal(objset_type(os), OBJSET_OTHER);
    objset_zil_header(os, zil);
    assert_int_equal(check_u64(zil), 4711);
    assert_int_equal(dnode_hold(os, 1, &dn), 0);
    assert_int_equal(dnode_read(dn, 0, data, 2048), 0);
    for (unsigned i = 0; i < 256; i++)
        assert_int_equal(data[i], 1000 * (i / 128) + i % 128);
    dnode_rele(dn);
    assert_int_equal(dnode_hold(os, 2, &dn), 0);
    assert_int_equal(dnode_size(dn), 1024);
    assert_int_equal(dnode_bonus_get(dn, bonus, sizeof bonus, &len), 0);
    assert_int_equal(len, 24);
    assert_int_equal(bonus[2], 79);
    assert_int_equal(dnode_spill_get(dn, &spill, &len), 0);
    assert_int_equal(len, 512);
    assert_int_equal(check_u64(spill + 8), 5001);
    free(spill);
    dnode_rele(dn);
    assert_int_equal(dnode_hold(os, 3, &dn), -ENOENT);
    assert_int_equal(objset_next_object(os, &object), 0);
    assert_int_equal(objset_next_object(os, &object), 0);
    assert_int_equal(object, 2);
    assert_int_equal(objset_next_object(os, &object), -ENOENT);
    objset_close(os);
    dmu_pool_free(&p);
}

/* Changed here, the blocks that are written get this host's order; the others stay. */
static void test_changed(void **state)
{
    static const struct objset_ops ops = {.born = count_born};
    struct dmu_pool p;
    struct dnode *dn;
    struct tx tx;
    uint64_t v = 42, data[2];
    struct blkptr root;

    dmu_pool_new(&p);
    p.check_every = 0;
    root = make_set(&p);
    assert_int_equal(objset_open(&p.sets[0], &p.t.pool, 54, &root, &test_props, &ops, &p), 0);
    p.count = 1;
    p.roots[0] = root;
    tx = open_tx(&p);
    assert_int_equal(dnode_hold(p.sets[0], 1, &dn), 0);
    assert_int_equal(dnode_write(dn, 1024, &v, 8, &tx), 0);
    dnode_rele(dn);
    sync_now(&p);
    assert_int_equal(bp_big_endian(&p.roots[0]), BYTES_HOST_BIG);
    reopen(&p);
    assert_int_equal(dnode_hold(p.sets[0], 1, &dn), 0);
    assert_int_equal(dnode_read(dn, 1016, data, 16), 0);
    assert_int_equal(data[0], 127);
    assert_int_equal(data[1], 42);
    dnode_rele(dn);
    dmu_pool_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_foreign),
                                       cmocka_unit_test(test_changed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
