/* Which bytes of which device belong to a range of a vdev, and what is done to them. */
#include "redundant_test.h"
#include "vdev/upkeep.h"

#define DONE 0xdeadbeefdeadbeeeull

static const struct shape shapes[] = {
    {.type = "mirror", .disks = 3, .ashift = 12},
    {.type = "raidz", .disks = 3, .nparity = 1, .ashift = 9},
    {.type = "raidz", .disks = 5, .nparity = 2, .ashift = 12},
};

static uint64_t word_at(struct vdev *leaf, uint64_t offset)
{
    uint64_t sector[64];

    assert_int_equal(device_read(leaf->device, VDEV_LABEL_START + offset, sector, sizeof sector), 0);
    return sector[0];
}

/* Sector k of a raidz is on device k mod n: 02 18. */
static bool belongs(const struct shape *s, uint64_t k, unsigned disk)
{
    return strcmp(s->type, "mirror") == 0 || k % s->disks == disk;
}

static void ranges_are_those_of_the_devices(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        const struct shape *s = &shapes[i];
        struct lab lab;
        struct vdev_upkeep one[5] = {0};
        uint64_t from = 1000, to = 1234;

        lab_new(&lab, s);
        for (unsigned d = 0; d < s->disks; d++)
            one[d] = (struct vdev_upkeep){.guid = 100 + d, .kind = VDEV_INITIALIZE};
        vdev_upkeep(lab.top, from << s->ashift, (to - from) << s->ashift, one, s->disks);
        for (unsigned d = 0; d < s->disks; d++) {
            uint64_t n = 0, row = 0;
            assert_int_equal(one[d].rc, 0);
            for (uint64_t k = 0; k < 2 * to; k++) {
                if (!belongs(s, k, d))
                    continue;
                bool done = k >= from && k < to;
                assert_int_equal(word_at(lab.disk[d].leaf, row << s->ashift), done ? DONE : 0);
                n += done;
                row++;
            }
            assert_int_equal(one[d].bytes, n << s->ashift);
        }
        lab_free(&lab);
    }
}

static void positions_go_both_ways(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        const struct shape *s = &shapes[i];
        struct lab lab;

        lab_new(&lab, s);
        for (unsigned d = 0; d < s->disks; d++) {
            struct vdev *leaf = lab.disk[d].leaf;
            assert_true(vdev_has_ranges(leaf));
            for (uint64_t k = 0; k < 50; k++) {
                uint64_t at = k << s->ashift, there = vdev_leaf_position(leaf, at);
                assert_true(vdev_top_position(leaf, there) >= at);
                assert_int_equal(vdev_leaf_position(leaf, vdev_top_position(leaf, there)), there);
            }
        }
        lab_free(&lab);
    }
}

static void what_is_not_there_is_left_out(void **state)
{
    struct lab lab;
    struct vdev_upkeep one[3] = {{.guid = 100, .kind = VDEV_TRIM},
                                 {.guid = 101, .kind = VDEV_INITIALIZE},
                                 {.guid = 9999, .kind = VDEV_TRIM}};

    lab_new(&lab, &shapes[0]);
    lab.disk[1].dead = true;
    vdev_upkeep(lab.top, 0, 1 << 20, one, 3);
    assert_int_equal(one[0].rc, 0);
    assert_int_equal(one[1].rc, -EIO);
    assert_int_equal(lab.disk[1].leaf->stats.write_errors, 1);
    assert_int_equal(one[2].rc, -ENODEV);
    lab_free(&lab);
}

static void expanding_and_draid_have_no_ranges(void **state)
{
    static const uint64_t txgs[] = {10};
    const struct shape without[] = {
        {.type = "raidz", .disks = 4, .nparity = 1, .ashift = 12, .expand_txgs = txgs, .expansions = 1,
         .expanding = true},
        {.type = "draid", .disks = 5, .nparity = 1, .ashift = 12, .ndata = 2, .nspares = 1, .ngroups = 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(without); i++) {
        struct lab lab;
        struct vdev_upkeep one = {.guid = 100, .kind = VDEV_TRIM};

        lab_new(&lab, &without[i]);
        assert_false(vdev_has_ranges(lab.disk[0].leaf));
        vdev_upkeep(lab.top, 0, 1 << 20, &one, 1);
        assert_int_equal(one.rc, -ENODEV);
        lab_free(&lab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_those_of_the_devices),
        cmocka_unit_test(positions_go_both_ways),
        cmocka_unit_test(what_is_not_there_is_left_out),
        cmocka_unit_test(expanding_and_draid_have_no_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
