/* Labels: what OpenZFS wrote is read, and what is written is the same to the byte. */
#include "label_sample.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>
#include <zlib.h>

#include "nvlist/nvlist.h"
#include "util/err.h"
#include "vdev/label.h"

static const char *const samples[] = {
    "aged-disk0",     "aux-disk0",      "aux-disk5",       "basic-disk0",     "checkpoint-disk0",
    "degraded-disk0", "degraded-disk1", "destroyed-disk0", "removed-disk0",   "stripe-disk0",
    "stripe-disk1",   "stripe-disk2",   "tdraid-disk0",    "traidz1x3-disk0", "v28-disk0",
};

static void test_read(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        struct device *d = sample_device(samples[i]);
        struct label_set set;
        assert_int_equal(label_read(d, &set), 0);
        const struct label *best = label_best(&set, UINT64_MAX);
        assert_non_null(best);
        for (unsigned l = 0; l < LABELS; l++) {
            assert_int_equal(set.label[l].rc, 0);
            assert_int_equal(set.label[l].offset, label_offset(set.psize, l));
            assert_int_equal(set.label[l].guid, best->guid);
            assert_true(label_usable(&set.label[l]));
        }
        size_t pool = strcspn(samples[i], "-");
        const char *name = nvlist_string_or(best->config, "name", "");
        assert_int_equal(strlen(name), pool);
        assert_memory_equal(name, samples[i], pool);
        assert_null(label_best(&set, 0));
        label_set_free(&set);
        device_close(d);
    }
}

static void test_states(void **state)
{
    static const struct {
        const char *name;
        uint64_t state;
    } rows[] = {{"basic-disk0", POOL_STATE_EXPORTED},
                {"destroyed-disk0", POOL_STATE_DESTROYED},
                {"aux-disk3", POOL_STATE_L2CACHE},
                {"aux-disk4", POOL_STATE_SPARE}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device *d = sample_device(rows[i].name);
        struct label_set set;
        assert_int_equal(label_read(d, &set), 0);
        const struct label *best = label_best(&set, UINT64_MAX);
        assert_non_null(best);
        if (best->state != rows[i].state)
            fail_msg("%s: state %llu", rows[i].name, (unsigned long long)best->state);
        label_set_free(&set);
        device_close(d);
    }
}

/* A copy of a device's labels made by our own writer. */
static void rewrite(const struct label_set *set, struct device *to)
{
    for (unsigned l = 0; l < LABELS; l++) {
        unsigned char *packed;
        size_t n;
        assert_int_equal(nvlist_pack_xdr(set->label[l].config, &packed, &n), 0);
        if (l == 0)
            assert_int_equal(label_init(to, set->psize, packed, n), 0);
        if (l < 2)
            assert_int_equal(label_write_pair(to, set->psize, (enum label_pair)l, packed, n), 0);
        free(packed);
    }
}

static void test_same_bytes(void **state)
{
    enum { BYTES = LABEL_RING_OFFSET - LABEL_BOOT_OFFSET };
    static unsigned char want[BYTES], got[BYTES];
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        struct device *real = sample_device(samples[i]), *ours;
        struct device_info info;
        struct label_set set;
        device_info(real, &info);
        assert_int_equal(device_memory(&ours, info.size), 0);
        assert_int_equal(label_read(real, &set), 0);
        rewrite(&set, ours);
        for (unsigned l = 0; l < LABELS; l++) {
            uint64_t at = set.label[l].offset + LABEL_BOOT_OFFSET;
            assert_int_equal(device_read(real, at, want, BYTES), 0);
            assert_int_equal(device_read(ours, at, got, BYTES), 0);
            if (memcmp(want, got, BYTES))
                fail_msg("%s: label %u differs", samples[i], l);
        }
        label_set_free(&set);
        device_close(real);
        device_close(ours);
    }
}

static void flip(struct device *d, uint64_t at)
{
    unsigned char c;
    assert_int_equal(device_read(d, at, &c, 1), 0);
    c ^= 0x10;
    assert_int_equal(device_write(d, at, &c, 1), 0);
}

