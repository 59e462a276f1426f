#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "nvlist/nvlist.h"

static void adds_and_gets(void **state)
{
    struct nvlist *l = nvlist_new();
    const uint64_t array[3] = {1, 2, UINT64_MAX};
    const char *const strings[2] = {"one", ""};
    const char *s;
    const void *bytes;
    const uint64_t *words;
    uint64_t v;
    int64_t sv;
    size_t n;
    bool b;

    assert_int_equal(nvlist_add_uint64(l, "u", UINT64_MAX), 0);
    assert_int_equal(nvlist_add_int64(l, "i", -5), 0);
    assert_int_equal(nvlist_add_uint32(l, "u32", 7), 0);
    assert_int_equal(nvlist_add_string(l, "s", "text"), 0);
    assert_int_equal(nvlist_add_boolean(l, "flag"), 0);
    assert_int_equal(nvlist_add_boolean_value(l, "b", true), 0);
    assert_int_equal(nvlist_add_bytes(l, "bytes", "\0\1\2", 3), 0);
    assert_int_equal(nvlist_add_uint64_array(l, "a", array, 3), 0);
    assert_int_equal(nvlist_add_string_array(l, "sa", strings, 2), 0);
    assert_int_equal(nvlist_count(l), 9);

    assert_int_equal(nvlist_get_uint64(l, "u", &v), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(nvlist_get_int64(l, "i", &sv), 0);
    assert_int_equal(sv, -5);
    assert_int_equal(nvlist_get_string(l, "s", &s), 0);
    assert_string_equal(s, "text");
    assert_int_equal(nvlist_get_boolean_value(l, "b", &b), 0);
    assert_true(b);
    assert_int_equal(nvlist_get_bytes(l, "bytes", &bytes, &n), 0);
    assert_int_equal(n, 3);
    assert_memory_equal(bytes, "\0\1\2", 3);
    assert_int_equal(nvlist_get_uint64_array(l, "a", &words, &n), 0);
    assert_int_equal(n, 3);
    assert_memory_equal(words, array, sizeof array);
    assert_int_equal(nvlist_get_uint64(l, "s", &v), -EINVAL);
    assert_int_equal(nvlist_get_bytes(l, "s", &bytes, &n), -EINVAL);
    assert_int_equal(nvlist_get_string(l, "absent", &s), -ENOENT);
    assert_int_equal(nvlist_get_bytes(l, "absent", &bytes, &n), -ENOENT);
    assert_true(nvlist_exists(l, "flag"));
    assert_int_equal(nvlist_uint64_or(l, "absent", 9), 9);
    assert_string_equal(nvlist_string_or(l, "s", "else"), "text");
    nvlist_free(l);
}

static void nests(void **state)
{
    struct nvlist *l = nvlist_new(), *child = nvlist_new(), *got, **array;
    struct nvlist *const both[2] = {child, child};
    size_t n;

    nvlist_add_uint64(child, "id", 1);
    assert_int_equal(nvlist_add_nvlist(l, "child", child), 0);
    assert_int_equal(nvlist_add_nvlist_array(l, "children", both, 2), 0);
    nvlist_add_uint64(child, "id", 2); /* the copies do not change */
    assert_int_equal(nvlist_get_nvlist(l, "child", &got), 0);
    assert_int_equal(nvlist_uint64_or(got, "id", 0), 1);
    assert_int_equal(nvlist_get_nvlist_array(l, "children", &array, &n), 0);
    assert_int_equal(n, 2);
    assert_ptr_not_equal(array[0], array[1]);
    assert_int_equal(nvlist_give_nvlist(l, "given", child), 0);
    assert_int_equal(nvlist_get_nvlist(l, "given", &got), 0);
    assert_ptr_equal(got, child);
    got = nvlist_dup(l);
    nvlist_free(l);
    assert_int_equal(nvlist_get_nvlist_array(got, "children", &array, &n), 0);
    assert_int_equal(nvlist_uint64_or(array[1], "id", 0), 1);
    nvlist_free(got);
    nvlist_free(NULL);
}

static void iterates(void **state)
{
    struct nvlist *l = nvlist_new();
    const int16_t shorts[2] = {-1, 300};
    const struct nvpair *p;
    size_t n;

    nvlist_add_uint64(l, "replaced", 1);
    nvlist_add_string(l, "s", "x");
    nvlist_add_raw(l, "shorts", NV_INT16_ARRAY, shorts, 2);
    nvlist_add_boolean(l, "replaced");
    p = nvlist_first(l);
    assert_string_equal(nvpair_name(p), "s");
    assert_int_equal(nvpair_type(p), NV_STRING);
    assert_string_equal(nvpair_string(p, 0), "x");
    assert_null(nvpair_string(p, 1));
    assert_null(nvpair_nvlist(p, 0));
    assert_null(nvpair_bytes(p, &n));
    assert_int_equal(nvpair_uint64(p, 0), 0);
    p = nvlist_after(l, p);
    assert_int_equal(nvpair_count(p), 2);
    assert_true(nvpair_uint64(p, 0) == UINT64_MAX);
    assert_int_equal(nvpair_uint64(p, 1), 300);
    assert_int_equal(nvpair_uint64(p, 2), 0);
    p = nvlist_after(l, p);
    assert_int_equal(nvpair_type(p), NV_BOOLEAN);
    assert_int_equal(nvpair_uint64(p, 0), 1);
    assert_null(nvlist_after(l, p));
    nvlist_free(l);
}

static void holds_many(void **state)
{
    struct nvlist *l = nvlist_new();
    const struct nvpair *p;
    char name[32];
    uint64_t expect = 0;

    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < 5000; i++) {
            snprintf(name, sizeof name, "name %u", (unsigned)i);
            assert_int_equal(nvlist_add_uint64(l, name, i), 0);
        }
    }
    assert_int_equal(nvlist_count(l), 5000);
    for (p = nvlist_first(l); p; p = nvlist_after(l, p))
        assert_int_equal(nvpair_uint64(p, 0), expect++);
    for (unsigned i = 0; i < 5000; i += 2) {
        snprintf(name, sizeof name, "name %u", i);
        assert_int_equal(nvlist_remove(l, name), 0);
        assert_int_equal(nvlist_remove(l, name), -ENOENT);
    }
    assert_int_equal(nvlist_count(l), 2500);
    assert_int_equal(nvlist_uint64_or(l, "name 4999", 0), 4999);
    while ((p = nvlist_first(l)))
        assert_int_equal(nvlist_remove(l, nvpair_name(p)), 0);
    assert_int_equal(nvlist_count(l), 0);
    nvlist_add_uint64(l, "again", 1);
    assert_int_equal(nvlist_uint64_or(l, "again", 0), 1);
    nvlist_free(l);
}

static void limits_names(void **state)
{
    struct nvlist *l = nvlist_new();
    char *name = malloc(NVLIST_NAME_MAX + 2);

    memset(name, 'n', NVLIST_NAME_MAX + 1);
    name[NVLIST_NAME_MAX + 1] = 0;
    assert_int_equal(nvlist_add_uint64(l, name, 1), -EINVAL);
    name[NVLIST_NAME_MAX] = 0;
    assert_int_equal(nvlist_add_uint64(l, name, 1), 0);
    free(name);
    nvlist_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_and_gets), cmocka_unit_test(nests),        cmocka_unit_test(iterates),
        cmocka_unit_test(holds_many),    cmocka_unit_test(limits_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
