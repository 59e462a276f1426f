#include "dsl_test.h"

#include "dmu/zap.h"
#include "util/err.h"

static void an_empty_pool(void **state)
{
    struct dsl_test p;

    dsl_test_new(&p, 128 << 20, 12, NULL);
    wait_txg(&p);
    dsl_test_reopen(&p);
    wait_txg(&p);
    check_books(&p);
    dsl_test_free(&p);
}

static void without_features(void **state)
{
    static const bool none[FEATURE_COUNT];
    struct dsl_test p;
    struct dataset *ds;
    uint64_t object;

    dsl_test_new(&p, 128 << 20, 9, none);
    assert_int_equal(dataset_create(p.dsl, "tank/a", NULL, 0, 0), 0);
    ds = hold(&p, "tank/a");
    object = make_object(&p, ds, 131072);
    write_object(&p, ds, object, 0, 1 << 20, true);
    snapshot(&p, "tank/a@1");
    write_object(&p, ds, object, 0, 1 << 19, true);
    snapshot(&p, "tank/a@2");
    const char *name = "tank/a@1";
    assert_int_equal(dataset_snapshot_destroy(p.dsl, &name, 1, false), 0);
    name = "tank/a@2";
    assert_int_equal(dataset_snapshot_destroy(p.dsl, &name, 1, false), 0);
    dataset_rele(ds);
    assert_int_equal(dataset_destroy(p.dsl, "tank/a"), 0);
    wait_txg(&p);
    assert_int_equal(dsl_freeing(p.dsl), 0);
    dsl_test_free(&p);
}

static void create_write_snapshot_destroy(void **state)
{
    struct dsl_test p;
    struct dataset *ds, *s;
    struct dataset_stats st;
    uint64_t object;

    dsl_test_new(&p, 128 << 20, 12, NULL);
    assert_int_equal(dataset_create(p.dsl, "tank/a", NULL, 0, 0), 0);
    assert_int_equal(dataset_create(p.dsl, "tank/a", NULL, 0, 0), -EEXIST);
    assert_int_equal(dataset_create(p.dsl, "tank/x/y", NULL, 0, 0), -ENOENT);
    assert_int_equal(dataset_create(p.dsl, "nosuch/a", NULL, 0, 0), -ENOENT);
    ds = hold(&p, "tank/a");
    object = make_object(&p, ds, 131072);
    write_object(&p, ds, object, 0, 1 << 20, true);
    snapshot(&p, "tank/a@1");
    write_object(&p, ds, object, 0, 1 << 19, true);
    wait_txg(&p);
    s = hold(&p, "tank/a@1");
    assert_int_equal(dataset_stats(s, &st), 0);
    assert_true(st.used > (1 << 19) && st.referenced > (1 << 20));
    assert_true(st.snapshot);
    dataset_rele(s);
    assert_int_equal(dataset_destroy(p.dsl, "tank/a"), -EEXIST);
    const char *name = "tank/a@1";
    assert_int_equal(dataset_snapshot_destroy(p.dsl, &name, 1, false), 0);
    assert_int_equal(dataset_own(ds, &p), 0);
    assert_int_equal(dataset_destroy(p.dsl, "tank/a"), -EBUSY);
    dataset_disown(ds, &p);
    dataset_rele(ds);
    assert_int_equal(dataset_destroy(p.dsl, "tank/a"), 0);
    while (dsl_freeing(p.dsl) > 0)
        wait_txg(&p);
    assert_int_equal(dataset_hold(p.dsl, "tank/a", &ds), -ENOENT);
    dsl_test_reopen(&p);
    wait_txg(&p);
    check_books(&p);
    dsl_test_free(&p);
}

static int spoil(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct dataset *ds = arg;

    ds->w[DS_FLAGS] |= DS_FLAG_INCONSISTENT;
    ds_dirty(ds);
    return 0;
}

/* A dataset that a broken receive left behind goes when the pool is opened. */
static void inconsistent_datasets_go(void **state)
{
    struct dsl_test p;
    struct dataset *ds;

    dsl_test_new(&p, 128 << 20, 12, NULL);
    assert_int_equal(dataset_create(p.dsl, "tank/a", NULL, 0, 0), 0);
    assert_int_equal(dataset_create(p.dsl, "tank/a/b", NULL, 0, 0), 0);
    ds = hold(&p, "tank/a/b");
    assert_int_equal(dsl_task(p.dsl, NULL, spoil, ds, DSL_SPACE_NONE), 0);
    dataset_rele(ds);
    dsl_test_reopen(&p);
    assert_int_equal(dsl_start(p.dsl), 0);
    assert_int_equal(dataset_hold(p.dsl, "tank/a/b", &ds), -ENOENT);
    ds = hold(&p, "tank/a");
    dataset_rele(ds);
    dsl_test_free(&p);
}

