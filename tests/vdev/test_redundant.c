/* Blocks on every redundant layout survive every loss and every lie that the layout can bear. */
#include "redundant_test.h"

#include "util/err.h"
#include "util/rangeset.h"

enum { BLOCKS = 24, USED = 4 << 20 /* bytes of each disk that the blocks are on, at most */ };

static const uint64_t expansions[] = {100, 200};

static const struct shape shapes[] = {
    {.type = "mirror", .disks = 2, .ashift = 12},
    {.type = "mirror", .disks = 3, .ashift = 9},
    {.type = "raidz", .disks = 2, .nparity = 1, .ashift = 9},
    {.type = "raidz", .disks = 3, .nparity = 1, .ashift = 9},
    {.type = "raidz", .disks = 5, .nparity = 1, .ashift = 12},
    {.type = "raidz", .disks = 5, .nparity = 2, .ashift = 9},
    {.type = "raidz", .disks = 6, .nparity = 2, .ashift = 12},
    {.type = "raidz", .disks = 4, .nparity = 3, .ashift = 9},
    {.type = "raidz", .disks = 7, .nparity = 3, .ashift = 9},
    {.type = "raidz", .disks = 3, .nparity = 1, .ashift = 16},
    {.type = "raidz",
     .disks = 5,
     .nparity = 1,
     .ashift = 9,
     .expand_txgs = expansions,
     .expansions = 2},
    {.type = "raidz",
     .disks = 6,
     .nparity = 2,
     .ashift = 9,
     .expand_txgs = expansions,
     .expansions = 1},
    {.type = "raidz", .disks = 5, .nparity = 2, .ashift = 12, .expanding = true},
    {.type = "draid",
     .disks = 7,
     .nparity = 2,
     .ashift = 9,
     .ndata = 3,
     .nspares = 1,
     .ngroups = 6},
    {.type = "draid",
     .disks = 5,
     .nparity = 1,
     .ashift = 12,
     .ndata = 4,
     .nspares = 0,
     .ngroups = 1},
    {.type = "draid",
     .disks = 6,
     .nparity = 3,
     .ashift = 12,
     .ndata = 2,
     .nspares = 1,
     .ngroups = 1},
};

static unsigned spare_disks(const struct shape *s)
{
    return s->nparity ? s->nparity : s->disks - 1;
}

/* Of blocks of many sizes, one after the other as an allocator would put them. */
static void write_blocks(struct lab *lab, const struct shape *s, struct env *env, struct block *b)
{
    uint64_t sector = 1ull << s->ashift,
             at = 0x100000 - 8 * sector; /* over the MiB where parity moves */
    uint64_t align = lab->top->kind->alloc_align ? lab->top->kind->alloc_align(lab->top) : sector;

    at = ROUND_UP(at, align);
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint64_t sectors = i < 10 ? i + 1 : 1 + test_below(env, (128 << 10 >> s->ashift) + 1);
        b[i].size = sectors << s->ashift;
        b[i].offset = at;
        b[i].birth = 1 + test_below(env, 300);
        b[i].data = malloc(b[i].size);
        test_fill(env, b[i].data, b[i].size);
        at += ROUND_UP(vdev_psize_to_asize(lab->top, b[i].size, b[i].birth), align);
        assert_int_equal(lab_submit(lab, true, b[i].offset, b[i].data, b[i].size, b[i].birth), 0);
    }
}

static void free_blocks(struct block *b)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        free(b[i].data);
}

static void read_all(struct lab *lab, struct block *b, int expected)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        assert_int_equal(lab_read(lab, &b[i]), expected);
}

static void submit_all(struct lab *lab, struct block *b)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned char *got = malloc(b[i].size);
        assert_int_equal(lab_submit(lab, false, b[i].offset, got, b[i].size, b[i].birth), 0);
        assert_memory_equal(got, b[i].data, b[i].size);
        free(got);
    }
}

static void set_dead(struct lab *lab, unsigned set)
{
    for (unsigned d = 0; d < lab->disks; d++)
        lab->disk[d].dead = set & 1u << d;
}

