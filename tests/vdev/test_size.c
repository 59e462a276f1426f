/* Sizes, by the spec's examples and by what the labels of real devices say. */
#include "label_sample.h"

#include "nvlist/nvlist.h"
#include "vdev/label.h"

static void test_formulas(void **state)
{
    assert_int_equal(size_psize(268435456), 268435456);
    assert_int_equal(size_psize(268435456 + 262143), 268435456);
    assert_int_equal(size_psize(262143), 0);
    assert_int_equal(size_leaf(268435456), 263716864);
    assert_int_equal(size_leaf(0x480000), 0);
    assert_int_equal(size_leaf(0), 0);
    assert_int_equal(size_raidz(263716864, 4), 1054867456);
    assert_int_equal(size_draid(62390272, 7, 3, 2, 1), 83886080);
    assert_int_equal(size_draid(62390272, 7, 3, 2, 7), 0);
    assert_int_equal(size_draid(1 << 20, 7, 3, 2, 1), 0);
    assert_int_equal(size_draid(62390272, 7, 0, 0, 1), 0);
}

static void test_metaslab_shift(void **state)
{
    static const struct {
        uint64_t asize;
        unsigned shift;
    } rows[] = {
        {1054867456, 26},           /* the spec's: 15 metaslabs */
        {0x4000000 - 0x480000, 24}, /* the smallest device: never below 16 MiB */
        {129499136, 24},            /* 128 MiB */
        {16ull << 29, 29},          /* from 8 GiB on, 512 MiB each */
        {(16ull << 29) - 1, 29},    /* hb(2^29 - 1) */
        {200ull << 29, 29},
        {(201ull << 29) - 1, 29},
        {201ull << 29, 30}, /* from 200 metaslabs on, fewer and larger */
        {1ull << 40, 33},
        {200ull << 34, 34 + 1 - 1}, /* 16 GiB at most */
        {131072ull << 34, 34},      /* up to 131072 of them */
        {131073ull << 34, 35},      /* hb(2^34 + a little) */
        {1ull << 55, 39},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (size_metaslab_shift(rows[i].asize) != rows[i].shift)
            fail_msg("row %zu: %u", i, size_metaslab_shift(rows[i].asize));
}

/* asize and metaslab_shift of a real top-level vdev from the size of one of its devices. */
static void test_real(void **state)
{
    static const char *const names[] = {"basic-disk0",     "aged-disk0",     "stripe-disk1",
                                        "traidz1x3-disk2", "tdraid-disk0",   "v28-disk0",
                                        "aux-disk0",       "degraded-disk0", "checkpoint-disk0"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct device *d = sample_device(names[i]);
        struct label_set set;
        struct nvlist *tree, **children;
        uint64_t asize, shift;
        size_t n = 1;
        assert_int_equal(label_read(d, &set), 0);
        assert_int_equal(nvlist_get_nvlist(set.label[0].config, "vdev_tree", &tree), 0);
        assert_int_equal(nvlist_get_uint64(tree, "asize", &asize), 0);
        assert_int_equal(nvlist_get_uint64(tree, "metaslab_shift", &shift), 0);
        const char *type = nvlist_string_or(tree, "type", "");
        nvlist_get_nvlist_array(tree, "children", &children, &n);
        uint64_t leaf = size_leaf(set.psize), want = leaf;
        if (strcmp(type, "raidz") == 0)
            want = size_raidz(leaf, n);
        else if (strcmp(type, "draid") == 0)
            want = size_draid(leaf, n, nvlist_uint64_or(tree, "draid_ndata", 0),
                              nvlist_uint64_or(tree, "nparity", 0),
                              nvlist_uint64_or(tree, "draid_nspares", 0));
        if (asize != want || size_metaslab_shift(asize) != shift)
            fail_msg("%s: asize %llu, computed %llu; shift %llu", names[i],
                     (unsigned long long)asize, (unsigned long long)want,
                     (unsigned long long)shift);
        label_set_free(&set);
        device_close(d);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_metaslab_shift),
        cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