static void names(void **state)
{
    static const struct {
        const char *name, *sentence;
    } rows[] = {{"tank/b%d", "invalid character % in name"},
                {"tank//a", "empty component or misplaced '@' or '#' delimiter in name"},
                {"tank/", "trailing slash in name"},
                {"tank/a@", "empty component or misplaced '@' or '#' delimiter in name"},
                {"tank/a#b", "bookmark delimiter '#' is not expected here"},
                {"/tank", "leading slash in name"},
                {"tank/$ORIGIN", "invalid character $ in name"},
                {"tank/$ORIGIN@x", "invalid character $ in name"}};
    char deep[DATASET_NAME_MAX + 10] = "t";

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int rc = dataset_name_check(rows[i].name);

        assert_int_equal(rc, -EINVAL);
        assert_string_equal(err_text(rc), rows[i].sentence);
    }
    assert_int_equal(dataset_name_check("tank/b d/x-y_z.:1@snap 1"), 0);
    for (int i = 0; i < 49; i++)
        strcat(deep, "/a");
    assert_int_equal(dataset_name_check(deep), 0);
    strcat(deep, "/a");
    assert_int_equal(dataset_name_check(deep), -ENAMETOOLONG);
    memset(deep, 'a', DATASET_NAME_MAX);
    assert_int_equal(dataset_name_check(deep), -ENAMETOOLONG);
}

/* ---- Features that this version does not know ---- */

static int add_unknown(struct dsl *dsl, void *arg, struct tx *tx)
{
    const char *const *zap_and_guid = arg;
    uint64_t zap, texts;
    struct dnode *dn;
    int rc = zap_get_u64(dsl_mos(dsl), 1, zap_and_guid[0], &zap);

    if (rc == 0)
        rc = zap_get_u64(dsl_mos(dsl), 1, "feature_descriptions", &texts);
    if (rc == 0)
        rc = zap_set_u64(dsl_mos(dsl), zap, zap_and_guid[1], 1, tx);
    if (rc == 0)
        rc = zap_set_u64(dsl_mos(dsl), zap, "org.example:sleeping", 0, tx); /* not active */
    if (rc == 0 && (rc = dnode_hold(dsl_mos(dsl), texts, &dn)) == 0) {
        rc = zap_update(dn, zap_and_guid[1], 1, 16, "Does\nsomething.", tx);
        dnode_rele(dn);
    }
    return rc;
}

static void unknown_features(void **state)
{
    const char *write_only[] = {"features_for_write", "org.example:gauge"},
               *reading[] = {"features_for_read", "org.example:knots"};
    struct dsl_test p;

    dsl_test_new(&p, 128 << 20, 12, NULL);
    assert_int_equal(feature_check(p.dsl, true), 0);
    assert_int_equal(dsl_task(p.dsl, NULL, add_unknown, write_only, DSL_SPACE_NORMAL), 0);
    assert_int_equal(feature_check(p.dsl, false), 0);
    assert_int_equal(feature_check(p.dsl, true), -EROFS);
    assert_non_null(strstr(err_text(-EROFS), "org.example:gauge (Does something.)"));
    assert_null(strstr(err_text(-EROFS), "sleeping"));
    assert_int_equal(dsl_task(p.dsl, NULL, add_unknown, reading, DSL_SPACE_NORMAL), 0);
    assert_int_equal(feature_check(p.dsl, false), -ENOTSUP);
    assert_non_null(strstr(err_text(-ENOTSUP), "org.example:knots (Does something.)"));
    assert_null(strstr(err_text(-ENOTSUP), "gauge"));
    dsl_test_free(&p);
}

static int refuse_late(struct dsl *dsl, void *arg, struct tx *tx)
{
    return tx ? err_set(EBUSY, "%s", (char *)arg) : 0;
}

/* What the sync thread refuses, for many names, comes whole. */
static void long_sentences(void **state)
{
    char text[4000];
    struct dsl_test p;

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    dsl_test_new(&p, 128 << 20, 12, NULL);
    assert_int_equal(dsl_task(p.dsl, refuse_late, NULL, text, DSL_SPACE_NORMAL), -EBUSY);
    assert_string_equal(err_text(-EBUSY), text);
    dsl_test_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_pool),
        cmocka_unit_test(without_features),
        cmocka_unit_test(create_write_snapshot_destroy),
        cmocka_unit_test(inconsistent_datasets_go),
        cmocka_unit_test(names),
        cmocka_unit_test(unknown_features),
        cmocka_unit_test(long_sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