/* All of its children are asked and fail; or are known not to be there. */
static void losses(struct lab *lab, const struct shape *s, struct block *b)
{
    for (unsigned set = 1; set < 1u << s->disks; set++) {
        if ((unsigned)__builtin_popcount(set) > spare_disks(s))
            continue;
        set_dead(lab, set);
        read_all(lab, b, 0);
        set_dead(lab, 0);
        for (unsigned d = 0; d < s->disks; d++)
            if (set & 1u << d)
                lab->disk[d].leaf->state = VDEV_CANT_OPEN;
        read_all(lab, b, 0);
        submit_all(lab, b);
        for (unsigned d = 0; d < s->disks; d++)
            lab->disk[d].leaf->state = VDEV_HEALTHY;
    }
}

static uint64_t lies(const struct lab *lab, unsigned disk)
{
    return lab->disk[disk].leaf->stats.checksum_errors;
}

/* Disks that tell nonsense are found out, counted and mended, and no other is. */
static void damages(struct lab *lab, const struct shape *s, struct env *env, struct block *b)
{
    for (unsigned set = 1; set < 1u << s->disks; set++) {
        uint64_t before[DISKS_MAX];
        if ((unsigned)__builtin_popcount(set) > spare_disks(s) || (s->disks > 5 && set % 3))
            continue;
        for (unsigned d = 0; d < s->disks; d++) {
            before[d] = lies(lab, d);
            if (set & 1u << d)
                lab_spoil(lab, d, env, USED);
        }
        read_all(lab, b, 0);
        for (unsigned d = 0; d < s->disks; d++)
            if (!(set & 1u << d))
                assert_int_equal(lies(lab, d), before[d]);
        for (unsigned d = 0; d < s->disks; d++)
            before[d] = lies(lab, d);
        if (s->nparity) { /* of a mirror the bad one may not have been asked before */
            read_all(lab, b, 0);
            for (unsigned d = 0; d < s->disks; d++)
                assert_int_equal(lies(lab, d), before[d]);
        }
        /* What nobody asked for, parity for example, is still bad. */
        for (unsigned i = 0; i < BLOCKS; i++)
            lab_submit(lab, true, b[i].offset, b[i].data, b[i].size, b[i].birth);
    }
}

struct told {
    struct lab *lab;
    unsigned wrong, failed; /* sets of disks */
};

static void on_wrong(void *arg, struct vdev *leaf, int rc)
{
    struct told *t = arg;

    for (unsigned d = 0; d < t->lab->disks; d++)
        if (t->lab->disk[d].leaf == leaf)
            *(rc == -EBADE ? &t->wrong : &t->failed) |= 1u << d;
}

static struct told scrub(struct lab *lab, struct block *b)
{
    struct told t = {lab, 0, 0};

    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned char *got = malloc(b[i].size);
        struct vdev_scrub s = {.birth = b[i].birth, .verify = lab_verify, .arg = &b[i],
                               .wrong = on_wrong, .wrong_arg = &t};
        assert_int_equal(vdev_scrub(lab->top, b[i].offset, got, b[i].size, &s), 0);
        assert_memory_equal(got, b[i].data, b[i].size);
        free(got);
    }
    return t;
}

/* A scrub looks at everything: each disk that lies or fails is told of, no other one, and what
 * could be written again is right the next time. */
