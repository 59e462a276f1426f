/* Windows of a leaf: how many reads reach the device, and that none answers with old contents. */
#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "device/device.h"
#include "vdev/vdev.h"

enum { SECTOR = 4096, SIZE = 64 << 20, DATA = SIZE - (int)VDEV_LABEL_TOTAL };

static unsigned reads;
static struct vdev *root;
static struct device *memory; /* below the leaf: what is done here goes past it */

static int counting(void *arg, enum device_op op, uint64_t offset, size_t n)
{
    reads += op == DEVICE_READ;
    return 0;
}

static int setup(void **state)
{
    struct env env = test_env();
    struct device *d;
    struct vdev *leaf;

    assert_int_equal(device_memory(&memory, SIZE), 0);
    assert_int_equal(device_fault(&d, memory, counting, NULL), 0);
    assert_int_equal(vdev_root_new(&root, 1), 0);
    assert_int_equal(vdev_leaf_on_device(&leaf, d, 12, &env), 0);
    assert_int_equal(vdev_add_child(root, leaf), 0);
    reads = 0;
    return 0;
}

static int teardown(void **state)
{
    vdev_tree_free(root);
    return 0;
}

static int is_byte(void *arg, const void *data)
{
    const unsigned char *p = data;

    return p[0] == *(unsigned char *)arg && p[SECTOR - 1] == p[0] ? 0 : -EBADE;
}

static void poke(uint64_t sector, unsigned char byte)
{
    unsigned char data[SECTOR];

    memset(data, byte, sizeof data);
    assert_int_equal(device_write(memory, VDEV_LABEL_START + sector * SECTOR, data, SECTOR), 0);
}

static int get(uint64_t sector, unsigned char byte)
{
    unsigned char data[SECTOR];

    return vdev_read(root->child[0], sector * SECTOR, data, SECTOR, 1, is_byte, &byte);
}

static void ignore(struct vdev_io *io, int rc)
{
    assert_int_equal(rc, 0);
}

static void put(uint64_t sector, unsigned char byte)
{
    static _Alignas(4096) unsigned char data[SECTOR];
    struct vdev_io io = {.vdev = root->child[0],
                         .write = true,
                         .offset = sector * SECTOR,
                         .size = SECTOR,
                         .data = data,
                         .done = ignore};

    memset(data, byte, sizeof data);
    vdev_submit(&io); /* a device in memory is done at once */
}

static void neighbours_come_together(void **state)
{
    for (unsigned i = 0; i < 1024; i++)
        poke(i, (unsigned char)i);
    for (unsigned i = 0; i < 1024; i++)
        assert_int_equal(get(i, (unsigned char)i), 0);
    assert_in_range(reads, 2, 1024 / 32 + 2);
}

static void lonely_reads_stay_small(void **state)
{
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(get(i * 200, 0), 0);
    assert_int_equal(reads, 64);
    assert_int_equal(root->child[0]->stats.bytes[0], 64 * SECTOR);
}

static void writes_are_seen(void **state)
{
    get(10, 0);
    get(11, 0);
    get(12, 0);
    assert_int_equal(reads, 2);
    put(12, 7);
    assert_int_equal(get(12, 7), 0);
    assert_int_equal(root->child[0]->stats.checksum_errors, 0);
}

/* A window that is older than the device costs another read and no error. */
static void old_windows_are_no_errors(void **state)
{
    get(10, 0);
    get(11, 0);
    poke(12, 9);
    assert_int_equal(get(12, 9), 0);
    assert_int_equal(root->child[0]->stats.checksum_errors, 0);
    assert_int_equal(get(12, 8), -EBADE);
    assert_int_equal(root->child[0]->stats.checksum_errors, 1);
}

static void up_to_the_end(void **state)
{
    uint64_t last = DATA / SECTOR - 1;

    poke(last, 5);
    for (unsigned i = 3; i > 0; i--)
        assert_int_equal(get(last - i, 0), 0);
    assert_int_equal(get(last, 5), 0);
}

static void random_mix(void **state)
{
    enum { SECTORS = 2000 };
    static unsigned char shadow[SECTORS];
    struct env env = test_env();
    uint64_t at = 0;

    memset(shadow, 0, sizeof shadow);
    for (unsigned i = 0; i < 20000; i++) {
        at = test_below(&env, 4) ? (at + test_below(&env, 5)) % SECTORS : test_below(&env, SECTORS);
        if (test_below(&env, 4) == 0)
            put(at, shadow[at] = (unsigned char)test_below(&env, 256));
        assert_int_equal(get(at, shadow[at]), 0);
    }
    assert_int_equal(root->child[0]->stats.checksum_errors, 0);
    assert_true(reads < 16000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(neighbours_come_together, setup, teardown),
        cmocka_unit_test_setup_teardown(lonely_reads_stay_small, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_are_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(old_windows_are_no_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(up_to_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(random_mix, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
