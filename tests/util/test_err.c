#include "../support/test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "util/err.h"

static void keeps_a_sentence(void **state)
{
    assert_int_equal(err_set(EIO, "device %s is gone", "sda"), -EIO);
    assert_string_equal(err_text(-EIO), "device sda is gone");
    assert_string_equal(err_text(-ENOMEM), strerror(ENOMEM));
    assert_string_equal(err_text(-EIO), "device sda is gone");
    err_clear();
    assert_string_equal(err_text(-EIO), strerror(EIO));
}

static void prefixes(void **state)
{
    err_set(EIO, "block 7");
    assert_int_equal(err_prefix(-EIO, "pool %s", "tank"), -EIO);
    assert_string_equal(err_text(-EIO), "pool tank: block 7");
    /* A sentence of another error is not used, and the text may be an argument itself. */
    err_prefix(-ENOENT, "%s", err_text(-EIO));
    assert_string_equal(err_text(-ENOENT), "pool tank: block 7: No such file or directory");
}

/* A list of names, a line each. */
static void keeps_a_list(void **state)
{
    char text[4000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    err_set(EIO, "%s", text);
    assert_string_equal(err_text(-EIO), text);
}

static void truncates(void **state)
{
    char text[5000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    err_set(EIO, "%s", text);
    err_prefix(-EIO, "%s", text);
    assert_in_range(strlen(err_text(-EIO)), 3500, sizeof text - 2);
}

static void *other_thread(void *arg)
{
    assert_string_equal(err_text(-EIO), strerror(EIO));
    err_set(EIO, "theirs");
    return NULL;
}

static void is_per_thread(void **state)
{
    pthread_t t;

    err_set(EIO, "mine");
    assert_int_equal(pthread_create(&t, NULL, other_thread, NULL), 0);
    pthread_join(t, NULL);
    assert_string_equal(err_text(-EIO), "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_a_sentence),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(keeps_a_list),
        cmocka_unit_test(truncates),
        cmocka_unit_test(is_per_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