static void scrubs(struct lab *lab, const struct shape *s, struct env *env, struct block *b)
{
    struct told t = scrub(lab, b);

    assert_int_equal(t.wrong | t.failed, 0);
    for (unsigned set = 1; set < 1u << s->disks; set++) {
        if ((unsigned)__builtin_popcount(set) > spare_disks(s) || (s->disks > 5 && set % 3))
            continue;
        for (unsigned d = 0; d < s->disks; d++)
            if (set & 1u << d)
                lab_spoil(lab, d, env, USED);
        t = scrub(lab, b);
        assert_int_equal(s->ndata ? t.wrong & ~set : t.wrong ^ set, 0); /* not all are in use */
        assert_int_equal(t.failed, 0);
        unsigned in_use = t.wrong;
        t = scrub(lab, b);
        assert_int_equal(t.wrong | t.failed, 0);
        set_dead(lab, set);
        t = scrub(lab, b);
        assert_int_equal(t.failed, in_use);
        assert_int_equal(t.wrong, 0);
        set_dead(lab, 0);
        for (unsigned d = 0; d < s->disks; d++)
            if (set & 1u << d)
                lab->disk[d].leaf->state = VDEV_CANT_OPEN;
        t = scrub(lab, b);
        assert_int_equal(t.wrong | t.failed, 0); /* those that are not there are not asked */
        for (unsigned d = 0; d < s->disks; d++)
            lab->disk[d].leaf->state = VDEV_HEALTHY;
    }
}

static void lack_all(struct lab *lab, unsigned set, bool lacks)
{
    for (unsigned d = 0; d < lab->disks; d++) {
        struct rangeset *missed = lacks && (set & 1u << d) ? rangeset_new() : NULL;
        if (missed)
            assert_int_equal(rangeset_add(missed, 0, 1ull << 40), 0);
        vdev_set_dtl(lab->disk[d].leaf, missed);
    }
}

static uint64_t resilver(struct lab *lab, struct block *b)
{
    uint64_t given = 0;

    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned char *got = malloc(b[i].size);
        struct vdev_scrub s = {.birth = b[i].birth, .verify = lab_verify, .arg = &b[i],
                               .resilver = true, .given = &given};
        assert_int_equal(vdev_scrub(lab->top, b[i].offset, got, b[i].size, &s), 0);
        assert_memory_equal(got, b[i].data, b[i].size);
        free(got);
    }
    return given;
}

/* Devices that lack everything get it, and nobody is blamed; what they do not take is missed again. */
static void resilvers(struct lab *lab, const struct shape *s, struct env *env, struct block *b)
{
    assert_int_equal(resilver(lab, b), 0); /* nobody lacks anything */
    for (unsigned set = 1; set < 1u << s->disks; set++) {
        unsigned before[DISKS_MAX], refused = 0;
        uint64_t given;
        if ((unsigned)__builtin_popcount(set) > spare_disks(s) || (s->disks > 5 && set % 3))
            continue;
        for (unsigned d = 0; d < s->disks; d++) {
            if (set & 1u << d)
                lab_spoil(lab, d, env, USED);
            before[d] = lies(lab, d);
        }
        lack_all(lab, set, true);
        given = resilver(lab, b);
        assert_true(given > 0 || s->ndata);
        lack_all(lab, set, false);
        assert_int_equal(scrub(lab, b).wrong, 0);
        for (unsigned d = 0; d < s->disks; d++)
            assert_int_equal(lies(lab, d), before[d]);
        lack_all(lab, set, true);
        set_dead(lab, set);
        assert_int_equal(resilver(lab, b), 0);
        set_dead(lab, 0);
        for (unsigned d = 0; d < s->disks; d++)
            refused |= (unsigned)vdev_take_failed(lab->disk[d].leaf) << d;
        assert_int_equal(refused & ~set, 0);
        assert_true(s->ndata || refused == set);
        lack_all(lab, set, false);
    }
}

static void too_much(struct lab *lab, const struct shape *s, struct env *env, struct block *b)
{
    unsigned lost = spare_disks(s) + 1, failed = 0;

    if (s->ndata) /* the blocks are not on all disks */
        lost += s->disks - s->ndata - s->nparity;
    set_dead(lab, (1u << lost) - 1);
    for (unsigned i = 0; i < BLOCKS; i++) {
        int rc = lab_read(lab, &b[i]);
        assert_true(rc == 0 || rc == -EIO);
        failed += rc != 0;
    }
    assert_true(failed > 0);
    set_dead(lab, 0);
    for (unsigned d = 0; d < s->disks; d++)
        lab_spoil(lab, d, env, USED);
    read_all(lab, b, -EBADE);
    assert_true(lab->top->stats.checksum_errors > 0 || s->nparity == 0);
}