static void test_damage(void **state)
{
    struct device *d = sample_device("basic-disk0");
    struct label_set set;
    flip(d, LABEL_CONFIG_OFFSET + LABEL_CONFIG_SIZE - 1);             /* L0: its checksum */
    flip(d, LABEL_SIZE + LABEL_CONFIG_OFFSET + LABEL_CONFIG_MAX - 1); /* L1: padding */
    assert_int_equal(label_read(d, &set), 0);
    assert_int_equal(set.label[0].rc, -EBADE);
    assert_non_null(set.label[0].config);
    assert_false(label_usable(&set.label[0]));
    assert_int_equal(set.label[1].rc, -EBADE);
    assert_int_equal(set.label[2].rc, 0);
    assert_ptr_equal(label_best(&set, UINT64_MAX), &set.label[2]);
    uint64_t last = set.label[3].offset + LABEL_CONFIG_OFFSET;
    label_set_free(&set);
    flip(d, last); /* L3: the list's encoding */
    assert_int_equal(label_read(d, &set), 0);
    assert_int_equal(set.label[3].rc, -ENOENT);
    assert_null(set.label[3].config);
    label_set_free(&set);
    device_close(d);
}

static int fail_range(void *arg, enum device_op op, uint64_t offset, size_t n)
{
    const uint64_t *range = arg;
    return offset < range[1] && offset + n > range[0] ? -EIO : 0;
}

static void test_read_errors(void **state)
{
    struct label_set set;
    struct device *d;
    uint64_t range[2] = {0, LABEL_SIZE};
    assert_int_equal(device_fault(&d, sample_device("basic-disk0"), fail_range, range), 0);
    assert_int_equal(label_read(d, &set), 0);
    assert_int_equal(set.label[0].rc, -EIO);
    assert_int_equal(set.label[1].rc, 0);
    label_set_free(&set);
    range[1] = UINT64_MAX;
    assert_int_equal(label_read(d, &set), -EIO);
    device_close(d);
}

static void test_write_errors(void **state)
{
    struct device *d;
    struct label_set set;
    unsigned char *big = calloc(1, LABEL_CONFIG_MAX + 1), *packed;
    size_t n;
    uint64_t range[2] = {0, 0};
    assert_int_equal(device_fault(&d, sample_device("basic-disk0"), fail_range, range), 0);
    assert_int_equal(label_read(d, &set), 0);
    assert_int_equal(nvlist_pack_xdr(set.label[0].config, &packed, &n), 0);
    assert_int_equal(label_write_pair(d, set.psize, LABEL_PAIR_FIRST, big, LABEL_CONFIG_MAX), 0);
    assert_int_equal(label_write_pair(d, set.psize, LABEL_PAIR_FIRST, big, LABEL_CONFIG_MAX + 1),
                     -ENAMETOOLONG);
    assert_int_equal(label_init(d, 4 * LABEL_SIZE - 1, packed, n), -EOVERFLOW);
    range[1] = LABEL_SIZE; /* one copy of two is enough, none is not */
    assert_int_equal(label_write_pair(d, set.psize, LABEL_PAIR_FIRST, packed, n), 0);
    assert_int_equal(label_init(d, set.psize, packed, n), -EIO);
    range[1] = UINT64_MAX;
    assert_int_equal(label_write_pair(d, set.psize, LABEL_PAIR_FIRST, packed, n), -EIO);
    free(packed);
    free(big);
    label_set_free(&set);
    device_close(d);
}

static void test_small_and_empty(void **state)
{
    for (uint64_t size = 0; size < 3 << 20; size += 100000) {
        struct device *d;
        struct label_set set;
        assert_int_equal(device_memory(&d, size), 0);
        assert_int_equal(label_read(d, &set), -ENOENT);
        assert_int_equal(label_clear(d), -ENOENT);
        device_close(d);
    }
}

