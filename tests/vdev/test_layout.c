/* Where the pieces of a block are: the examples of the format's description (spec 02 11.4, 13, 14),
 * each compared there with devices that the reference has written. */
#include "redundant_test.h"

#include "util/err.h"
#include "vdev/draid_impl.h"

struct place {
    unsigned disk;
    uint64_t offset, size;
};

struct example {
    uint64_t offset, psize, asize;
    struct place place[9]; /* of writes; ended by size 0 */
};

static void forget(struct lab *lab)
{
    for (unsigned d = 0; d < lab->disks; d++)
        lab->disk[d].asked = 0;
}

static void check_example(struct lab *lab, const struct example *e, bool exact)
{
    size_t size = P2_ROUND_UP(e->psize, 1ull << lab->top->ashift);
    unsigned char *data = calloc(1, size);
    unsigned expected = 0, asked = 0;

    assert_int_equal(vdev_psize_to_asize(lab->top, e->psize, 5), e->asize);
    forget(lab);
    assert_int_equal(lab_submit(lab, true, e->offset, data, size, 5), 0);
    for (const struct place *p = e->place; p->size; p++, expected++) {
        const struct disk *d = &lab->disk[p->disk];
        assert_true(d->asked > 0);
        if (exact) {
            assert_int_equal(d->offset, p->offset);
            assert_int_equal(d->size, p->size);
        }
    }
    for (unsigned d = 0; d < lab->disks; d++)
        asked += lab->disk[d].asked > 0;
    assert_int_equal(asked, expected);
    free(data);
}

static void raidz1_of_4(void **state)
{
    static const struct shape s = {
        .type = "raidz", .disks = 4, .nparity = 1, .ashift = 12, .disk_size = 512ull << 20};
    static const struct example examples[] = {
        {0xc01a000, 0x1000, 0x2000, {{2, 0x3006000, 0x1000}, {3, 0x3006000, 0x1000}}},
        {0x41b8000, 0x1000, 0x2000, {{1, 0x106e000, 0x1000}, {0, 0x106e000, 0x1000}}},
        {0x20006000,
         0x2000,
         0x4000,
         {{2, 0x8001000, 0x1000}, {3, 0x8001000, 0x1000}, {0, 0x8002000, 0x1000}}},
        {0x834e000,
         0x2000,
         0x4000,
         {{3, 0x20d3000, 0x1000}, {2, 0x20d3000, 0x1000}, {0, 0x20d4000, 0x1000}}},
        {0x10842000,
         0x3000,
         0x4000,
         {{2, 0x4210000, 0x1000},
          {3, 0x4210000, 0x1000},
          {0, 0x4211000, 0x1000},
          {1, 0x4211000, 0x1000}}},
        {0x5224000,
         0x4000,
         0x6000,
         {{0, 0x1489000, 0x2000},
          {1, 0x1489000, 0x2000},
          {2, 0x1489000, 0x1000},
          {3, 0x1489000, 0x1000}}},
        {0x5c8000,
         0x8000,
         0xc000,
         {{1, 0x172000, 0x3000},
          {0, 0x172000, 0x3000},
          {2, 0x172000, 0x3000},
          {3, 0x172000, 0x2000}}},
        {0x83a8000,
         0x20000,
         0x2c000,
         {{1, 0x20ea000, 0xb000},
          {0, 0x20ea000, 0xb000},
          {2, 0x20ea000, 0xb000},
          {3, 0x20ea000, 0xa000}}},
    };
    struct lab lab;

    lab_new(&lab, &s);
    for (unsigned i = 0; i < ARRAY_LEN(examples); i++)
        check_example(&lab, &examples[i], true);
    lab_free(&lab);
}

static void raidz_sizes(void **state)
{
    static const struct {
        unsigned disks, nparity;
        uint64_t psize, asize;
    } c[] = {{5, 2, 0x1000, 0x3000},   {5, 2, 0x2000, 0x6000}, {5, 2, 0x4000, 0x9000},
             {5, 2, 0x20000, 0x36000}, {8, 3, 0x1000, 0x4000}, {8, 3, 0x20000, 0x38000}};

    for (unsigned i = 0; i < ARRAY_LEN(c); i++) {
        struct shape s = {
            .type = "raidz", .disks = c[i].disks, .nparity = c[i].nparity, .ashift = 12};
        struct lab lab;
        lab_new(&lab, &s);
        assert_int_equal(vdev_psize_to_asize(lab.top, c[i].psize, 5), c[i].asize);
        lab_free(&lab);
    }
}