static void every_layout(void **state)
{
    struct env env = test_env();

    for (unsigned i = 0; i < ARRAY_LEN(shapes); i++) {
        const struct shape *s = &shapes[i];
        struct block b[BLOCKS];
        struct lab lab;
        print_message("%s%u of %u, ashift %u\n", s->type, s->nparity, s->disks, s->ashift);
        lab_new(&lab, s);
        if (s->expanding)
            vdev_set_reflow(lab.root, 0x120000, 4);
        write_blocks(&lab, s, &env, b);
        read_all(&lab, b, 0);
        submit_all(&lab, b);
        for (unsigned d = 0; d < s->disks; d++)
            assert_int_equal(lies(&lab, d), 0);
        losses(&lab, s, b);
        scrubs(&lab, s, &env, b);
        resilvers(&lab, s, &env, b);
        damages(&lab, s, &env, b);
        too_much(&lab, s, &env, b);
        free_blocks(b);
        lab_free(&lab);
    }
}

/* Silent damage in a parity and a data column of one block: both are mended at once (known
 * elsewhere to have left the parity bad). */
static void parity_and_data_damage(void **state)
{
    static const struct shape s = {.type = "raidz", .disks = 6, .nparity = 2, .ashift = 12};
    struct env env = test_env();
    unsigned char *told = malloc(8192);
    struct block b = {.offset = 0, .size = 16 * 4096, .birth = 5};
    struct lab lab;

    lab_new(&lab, &s);
    b.data = malloc(b.size);
    test_fill(&env, b.data, b.size);
    assert_int_equal(lab_submit(&lab, true, 0, b.data, b.size, 5), 0);
    unsigned char *good[6];
    for (unsigned d = 0; d < 6; d++) {
        good[d] = malloc(4 * 4096);
        device_read(lab.disk[d].leaf->device, VDEV_LABEL_START, good[d], 4 * 4096);
    }
    for (unsigned parity = 0; parity < 2; parity++) {
        for (unsigned d = 0; d < 2; d++) { /* parity column, then data column 2 */
            test_fill(&env, told, 4096);
            device_write(lab.disk[d ? 4 : parity].leaf->device, VDEV_LABEL_START + 4096, told,
                         4096);
        }
        assert_int_equal(lab_read(&lab, &b), 0);
        for (unsigned d = 0; d < 6; d++) {
            unsigned char now[4 * 4096];
            device_read(lab.disk[d].leaf->device, VDEV_LABEL_START, now, sizeof now);
            assert_memory_equal(now, good[d], sizeof now);
        }
        assert_int_equal(lies(&lab, 4), parity + 1);
        assert_int_equal(lies(&lab, parity), 1);
    }
    for (unsigned d = 0; d < 6; d++)
        free(good[d]);
    free(b.data);
    free(told);
    lab_free(&lab);
}

/* One sector: parity is a copy of it, which any of them can give back. */
static void one_sector(void **state)
{
    struct env env = test_env();

    for (unsigned p = 1; p <= 3; p++) {
        struct shape s = {.type = "raidz", .disks = p + 2, .nparity = p, .ashift = 12};
        unsigned char data[4096], copy[4096];
        struct block b = {.offset = 0, .size = 4096, .birth = 5, .data = data};
        struct lab lab;
        lab_new(&lab, &s);
        test_fill(&env, data, sizeof data);
        assert_int_equal(lab_submit(&lab, true, 0, data, sizeof data, 5), 0);
        for (unsigned d = 0; d <= p; d++) {
            device_read(lab.disk[d].leaf->device, VDEV_LABEL_START, copy, sizeof copy);
            assert_memory_equal(copy, data, sizeof data);
        }
        for (unsigned only = 0; only <= p; only++) {
            for (unsigned d = 0; d <= p; d++)
                if (d != only)
                    lab_spoil(&lab, d, &env, 65536);
            assert_int_equal(lab_read(&lab, &b), 0);
        }
        lab_free(&lab);
    }
}

