/* Uberblocks of real pools, and of our own in either byte order. */
#include "label_sample.h"

#include <errno.h>

#include "codec/checksum.h"
#include "nvlist/nvlist.h"
#include "vdev/label.h"

struct count {
    struct device *d;
    uint64_t psize;
    unsigned n, ashift;
};

/* Each one is in the slot of its txg, and our own encoding of it is what is on disk. */
static int check_one(void *arg, const struct uberblock *u, unsigned label, uint64_t offset)
{
    static unsigned char real[8192], ours[8192];
    struct count *c = arg;
    size_t size = (size_t)1 << uberblock_shift(c->ashift);
    unsigned slot = uberblock_slot(c->ashift, u, false);
    c->n++;
    assert_false(u->big);
    assert_int_equal(u->mmp_magic, UBERBLOCK_MMP_MAGIC);
    assert_int_equal(offset, uberblock_offset(c->psize, label, c->ashift, slot));
    assert_int_equal(device_read(c->d, offset, real, size), 0);
    uberblock_encode(u, ours, size, offset);
    assert_memory_equal(real, ours, size);
    return 0;
}

static void test_real(void **state)
{
    static const struct {
        const char *name;
        unsigned ashift;
        uint64_t version;
    } rows[] = {{"aged-disk0", 9, 5000},       {"basic-disk0", 12, 5000},
                {"checkpoint-disk0", 9, 5000}, {"stripe-disk1", 9, 5000},
                {"traidz1x3-disk0", 9, 5000},  {"v28-disk0", 9, 28},
                {"aux-disk0", 9, 5000},        {"destroyed-disk0", 9, 5000}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device *d = sample_device(rows[i].name);
        struct uberblock best;
        struct label_set set;
        struct nvlist *tree;
        assert_int_equal(label_read(d, &set), 0);
        const struct label *l = label_best(&set, UINT64_MAX);
        assert_int_equal(nvlist_get_nvlist(l->config, "vdev_tree", &tree), 0);
        struct count c = {
            .d = d, .psize = set.psize, .ashift = (unsigned)nvlist_uint64_or(tree, "ashift", 0)};
        assert_int_equal(c.ashift, rows[i].ashift);
        assert_int_equal(uberblock_scan(d, set.psize, check_one, &c), 0);
        assert_true(c.n >= 4);
        assert_int_equal(uberblock_best(d, set.psize, UINT64_MAX, &best), 0);
        assert_int_equal(best.txg, l->txg); /* cleanly exported or destroyed */
        assert_int_equal(best.version, rows[i].version);
        uint64_t newest = best.txg;
        assert_int_equal(uberblock_best(d, set.psize, newest - 1, &best), 0);
        assert_true(best.txg < newest);
        assert_int_equal(uberblock_best(d, set.psize, 0, &best), -ENOENT);
        label_set_free(&set);
        device_close(d);
    }
}

/* guid_sum of the root and all vdevs: the fields are where we think they are. */
static void test_guid_sum(void **state)
{
    struct device *d = sample_device("basic-disk0");
    struct label_set set;
    struct uberblock u;
    assert_int_equal(label_read(d, &set), 0);
    assert_int_equal(uberblock_best(d, set.psize, UINT64_MAX, &u), 0);
    uint64_t pool = nvlist_uint64_or(set.label[0].config, "pool_guid", 0);
    assert_int_equal(u.guid_sum, pool + set.label[0].guid);
    assert_int_equal(u.software_version, 5000);
    assert_true(u.timestamp > 1600000000);
    assert_int_equal((u.rootbp[6] >> 48) & 0xff, 11); /* type: object set */
    label_set_free(&set);
    device_close(d);
}

static void test_slots(void **state)
{
    static const struct {
        unsigned ashift, shift, slots;
    } rows[] = {{9, 10, 128}, {10, 10, 128}, {11, 11, 64},
                {12, 12, 32}, {13, 13, 16},  {16, 13, 16}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct uberblock u = {.txg = 4};
        assert_int_equal(uberblock_shift(rows[i].ashift), rows[i].shift);
        assert_int_equal(uberblock_slots(rows[i].ashift), rows[i].slots);
        assert_int_equal(uberblock_slot(rows[i].ashift, &u, false), 4);
        u.txg = rows[i].slots - 1;
        assert_int_equal(uberblock_slot(rows[i].ashift, &u, false), rows[i].slots - 1);
        assert_int_equal(uberblock_slot(rows[i].ashift, &u, true), 0);
        u.raidz_reflow = (uint64_t)UBERBLOCK_REFLOW_VALID << 55 | 100;
        assert_int_equal(uberblock_slot(rows[i].ashift, &u, false), rows[i].slots - 2);
        assert_int_equal(uberblock_reflow_offset(&u), 51200);
    }
    assert_int_equal(uberblock_offset(64 << 20, 1, 12, 3), 0x40000 + 0x20000 + 3 * 4096);
    assert_int_equal(uberblock_offset(64 << 20, 3, 9, 127), (64 << 20) - 1024);
}

static void test_compare(void **state)
{
    struct uberblock a = {.txg = 5, .timestamp = 100}, b = a;
    assert_int_equal(uberblock_compare(&a, &b), 0);
    b.timestamp++;
    assert_true(uberblock_compare(&a, &b) < 0);
    a.txg++;
    assert_true(uberblock_compare(&a, &b) > 0);
    b = a;
    b.mmp_config = 7ull << 32 | 2;
    assert_int_equal(uberblock_compare(&a, &b), 0); /* no magic: the sequence means nothing */
    b.mmp_magic = UBERBLOCK_MMP_MAGIC;
    assert_true(uberblock_compare(&a, &b) < 0);
    b.mmp_config = 7ull << 32; /* not valid */
    assert_int_equal(uberblock_compare(&a, &b), 0);
}