/* A block of the time before a disk was added: each row begins on another disk. */
static void expanded(void **state)
{
    static const uint64_t txgs[] = {166};
    static const struct shape s = {.type = "raidz",
                                   .disks = 5,
                                   .nparity = 1,
                                   .ashift = 12,
                                   .expand_txgs = txgs,
                                   .expansions = 1,
                                   .disk_size = 512ull << 20};
    static const struct example e = {
        0x4ba3c000, 0x8000, 0xc000, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {3, 0, 1}, {4, 0, 1}}};
    unsigned char data[8 * 4096], got[4096];
    struct lab lab;

    lab_new(&lab, &s);
    check_example(&lab, &e, false);
    assert_int_equal(vdev_psize_to_asize(lab.top, 0x8000, 166), 0xa000); /* 8 and 2 of parity */
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i >> 12);
    assert_int_equal(lab_submit(&lab, true, e.offset, data, sizeof data, 5), 0);
    static const struct {
        unsigned disk;
        uint64_t sector;
        unsigned char content;
    } at[] = {{1, 309821, 0}, {2, 309822, 3}, {3, 309823, 6}, {0, 309825, 1},
              {1, 309826, 4}, {2, 309827, 7}, {4, 309829, 2}, {0, 309830, 5}};
    for (unsigned i = 0; i < ARRAY_LEN(at); i++) {
        device_read(lab.disk[at[i].disk].leaf->device, VDEV_LABEL_START + at[i].sector / 5 * 4096,
                    got, 4096);
        assert_int_equal(got[17], at[i].content);
    }
    lab_free(&lab);
}

static void draid2_of_9(void **state)
{
    static const struct shape s = {.type = "draid",
                                   .disks = 9,
                                   .nparity = 2,
                                   .ashift = 12,
                                   .ndata = 3,
                                   .nspares = 1,
                                   .ngroups = 8,
                                   .disk_size = 512ull << 20};
    static const struct example examples[] = {
        {0x2a8000, 0xac00, 0x14000, {{7, 0, 1}, {3, 0, 1}, {6, 0, 1}, {5, 0, 1}, {0, 0, 1}}},
        {0x6eb4000,
         0x1000,
         0x5000,
         {{2, 0x624000, 4096},
          {8, 0x624000, 4096},
          {4, 0x624000, 4096},
          {7, 0x1624000, 4096},
          {3, 0x1624000, 4096}}},
        {0x40083000,
         0x200,
         0x5000,
         {{1, 0x7ce7000, 4096},
          {3, 0x7ce7000, 4096},
          {0, 0x7ce7000, 4096},
          {5, 0x7ce7000, 4096},
          {8, 0x8ce7000, 4096}}},
        {0x66526000, 0x4000, 0xa000, {{2, 0, 1}, {4, 0, 1}, {1, 0, 1}, {6, 0, 1}, {0, 0, 1}}},
    };
    struct lab lab;

    lab_new(&lab, &s);
    assert_int_equal(lab.top->asize, 3858759680);
    for (unsigned i = 0; i < ARRAY_LEN(examples); i++)
        check_example(&lab, &examples[i], examples[i].place[0].size > 1);
    lab_free(&lab);
}

/* What follows the data of a dRAID block is zero on the disks, whatever was there. */
static void draid_padding(void **state)
{
    static const struct shape s = {.type = "draid",
                                   .disks = 9,
                                   .nparity = 2,
                                   .ashift = 12,
                                   .ndata = 3,
                                   .nspares = 1,
                                   .ngroups = 8,
                                   .disk_size = 512ull << 20};
    unsigned char data[4096], got[4096], zero[4096] = {0};
    struct lab lab;

    lab_new(&lab, &s);
    memset(data, 0xff, sizeof data);
    for (unsigned d = 0; d < 9; d++)
        device_write(lab.disk[d].leaf->device, VDEV_LABEL_START + 0x1624000, data, sizeof data);
    assert_int_equal(lab_submit(&lab, true, 0x6eb4000, data, sizeof data, 5), 0);
    for (unsigned d = 3; d <= 7; d += 4) {
        device_read(lab.disk[d].leaf->device, VDEV_LABEL_START + 0x1624000, got, sizeof got);
        assert_memory_equal(got, zero, sizeof got);
    }
    lab_free(&lab);
}