/* A device that missed a txg is not asked for its blocks, nor blamed for them. */
static void missed_txgs(void **state)
{
    static const struct shape kinds[] = {{.type = "mirror", .disks = 2, .ashift = 9},
                                         {.type = "raidz", .disks = 4, .nparity = 1, .ashift = 9}};
    struct env env = test_env();

    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        unsigned char data[3 * 512];
        struct block b = {.offset = 0, .size = sizeof data, .birth = 60, .data = data};
        struct rangeset *missed = rangeset_new();
        struct lab lab;
        lab_new(&lab, &kinds[i]);
        test_fill(&env, data, sizeof data);
        assert_int_equal(lab_submit(&lab, true, 0, data, sizeof data, 60), 0);
        lab_spoil(&lab, 1, &env, 65536);
        assert_int_equal(rangeset_add(missed, 58, 61), 0);
        vdev_set_dtl(lab.disk[1].leaf, missed);
        for (unsigned k = 0; k < 5; k++)
            assert_int_equal(lab_read(&lab, &b), 0);
        assert_int_equal(lies(&lab, 1), 0);
        /* When there is no other way it is asked all the same. */
        vdev_set_dtl(lab.disk[1].leaf, NULL);
        assert_int_equal(lab_submit(&lab, true, 0, data, sizeof data, 60), 0);
        missed = rangeset_new();
        assert_int_equal(rangeset_add(missed, 58, 61), 0);
        vdev_set_dtl(lab.disk[1].leaf, missed);
        lab.disk[0].dead = true;
        assert_int_equal(lab_read(&lab, &b), 0);
        lab_free(&lab);
    }
}

/* A failed write is good as a whole, and known to have been missed; a failed repair changes nothing. */
static void failed_writes_are_noted(void **state)
{
    static const struct shape kinds[] = {{.type = "mirror", .disks = 2, .ashift = 9},
                                         {.type = "raidz", .disks = 4, .nparity = 1, .ashift = 9}};
    struct env env = test_env();

    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        unsigned char data[3 * 512];
        struct block b = {.offset = 0, .size = sizeof data, .birth = 60, .data = data};
        uint64_t first = 0, last = 0;
        struct lab lab;
        lab_new(&lab, &kinds[i]);
        struct vdev *bad = lab.disk[1].leaf, *good = lab.disk[0].leaf;
        test_fill(&env, data, sizeof data);
        assert_false(vdev_dtl_bounds(bad, &first, &last));
        lab.disk[1].dead = true;
        assert_int_equal(lab_submit(&lab, true, 0, data, sizeof data, 60), 0);
        assert_true(vdev_take_failed(bad));
        assert_false(vdev_take_failed(bad));
        assert_false(vdev_take_failed(good));
        assert_true(vdev_dtl_bounds(bad, &first, &last));
        assert_int_equal(first, 60);
        assert_int_equal(last, 60);
        assert_true(vdev_dtl_changed(bad));
        assert_false(vdev_dtl_changed(good));
        assert_int_equal(lab_read(&lab, &b), 0);
        /* The others cannot be done without now, this one can. */
        assert_true(vdev_dispensable(bad));
        assert_false(vdev_dispensable(good));
        vdev_change_state(bad, VDEV_FAULTED, "too many errors");
        assert_int_equal(lab.top->state, VDEV_DEGRADED);
        assert_int_equal(lab.root->state, VDEV_DEGRADED);
        lab.disk[1].dead = false;
        vdev_change_state(bad, VDEV_HEALTHY, NULL);
        assert_int_equal(lab.root->state, VDEV_HEALTHY);
        assert_int_equal(vdev_caught_up(bad, 0, 61), 0);
        assert_false(vdev_dtl_bounds(bad, &first, &last));
        /* Wrong bytes are found and cannot be mended. */
        assert_int_equal(lab_submit(&lab, true, 0, data, sizeof data, 60), 0);
        struct rangeset *written = rangeset_new();
        assert_int_equal(vdev_dtl_copy(bad, written), 0);
        rangeset_free(written);
        lab_spoil(&lab, 1, &env, 65536);
        lab.disk[1].dead = true;
        for (unsigned k = 0; k < 5; k++)
            assert_int_equal(lab_read(&lab, &b), 0);
        assert_false(vdev_dtl_changed(bad));
        assert_false(vdev_take_failed(bad));
        lab_free(&lab);
    }
}

