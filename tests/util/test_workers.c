#include "../support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "util/err.h"
#include "util/workers.h"

static _Atomic unsigned ran;

static void job(void *arg)
{
    atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

static void runs_all_jobs(void **state)
{
    struct workers *w;

    ran = 0;
    assert_int_equal(workers_new(&w, 3), 0);
    assert_int_equal(workers_count(w), 3);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(workers_submit(w, job, &ran), 0);
    workers_free(w);
    assert_int_equal(ran, 1000);
}

struct table {
    struct workers *w;
    unsigned char calls[300];
    size_t bad_from;
};

static int mark(void *arg, size_t i)
{
    struct table *t = arg;

    t->calls[i]++;
    if (i >= t->bad_from)
        return err_set(EIO, "index %zu", i);
    return 0;
}

static void calls_each_once(void **state)
{
    struct workers *w;

    assert_int_equal(workers_new(&w, 0), 0);
    for (size_t n = 0; n < 300; n++) {
        struct table t = {.bad_from = 300};
        assert_int_equal(workers_each(n % 7 ? w : NULL, n, mark, &t), 0);
        for (size_t i = 0; i < 300; i++)
            assert_int_equal(t.calls[i], i < n ? 1 : 0);
    }
    workers_free(w);
}

static void gives_first_error(void **state)
{
    struct workers *w;

    assert_int_equal(workers_new(&w, 4), 0);
    for (int round = 0; round < 100; round++) {
        struct table t = {.bad_from = 17};
        err_clear();
        assert_int_equal(workers_each(round % 4 ? w : NULL, 300, mark, &t), -EIO);
        assert_string_equal(err_text(-EIO), "index 17");
        assert_int_equal(t.calls[299], 1);
    }
    workers_free(w);
}

static int count_one(void *arg, size_t i)
{
    job(arg);
    return 0;
}

static int nested(void *arg, size_t i)
{
    return workers_each(arg, 10, count_one, &ran);
}

static void *outer(void *arg)
{
    for (int i = 0; i < 200; i++) {
        workers_each(arg, 5, nested, arg);
        workers_submit(arg, job, &ran);
    }
    return NULL;
}

static void serves_many_callers(void **state)
{
    struct workers *w;
    pthread_t t[4];

    ran = 0;
    assert_int_equal(workers_new(&w, 2), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, outer, w), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    workers_free(w);
    assert_int_equal(ran, 4 * 200 * 51);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_all_jobs),
        cmocka_unit_test(calls_each_once),
        cmocka_unit_test(gives_first_error),
        cmocka_unit_test(serves_many_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
