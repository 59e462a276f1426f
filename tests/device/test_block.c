/* Block devices, by loop devices: for root only. */
#include "device_test.h"

#include <errno.h>
#include <sys/mount.h>

#include "util/bytes.h"
#include "util/err.h"

enum { SIZE = 16 << 20 };

static char dir[PATH_MAX], path[PATH_MAX + 16], loop[64];

static int setup(void **state)
{
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/disk", dir);
    make_file(path, SIZE);
    return 0;
}

static int attach(const char *options)
{
    char command[PATH_MAX + 100];
    loop[0] = '\0';
    snprintf(command, sizeof command,
             "PATH=$PATH:/usr/sbin:/sbin losetup -f --show %s %s 2>/dev/null", options, path);
    FILE *p = popen(command, "r");
    if (!p || !fgets(loop, sizeof loop, p))
        loop[0] = '\0';
    if (p)
        pclose(p);
    loop[strcspn(loop, "\n")] = '\0';
    return loop[0] ? 0 : -1;
}

static int teardown(void **state)
{
    char command[200];
    if (loop[0]) {
        snprintf(command, sizeof command, "PATH=$PATH:/usr/sbin:/sbin losetup -d %s", loop);
        assert_int_equal(system(command), 0);
    }
    loop[0] = '\0';
    remove_dir(dir);
    return 0;
}

static void test_info(void **state)
{
    struct device_info info;
    struct device *d;
    if (attach("-b 4096"))
        skip();
    assert_int_equal(device_open(&d, loop, 0), 0);
    device_info(d, &info);
    assert_int_equal(info.kind, DEVICE_BLOCK);
    assert_int_equal(info.size, SIZE);
    assert_int_equal(info.logical_shift, 12);
    assert_int_equal(info.physical_shift, 12);
    assert_false(info.writable);
    device_close(d);
}

static void test_exclusive(void **state)
{
    struct device *a, *b;
    char want[PATH_MAX];
    if (attach(""))
        skip();
    assert_int_equal(device_open(&a, loop, DEVICE_OPEN_WRITE), 0);
    assert_int_equal(device_open(&b, loop, DEVICE_OPEN_WRITE), -EBUSY);
    snprintf(want, sizeof want, "%s is in use by this process", loop);
    assert_string_equal(err_text(-EBUSY), want);
    assert_int_equal(device_open(&b, loop, DEVICE_OPEN_SHARED), -EBUSY);
    assert_int_equal(device_open(&b, loop, DEVICE_OPEN_NOLOCK), 0);
    device_close(b);
    device_close(a);
    assert_int_equal(device_open(&a, loop, DEVICE_OPEN_SHARED), 0);
    assert_int_equal(device_open(&b, loop, DEVICE_OPEN_SHARED), 0);
    device_close(b);
    assert_int_equal(device_open(&b, loop, DEVICE_OPEN_WRITE), -EBUSY);
    device_close(a);
}

static void test_mounted(void **state)
{
    struct device *d;
    char command[PATH_MAX + 100], point[PATH_MAX + 8], want[2 * PATH_MAX];
    if (attach(""))
        skip();
    snprintf(point, sizeof point, "%s/mnt", dir);
    snprintf(command, sizeof command, "PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q %s 2>/dev/null",
             loop);
    assert_int_equal(mkdir(point, 0700), 0);
    if (system(command) || mount(loop, point, "ext4", 0, ""))
        skip();
    int rc = device_open(&d, loop, DEVICE_OPEN_WRITE);
    snprintf(want, sizeof want, "%s is mounted on %s", loop, point);
    assert_int_equal(umount(point), 0);
    assert_int_equal(rc, -EBUSY);
    assert_string_equal(err_text(-EBUSY), want);
}

static void transfer(unsigned flags, unsigned sector)
{
    enum { N = 64, EACH = 32768 };
    static struct gated_io ios[N];
    struct device *d;
    struct gate g;
    unsigned char *data = aligned_alloc(4096, N * EACH), *now = aligned_alloc(4096, N * EACH);
    struct env e = test_env();
    gate_init(&g);
    test_fill(&e, data, N * EACH);
    assert_int_equal(device_open(&d, loop, DEVICE_OPEN_WRITE | flags), 0);
    for (unsigned i = 0; i < N; i++)
        gate_submit(&g, d, &ios[i], DEVICE_WRITE, (uint64_t)i * EACH, data + i * EACH, EACH);
    assert_int_equal(gate_wait(&g), 0);
    assert_int_equal(device_flush(d), 0);
    /* Sector-sized requests, and unaligned memory. */
    assert_int_equal(device_write(d, sector, data, sector), 0);
    memcpy(data + sector, data, sector);
    memcpy(now + 8, data, sector);
    assert_int_equal(device_write(d, 5 * sector, now + 8, sector), 0);
    memcpy(data + 5 * sector, data, sector);
    for (unsigned i = 0; i < N; i++)
        gate_submit(&g, d, &ios[i], DEVICE_READ, (uint64_t)i * EACH, now + i * EACH, EACH);
    assert_int_equal(gate_wait(&g), 0);
    assert_memory_equal(now, data, N * EACH);
    int rc = device_discard(d, 0, 1 << 20);
    if (rc != -EOPNOTSUPP) {
        assert_int_equal(rc, 0);
        memset(data, 0, 1 << 20);
        assert_int_equal(device_read(d, 0, now, N * EACH), 0);
        assert_memory_equal(now, data, N * EACH); /* a loop device gives zeros */
    }
    assert_int_equal(device_read(d, SIZE - sector, now, 2 * sector), -EIO);
    device_close(d);
    free(data);
    free(now);
}

static void test_transfer(void **state)
{
    static const char *const engines[] = {"threads", "", NULL};
    for (int i = 0; engines[i]; i++) {
        setenv("TARN_DEVICE_ENGINE", engines[i], 1);
        for (int large = 0; large < 2; large++) {
            char command[200];
            if (attach(large ? "-b 4096" : ""))
                skip();
            transfer(0, large ? 4096 : 512);
            transfer(DEVICE_OPEN_DIRECT, large ? 4096 : 512);
            snprintf(command, sizeof command, "PATH=$PATH:/usr/sbin:/sbin losetup -d %s", loop);
            assert_int_equal(system(command), 0);
            loop[0] = '\0';
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_info, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exclusive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mounted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_transfer, setup, teardown),
    };
    if (geteuid()) {
        printf("SKIP: loop devices need root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