/* Devices that missed different txgs make up for each other. */
static void whole_txg_by_txg(void **state)
{
    static const struct shape kinds[] = {{.type = "mirror", .disks = 2, .ashift = 9},
                                         {.type = "raidz", .disks = 4, .nparity = 1, .ashift = 9}};

    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        struct lab lab;
        lab_new(&lab, &kinds[i]);
        struct vdev *a = lab.disk[0].leaf, *b = lab.disk[1].leaf;
        assert_true(vdev_is_whole(lab.top));
        vdev_missed(a, 100, 110);
        vdev_missed(b, 90, 100);
        vdev_missed(b, 200, 201);
        assert_true(vdev_is_whole(lab.top));
        vdev_missed(a, 150, 250);
        assert_false(vdev_is_whole(lab.top));
        assert_int_equal(vdev_caught_up(b, 200, 201), 0);
        assert_true(vdev_is_whole(lab.top));
        b->state = VDEV_CANT_OPEN;
        assert_false(vdev_is_whole(lab.top));
        assert_int_equal(vdev_caught_up(a, 0, 250), 0);
        assert_true(vdev_is_whole(lab.top));
        b->state = VDEV_HEALTHY;
        lab_free(&lab);
    }
}

/* Until it is known that the pool is ours, reads find what is wrong and write nothing. */
static void nothing_is_mended_too_early(void **state)
{
    static const struct shape kinds[] = {{.type = "mirror", .disks = 2, .ashift = 9},
                                         {.type = "raidz", .disks = 4, .nparity = 1, .ashift = 9}};
    struct env env = test_env();

    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        unsigned char data[16 * 512];
        struct block b = {.offset = 0, .size = sizeof data, .birth = 60, .data = data};
        struct lab lab;
        lab_new(&lab, &kinds[i]);
        test_fill(&env, data, sizeof data);
        for (unsigned may = 0; may < 2; may++) {
            bool again = false; /* is one disk found out twice? A mirror asks one of its disks */
            lab.root->may_mend = may;
            for (unsigned disk = 0; disk < 2; disk++) {
                assert_int_equal(lab_submit(&lab, true, 0, data, sizeof data, 60), 0);
                lab_spoil(&lab, disk, &env, 65536);
                assert_int_equal(lab_read(&lab, &b), 0);
                uint64_t found = lies(&lab, disk);
                assert_int_equal(lab_read(&lab, &b), 0);
                again |= lies(&lab, disk) != found;
            }
            assert_int_equal(again, !may);
        }
        lab_free(&lab);
    }
}

/* A failed flush is not an error where the device can be done without, but it is noted. */
static void failed_flush_is_noted(void **state)
{
    static const struct shape mirror = {.type = "mirror", .disks = 2, .ashift = 9};
    struct lab lab;

    lab_new(&lab, &mirror);
    lab.disk[0].bad_flush = true;
    assert_int_equal(vdev_flush(lab.root), 0);
    assert_true(vdev_take_failed(lab.disk[0].leaf));
    assert_false(vdev_take_failed(lab.disk[1].leaf));
    lab_free(&lab);
}

static void miss(struct vdev *leaf)
{
    struct rangeset *missed = rangeset_new();

    assert_int_equal(rangeset_add(missed, 58, 61), 0);
    vdev_set_dtl(leaf, missed);
}

static int scrub_one(struct lab *lab, struct block *b, struct told *t)
{
    unsigned char got[3 * 512];
    struct vdev_scrub s = {.birth = b->birth, .verify = lab_verify, .arg = b, .wrong = on_wrong,
                           .wrong_arg = t};

    *t = (struct told){lab, 0, 0};
    return vdev_scrub(lab->top, b->offset, got, b->size, &s);
}

/* A scrub asks each side of a mirror once, those that may lack the block only if there is no other.
 */