static struct uberblock example(struct env *e)
{
    struct uberblock u;
    test_fill(e, &u, sizeof u);
    u.big = BYTES_HOST_BIG;
    u.raidz_reflow &= (1ull << 55) - 1;
    u.txg |= 1;
    return u;
}

/* The same uberblock as a host of the other byte order writes it. */
static void encode_swapped(const struct uberblock *u, unsigned char *slot, size_t size,
                           uint64_t offset)
{
    uint64_t verifier[4] = {offset}, sum[4];
    uberblock_encode(u, slot, size, offset);
    for (size_t i = 0; i < size; i += 8)
        put_be64(slot + i, get_le64(slot + i));
    unsigned char *trailer = slot + size - CHECKSUM_TRAILER_SIZE + 8;
    for (unsigned i = 0; i < 4; i++)
        put_u64(trailer + 8 * i, verifier[i], !BYTES_HOST_BIG);
    assert_int_equal(checksum_compute(CHECKSUM_SHA256, slot, size, NULL, false, sum), 0);
    for (unsigned i = 0; i < 4; i++)
        put_u64(trailer + 8 * i, sum[i], !BYTES_HOST_BIG);
}

static void test_both_byte_orders(void **state)
{
    struct env e = test_env();
    static unsigned char slot[8192];
    for (unsigned s = UBERBLOCK_SHIFT_MIN; s <= UBERBLOCK_SHIFT_MAX; s++) {
        size_t size = (size_t)1 << s;
        struct uberblock u = example(&e), back;
        uberblock_encode(&u, slot, size, 12345 * size);
        memset(&back, 0, sizeof back);
        assert_int_equal(uberblock_decode(&back, slot, size, 12345 * size), 0);
        assert_int_equal(uberblock_compare(&u, &back), 0);
        assert_memory_equal(u.rootbp, back.rootbp, sizeof u.rootbp);
        assert_int_equal(u.raidz_reflow, back.raidz_reflow);
        assert_int_equal(u.checkpoint_txg, back.checkpoint_txg);
        assert_int_equal(uberblock_decode(&back, slot, size, 12346 * size), -EBADE);
        encode_swapped(&u, slot, size, 999 * size);
        assert_int_equal(uberblock_decode(&back, slot, size, 999 * size), 0);
        assert_int_equal(back.big, !BYTES_HOST_BIG);
        back.big = u.big;
        assert_int_equal(uberblock_compare(&u, &back), 0);
        assert_memory_equal(u.rootbp, back.rootbp, sizeof u.rootbp);
        assert_int_equal(u.mmp_delay, back.mmp_delay);
        assert_int_equal(u.guid_sum, back.guid_sum);
        slot[100] ^= 1;
        assert_int_equal(uberblock_decode(&back, slot, size, 999 * size), -EBADE);
        memset(slot, 0, 8);
        assert_int_equal(uberblock_decode(&back, slot, size, 999 * size), -EINVAL);
    }
}

static int fail_range(void *arg, enum device_op op, uint64_t offset, size_t n)
{
    const uint64_t *range = arg;
    return offset < range[1] && offset + n > range[0] ? -EIO : 0;
}

static int count_txg(void *arg, const struct uberblock *u, unsigned label, uint64_t offset)
{
    unsigned *seen = arg;
    seen[label] += u->txg == 77;
    return 0;
}

static void test_write(void **state)
{
    const uint64_t psize = 64 << 20;
    for (unsigned ashift = 9; ashift <= 16; ashift++) {
        struct env e = test_env();
        struct uberblock u = example(&e), best;
        struct device *d;
        uint64_t range[2] = {0, 0};
        unsigned seen[LABELS] = {0};
        assert_int_equal(device_memory(&d, psize + 12345), 0);
        struct device *memory = d;
        assert_int_equal(device_fault(&d, memory, fail_range, range), 0);
        assert_int_equal(label_init(d, psize, "", 0), 0);
        assert_int_equal(uberblock_best(d, psize, UINT64_MAX, &best), -ENOENT);
        u.txg = 76;
        assert_int_equal(uberblock_write(d, psize, ashift, &u, false), 0);
        u.txg = 77;
        assert_int_equal(uberblock_write(d, psize, ashift, &u, false), 0);
        assert_int_equal(uberblock_scan(d, psize, count_txg, seen), 0);
        for (unsigned l = 0; l < LABELS; l++)
            assert_int_equal(seen[l], 1);
        assert_int_equal(uberblock_best(d, psize, UINT64_MAX, &best), 0);
        assert_int_equal(best.txg, 77);
        /* Three bad labels out of four: still written, still found. */
        range[1] = psize - LABEL_SIZE;
        u.txg = 78;
        assert_int_equal(uberblock_write(d, psize, ashift, &u, true), 0);
        assert_int_equal(uberblock_best(d, psize, UINT64_MAX, &best), 0);
        assert_int_equal(best.txg, 78);
        range[1] = UINT64_MAX;
        assert_int_equal(uberblock_write(d, psize, ashift, &u, false), -EIO);
        assert_int_equal(uberblock_best(d, psize, UINT64_MAX, &best), -EIO);
        device_close(d);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real),
        cmocka_unit_test(test_guid_sum),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_both_byte_orders),
        cmocka_unit_test(test_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
