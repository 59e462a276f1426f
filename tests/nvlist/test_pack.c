#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "nvlist/nvlist.h"
#include "util/bytes.h"

typedef int pack_fn(const struct nvlist *l, unsigned char **out, size_t *n);
typedef int unpack_fn(const void *data, size_t n, struct nvlist **out, size_t *used);

static pack_fn *const packs[2] = {nvlist_pack_native, nvlist_pack_xdr};
static unpack_fn *const unpacks[2] = {nvlist_unpack_native, nvlist_unpack_xdr};

/* Unpacking and packing gives the same bytes; the input is exactly as long as the list. */
static void check_exact(const unsigned char *data, size_t n, bool xdr)
{
    struct nvlist *l, *copy;
    unsigned char *again;
    size_t used, len;

    assert_int_equal(nvlist_unpack(data, n, &l, &used), 0);
    assert_int_equal(used, n);
    copy = nvlist_dup(l);
    nvlist_free(l);
    assert_int_equal(packs[xdr](copy, &again, &len), 0);
    nvlist_free(copy);
    assert_int_equal(len, n);
    assert_memory_equal(again, data, n);
    free(again);
}

/* Labels of pools (one disk, raidz2, dRAID, a log, a cache and a spare device, version 28) and
 * history records (a command, an ioctl with its arguments, an internal event), made by the
 * reference. */
static const char *const files[] = {
    "nvlist/label-basic", "nvlist/label-raidz2", "nvlist/label-draid", "nvlist/label-v28",
    "nvlist/label-aux0",  "nvlist/label-aux4",   "nvlist/label-aux5",  "nvlist/history-0",
    "nvlist/history-1",   "nvlist/history-2",
};

static void real_lists(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        size_t n;
        unsigned char *data = test_load(files[i], &n);
        check_exact(data, n, data[0]);
        free(data);
    }
}

static void real_values(void **state)
{
    size_t n;
    unsigned char *data = test_load("nvlist/label-raidz2", &n);
    struct nvlist *l, *tree, **children;

    assert_int_equal(nvlist_unpack(data, n, &l, NULL), 0);
    assert_int_equal(nvlist_uint64_or(l, "version", 0), 5000);
    assert_string_equal(nvlist_string_or(l, "name", ""), "traidz2x5");
    assert_int_equal(nvlist_get_nvlist(l, "vdev_tree", &tree), 0);
    assert_string_equal(nvlist_string_or(tree, "type", ""), "raidz");
    assert_int_equal(nvlist_uint64_or(tree, "nparity", 0), 2);
    assert_int_equal(nvlist_get_nvlist_array(tree, "children", &children, &n), 0);
    assert_int_equal(n, 5);
    assert_int_equal(nvlist_uint64_or(children[4], "id", 0), 4);
    nvlist_free(l);
    free(data);
}

static struct nvlist *every_type(void)
{
    struct nvlist *l = nvlist_new(), *a = nvlist_new(), *b = nvlist_new();
    const uint64_t words[4] = {0x8182838485868788ull, 0, 1, UINT64_MAX};
    const char *const strings[3] = {"", "a", "four"};
    char name[16];

    nvlist_add_boolean(a, "x");
    nvlist_add_nvlist(b, "inner", a);
    for (unsigned type = NV_BOOLEAN; type <= NV_DOUBLE; type++) {
        snprintf(name, sizeof name, "%.*s%u", (int)type % 9, "padding.", type);
        switch (type) {
        case NV_BOOLEAN:
            nvlist_add_boolean(l, name);
            break;
        case NV_STRING:
            nvlist_add_string(l, name, "string");
            break;
        case NV_STRING_ARRAY:
            nvlist_add_string_array(l, name, strings, 3);
            nvlist_add_string_array(l, "no strings", strings, 0);
            break;
        case NV_NVLIST:
            nvlist_add_nvlist(l, name, b);
            break;
        case NV_NVLIST_ARRAY:
            nvlist_add_nvlist_array(l, name, (struct nvlist *[]){a, b, a}, 3);
            nvlist_add_nvlist_array(l, "no lists", NULL, 0);
            break;
        default:
            if ((type >= NV_BYTE_ARRAY && type <= NV_UINT64_ARRAY) ||
                (type >= NV_BOOLEAN_ARRAY && type <= NV_UINT8_ARRAY)) {
                nvlist_add_raw(l, name, type, words, 3);
                snprintf(name, sizeof name, "none%u", type);
                nvlist_add_raw(l, name, type, NULL, 0);
            } else {
                nvlist_add_raw(l, name, type, words, 1);
            }
        }
    }
    nvlist_free(a);
    nvlist_free(b);
    return l;
}