static void permutations(void **state)
{
    static const struct {
        unsigned children, row;
        unsigned char expected[14];
    } rows[] = {{5, 0, {2, 3, 1, 4, 0}},
                {5, 1, {0, 3, 4, 1, 2}},
                {5, 2, {1, 2, 4, 0, 3}},
                {14, 0, {1, 7, 3, 13, 9, 0, 12, 5, 6, 10, 4, 11, 8, 2}},
                {14, 255, {12, 13, 3, 1, 0, 7, 10, 4, 11, 8, 6, 9, 2, 5}},
                {8, 0, {5, 6, 1, 0, 2, 4, 3, 7}}};
    static const struct {
        unsigned children;
        uint64_t sum;
    } sums[] = {
        {2, 0x433d433d}, {3, 0xbcd8b7b5}, {8, 0x6edfb0329}, {14, 0x16ab2ff079}, {32, 0xf7eb08a156}};
    struct draid_map m;

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(draid_map_new(&m, rows[i].children), 0);
        assert_memory_equal(m.base + rows[i].row * rows[i].children, rows[i].expected,
                            rows[i].children);
        free(m.base);
    }
    for (unsigned i = 0; i < ARRAY_LEN(sums); i++) {
        uint64_t sum = 0;
        assert_int_equal(draid_map_new(&m, sums[i].children), 0);
        for (size_t at = 0; at < (size_t)m.rows * m.children; at += 4)
            sum += get_le32(m.base + at);
        assert_int_equal(sum, sums[i].sum);
        free(m.base);
    }
}

/* ---- Removed vdevs ---- */

static struct nvlist *indirect_config(void)
{
    struct nvlist *l = nvlist_new();

    nvlist_add_string(l, "type", "indirect");
    nvlist_add_uint64(l, "guid", 78);
    nvlist_add_uint64(l, "ashift", 9);
    nvlist_add_uint64(l, "asize", 1 << 20);
    nvlist_add_uint64(l, "com.delphix:indirect_object", 99);
    nvlist_add_nvlist_array(l, "children", NULL, 0);
    return l;
}

/* Mirror 0, and removed vdevs 1 and 2. */
static void open_removed(struct lab *lab)
{
    static const struct shape mirror = {.type = "mirror", .disks = 2, .ashift = 9};
    struct nvlist *top[] = {lab_top_config(&mirror), indirect_config(), indirect_config()};
    struct nvlist *root = nvlist_new();

    for (unsigned i = 0; i < 3; i++)
        nvlist_add_uint64(top[i], "id", i);
    nvlist_add_string(root, "type", "root");
    nvlist_add_uint64(root, "guid", 1000);
    nvlist_add_nvlist_array(root, "children", top, 3);
    for (unsigned i = 0; i < 3; i++)
        nvlist_free(top[i]);
    memset(lab, 0, sizeof *lab);
    assert_int_equal(vdev_tree_parse(&lab->root, root), 0);
    nvlist_free(root);
    lab_open(lab, 0);
    assert_true(vdev_is_indirect(lab->root->child[1]));
    assert_int_equal(vdev_mapping_object(lab->root->child[1]), 99);
}

static void put_entry(unsigned char *p, uint64_t from, uint64_t vdev, uint64_t to, uint64_t size)
{
    uint64_t words[] = {from >> 9, vdev << 32 | size >> 9, to >> 9};

    memcpy(p, words, sizeof words);
}

static void mappings(void **state)
{
    struct env env = test_env();
    unsigned char map1[3 * 24], map2[24], data[4096], got[4096];
    struct block b = {.data = data, .birth = 5};
    struct lab lab;

    open_removed(&lab);
    test_fill(&env, data, sizeof data);
    for (unsigned i = 0; i < 4; i++) /* KiB 0 to 3 of the block */
        assert_int_equal(lab_submit(&lab, true, 0x8000 - 0x1000 * i, data + 1024 * i, 1024, 5), 0);
    put_entry(map1, 0x1000, 0, 0x8000, 1024);
    put_entry(map1 + 24, 0x1400, 2, 0x600, 2048); /* was moved again */
    put_entry(map1 + 48, 0x1c00, 0, 0x5000, 512);
    put_entry(map2, 0x400, 0, 0x6e00, 0x2000);
    lab_submit(&lab, true, 0x7000, data + 1024, 1024, 5);
    lab_submit(&lab, true, 0x7400, data + 2048, 1024, 5);
    lab.top = lab.root->child[1];
    b.offset = 0x1000;
    b.size = 3584;
    assert_int_equal(lab_read(&lab, &b), -EIO); /* no mapping yet */
    assert_int_equal(vdev_set_mapping(lab.root->child[1], map1, sizeof map1), 0);
    assert_int_equal(vdev_set_mapping(lab.root->child[2], map2, sizeof map2), 0);
    assert_int_equal(lab_read(&lab, &b), 0);
    assert_int_equal(lab_submit(&lab, false, b.offset, got, b.size, 5), 0);
    assert_memory_equal(got, data, b.size);
    b.size = 4096; /* the last sector was not in use */
    assert_int_equal(lab_read(&lab, &b), -EIO);
    /* Each piece is good on one side of the mirror only. */
    b.size = 3584;
    device_write(lab.disk[0].leaf->device, VDEV_LABEL_START + 0x8000, map1, sizeof map1);
    device_write(lab.disk[1].leaf->device, VDEV_LABEL_START + 0x7100, map1, sizeof map1);
    device_write(lab.disk[0].leaf->device, VDEV_LABEL_START + 0x5000, map1, sizeof map1);
    assert_int_equal(lab_read(&lab, &b), 0);
    device_write(lab.disk[0].leaf->device, VDEV_LABEL_START + 0x7100, map1, sizeof map1);
    device_write(lab.disk[1].leaf->device, VDEV_LABEL_START + 0x7100, map1, sizeof map1);
    assert_int_equal(lab_read(&lab, &b), -EBADE);
    lab_free(&lab);
}

