/* Object sets and objects, synced by hand: each way of changing an object, and what is on disk. */
#include "dmu_test.h"

static struct dnode *make(struct objset *os, struct tx *tx, uint8_t type, uint32_t block_size)
{
    struct object_params params = {.type = type, .block_size = block_size};
    struct dnode *dn;

    assert_int_equal(object_create(os, 0, &params, tx, &dn), 0);
    return dn;
}

static void expect(struct dnode *dn, uint64_t off, const void *want, size_t n)
{
    unsigned char *got = malloc(n);

    assert_int_equal(dnode_read(dn, off, got, n), 0);
    assert_memory_equal(got, want, n);
    free(got);
}

static void test_empty(void **state)
{
    struct dmu_pool p;
    uint64_t object = 0;

    dmu_pool_new(&p);
    add_set(&p, OBJSET_META, 0, &test_props);
    add_set(&p, OBJSET_OTHER, 0, &test_props);
    assert_true(objset_dirty(p.sets[0], p.txg));
    sync_now(&p);
    assert_false(objset_dirty(p.sets[0], p.txg - 1));
    assert_int_equal(bp_copies(&p.roots[0]), 3);
    assert_int_equal(bp_copies(&p.roots[1]), 2);
    reopen(&p);
    assert_int_equal(objset_type(p.sets[0]), OBJSET_META);
    assert_int_equal(objset_next_object(p.sets[1], &object), -ENOENT);
    dmu_pool_free(&p);
}

static void test_small_objects(void **state)
{
    struct dmu_pool p;
    struct objset *os;
    struct dnode *dn;
    struct tx tx;
    uint64_t object = 0;

    dmu_pool_new(&p);
    os = add_set(&p, OBJSET_OTHER, 0, &test_props);
    tx = open_tx(&p);
    for (unsigned i = 1; i <= 100; i++) {
        char text[64];
        dn = make(os, &tx, OT_PLAIN_FILE, 512);
        assert_int_equal(dnode_object(dn), i);
        snprintf(text, sizeof text, "object %u", i);
        assert_int_equal(dnode_write(dn, 0, text, sizeof text, &tx), 0);
        dnode_rele(dn);
    }
    sync_now(&p);
    reopen(&p);
    os = p.sets[0];
    for (unsigned i = 1; i <= 100; i++) {
        char text[64] = "";
        assert_int_equal(objset_next_object(os, &object), 0);
        assert_int_equal(object, i);
        assert_int_equal(dnode_hold(os, i, &dn), 0);
        snprintf(text, sizeof text, "object %u", i);
        expect(dn, 0, text, strlen(text) + 1);
        if (i % 2) {
            tx = open_tx(&p);
            assert_int_equal(object_free(dn, &tx), 0);
            assert_int_equal(dnode_read(dn, 0, text, 1), -ENOENT);
        }
        dnode_rele(dn);
    }
    assert_int_equal(objset_next_object(os, &object), -ENOENT);
    sync_now(&p);
    assert_int_equal(objset_object_count(os), 50);
    assert_int_equal(dnode_hold(os, 1, &dn), -ENOENT);
    assert_int_equal(dnode_hold(os, 2, &dn), 0);
    dnode_rele(dn);
    dmu_pool_free(&p);
}

/* Two versions of a block, and what was written to the older one stays what it was. */
static void test_versions(void **state)
{
    struct dmu_pool p;
    struct objset *os;
    struct dnode *dn;
    struct dbuf *db;
    struct tx tx, next;
    unsigned char block[4096];

    dmu_pool_new(&p);
    os = add_set(&p, OBJSET_OTHER, 0, &test_props);
    tx = open_tx(&p);
    dn = make(os, &tx, OT_PLAIN_FILE, 4096);
    memset(block, 1, sizeof block);
    assert_int_equal(dnode_write(dn, 0, block, sizeof block, &tx), 0);
    next = (struct tx){.pool = tx.pool, .txg = tx.txg + 1};
    assert_int_equal(dbuf_hold(dn, 0, 0, &db), 0);
    assert_int_equal(dbuf_dirty(db, &next), 0);
    memset(dbuf_data(db), 2, 100);
    dbuf_rele(db);
    dnode_rele(dn);
    assert_int_equal(dmu_sync_txg(&p, p.txg++), 0);
    {
        struct objset *old;
        assert_int_equal(objset_open(&old, &p.t.pool, 54, &p.roots[0], &test_props, NULL, NULL), 0);
        assert_int_equal(dnode_hold(old, 1, &dn), 0);
        expect(dn, 0, block, sizeof block);
        dnode_rele(dn);
        objset_close(old);
    }
    memset(block, 2, 100);
    sync_now(&p);
    reopen(&p);
    assert_int_equal(dnode_hold(p.sets[0], 1, &dn), 0);
    expect(dn, 0, block, sizeof block);
    dnode_rele(dn);
    dmu_pool_free(&p);
}

