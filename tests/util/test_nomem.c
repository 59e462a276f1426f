/* Each allocation fails in turn. */
#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "../support/alloc.h"
#include "util/buf.h"
#include "util/hashmap.h"
#include "util/rangeset.h"
#include "util/workers.h"

/* Everything a set says, to compare. */
static uint64_t fingerprint(const struct rangeset *s)
{
    uint64_t hash = rangeset_total(s) ^ rangeset_count(s) << 32;
    struct range r;

    for (struct range *it = rangeset_first(s, &r); it; it = rangeset_after(s, &r))
        hash = hash_bytes(&r, sizeof r, hash);
    return hash;
}

/* Refused changes change nothing and succeed when tried again. */
static void rangeset(void **state)
{
    struct env e = test_env();
    struct rangeset *s = rangeset_new();
    struct range r;
    unsigned failures = 0;

    for (int i = 0; i < 20000; i++) {
        uint64_t start = test_below(&e, 20000), end = start + test_below(&e, 5), before;
        int (*change)(struct rangeset *, uint64_t, uint64_t) =
            test_below(&e, 5) < 3 ? rangeset_add : rangeset_remove;
        int rc;
        if (i % 1000 == 999)
            rangeset_best_fit(s, 2, &r); /* now the index can fail too, which nobody sees */
        before = i % 50 == 0 ? fingerprint(s) : 0;
        alloc_fail_at(1 + (unsigned)test_below(&e, 2));
        rc = change(s, start, end);
        failures += rc < 0;
        alloc_fail_at(0);
        if (rc < 0) {
            assert_int_equal(rc, -ENOMEM);
            if (i % 50 == 0)
                assert_true(fingerprint(s) == before);
            assert_int_equal(change(s, start, end), 0);
        }
        assert_int_equal(rangeset_overlaps(s, start, end), change == rangeset_add && start < end);
    }
    assert_true(failures > 5);
    rangeset_free(s);
}

static void best_fit_without_index(void **state)
{
    struct rangeset *s = rangeset_new();
    struct range r;

    for (uint64_t i = 0; i < 2000; i++)
        rangeset_add(s, i * 100, i * 100 + 1 + (i * 7) % 50);
    for (unsigned at = 1;; at++) {
        bool failed;
        alloc_fail_at(at);
        assert_true(rangeset_best_fit(s, 50, &r));
        failed = alloc_failed();
        alloc_fail_at(0);
        assert_int_equal(r.end - r.start, 50);
        if (!failed)
            break;
        assert_true(at < 100);
    }
    rangeset_free(s);
}

/* Whatever a move could not do, no range is lost. */
static void move(void **state)
{
    for (unsigned at = 1;; at++) {
        struct rangeset *a = rangeset_new(), *b = rangeset_new();
        bool failed;
        int rc;
        for (uint64_t i = 0; i < 1000; i++)
            rangeset_add(i % 2 ? a : b, i * 10, i * 10 + 5);
        alloc_fail_at(at);
        rc = rangeset_move(a, b);
        failed = alloc_failed();
        alloc_fail_at(0);
        assert_int_equal(rc, failed ? -ENOMEM : 0);
        assert_int_equal(rangeset_total(a) + rangeset_total(b), 5000);
        assert_int_equal(rangeset_move(a, b), 0);
        assert_int_equal(rangeset_count(a), 1000);
        rangeset_free(a);
        rangeset_free(b);
        if (!failed)
            break;
    }
}

static void buf(void **state)
{
    const size_t size = 17 << 20; /* too large to be kept */
    size_t before = buf_total_bytes();

    for (unsigned at = 1; at <= 2; at++) {
        alloc_fail_at(at);
        assert_null(buf_new(size));
        assert_true(alloc_failed());
    }
    alloc_fail_at(0);
    assert_int_equal(buf_total_bytes(), before);
}

struct item {
    struct hashmap_node node;
};

static void hashmap(void **state)
{
    struct hashmap m;
    struct item *items = calloc(500, sizeof *items);

    alloc_fail_at(1);
    assert_int_equal(hashmap_init(&m, 10), -ENOMEM);
    assert_int_equal(hashmap_init(&m, 10), 0);
    for (uint64_t i = 0; i < 500; i++) {
        alloc_fail_at(1);
        hashmap_insert(&m, &items[i].node, hash_u64(i));
    }
    alloc_fail_at(0);
    for (uint64_t i = 0; i < 500; i++)
        assert_ptr_equal(hashmap_first(&m, hash_u64(i)), &items[i].node);
    hashmap_destroy(&m);
    free(items);
}

static void job(void *arg)
{
    atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

static void workers(void **state)
{
    struct workers *w;
    _Atomic unsigned ran = 0;

    alloc_fail_at(1);
    assert_int_equal(workers_new(&w, 1), -ENOMEM);
    assert_int_equal(workers_new(&w, 1), 0);
    alloc_fail_at(1);
    assert_int_equal(workers_submit(w, job, &ran), -ENOMEM);
    alloc_fail_at(0);
    assert_int_equal(workers_submit(w, job, &ran), 0);
    workers_free(w);
    assert_int_equal(ran, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rangeset), cmocka_unit_test(best_fit_without_index),
        cmocka_unit_test(move),     cmocka_unit_test(buf),
        cmocka_unit_test(hashmap),  cmocka_unit_test(workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
