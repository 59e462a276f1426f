#include "../support/test.h"

#include <string.h>

#include "codec/checksum.h"
#include "dsl/feature.h"

static void rows_are_complete(void **state)
{
    for (int f = 0; f < FEATURE_COUNT; f++) {
        const struct feature_info *i = feature_info(f);

        assert_non_null(i->name);
        assert_non_null(strchr(i->guid, ':'));
        assert_int_equal(feature_by_name(i->name), f);
        assert_int_equal(feature_by_guid(i->guid), f);
        if (i->flags & FEATURE_CAN_WRITE)
            assert_true(i->flags & FEATURE_CAN_READ);
        if (i->flags & FEATURE_DEFAULT)
            assert_true(i->flags & FEATURE_CAN_WRITE);
    }
    assert_int_equal(FEATURE_COUNT, 47);
    assert_null(feature_info(FEATURE_COUNT));
    assert_int_equal(feature_by_name("nosuch"), FEATURE_COUNT);
}

static void defaults_bring_their_dependencies(void **state)
{
    for (int f = 0; f < FEATURE_COUNT; f++) {
        const struct feature_info *i = feature_info(f);

        for (const enum feature_id *d = i->depends; d && *d != FEATURE_COUNT; d++)
            if (i->flags & FEATURE_DEFAULT)
                assert_true(feature_info(*d)->flags & FEATURE_DEFAULT);
        if (i->flags & FEATURE_DATASET)
            assert_int_equal(i->depends[0] == FEATURE_EXTENSIBLE_DATASET, 1);
    }
}

/* OpenZFS 2.1 knows all that a new pool enables (01 17.5, column "since"). */
static void defaults_are_known_to_2_1(void **state)
{
    static const enum feature_id newer[] = {
        FEATURE_ZILSAXATTR, FEATURE_HEAD_ERRLOG, FEATURE_BLAKE3, FEATURE_BLOCK_CLONING,
        FEATURE_VDEV_ZAPS_V2, FEATURE_REDACTION_LIST_SPILL, FEATURE_RAIDZ_EXPANSION,
        FEATURE_FAST_DEDUP, FEATURE_LONGNAME, FEATURE_LARGE_MICROZAP, FEATURE_BLOCK_CLONING_ENDIAN,
        FEATURE_DYNAMIC_GANG_HEADER, FEATURE_PHYSICAL_REWRITE};

    for (size_t i = 0; i < sizeof newer / sizeof newer[0]; i++)
        assert_false(feature_info(newer[i])->flags & FEATURE_DEFAULT);
    assert_false(feature_info(FEATURE_LOG_SPACEMAP)->flags & FEATURE_DEFAULT);
    assert_false(feature_info(FEATURE_LIVELIST)->flags & FEATURE_DEFAULT);
}

/* Counted in the golden "zpool upgrade -v" and in spec 01 17.3-17.5. */
static void flags_as_documented(void **state)
{
    int ro = 0, mos = 0, act = 0, ds = 0;

    for (int f = 0; f < FEATURE_COUNT; f++) {
        unsigned flags = feature_info(f)->flags;

        ro += (flags & FEATURE_READONLY_OK) != 0;
        mos += (flags & FEATURE_MOS) != 0;
        act += (flags & FEATURE_ACTIVATE) != 0;
        ds += (flags & FEATURE_DATASET) != 0;
    }
    assert_int_equal(ro, 22);
    assert_int_equal(mos, 7);
    assert_int_equal(act, 5);
    assert_int_equal(ds, 15);
}

/* Whoever adds a checksum to the codec may switch its feature on. */
static void checksum_features_follow_the_codec(void **state)
{
    static const struct {
        enum feature_id f;
        unsigned kind;
    } rows[] = {{FEATURE_SHA512, CHECKSUM_SHA512}, {FEATURE_SKEIN, CHECKSUM_SKEIN},
                {FEATURE_EDONR, CHECKSUM_EDONR}, {FEATURE_BLAKE3, CHECKSUM_BLAKE3}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct checksum_info *c = checksum_info(rows[i].kind);

        assert_int_equal((feature_info(rows[i].f)->flags & FEATURE_CAN_WRITE) != 0,
                         c && c->compute != NULL);
        if (c && c->feature)
            assert_string_equal(c->feature, feature_info(rows[i].f)->guid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(defaults_bring_their_dependencies),
        cmocka_unit_test(defaults_are_known_to_2_1),
        cmocka_unit_test(flags_as_documented),
        cmocka_unit_test(checksum_features_follow_the_codec),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
