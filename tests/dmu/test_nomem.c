/* A sync that goes wrong half-way, at every allocation in turn, without space, and with devices
 * that take nothing: it says so, what is in memory can be closed, and the state before is whole on
 * the devices. */
#include "../support/alloc.h"
#include "dmu_test.h"

#define OBJECTS 20
#define BLOCK   4096
#define BLOCKS  40 /* more than one indirect block has pointers for */

static unsigned char before[OBJECTS][BLOCKS * BLOCK];
static bool device_fails;

static int faulty(void *arg, enum device_op op, uint64_t offset, size_t n)
{
    return op == DEVICE_WRITE && device_fails ? -ENOSPC : 0;
}

/* The fixed prefix that accounting looks at (06 4.4). */
static void make_bonus(unsigned char bonus[168], uint64_t owner)
{
    memset(bonus, 0, 168);
    memcpy(bonus, "\x5a\x50\x2f\0\2\4\0\0", 8);
    put_le64(bonus + 8 + 24, owner);
    put_le64(bonus + 8 + 32, owner + 100);
}

static void make_objects(struct dmu_pool *p)
{
    struct object_params params = {.type = OT_PLAIN_FILE,
                                   .bonus_type = OT_SA,
                                   .bonus_len = 168,
                                   .block_size = BLOCK,
                                   .indirect_shift = 12};
    struct tx tx = open_tx(p);
    unsigned char bonus[168];

    for (unsigned i = 0; i < OBJECTS; i++) {
        struct dnode *dn;
        assert_int_equal(object_create(p->sets[0], 0, &params, &tx, &dn), 0);
        assert_int_equal(dnode_object(dn), i + 1);
        make_bonus(bonus, i % 4);
        assert_int_equal(dnode_bonus_set(dn, bonus, sizeof bonus, 0, &tx), 0);
        test_fill(&p->t.env, before[i], sizeof before[i]);
        assert_int_equal(dnode_write(dn, 0, before[i], sizeof before[i], &tx), 0);
        dnode_rele(dn);
    }
}

/* Every kind of change that a sync has to write. */
static void change_objects(struct dmu_pool *p)
{
    struct object_params params = {.type = OT_PLAIN_FILE, .block_size = BLOCK};
    struct tx tx = open_tx(p);
    unsigned char data[2 * BLOCK], bonus[168];
    struct dnode *dn;

    test_fill(&p->t.env, data, sizeof data);
    for (unsigned i = 0; i < OBJECTS; i++) {
        assert_int_equal(dnode_hold(p->sets[0], i + 1, &dn), 0);
        make_bonus(bonus, i % 5);
        if (i % 3 == 0)
            assert_int_equal(dnode_bonus_set(dn, bonus, sizeof bonus, 0, &tx), 0);
        if (i % 3 == 1)
            assert_int_equal(dnode_spill_set(dn, data, 600, &tx), 0);
        if (i % 4 == 0)
            assert_int_equal(dnode_free_range(dn, 3 * BLOCK, i % 8 ? UINT64_MAX : 9 * BLOCK, &tx),
                             0);
        if (i % 2)
            assert_int_equal(dnode_write(dn, i * 3000, data, sizeof data, &tx), 0);
        if (i % 10 == 9)
            assert_int_equal(object_free(dn, &tx), 0);
        dnode_rele(dn);
    }
    for (unsigned i = 0; i < 40; i++) { /* a new block of dnodes, among others */
        assert_int_equal(object_create(p->sets[0], 0, &params, &tx, &dn), 0);
        assert_int_equal(dnode_write(dn, 0, data, sizeof data, &tx), 0);
        dnode_rele(dn);
    }
}

static void start(struct dmu_pool *p)
{
    device_fails = false;
    dmu_pool_new_on(p, 64 << 20, 12, faulty);
    p->check_every = 0;
    p->nomem = true;
    add_set(p, OBJSET_ZPL, 7, &test_props);
    make_objects(p);
    sync_now(p);
    change_objects(p);
}

/* The set as it was before the sync that failed, read from the devices. */
static void look_back(struct dmu_pool *p)
{
    static unsigned char got[sizeof before[0]];
    struct dnode *dn;

    device_fails = false;
    reopen(p);
    for (unsigned i = 0; i < OBJECTS; i++) {
        assert_int_equal(dnode_hold(p->sets[0], i + 1, &dn), 0);
        assert_int_equal(dnode_read(dn, 0, got, sizeof got), 0);
        assert_memory_equal(got, before[i], sizeof got);
        dnode_rele(dn);
    }
    assert_int_equal(dnode_hold(p->sets[0], OBJECTS + 1, &dn), -ENOENT);
    dmu_pool_free(p);
}

/* The set alone; its new root counts only when all is on the devices. */
static int sync_set(struct dmu_pool *p)
{
    struct blkptr root;
    struct tx tx;
    int rc, io;

    tx_begin_syncing(&tx, &p->t.pool, p->txg);
    rc = objset_sync(p->sets[0], &tx, &root);
    io = block_wait(&p->t.pool);
    rc = rc ? rc : p->freeing;
    if (rc == 0 && io == 0)
        p->roots[0] = root;
    return rc ? rc : io;
}

/* Buffers are kept for reuse; without these a sync would allocate few. */
enum { SIZES = 9, OF_EACH = 60 };

struct hoard {
    struct buf *b[SIZES * OF_EACH];
};

static void hoard(struct hoard *h)
{
    for (unsigned i = 0; i < ARRAY_LEN(h->b); i++)
        h->b[i] = buf_new(512u << i % SIZES);
}

static void drop(struct hoard *h)
{
    for (unsigned i = 0; i < ARRAY_LEN(h->b); i++)
        buf_unref(h->b[i]);
}

static void no_memory(void **state)
{
    static struct hoard held;
    unsigned failures = 0;

    for (unsigned at = 1;; at += 1 + at / 15) {
        struct dmu_pool p;
        bool failed;
        int rc;
        start(&p);
        hoard(&held);
        alloc_fail_at(at);
        rc = sync_set(&p);
        failed = alloc_failed();
        alloc_fail_at(0);
        drop(&held);
        if (rc == 0) { /* nothing failed, or something that it can do without */
            sync_now(&p);
            check_pool(&p);
            dmu_pool_free(&p);
            if (!failed)
                break;
            continue;
        }
        assert_true(failed);
        assert_int_equal(rc, -ENOMEM);
        failures++;
        look_back(&p);
    }
    printf("%u failures\n", failures);
    assert_true(failures > 20);
}

static void no_space(void **state)
{
    uint64_t left = 0;
    unsigned failures = 0;
    int rc;

    do { /* with more and more space left */
        struct dmu_pool p;
        struct alloc_space s;
        struct blkptr bp;
        start(&p);
        do {
            alloc_space(&p.t.pool, &s);
        } while (s.size - s.alloc > left &&
                 alloc_blocks(&p.t.pool, p.txg, BLOCK, 1, false, &bp) == 0);
        rc = sync_set(&p);
        if (rc == 0) {
            dmu_pool_free(&p);
        } else {
            assert_int_equal(rc, -ENOSPC);
            failures++;
            look_back(&p);
        }
        left += 16 * BLOCK;
    } while (rc != 0);
    assert_true(failures > 5);
}

static void no_device(void **state)
{
    struct dmu_pool p;

    start(&p);
    device_fails = true;
    assert_int_equal(sync_set(&p), -EIO);
    device_fails = false;
    assert_int_equal(block_wait(&p.t.pool), -EIO); /* it is not forgotten */
    look_back(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_memory), cmocka_unit_test(no_space),
                                       cmocka_unit_test(no_device)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
