/* Delegated permissions: what is kept where, and who has what by it. */
#include "dsl/deleg.h"
#include "dsl_test.h"
#include "util/bytes.h"

static const uint32_t gids[] = {100, 2000};
static const struct deleg_caller anna = {1000, gids, 2};

static void change(struct dsl_test *p, const char *ds, bool remove, char kind, char scope, const char *who,
                   const char *perm)
{
    struct deleg d = {.kind = kind, .scope = scope};
    snprintf(d.who, sizeof d.who, "%s", who);
    snprintf(d.perm, sizeof d.perm, "%s", perm);
    assert_int_equal(deleg_change(p->dsl, ds, remove, &d, 1), 0);
}

static void has(struct dsl_test *p, const char *ds, const char *perm)
{
    assert_int_equal(deleg_access(p->dsl, ds, perm, &anna), 0);
}

static void lacks(struct dsl_test *p, const char *ds, const char *perm)
{
    assert_int_equal(deleg_access(p->dsl, ds, perm, &anna), -EPERM);
}

static void fill(struct dsl_test *p)
{
    dsl_test_new(p, 64 << 20, 12, NULL);
    assert_int_equal(dataset_create(p->dsl, "tank/a", NULL, 0, 0), 0);
    assert_int_equal(dataset_create(p->dsl, "tank/a/b", NULL, 0, 0), 0);
    snapshot(p, "tank/a@s");
}

static void levels(void **state)
{
    struct dsl_test p;
    fill(&p);
    lacks(&p, "tank/a", "snapshot");
    change(&p, "tank/a", false, 'u', 'l', "1000", "snapshot");
    change(&p, "tank/a", false, 'g', 'd', "2000", "hold");
    change(&p, "tank", false, 'e', 'd', "", "clone");
    change(&p, "tank", false, 'u', 'd', "1001", "destroy");
    has(&p, "tank/a", "snapshot");
    has(&p, "tank/a@s", "snapshot");
    has(&p, "tank/a#mark", "snapshot");
    lacks(&p, "tank/a/b", "snapshot");
    lacks(&p, "tank/a", "hold");
    has(&p, "tank/a/b", "hold");
    has(&p, "tank/a/b", "clone");
    lacks(&p, "tank", "clone");
    lacks(&p, "tank/a", "destroy");
    dsl_test_reopen(&p);
    has(&p, "tank/a", "snapshot");
    change(&p, "tank/a", true, 'u', 'l', "1000", "");
    lacks(&p, "tank/a", "snapshot");
    change(&p, "tank/a", true, 'g', 'd', "2000", "nothing of it");
    has(&p, "tank/a/b", "hold");
    assert_int_equal(deleg_access(p.dsl, "tank/none", "hold", &anna), -ENOENT);
    dsl_test_free(&p);
}

/* The nearest definition, seen from where the set was given, counts. */
static void sets(void **state)
{
    struct dsl_test p;
    fill(&p);
    change(&p, "tank", false, 's', '-', "@one", "hold");
    change(&p, "tank/a/b", false, 's', '-', "@one", "destroy");
    change(&p, "tank/a", false, 'u', 'l', "1000", "@one");
    change(&p, "tank/a", false, 'u', 'd', "1000", "@one");
    has(&p, "tank/a", "hold");
    has(&p, "tank/a/b", "hold"); /* given above: not what is below */
    lacks(&p, "tank/a/b", "destroy");
    change(&p, "tank/a", false, 's', '-', "@one", "snapshot");
    lacks(&p, "tank/a", "hold");
    has(&p, "tank/a", "snapshot");
    change(&p, "tank/a", false, 's', '-', "@one", "@two");
    change(&p, "tank", false, 's', '-', "@two", "rename");
    change(&p, "tank", false, 's', '-', "@two", "@two");
    has(&p, "tank/a", "rename");
    lacks(&p, "tank/a", "clone");
    dsl_test_free(&p);
}

static void makers(void **state)
{
    struct dsl_test p;
    fill(&p);
    change(&p, "tank", false, 'c', '-', "", "rename");
    change(&p, "tank/a", false, 'c', '-', "", "@set");
    change(&p, "tank", false, 's', '-', "@set", "hold");
    assert_int_equal(dataset_create(p.dsl, "tank/a/new", NULL, 1000, 0), 0);
    assert_int_equal(dataset_clone(p.dsl, "tank/a@s", "tank/clone", NULL, 1000), 0);
    has(&p, "tank/a/new", "rename");
    has(&p, "tank/a/new", "hold");
    has(&p, "tank/clone", "rename");
    lacks(&p, "tank/clone", "hold");
    lacks(&p, "tank/a", "rename");
    assert_int_equal(dataset_destroy(p.dsl, "tank/a/new"), 0);
    dsl_test_free(&p);
}

struct spoil {
    const char *ds, *key;
    size_t words; /* of the entry: 2 cannot be read as a number, 1 leads nowhere */
};

static int spoil_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    const struct spoil *s = arg;
    CLEANUP_DS struct dataset *ds = NULL;
    const uint64_t nowhere[2] = {999999, 0};
    struct dnode *zap;
    int rc = ds_hold_name(dsl, s->ds, &ds);
    if (rc == 0)
        rc = dnode_hold(dsl->mos, ds->dir->w[DIR_DELEG], &zap);
    if (rc != 0)
        return rc;
    rc = zap_update(zap, s->key, 8, s->words, nowhere, tx);
    dnode_rele(zap);
    return rc;
}

/* What cannot be read gives nobody anything, and keeps nobody from making datasets. */
static void damaged(void **state)
{
    struct dsl_test p;
    struct spoil meaning = {"tank/a", "s-$@one", 2}, makers_key = {"tank/a", "c-$", 1};
    fill(&p);
    p.check = false; /* what is spoiled is leaked */
    change(&p, "tank", false, 's', '-', "@one", "hold");
    change(&p, "tank/a", false, 's', '-', "@one", "snapshot");
    change(&p, "tank/a", false, 'u', 'l', "1000", "@one");
    change(&p, "tank/a", false, 'c', '-', "", "rename");
    lacks(&p, "tank/a", "hold");
    assert_int_equal(dsl_task(p.dsl, NULL, spoil_sync, &meaning, DSL_SPACE_NORMAL), 0);
    assert_true(deleg_access(p.dsl, "tank/a", "hold", &anna) < 0); /* not by the farther meaning */
    assert_int_equal(dsl_task(p.dsl, NULL, spoil_sync, &makers_key, DSL_SPACE_NORMAL), 0);
    assert_int_equal(dataset_create(p.dsl, "tank/a/new", NULL, 1000, 0), 0);
    lacks(&p, "tank/a/new", "rename");
    dsl_test_free(&p);
}

static void names(void **state)
{
    static const char *const good[] = {"snapshot", "receive:append", "userquota", "compression", "volsize",
                                       "encryption", "userprop", "defaultuserquota"};
    static const char *const bad[] = {"", "used", "creation", "compress", "org:x", "program", "@set"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(deleg_permission_known(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(deleg_permission_known(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(levels), cmocka_unit_test(sets),
                                       cmocka_unit_test(makers), cmocka_unit_test(damaged),
                                       cmocka_unit_test(names)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
