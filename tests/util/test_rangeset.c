#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "util/bytes.h"
#include "util/rangeset.h"

/* The model: one byte per number. */
enum { SPACE = 20000 };
static unsigned char model[SPACE];

static bool model_run(uint64_t from, struct range *r)
{
    uint64_t i = from;

    while (i < SPACE && !model[i])
        i++;
    if (i == SPACE)
        return false;
    r->start = i;
    while (r->start > 0 && model[r->start - 1])
        r->start--;
    while (i < SPACE && model[i])
        i++;
    r->end = i;
    return true;
}

static void check_whole(struct rangeset *s)
{
    struct range r, m;
    uint64_t total = 0, largest = 0, pos = 0, hist[4] = {0}, expect[4] = {0};
    size_t count = 0;

    for (struct range *it = rangeset_first(s, &r); it; it = rangeset_after(s, &r)) {
        unsigned bucket = (unsigned)high_bit(r.end - r.start) - 1;
        assert_true(model_run(pos, &m));
        assert_true(r.start == m.start && r.end == m.end);
        pos = r.end;
        total += r.end - r.start;
        largest = MAX(largest, r.end - r.start);
        count++;
        if (bucket >= 1)
            expect[MIN(bucket - 1, 3u)] += 1ull << (bucket > 4 ? bucket - 4 : 0);
    }
    assert_false(model_run(pos, &m));
    assert_int_equal(rangeset_total(s), total);
    assert_int_equal(rangeset_count(s), count);
    assert_int_equal(rangeset_largest(s), largest);
    rangeset_histogram(s, 1, hist, 4);
    assert_memory_equal(hist, expect, sizeof hist);
}

static void check_fits(struct rangeset *s, uint64_t pos, uint64_t len)
{
    struct range r, m, first = {0}, best = {0}, out;
    uint64_t at = 0;

    for (; model_run(at, &r); at = r.end) {
        uint64_t n = r.end - r.start;
        m = (struct range){MAX(r.start, pos), r.end};
        if (!first.end && m.end > m.start && m.end - m.start >= len)
            first = m;
        if (n >= len && (!best.end || n < best.end - best.start))
            best = r;
    }
    assert_int_equal(rangeset_first_fit(s, pos, len, 0, &out), first.end != 0);
    if (first.end)
        assert_true(out.start == first.start && out.end == first.end);
    if (rangeset_first_fit(s, pos, len, 3, &out))
        assert_true(out.start == first.start && out.end == first.end);
    assert_int_equal(rangeset_best_fit(s, len, &out), best.end != 0);
    if (best.end)
        assert_true(out.start == best.start && out.end == best.end);
}

static bool model_all(uint64_t start, uint64_t end, unsigned char v)
{
    for (uint64_t i = start; i < end; i++) {
        if (model[i] != v)
            return false;
    }
    return true;
}

static void random_step(struct rangeset *s, struct env *e, uint64_t most)
{
    uint64_t start = test_below(e, SPACE), end = start + test_below(e, most);
    bool all, none;

    end = MIN(end, (uint64_t)SPACE);
    all = model_all(start, end, 1);
    none = model_all(start, end, 0);
    assert_int_equal(rangeset_contains(s, start, end), all);
    assert_int_equal(rangeset_overlaps(s, start, end), !none);
    switch (test_below(e, 4)) {
    case 0:
        assert_int_equal(rangeset_add(s, start, end), 0);
        memset(model + start, 1, end - start);
        break;
    case 1:
        assert_int_equal(rangeset_remove(s, start, end), 0);
        memset(model + start, 0, end - start);
        break;
    case 2:
        assert_int_equal(rangeset_add_exact(s, start, end), none ? 0 : -EEXIST);
        if (none)
            memset(model + start, 1, end - start);
        break;
    default:
        assert_int_equal(rangeset_remove_exact(s, start, end), all ? 0 : -ENOENT);
        if (all)
            memset(model + start, 0, end - start);
    }
}

static void agrees_with_model(void **state)
{
    struct env e = test_env();
    struct rangeset *s = rangeset_new();

    memset(model, 0, sizeof model);
    for (int i = 0; i < 60000; i++) {
        /* Short ranges make thousands of them, so chunks divide; long ones make chunks join. */
        random_step(s, &e, i % 20000 < 19000 ? 6 : 3000);
        if (i % 500 == 0) {
            check_whole(s);
            check_fits(s, test_below(&e, SPACE), 1 + test_below(&e, 12));
        }
    }
    rangeset_clear(s);
    assert_int_equal(rangeset_count(s), 0);
    rangeset_free(s);
}

static void best_fit_follows_changes(void **state)
{
    struct env e = test_env();
    struct rangeset *s = rangeset_new();

    memset(model, 0, sizeof model);
    for (uint64_t i = 0; i + 10 < SPACE; i += 10) {
        uint64_t n = 1 + test_below(&e, 8);
        rangeset_add(s, i, i + n);
        memset(model + i, 1, n);
    }
    for (int i = 0; i < 2000; i++) {
        random_step(s, &e, 5);
        check_fits(s, test_below(&e, SPACE), 1 + test_below(&e, 12));
    }
    rangeset_free(s);
}

static void reaches_the_limits(void **state)
{
    struct rangeset *s = rangeset_new();
    struct range r;

    assert_int_equal(rangeset_add(s, 10, UINT64_MAX), 0);
    assert_int_equal(rangeset_add(s, 0, 10), 0);
    assert_int_equal(rangeset_count(s), 1);
    assert_true(rangeset_total(s) == UINT64_MAX);
    assert_int_equal(rangeset_remove(s, UINT64_MAX - 5, UINT64_MAX), 0);
    assert_int_equal(rangeset_add(s, UINT64_MAX - 2, UINT64_MAX), 0);
    assert_true(rangeset_next(s, UINT64_MAX - 4, &r));
    assert_true(r.start == UINT64_MAX - 2);
    assert_false(rangeset_next(s, UINT64_MAX, &r));
    assert_int_equal(rangeset_add(s, 5, 5), 0);
    assert_int_equal(rangeset_remove(s, 7, 3), 0);
    assert_int_equal(rangeset_count(s), 2);
    rangeset_free(s);
    rangeset_free(NULL);
}

static void moves(void **state)
{
    struct rangeset *a = rangeset_new(), *b = rangeset_new();

    for (uint64_t i = 0; i < 1000; i++)
        rangeset_add(a, i * 10, i * 10 + 5);
    assert_int_equal(rangeset_move(b, a), 0);
    assert_int_equal(rangeset_count(a), 0);
    for (uint64_t i = 0; i < 1000; i++)
        rangeset_add(a, i * 10 + 5, i * 10 + 10);
    assert_int_equal(rangeset_move(b, a), 0);
    assert_int_equal(rangeset_total(a), 0);
    assert_int_equal(rangeset_count(b), 1);
    assert_int_equal(rangeset_total(b), 10000);
    rangeset_free(a);
    rangeset_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_model),
        cmocka_unit_test(best_fit_follows_changes),
        cmocka_unit_test(reaches_the_limits),
        cmocka_unit_test(moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
