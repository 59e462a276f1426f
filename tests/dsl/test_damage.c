/* Damaged MOS objects: opening and listing must end in an error or a result, never in a crash. Bonus words
 * and ZAP values are overwritten with numbers of other objects, small and huge numbers, and noise. */
#include "dsl_test.h"

#include "dmu/tx.h"

static struct dsl_test p;
static uint64_t objects[512];
static size_t nobjects;

static void ignore(void *arg, const struct blkptr *bp, struct tx *tx)
{
}

static const struct objset_ops keep_ops = {.born = ignore, .killed = ignore};

static int setup(void **state)
{
    static const char *const names[] = {"tank/a", "tank/a/b", "tank/a/b/c", "tank/d"};
    struct dataset *ds;
    uint64_t object = 0;

    dsl_test_new(&p, 512 << 20, 9, NULL);
    for (unsigned i = 0; i < 4; i++) {
        char snap[64];

        assert_int_equal(dataset_create(p.dsl, names[i], NULL, 0, 0), 0);
        ds = hold(&p, names[i]);
        object = make_object(&p, ds, 4096);
        for (unsigned k = 0; k < 3; k++) {
            write_object(&p, ds, object, 0, 50000, true);
            snprintf(snap, sizeof snap, "%s@%u", names[i], k);
            snapshot(&p, snap);
        }
        dataset_rele(ds);
    }
    set_prop(&p, "tank/a", "com.example:note", "text");
    set_prop(&p, "tank/a", "mountpoint", "/somewhere");
    for (object = 0; nobjects < 512 && objset_next_object(p.mos, &object) == 0;)
        objects[nobjects++] = object;
    dsl_test_close(&p);
    return 0;
}

static int teardown(void **state)
{
    txg_engine_free(p.t.pool.txg);
    p.t.pool.txg = NULL;
    test_pool_free(&p.t);
    return 0;
}

static uint64_t bad_number(void)
{
    struct env *e = &p.t.env;

    switch (test_below(e, 5)) {
    case 0:
        return objects[test_below(e, nobjects)];
    case 1:
        return test_below(e, 4);
    case 2:
        return UINT64_MAX - test_below(e, 4);
    case 3:
        return 1ull << test_below(e, 64);
    default:
        return e->random(e);
    }
}

static void damage_bonus(struct dnode *dn, struct tx *tx)
{
    uint64_t w[40], bad = bad_number();
    size_t len;

    if (dnode_bonus_get(dn, w, sizeof w, &len) != 0 || len < 8)
        return;
    assert_int_equal(dnode_bonus_patch(dn, 8 * test_below(&p.t.env, len / 8), &bad, 8, tx), 0);
}

static void damage_zap(struct dnode *dn, struct tx *tx)
{
    struct zap_cursor c;
    struct zap_entry e;
    uint64_t bad = bad_number();
    uint64_t skip = test_below(&p.t.env, 8);

    zap_cursor_init(&c, dn, 0);
    do
        if (zap_cursor_next(&c, &e) != 0)
            return;
    while (skip-- > 0);
    if (test_below(&p.t.env, 4) == 0)
        zap_remove(dn, e.name, tx);
    else
        zap_update(dn, e.name, 8, 1, &bad, tx);
}

static void damage_one(struct objset *mos, struct tx *tx)
{
    struct dnode *dn;

    if (dnode_hold(mos, objects[test_below(&p.t.env, nobjects)], &dn) != 0)
        return;
    if (test_below(&p.t.env, 2))
        damage_bonus(dn, tx);
    else
        damage_zap(dn, tx);
    dnode_rele(dn);
}

static int look(void *arg, struct dataset *ds)
{
    struct dataset_stats st;
    struct nvlist *l;
    struct objset *os;
    size_t count;
    const struct prop_info *table = prop_table(&count);

    (void)dataset_stats(ds, &st);
    for (size_t i = 0; i < count; i++) {
        struct prop_value v;

        if (prop_get(ds, table[i].name, &v) == 0)
            prop_value_clear(&v);
    }
    if (prop_user_list(ds, &l) == 0)
        nvlist_free(l);
    (void)dataset_objset(ds, &os);
    return 0;
}

