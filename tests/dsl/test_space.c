/* Who may write when, and that space comes back. */
#include "dsl_test.h"

#include "util/err.h"

#define MB (1ull << 20)

static uint64_t available(struct dsl_test *p, const char *name)
{
    struct dataset *ds = hold(p, name);
    uint64_t ref, avail, objects;

    dataset_space(ds, &ref, &avail, &objects);
    dataset_rele(ds);
    return avail;
}

static uint64_t used(struct dsl_test *p, const char *name)
{
    struct dataset *ds = hold(p, name);
    struct dataset_stats st;

    assert_int_equal(dataset_stats(ds, &st), 0);
    dataset_rele(ds);
    return st.used;
}

/* Spec 05 8.3: a small pool keeps half of itself back. */
static void available_is_half_of_a_small_pool(void **state)
{
    struct dsl_test p;
    struct alloc_space s;

    dsl_test_new(&p, 200 * MB, 9, NULL);
    alloc_space(&p.t.pool, &s);
    assert_int_equal(available(&p, "tank"), s.dspace - s.dspace / 2 - used(&p, "tank"));
    dsl_test_free(&p);
}

/* Writes megabytes of noise until told to stop; the number of megabytes. */
static unsigned fill(struct dsl_test *p, struct dataset *ds, uint64_t object, unsigned most, int *rc)
{
    for (unsigned i = 0; i < most; i++) {
        *rc = write_object(p, ds, object, i * MB, MB, true);
        if (*rc != 0)
            return i;
    }
    return most;
}

static void filling_and_emptying(void **state)
{
    struct dsl_test p;
    struct dataset *ds;
    uint64_t object, empty, room;
    unsigned n;
    int rc = 0;

    dsl_test_new(&p, 128 * MB, 12, NULL);
    p.check = false;
    assert_int_equal(dataset_create(p.dsl, "tank/a", NULL, 0, 0), 0);
    ds = hold(&p, "tank/a");
    object = make_object(&p, ds, 131072);
    wait_txg(&p);
    wait_txg(&p);
    empty = used(&p, "tank");
    room = available(&p, "tank");
    n = fill(&p, ds, object, 200, &rc);
    assert_int_equal(rc, -ENOSPC);
    wait_txg(&p);
    assert_true(n >= room / MB - 3 && n <= room / MB + 2);
    assert_true(available(&p, "tank") < 2 * MB);
    assert_int_equal(dataset_create(p.dsl, "tank/b", NULL, 0, 0), -ENOSPC);
    free_object(&p, ds, object); /* works on a full pool */
    for (int i = 0; i < 5; i++)
        wait_txg(&p);
    check_books(&p);
    assert_true(used(&p, "tank") <= empty + 200000);
    object = make_object(&p, ds, 131072);
    assert_int_equal(fill(&p, ds, object, 20, &rc), 20);
    dataset_rele(ds);
    dsl_test_free(&p);
}

/* Space of frees that are still deferred is waited for, not refused. */
static void rewriting_on_a_nearly_full_pool(void **state)
{
    struct dsl_test p;
    struct dataset *ds;
    uint64_t object;
    unsigned n;
    int rc = 0;

    dsl_test_new(&p, 96 * MB, 12, NULL);
    p.check = false;
    assert_int_equal(dataset_create(p.dsl, "tank/a", NULL, 0, 0), 0);
    ds = hold(&p, "tank/a");
    object = make_object(&p, ds, 131072);
    n = (unsigned)(available(&p, "tank") / MB) - 8;
    for (int round = 0; round < 3; round++)
        assert_int_equal(fill(&p, ds, object, n, &rc), n);
    wait_txg(&p);
    check_books(&p);
    dataset_rele(ds);
    dsl_test_free(&p);
}

static void quotas(void **state)
{
    struct dsl_test p;
    struct dataset *ds;
    uint64_t object;
    unsigned n;
    int rc = 0;

    dsl_test_new(&p, 256 * MB, 12, NULL);
    p.check = false;
    assert_int_equal(dataset_create(p.dsl, "tank/a", NULL, 0, 0), 0);
    set_prop(&p, "tank/a", "quota", "8M");
    ds = hold(&p, "tank/a");
    object = make_object(&p, ds, 131072);
    n = fill(&p, ds, object, 40, &rc);
    assert_int_equal(rc, -EDQUOT);
    assert_in_range(n, 7, 9);
    wait_txg(&p);
    assert_true(used(&p, "tank/a") < 10 * MB);
    assert_int_equal(available(&p, "tank/a"), 0);
    free_object(&p, ds, object);
    wait_txg(&p);
    set_prop(&p, "tank/a", "quota", "none");
    set_prop(&p, "tank/a", "refquota", "4M");
    object = make_object(&p, ds, 131072);
    n = fill(&p, ds, object, 40, &rc);
    assert_int_equal(rc, -EDQUOT);
    assert_in_range(n, 3, 5);
    dataset_rele(ds);
    check_books(&p);
    dsl_test_free(&p);
}

/* A sibling's reservation is not for others; its owner has it. */
static void reservations(void **state)
{
    struct dsl_test p;
    struct dataset *a, *b;
    uint64_t object, room;
    unsigned n;
    int rc = 0;

    dsl_test_new(&p, 128 * MB, 12, NULL);
    p.check = false;
    assert_int_equal(dataset_create(p.dsl, "tank/a", NULL, 0, 0), 0);
    assert_int_equal(dataset_create(p.dsl, "tank/b", NULL, 0, 0), 0);
    room = available(&p, "tank") / MB;
    set_prop(&p, "tank/b", "reservation", "10M");
    a = hold(&p, "tank/a");
    b = hold(&p, "tank/b");
    object = make_object(&p, a, 131072);
    n = fill(&p, a, object, 200, &rc);
    assert_int_equal(rc, -ENOSPC);
    assert_in_range(n, room - 14, room - 8);
    object = make_object(&p, b, 131072);
    assert_int_equal(fill(&p, b, object, 6, &rc), 6);
    dataset_rele(a);
    dataset_rele(b);
    wait_txg(&p);
    check_books(&p);
    dsl_test_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(available_is_half_of_a_small_pool), cmocka_unit_test(filling_and_emptying),
        cmocka_unit_test(rewriting_on_a_nearly_full_pool), cmocka_unit_test(quotas),
        cmocka_unit_test(reservations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
