/* Memory devices and the wrappers. */
#include "device_test.h"

#include <errno.h>

enum { SIZE = 1 << 20 };

static struct device *memory(void)
{
    struct device *d;
    assert_int_equal(device_memory(&d, SIZE), 0);
    return d;
}

static void test_memory(void **state)
{
    struct device *d = memory();
    struct device_info info;
    unsigned char a[10000], b[10000] = {0};
    memset(a, 0x11, sizeof a);
    device_info(d, &info);
    assert_int_equal(info.size, SIZE);
    assert_true(info.writable);
    assert_int_equal(device_write(d, 5000, a, sizeof a), 0);
    assert_int_equal(device_read(d, 5000, b, sizeof b), 0);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(device_flush(d), 0);
    assert_int_equal(device_discard(d, 6000, 8000), 0);
    memset(a + 1000, 0, 8000);
    assert_int_equal(device_read(d, 5000, b, sizeof b), 0);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(device_discard(d, 5000, 10), 0);
    assert_int_equal(device_read(d, SIZE - 1, b, 2), -EIO);
    assert_int_equal(device_write(d, UINT64_MAX, b, 1), -EIO);
    assert_int_equal(device_discard(d, 1, UINT64_MAX), -EIO);
    device_close(d);
}

static void test_slice(void **state)
{
    struct device *below = memory(), *d;
    struct device_info info;
    struct gated_io io;
    struct gate g;
    char buffer[512];
    gate_init(&g);
    assert_int_equal(device_slice(&d, below, 4096, SIZE), -EINVAL);
    assert_int_equal(device_slice(&d, below, UINT64_MAX, 4096), -EINVAL);
    assert_int_equal(device_slice(&d, below, 4096, 8192), 0);
    device_info(d, &info);
    assert_int_equal(info.size, 8192);
    memset(buffer, 'x', sizeof buffer);
    assert_int_equal(device_write(below, 4096 + 512, buffer, 512), 0);
    memset(buffer, 0, sizeof buffer);
    gate_submit(&g, d, &io, DEVICE_READ, 512, buffer, 512);
    assert_int_equal(gate_wait(&g), 0);
    assert_int_equal(buffer[0], 'x');
    assert_int_equal(io.io.offset, 512); /* the request is the caller's */
    memset(buffer, 'y', sizeof buffer);
    gate_submit(&g, d, &io, DEVICE_WRITE, 1024, buffer, 512);
    assert_int_equal(gate_wait(&g), 0);
    memset(buffer, 0, sizeof buffer);
    assert_int_equal(device_read(below, 4096 + 1024, buffer, 512), 0);
    assert_int_equal(buffer[511], 'y');
    assert_int_equal(device_read(d, 1024, buffer, 512), 0);
    assert_int_equal(device_discard(d, 1024, 512), 0);
    assert_int_equal(device_read(below, 4096 + 1024, buffer, 512), 0);
    assert_int_equal(buffer[0], 0);
    /* Nothing beyond the window, at either form. */
    assert_int_equal(device_read(d, 8192 - 511, buffer, 512), -EIO);
    assert_int_equal(device_write(d, UINT64_MAX - 100, buffer, 512), -EIO);
    gate_submit(&g, d, &io, DEVICE_WRITE, 8192, buffer, 512);
    assert_int_equal(gate_wait(&g), -EIO);
    assert_int_equal(device_discard(d, 4096, 4097), -EIO);
    assert_int_equal(device_flush(d), 0);
    device_close(d);
}

struct log {
    char text[200];
};

static void note(void *arg, enum device_op op, uint64_t offset, const void *data, size_t n)
{
    struct log *l = arg;
    size_t used = strlen(l->text);
    snprintf(l->text + used, sizeof l->text - used, "%c%llu+%zu%.*s ", "RWFD"[op],
             (unsigned long long)offset, n, op == DEVICE_WRITE ? (int)n : 0,
             op == DEVICE_WRITE ? (const char *)data : "");
}

static void test_trace(void **state)
{
    struct device *d;
    struct log l = {""};
    struct gated_io io;
    struct gate g;
    char buffer[3] = "abc";
    gate_init(&g);
    assert_int_equal(device_trace(&d, memory(), note, &l), 0);
    assert_int_equal(device_write(d, 10, buffer, 3), 0);
    assert_int_equal(device_read(d, 10, buffer, 3), 0);
    assert_int_equal(device_flush(d), 0);
    gate_submit(&g, d, &io, DEVICE_WRITE, 20, buffer, 2);
    assert_int_equal(gate_wait(&g), 0);
    gate_submit(&g, d, &io, DEVICE_READ, 20, buffer, 2);
    assert_int_equal(gate_wait(&g), 0);
    assert_int_equal(device_discard(d, 0, 4096), 0);
    assert_string_equal(l.text, "W10+3abc F0+0 W20+2ab D0+4096 ");
    device_close(d);
}

static int no_writes_at(void *arg, enum device_op op, uint64_t offset, size_t n)
{
    if (op == DEVICE_FLUSH)
        return -ENOSPC;
    return op == DEVICE_WRITE && offset == *(uint64_t *)arg ? -EIO : 0;
}

static void test_fault(void **state)
{
    struct device *d;
    uint64_t bad = 8192;
    struct gated_io io;
    struct gate g;
    char buffer[512] = {1};
    gate_init(&g);
    assert_int_equal(device_fault(&d, memory(), no_writes_at, &bad), 0);
    assert_int_equal(device_write(d, 0, buffer, 512), 0);
    assert_int_equal(device_write(d, 8192, buffer, 512), -EIO);
    assert_int_equal(device_read(d, 8192, buffer, 512), 0);
    assert_int_equal(buffer[0], 0);
    assert_int_equal(device_flush(d), -ENOSPC);
    gate_submit(&g, d, &io, DEVICE_WRITE, 8192, buffer, 512);
    assert_int_equal(gate_wait(&g), -EIO);
    gate_submit(&g, d, &io, DEVICE_WRITE, 512, buffer, 512);
    assert_int_equal(gate_wait(&g), 0);
    device_close(d);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