/* Writes the damage to new blocks; the good ones stay for the next round. */
static void round_of_damage(uint64_t txg)
{
    struct objset *mos;
    struct blkptr root = p.root;
    struct dsl *dsl;
    struct tx tx;

    tx_begin_syncing(&tx, &p.t.pool, txg);
    assert_int_equal(objset_open(&mos, &p.t.pool, 0, &p.root, &mos_props, &keep_ops, NULL), 0);
    for (uint64_t n = 1 + test_below(&p.t.env, 4); n > 0; n--)
        damage_one(mos, &tx);
    if (objset_dirty(mos, txg))
        assert_int_equal(objset_sync(mos, &tx, &root), 0);
    test_sync(&p.t, txg);
    objset_close(mos);
    assert_int_equal(objset_open(&mos, &p.t.pool, 0, &root, &mos_props, &keep_ops, NULL), 0);
    if (dsl_open(&dsl, &p.t.pool, mos) == 0) {
        (void)feature_check(dsl, true);
        (void)dataset_each(dsl, "tank", -1, true, look, NULL);
        (void)dataset_each(dsl, "tank/a/b@1", 0, false, look, NULL);
        for (size_t i = 0; i < nobjects; i++) {
            struct dataset *ds;

            if (dataset_hold_object(dsl, objects[i], &ds) == 0) {
                look(NULL, ds);
                dataset_rele(ds);
            }
        }
        dsl_close(dsl);
    }
    objset_close(mos);
}

static void damaged_mos(void **state)
{
    uint64_t txg = txg_synced_number(p.t.pool.txg) + 1;

    const char *text = getenv("TARN_STEPS");
    unsigned rounds = text ? (unsigned)atoi(text) : 60;

    p.t.pool.writable = false;
    for (unsigned i = 0; i < rounds; i++)
        round_of_damage(txg++);
}

/* The child list of tank/a/b/c names tank/a, which is above. */
static void directories_in_a_circle(void **state)
{
    uint64_t txg = txg_synced_number(p.t.pool.txg) + 1000, above, list;
    struct blkptr root = p.root;
    struct dataset *ds;
    struct objset *mos;
    struct dnode *dn;
    struct dsl *dsl;
    struct tx tx;

    tx_begin_syncing(&tx, &p.t.pool, txg);
    assert_int_equal(objset_open(&mos, &p.t.pool, 0, &p.root, &mos_props, &keep_ops, NULL), 0);
    assert_int_equal(dsl_open(&dsl, &p.t.pool, mos), 0);
    assert_int_equal(dataset_hold(dsl, "tank/a", &ds), 0);
    above = ds->dir->object;
    dataset_rele(ds);
    assert_int_equal(dataset_hold(dsl, "tank/a/b/c", &ds), 0);
    list = ds->dir->w[DIR_CHILDREN];
    dataset_rele(ds);
    dsl_close(dsl);
    assert_int_equal(dnode_hold(mos, list, &dn), 0);
    assert_int_equal(zap_add(dn, "up", 8, 1, &above, &tx), 0);
    dnode_rele(dn);
    assert_int_equal(objset_sync(mos, &tx, &root), 0);
    test_sync(&p.t, txg);
    objset_close(mos);
    assert_int_equal(objset_open(&mos, &p.t.pool, 0, &root, &mos_props, &keep_ops, NULL), 0);
    assert_int_equal(dsl_open(&dsl, &p.t.pool, mos), 0);
    assert_int_equal(dataset_each(dsl, "tank", -1, true, look, NULL), -EBADE);
    dsl_close(dsl);
    objset_close(mos);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_mos),
                                       cmocka_unit_test(directories_in_a_circle)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
