/* Each allocation fails in turn: opening and every kind of request says so, and nothing leaks. */
#include "device_test.h"

#include <errno.h>

#include "../support/alloc.h"

static char dir[PATH_MAX], path[PATH_MAX + 16];

static int setup(void **state)
{
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/vdev", dir);
    make_file(path, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    remove_dir(dir);
    return 0;
}

static void nothing(void *arg, enum device_op op, uint64_t offset, const void *data, size_t n)
{
}

static int none(void *arg, enum device_op op, uint64_t offset, size_t n)
{
    return 0;
}

/* A stack of all wrappers on the device, used and closed. */
static int stack(struct device *d)
{
    uint64_t start, size;
    struct device *above;
    char data[512];
    int rc = device_trace(&above, d, nothing, NULL);
    if (rc == 0) {
        d = above;
        rc = device_fault(&above, d, none, NULL);
    }
    if (rc == 0) {
        d = above;
        rc = device_slice(&above, d, 4096, 65536);
    }
    if (rc == 0) {
        d = above;
        rc = device_read(d, 0, data, sizeof data);
        rc = rc ? rc : device_discard(d, 0, 4096);
        rc = rc ? rc : device_flush(d);
        int gpt = device_find_gpt(d, &start, &size);
        rc = rc ? rc : gpt == -ENOENT ? 0 : gpt;
    }
    device_close(d);
    return rc;
}

static void memory_and_wrappers(void **state)
{
    bool failed = true;
    for (unsigned at = 1; failed; at++) {
        struct device *d;
        alloc_fail_at(at);
        int rc = device_memory(&d, 1 << 20);
        rc = rc ? rc : stack(d);
        failed = alloc_failed();
        alloc_fail_at(0);
        assert_int_equal(rc, failed ? -ENOMEM : 0);
    }
}

static void opening(void **state)
{
    bool failed = true;
    for (unsigned at = 1; failed; at++) {
        struct device *d;
        alloc_fail_at(at);
        int rc = device_open(&d, path, DEVICE_OPEN_WRITE | DEVICE_OPEN_DIRECT);
        failed = alloc_failed();
        alloc_fail_at(0);
        assert_int_equal(rc, failed ? -ENOMEM : 0);
        if (rc == 0)
            device_close(d);
    }
}

/* The engine is started by the first request; without io_uring's memory the threads do it. */
static void first_request(void **state)
{
    bool failed = true;
    for (unsigned at = 1; failed; at++) {
        struct device *d;
        assert_int_equal(device_open(&d, path, DEVICE_OPEN_WRITE | DEVICE_OPEN_DIRECT), 0);
        alloc_fail_at(at);
        int rc = device_flush(d);
        failed = alloc_failed();
        alloc_fail_at(0);
        assert_true(rc == 0 || (failed && rc == -ENOMEM));
        assert_int_equal(device_flush(d), 0); /* the next one tries again */
        device_close(d);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_and_wrappers),
        cmocka_unit_test_setup_teardown(opening, setup, teardown),
        cmocka_unit_test_setup_teardown(first_request, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