static void test_clear(void **state)
{
    enum { PART = 2 * LABEL_SIZE };
    static unsigned char bytes[PART];
    struct device *d = sample_device("stripe-disk0");
    struct device_info info;
    device_info(d, &info);
    assert_int_equal(device_write(d, PART, "data", 4), 0);
    assert_int_equal(label_clear(d), 0);
    for (unsigned end = 0; end < 2; end++) {
        assert_int_equal(device_read(d, end ? info.size - PART : 0, bytes, PART), 0);
        for (size_t i = 0; i < PART; i++)
            assert_int_equal(bytes[i], 0);
    }
    assert_int_equal(device_read(d, PART, bytes, 4), 0);
    assert_memory_equal(bytes, "data", 4);
    assert_int_equal(label_clear(d), -ENOENT);
    assert_string_equal(err_text(-ENOENT), "memory has no label of a pool");
    device_close(d);
}

/* The pad and what is beyond the labels are not touched by a new label. */
static void test_init_leaves_alone(void **state)
{
    struct device *d;
    unsigned char before[LABEL_BOOT_OFFSET], after[LABEL_BOOT_OFFSET];
    struct env e = test_env();
    assert_int_equal(device_memory(&d, 64 << 20), 0);
    test_fill(&e, before, sizeof before);
    assert_int_equal(device_write(d, 0, before, sizeof before), 0);
    assert_int_equal(device_write(d, 2 * LABEL_SIZE, before, sizeof before), 0);
    assert_int_equal(label_init(d, 64 << 20, "x", 1), 0);
    assert_int_equal(device_read(d, 0, after, sizeof after), 0);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(device_read(d, 2 * LABEL_SIZE, after, sizeof after), 0);
    assert_memory_equal(before, after, sizeof before);
    device_close(d);
}

/* A file that is the image of a whole disk: the labels are in its partition. */
static void put_gpt(int fd, uint64_t first, uint64_t last)
{
    static const unsigned char type[16] = {0xc3, 0x8c, 0x89, 0x6a, 0xd2, 0x1d, 0xb2, 0x11,
                                           0x99, 0xa6, 0x08, 0x00, 0x20, 0x73, 0x66, 0x31};
    unsigned char header[512] = "EFI PART\0\0\1", table[16384] = {0};
    memcpy(table, type, 16);
    put_le64(table + 32, first);
    put_le64(table + 40, last);
    put_le32(header + 12, 92);
    put_le64(header + 24, 1);
    put_le64(header + 72, 2);
    put_le32(header + 80, 128);
    put_le32(header + 84, 128);
    put_le32(header + 88, (uint32_t)crc32(0, table, sizeof table));
    put_le32(header + 16, (uint32_t)crc32(0, header, 92));
    assert_int_equal(pwrite(fd, header, 512, 512), 512);
    assert_int_equal(pwrite(fd, table, sizeof table, 1024), sizeof table);
}

static void test_open_partition(void **state)
{
    const unsigned char *bytes = sample_bytes("stripe-disk0");
    uint64_t size = get_le64(bytes), first = 2048;
    char path[] = "/var/tmp/tarn-test-XXXXXX";
    struct device *d;
    struct device_info info;
    struct label_set set;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(size + (2 << 20))), 0);
    put_gpt(fd, first, first + size / 512 - 1);
    assert_int_equal(pwrite(fd, bytes + 8, SAMPLE_PART, (off_t)(first * 512)), SAMPLE_PART);
    assert_int_equal(pwrite(fd, bytes + 8 + SAMPLE_PART, SAMPLE_PART,
                            (off_t)(first * 512 + size_psize(size) - SAMPLE_PART)),
                     SAMPLE_PART);
    close(fd);
    assert_int_equal(label_open_device(&d, path, 0), 0);
    assert_string_equal(d->path, path);
    device_info(d, &info);
    assert_int_equal(info.size, size);
    assert_int_equal(label_read(d, &set), 0);
    assert_non_null(label_best(&set, UINT64_MAX));
    label_set_free(&set);
    device_close(d);
    unlink(path);
    assert_int_equal(label_open_device(&d, path, 0), -ENOENT);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_read_errors),
        cmocka_unit_test(test_write_errors),
        cmocka_unit_test(test_small_and_empty),
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_init_leaves_alone),
        cmocka_unit_test(test_open_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