static void test_levels(void **state)
{
    struct dmu_pool p;
    struct objset *os;
    struct dnode *dn;
    struct tx tx;
    static const uint64_t at[] = {0, 7, 1, 200, 3000, 70000, 25165824, 1ull << 40};
    unsigned char block[1024];

    dmu_pool_new(&p);
    os = add_set(&p, OBJSET_OTHER, 0, &test_props);
    tx = open_tx(&p);
    dn = make(os, &tx, OT_PLAIN_FILE, 1024);
    assert_int_equal(dnode_object(dn), 1);
    for (unsigned i = 0; i < ARRAY_LEN(at); i++) {
        tx = open_tx(&p);
        memset(block, (int)i + 1, sizeof block);
        assert_int_equal(dnode_write(dn, at[i] * 1024, block, sizeof block, &tx), 0);
        sync_now(&p);
        for (unsigned k = 0; k <= i; k++) {
            memset(block, (int)k + 1, sizeof block);
            expect(dn, at[k] * 1024, block, sizeof block);
        }
        if (i % 2) {
            dnode_rele(dn);
            reopen(&p);
            os = p.sets[0];
            assert_int_equal(dnode_hold(os, 1, &dn), 0);
        }
    }
    assert_int_equal(dnode_levels(dn), 5);
    /* Cut it down again: levels stay, blocks go. */
    tx = open_tx(&p);
    assert_int_equal(dnode_free_range(dn, 1500, UINT64_MAX, &tx), 0);
    assert_int_equal(dnode_max_blkid(dn), 1);
    sync_now(&p);
    assert_int_equal(dnode_levels(dn), 5);
    memset(block, 3, sizeof block);
    memset(block + 476, 0, 548);
    expect(dn, 1024, block, sizeof block);
    tx = open_tx(&p);
    assert_int_equal(dnode_free_range(dn, 0, UINT64_MAX, &tx), 0);
    sync_now(&p);
    assert_int_equal(dnode_used(dn), 0);
    dnode_rele(dn);
    dmu_pool_free(&p);
}

/* The meta-dnode of the MOS starts with one level. */
static void test_mos_grows(void **state)
{
    struct dmu_pool p;
    struct dnode *dn;
    struct tx tx;
    uint64_t object = 0, n = 0;

    dmu_pool_new(&p);
    add_set(&p, OBJSET_META, 0, &test_props);
    for (int txg = 0; txg < 12; txg++) {
        tx_begin_syncing(&tx, &p.t.pool, p.txg);
        for (int i = 0; i < 50; i++) {
            dn = make(p.sets[0], &tx, OT_OTHER_UINT64, 512);
            object = dnode_object(dn);
            assert_int_equal(dnode_write(dn, 0, &object, 8, &tx), 0);
            dnode_rele(dn);
        }
        sync_now(&p);
        if (txg % 3 == 2)
            reopen(&p);
    }
    object = 0;
    while (objset_next_object(p.sets[0], &object) == 0) {
        assert_int_equal(dnode_hold(p.sets[0], object, &dn), 0);
        expect(dn, 0, &object, 8);
        dnode_rele(dn);
        n++;
    }
    assert_int_equal(n, 600);
    dmu_pool_free(&p);
}

static void test_bonus(void **state)
{
    struct dmu_pool p;
    struct object_params params = {.type = OT_PLAIN_FILE, .bonus_type = OT_SA, .bonus_len = 168};
    struct dnode *dn;
    struct tx tx;
    unsigned char b[320], *spill;
    size_t len;

    dmu_pool_new(&p);
    add_set(&p, OBJSET_OTHER, 0, &test_props);
    tx = open_tx(&p);
    assert_int_equal(object_create(p.sets[0], 0, &params, &tx, &dn), 0);
    assert_int_equal(dnode_bonus_capacity(dn, false), 320);
    assert_int_equal(dnode_bonus_capacity(dn, true), 192);
    memset(b, 7, sizeof b);
    assert_int_equal(dnode_bonus_set(dn, b, 320, 0, &tx), 0);
    assert_int_equal(dnode_spill_set(dn, "x", 1, &tx), -E2BIG);
    sync_now(&p);
    tx = open_tx(&p);
    assert_int_equal(dnode_bonus_set(dn, b, 192, 0, &tx), 0);
    assert_int_equal(dnode_spill_set(dn, "spilled", 8, &tx), 0);
    assert_int_equal(dnode_bonus_set(dn, b, 193, 0, &tx), -E2BIG);
    assert_int_equal(dnode_bonus_patch(dn, 190, "zz", 2, &tx), 0);
    assert_int_equal(dnode_bonus_patch(dn, 191, "zz", 2, &tx), -ERANGE);
    sync_now(&p);
    dnode_rele(dn);
    reopen(&p);
    assert_int_equal(dnode_hold(p.sets[0], 1, &dn), 0);
    assert_int_equal(dnode_bonus_get(dn, b, sizeof b, &len), 0);
    assert_int_equal(len, 192);
    assert_memory_equal(b + 188, "\7\7zz", 4);
    assert_int_equal(dnode_spill_get(dn, &spill, &len), 0);
    assert_int_equal(len, 512);
    assert_string_equal((char *)spill, "spilled");
    free(spill);
    tx = open_tx(&p);
    assert_int_equal(dnode_spill_set(dn, NULL, 0, &tx), 0);
    assert_int_equal(dnode_spill_get(dn, &spill, &len), 0);
    assert_null(spill);
    assert_int_equal(dnode_bonus_set(dn, b, 300, 0, &tx), 0);
    sync_now(&p);
    assert_int_equal(dnode_used(dn), 0);
    dnode_rele(dn);
    dmu_pool_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),    cmocka_unit_test(test_small_objects),
        cmocka_unit_test(test_versions), cmocka_unit_test(test_levels),
        cmocka_unit_test(test_bonus),    cmocka_unit_test(test_mos_grows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