static void scrub_asks_once(void **state)
{
    static const struct shape mirror = {.type = "mirror", .disks = 2, .ashift = 9};
    struct env env = test_env();
    unsigned char data[3 * 512];
    struct block b = {.offset = 0, .size = sizeof data, .birth = 60, .data = data};
    struct told t;
    struct lab lab;

    lab_new(&lab, &mirror);
    test_fill(&env, data, sizeof data);
    assert_int_equal(lab_submit(&lab, true, 0, data, sizeof data, 60), 0);
    lab_spoil(&lab, 0, &env, 65536);
    miss(lab.disk[1].leaf);
    assert_int_equal(scrub_one(&lab, &b, &t), 0);
    assert_int_equal(t.wrong, 1);
    assert_int_equal(lies(&lab, 0), 1);
    vdev_set_dtl(lab.disk[1].leaf, NULL);
    assert_int_equal(scrub_one(&lab, &b, &t), 0);
    assert_int_equal(t.wrong, 0); /* it was written again */
    lab_spoil(&lab, 0, &env, 65536);
    lab_spoil(&lab, 1, &env, 65536);
    assert_int_equal(scrub_one(&lab, &b, &t), -EBADE);
    assert_int_equal(t.wrong, 3);
    assert_int_equal(lies(&lab, 0), 2);
    assert_int_equal(lies(&lab, 1), 1);
    lab_free(&lab);
}

/* A column whose two devices both missed the block: neither is to be blamed. */
static void scrub_of_a_stale_pair(void **state)
{
    static const struct shape raidz = {.type = "raidz", .disks = 3, .nparity = 1, .ashift = 9},
                              pair = {.type = "replacing", .disks = 2, .ashift = 9};
    struct nvlist *top = lab_top_config(&raidz), *child[3];
    struct env env = test_env();
    unsigned char data[3 * 512];
    struct block b = {.offset = 0, .size = sizeof data, .birth = 60, .data = data};
    struct lab lab = {.disks = 0};
    struct told t;

    for (unsigned i = 0; i < 3; i++) {
        child[i] = i ? lab_leaf_config(i) : lab_top_config(&pair);
        nvlist_remove(child[i], "guid");
        nvlist_add_uint64(child[i], "guid", 200 + i);
    }
    nvlist_remove(child[0], "ashift");
    nvlist_remove(top, "children");
    nvlist_add_nvlist_array(top, "children", child, 3);
    for (unsigned i = 0; i < 3; i++)
        nvlist_free(child[i]);
    assert_int_equal(lab_parse(&lab.root, top), 0);
    lab_open(&lab, 0);
    test_fill(&env, data, sizeof data);
    assert_int_equal(lab_submit(&lab, true, 0, data, sizeof data, 60), 0);
    for (unsigned d = 0; d < 2; d++) {
        lab_spoil(&lab, d, &env, 65536);
        miss(lab.disk[d].leaf);
    }
    assert_int_equal(scrub_one(&lab, &b, &t), 0);
    assert_int_equal(t.wrong | t.failed, 0);
    for (unsigned d = 0; d < lab.disks; d++)
        assert_int_equal(lies(&lab, d), 0);
    lab_free(&lab);
}