static void damaged_mappings(void **state)
{
    unsigned char map[2 * 24];
    unsigned char got[512];
    struct lab lab;

    open_removed(&lab);
    struct vdev *v = lab.root->child[1];
    assert_int_equal(vdev_set_mapping(v, map, 25), -EBADE);
    put_entry(map, 0x1000, 0, 0, 0x800);
    put_entry(map + 24, 0x1600, 0, 0x4000, 0x800); /* overlaps */
    assert_int_equal(vdev_set_mapping(v, map, 48), -EBADE);
    put_entry(map + 24, 0xffe00, 0, 0x4000, 0x800); /* past the end */
    assert_int_equal(vdev_set_mapping(v, map, 48), -EBADE);
    put_entry(map + 24, 0x2000, 0, 0x4000, 0); /* empty */
    assert_int_equal(vdev_set_mapping(v, map, 48), -EBADE);
    put_entry(map, 0, 1, 0, 0x800); /* to itself */
    assert_int_equal(vdev_set_mapping(v, map, 24), 0);
    assert_int_equal(vdev_read(v, 0, got, 512, 5, NULL, NULL), -EIO);
    put_entry(map, 0, 9, 0, 0x800); /* to nowhere */
    assert_int_equal(vdev_set_mapping(v, map, 24), 0);
    assert_int_equal(vdev_read(v, 0, got, 512, 5, NULL, NULL), -EIO);
    lab_free(&lab);
}

/* ---- What cannot be ---- */

static void impossible_shapes(void **state)
{
    static const uint64_t txgs[] = {5, 6, 7};
    static const struct shape bad[] = {
        {.type = "mirror", .disks = 0},
        {.type = "raidz", .disks = 3},
        {.type = "raidz", .disks = 3, .nparity = 4},
        {.type = "raidz", .disks = 2, .nparity = 2},
        {.type = "raidz", .disks = 4, .nparity = 1, .expand_txgs = txgs, .expansions = 3},
        {.type = "raidz", .disks = 2, .nparity = 1, .expanding = true},
        {.type = "draid", .disks = 5, .nparity = 2, .ndata = 4, .ngroups = 1},
        {.type = "draid", .disks = 5, .nparity = 1, .ndata = 4, .ngroups = 2},
        {.type = "draid", .disks = 5, .nparity = 1, .ndata = 3, .nspares = 5, .ngroups = 1},
        {.type = "draid", .disks = 5, .nparity = 0, .ndata = 3, .ngroups = 1},
    };
    struct vdev *root;

    for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(lab_parse(&root, lab_top_config(&bad[i])), -EINVAL);
}

static void names(void **state)
{
    static const struct {
        struct shape shape;
        const char *name;
    } c[] = {{{.type = "mirror", .disks = 2, .ashift = 9}, "mirror-0"},
             {{.type = "raidz", .disks = 4, .nparity = 2, .ashift = 9}, "raidz2-0"},
             {{.type = "draid",
               .disks = 9,
               .nparity = 2,
               .ashift = 12,
               .ndata = 3,
               .nspares = 1,
               .ngroups = 8},
              "draid2:3d:9c:1s-0"}};
    char name[100];

    for (unsigned i = 0; i < ARRAY_LEN(c); i++) {
        struct vdev *root;
        assert_int_equal(lab_parse(&root, lab_top_config(&c[i].shape)), 0);
        vdev_print_name(root->child[0], name, sizeof name);
        assert_string_equal(name, c[i].name);
        vdev_tree_free(root);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(raidz1_of_4),       cmocka_unit_test(raidz_sizes),
        cmocka_unit_test(expanded),          cmocka_unit_test(draid2_of_9),
        cmocka_unit_test(draid_padding),     cmocka_unit_test(permutations),
        cmocka_unit_test(mappings),          cmocka_unit_test(damaged_mappings),
        cmocka_unit_test(impossible_shapes), cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