static void all_types(void **state)
{
    for (int xdr = 0; xdr < 2; xdr++) {
        struct nvlist *l = every_type();
        unsigned char *data;
        size_t n;
        assert_int_equal(packs[xdr](l, &data, &n), 0);
        check_exact(data, n, xdr);
        nvlist_free(l);
        free(data);
    }
}

/* The beginning of a label as the description of the format prints it (01 3.4). */
static void known_bytes(void **state)
{
    static const uint32_t expect[] = {
        0x01010000, 0,    1, 0x24,       0x20, 7, 0x76657273, 0x696f6e00, 8,          1, 0, 5000,
        0x24,       0x20, 4, 0x6e616d65, 9,    1, 5,          0x7a746573, 0x74000000,
    };
    struct nvlist *l = nvlist_new(), *child = nvlist_new();
    unsigned char *data;
    size_t n;

    nvlist_add_uint64(l, "version", 5000);
    nvlist_add_string(l, "name", "ztest");
    nvlist_add_boolean(child, "x");
    nvlist_give_nvlist(l, "features_for_read", child);
    assert_int_equal(nvlist_pack_xdr(l, &data, &n), 0);
    for (size_t i = 0; i < ARRAY_LEN(expect); i++)
        assert_int_equal(get_be32(data + 4 * i), expect[i]);
    assert_int_equal(get_be32(data + 4 * 22), 64); /* decoded size of features_for_read */
    assert_int_equal(get_be32(data + 4 * 33), 24); /* encoded and decoded size of "x" */
    assert_int_equal(get_be32(data + 4 * 34), 24);
    assert_int_equal(get_be32(data + 4 * 21), n - 4 * 21 - 8);
    nvlist_free(l);
    free(data);
}

static void foreign_native(void **state)
{
    /* A big-endian list: "n" = 0x0102 (uint16), and a nested list with a flag. */
    static const unsigned char data[] = {
        0, 0, 0, 0,   0, 0, 0, 0, 0,   0,  0,   1, 0, 0, 0, 32, 0, 2, 0, 0, 0,  0, 0,  1, 0,
        0, 0, 4, 'n', 0, 0, 0, 0, 0,   0,  0,   1, 2, 0, 0, 0,  0, 0, 0, 0, 0,  0, 48, 0, 2,
        0, 0, 0, 0,   0, 1, 0, 0, 0,   19, 'l', 0, 0, 0, 0, 0,  0, 0, 0, 0, 0,  0, 0,  0, 0,
        1, 0, 0, 0,   0, 0, 0, 0, 0,   0,  0,   0, 0, 0, 0, 0,  0, 0, 0, 0, 24, 0, 2,  0, 0,
        0, 0, 0, 0,   0, 0, 0, 1, 'f', 0,  0,   0, 0, 0, 0, 0,  0, 0, 0, 0, 0,  0, 0,  0,
    };
    struct nvlist *l, *child;
    size_t used;

    assert_int_equal(nvlist_unpack(data, sizeof data, &l, &used), 0);
    assert_int_equal(used, sizeof data);
    assert_int_equal(nvpair_uint64(nvlist_first(l), 0), 0x0102);
    assert_int_equal(nvlist_get_nvlist(l, "l", &child), 0);
    assert_true(nvlist_exists(child, "f"));
    nvlist_free(l);
}

