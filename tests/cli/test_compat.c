/* The compatibility property: which features its sets allow. */
#include "../support/test.h"

#include <errno.h>

#include "cli/compat_impl.h"

static int count(const char *sets)
{
    bool allowed[FEATURE_COUNT];
    int n = 0;
    if (compat_features(sets, allowed) != 0)
        return -1;
    for (int f = 0; f < FEATURE_COUNT; f++)
        n += allowed[f];
    return n;
}

static void sets(void **state)
{
    bool allowed[FEATURE_COUNT];
    assert_int_equal(count("off"), FEATURE_COUNT);
    assert_int_equal(count("legacy"), 0);
    assert_int_equal(count("openzfs-2.4"), FEATURE_COUNT);
    assert_int_equal(count("openzfs-2.1-linux"), count("openzfs-2.1-freebsd"));
    assert_int_equal(compat_features("openzfs-2.1-linux", allowed), 0);
    assert_true(allowed[FEATURE_DRAID] && allowed[FEATURE_ZSTD_COMPRESS]);
    assert_false(allowed[FEATURE_BLAKE3] || allowed[FEATURE_BLOCK_CLONING]);
    /* All of a list must allow it. */
    assert_int_equal(count("openzfs-2.4,openzfs-2.0-linux"), count("openzfs-2.0"));
    assert_int_equal(count("openzfs-2.1,legacy"), 0);
}

static void unknown_sets(void **state)
{
    static const char *const bad[] = {"nosuch", "openzfs-2.1-solaris", "openzfs-9.9",
                                      "../etc/passwd", "off,nosuch"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(count(bad[i]), -1);
}

/* What new pools get must be importable by OpenZFS 2.1. */
static void defaults_fit_in_2_1(void **state)
{
    bool allowed[FEATURE_COUNT];
    assert_int_equal(compat_features("openzfs-2.1-linux", allowed), 0);
    for (int f = 0; f < FEATURE_COUNT; f++)
        if (feature_info((enum feature_id)f)->flags & FEATURE_DEFAULT)
            assert_true(allowed[f]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets),
        cmocka_unit_test(unknown_sets),
        cmocka_unit_test(defaults_fit_in_2_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
