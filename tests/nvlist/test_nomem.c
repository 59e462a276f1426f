/* Each allocation fails in turn: the call says so, and nothing leaks or is half done. */
#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "../support/alloc.h"
#include "nvlist/nvlist.h"

static const char *const files[] = {"nvlist/label-raidz2", "nvlist/history-2"};

static void unpack_and_pack(void **state)
{
    for (size_t f = 0; f < 2; f++) {
        size_t n, len;
        unsigned char *data = test_load(files[f], &n), *again;
        for (unsigned at = 1;; at++) {
            struct nvlist *l = NULL, *copy = NULL;
            int rc;
            bool failed;
            alloc_fail_at(at);
            rc = nvlist_unpack(data, n, &l, NULL);
            if (rc == 0) {
                copy = nvlist_dup(l);
                rc = copy ? 0 : -ENOMEM;
            }
            if (rc == 0)
                rc = f == 0 ? nvlist_pack_xdr(copy, &again, &len)
                            : nvlist_pack_native(copy, &again, &len);
            failed = alloc_failed();
            alloc_fail_at(0);
            nvlist_free(copy);
            nvlist_free(l);
            if (rc == 0) {
                /* The hash of a long list may be missing without harm. */
                assert_int_equal(len, n);
                assert_memory_equal(again, data, n);
                free(again);
            } else {
                assert_true(failed);
                assert_int_equal(rc, -ENOMEM);
            }
            if (!failed)
                break;
        }
        free(data);
    }
}

static int add_all(struct nvlist *l, struct nvlist *child)
{
    const char *const strings[2] = {"a", "b"};
    struct nvlist *const lists[2] = {child, child};
    int rc = 0;

    rc = rc < 0 ? rc : nvlist_add_uint64(l, "u", 1);
    rc = rc < 0 ? rc : nvlist_add_string(l, "s", "text");
    rc = rc < 0 ? rc : nvlist_add_string_array(l, "sa", strings, 2);
    rc = rc < 0 ? rc : nvlist_add_nvlist(l, "l", child);
    rc = rc < 0 ? rc : nvlist_add_nvlist_array(l, "la", lists, 2);
    return rc;
}

static void add(void **state)
{
    struct nvlist *child = nvlist_new();

    nvlist_add_boolean(child, "x");
    for (unsigned at = 1;; at++) {
        struct nvlist *l = nvlist_new();
        bool failed;
        int rc;
        alloc_fail_at(at);
        rc = add_all(l, child);
        failed = alloc_failed();
        alloc_fail_at(0);
        assert_int_equal(rc, failed ? -ENOMEM : 0);
        assert_int_equal(add_all(l, child), 0);
        assert_int_equal(nvlist_count(l), 5);
        nvlist_free(l);
        if (!failed)
            break;
    }
    nvlist_free(child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(unpack_and_pack), cmocka_unit_test(add)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