static struct nvlist *nested(unsigned depth)
{
    struct nvlist *l = nvlist_new();

    while (depth-- > 0) {
        struct nvlist *outer = nvlist_new();
        nvlist_give_nvlist(outer, "n", l);
        l = outer;
    }
    return l;
}

static void limits_depth(void **state)
{
    for (int xdr = 0; xdr < 2; xdr++) {
        struct nvlist *l = nested(NVLIST_DEPTH_MAX);
        unsigned char *data, deep[8192] = {0};
        size_t n;
        assert_int_equal(packs[xdr](l, &data, &n), 0);
        check_exact(data, n, xdr);
        nvlist_free(l);
        /* One level more, made by putting the list into another one by hand. */
        if (xdr) {
            static const uint32_t head[] = {0x01010000, 0, 1, 1, 48, 1, 0x6e000000, 19, 1};
            for (size_t i = 0; i < ARRAY_LEN(head); i++)
                put_be32(deep + 4 * i, head[i]);
            memcpy(deep + sizeof head, data + 4, n - 4);
            assert_int_equal(nvlist_unpack(deep, sizeof head + n - 4 + 8, &l, NULL), -EINVAL);
        }
        free(data);
        l = nested(NVLIST_DEPTH_MAX + 1);
        assert_int_equal(packs[xdr](l, &data, &n), -EINVAL);
        nvlist_free(l);
    }
}

static void later_duplicate_wins(void **state)
{
    struct nvlist *l = nvlist_new();
    unsigned char *data;
    size_t n;

    nvlist_add_uint64(l, "a", 1);
    nvlist_add_uint64(l, "b", 2);
    assert_int_equal(nvlist_pack_xdr(l, &data, &n), 0);
    nvlist_free(l);
    data[12 + 32 + 12] = 'a'; /* the second name: after the list's header and a pair of 32 bytes */
    for (uint32_t flag = 0; flag < 2; flag++) {
        put_be32(data + 8, flag);
        assert_int_equal(nvlist_unpack(data, n, &l, NULL), 0);
        assert_int_equal(nvlist_count(l), flag ? 1 : 2);
        assert_int_equal(nvlist_uint64_or(l, "a", 0), 2);
        nvlist_free(l);
    }
    free(data);
}

/* No prefix of a list is a list, and a changed byte is survived. Buffers are exactly as long as
 * their contents so that the address sanitizer sees every byte too far. */
static void survives_damage(void **state)
{
    struct env e = test_env();

    for (int xdr = 0; xdr < 2; xdr++) {
        struct nvlist *l = every_type(), *got;
        unsigned char *data;
        size_t n;
        assert_int_equal(packs[xdr](l, &data, &n), 0);
        nvlist_free(l);
        for (size_t len = 0; len < n; len++) {
            unsigned char *cut = malloc(len ? len : 1);
            memcpy(cut, data, len);
            assert_int_equal(nvlist_unpack(cut, len, &got, NULL), -EINVAL);
            assert_int_equal(unpacks[xdr](cut, len, &got, NULL), -EINVAL);
            free(cut);
        }
        for (int i = 0; i < 20000; i++) {
            unsigned char *bad = malloc(n);
            memcpy(bad, data, n);
            for (uint64_t k = 1 + test_below(&e, 3); k > 0; k--)
                bad[test_below(&e, n)] = (unsigned char)e.random(&e);
            if (nvlist_unpack(bad, n, &got, NULL) == 0)
                nvlist_free(got);
            free(bad);
        }
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_lists),      cmocka_unit_test(real_values),
        cmocka_unit_test(all_types),       cmocka_unit_test(known_bytes),
        cmocka_unit_test(foreign_native),  cmocka_unit_test(limits_depth),
        cmocka_unit_test(survives_damage), cmocka_unit_test(later_duplicate_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