/* A mirror of vdevs with parity: its blocks take what the child takes that needs most. */
static void mirror_of_raidz(void **state)
{
    static const struct shape mirror = {.type = "mirror", .disks = 2, .ashift = 9},
                              raidz = {.type = "raidz", .disks = 4, .nparity = 1, .ashift = 9};
    struct nvlist *top = lab_top_config(&mirror), *child[2];
    struct env env = test_env();
    struct lab lab = {.disks = 0};

    for (unsigned i = 0; i < 2; i++) {
        child[i] = lab_top_config(&raidz);
        nvlist_remove(child[i], "ashift");
        nvlist_remove(child[i], "id");
        nvlist_add_uint64(child[i], "id", i);
        nvlist_remove(child[i], "guid");
        nvlist_add_uint64(child[i], "guid", 200 + i);
    }
    nvlist_remove(top, "children");
    nvlist_add_nvlist_array(top, "children", child, 2);
    nvlist_free(child[0]);
    nvlist_free(child[1]);
    assert_int_equal(lab_parse(&lab.root, top), 0);
    lab_open(&lab, 0);
    assert_int_equal(vdev_psize_to_asize(lab.top, 512, 5), 1024);
    assert_int_equal(vdev_psize_to_asize(lab.top, 16384, 5), 22528);
    assert_int_equal(lab.top->deflate_ratio, 131072 / (175104 >> 9));
    unsigned char data[3 * 512];
    struct block b = {.offset = 0, .size = sizeof data, .birth = 60, .data = data};
    test_fill(&env, data, sizeof data);
    assert_int_equal(lab_submit(&lab, true, 0, data, sizeof data, 60), 0);
    lab_spoil(&lab, 1, &env, 65536);
    lab_spoil(&lab, 6, &env, 65536);
    assert_int_equal(lab_read(&lab, &b), 0);
    lab_free(&lab);
}

/* A flush that fails on what can be done without is none. */
static void flush_tolerates(void **state)
{
    for (unsigned i = 0; i < ARRAY_LEN(shapes); i++) {
        struct lab lab;
        lab_new(&lab, &shapes[i]);
        for (unsigned d = 0; d < spare_disks(&shapes[i]); d++)
            lab.disk[d].bad_flush = true;
        assert_int_equal(vdev_flush(lab.root), 0);
        lab.disk[spare_disks(&shapes[i])].bad_flush = true;
        assert_int_equal(vdev_flush(lab.root), -EIO);
        lab_free(&lab);
    }
}

/* Writing, too, does without as many. */
static void write_tolerates(void **state)
{
    unsigned char data[4 * 65536];

    memset(data, 7, sizeof data);
    for (unsigned i = 0; i < ARRAY_LEN(shapes); i++) {
        const struct shape *s = &shapes[i];
        struct lab lab;
        size_t size = 4u << s->ashift;
        lab_new(&lab, s);
        set_dead(&lab, (1u << spare_disks(s)) - 1);
        assert_int_equal(lab_submit(&lab, true, 0, data, size, 300), 0);
        set_dead(&lab, (1u << s->disks) - 1);
        assert_int_equal(lab_submit(&lab, true, 0, data, size, 300), -EIO);
        lab_free(&lab);
    }
}

static void states(void **state)
{
    for (unsigned i = 0; i < ARRAY_LEN(shapes); i++) {
        const struct shape *s = &shapes[i];
        struct lab lab;
        lab_new(&lab, s);
        assert_int_equal(lab.top->state, VDEV_HEALTHY);
        for (unsigned d = 0; d < spare_disks(s); d++) {
            lab.disk[d].leaf->offline = true;
            assert_int_equal(vdev_tree_open(lab.root, VDEV_OPEN_ANY_GUID, 1000), 0);
            assert_int_equal(lab.top->state, VDEV_DEGRADED);
            assert_int_equal(lab.root->state, VDEV_DEGRADED);
        }
        lab.disk[spare_disks(s)].leaf->offline = true;
        assert_int_equal(vdev_tree_open(lab.root, VDEV_OPEN_ANY_GUID, 1000), -ENXIO);
        assert_string_equal(vdev_state_name(lab.top->state), "UNAVAIL");
        assert_string_equal(lab.top->why, "insufficient replicas");
        lab_free(&lab);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),    cmocka_unit_test(parity_and_data_damage),
        cmocka_unit_test(one_sector),      cmocka_unit_test(missed_txgs),
        cmocka_unit_test(flush_tolerates), cmocka_unit_test(write_tolerates),
        cmocka_unit_test(failed_writes_are_noted),
        cmocka_unit_test(whole_txg_by_txg),
        cmocka_unit_test(nothing_is_mended_too_early),
        cmocka_unit_test(failed_flush_is_noted),
        cmocka_unit_test(states),          cmocka_unit_test(mirror_of_raidz),
        cmocka_unit_test(scrub_asks_once), cmocka_unit_test(scrub_of_a_stale_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
