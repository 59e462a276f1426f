/* What stays in memory of file data that was written, and a block that grows. */
#include "dmu_test.h"

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"

#define BS     131072
#define BLOCKS 256

static const struct object_params params = {
    .type = OT_PLAIN_FILE, .block_size = BS, .indirect_shift = 17, .bonus_type = OT_SA};

static struct dnode *new_file(struct dmu_pool *p, uint32_t block_size)
{
    struct object_params of = params;
    struct tx tx = open_tx(p);
    struct dnode *dn;

    of.block_size = block_size;
    assert_int_equal(object_create(p->sets[0], 0, &of, &tx, &dn), 0);
    return dn;
}

static void begin(struct dmu_pool *p)
{
    dmu_pool_new(p);
    p->t.pool.cache_limit = 128 << 20;
    add_set(p, OBJSET_OTHER, 0, &test_props);
}

static bool in_memory(struct dnode *dn, uint64_t blkid)
{
    MUTEX_GUARD(&dn->lock);
    return dbuf_find(dn, 0, blkid) != NULL;
}

/* Of a large file that was written once, no more than an eighth of the limit stays, in the middle;
 * the last block does, as the kernel has no whole copy of it. */
static void written_once(void **state)
{
    static unsigned char data[BS], back[BS];
    struct env e = test_env();
    struct dmu_pool p;
    unsigned kept = 0;

    begin(&p);
    struct dnode *dn = new_file(&p, BS);
    test_fill(&e, data, sizeof data);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct tx tx = open_tx(&p);
        data[0] = (unsigned char)i;
        assert_int_equal(dnode_write(dn, i * BS, data, BS, &tx), 0);
    }
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_true(in_memory(dn, i));
    sync_now(&p);
    for (uint64_t i = 0; i < BLOCKS; i++)
        kept += in_memory(dn, i);
    assert_in_range(kept, 1, BLOCKS / 2 + 1); /* 16 MB of 32 */
    assert_true(in_memory(dn, BLOCKS - 1));
    for (uint64_t i = BLOCKS; i-- > 0;) {
        data[0] = (unsigned char)i;
        assert_int_equal(dnode_read(dn, i * BS, back, BS), 0);
        assert_memory_equal(back, data, BS);
    }
    for (uint64_t i = 0; i < BLOCKS; i++) /* what somebody asked for stays */
        assert_true(in_memory(dn, i));
    dnode_rele(dn);
    dmu_pool_free(&p);
}

/* A stream of reads keeps no more of what it has left behind, and what was in use before. */
static void read_once(void **state)
{
    static unsigned char data[BS], back[BS];
    struct dmu_pool p;
    unsigned kept = 0;

    begin(&p);
    struct dnode *dn = new_file(&p, BS);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct tx tx = open_tx(&p);
        data[0] = (unsigned char)i;
        assert_int_equal(dnode_write(dn, i * BS, data, BS, &tx), 0);
    }
    sync_now(&p);
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < BLOCKS; i++) {
            data[0] = (unsigned char)i;
            assert_int_equal(dnode_read(dn, i * BS, back, BS), 0);
            assert_memory_equal(back, data, BS);
        }
    }
    for (uint64_t i = 0; i < BLOCKS; i++)
        kept += in_memory(dn, i);
    assert_in_range(kept, 1, BLOCKS * 3 / 4);
    assert_true(in_memory(dn, BLOCKS - 1));
    dnode_rele(dn);
    dmu_pool_free(&p);
}

/* Files of one block stay as they were. */
static void small_files(void **state)
{
    enum { FILES = 300 };
    static unsigned char data[BS];
    struct dnode *dn[FILES];
    struct dmu_pool p;

    begin(&p);
    memset(data, 7, sizeof data);
    for (int i = 0; i < FILES; i++) {
        dn[i] = new_file(&p, BS);
        struct tx tx = open_tx(&p);
        assert_int_equal(dnode_write(dn[i], 0, data, BS, &tx), 0);
    }
    sync_now(&p);
    for (int i = 0; i < FILES; i++) {
        assert_true(in_memory(dn[i], 0));
        dnode_rele(dn[i]);
    }
    dmu_pool_free(&p);
}

static struct buf *contents(struct dnode *dn)
{
    struct buf *b;

    assert_int_equal(dnode_get_blocks(dn, 0, 1, &b), 0);
    return b;
}

/* A block that grows by appends keeps its buffer while there is room, unless somebody else has it;
 * a new txg gets one of its own. What is added is zeros. */
static void grows_in_place(void **state)
{
    enum { STEP = 10240, LAST = 11 * STEP };
    static unsigned char data[STEP], back[LAST];
    struct dmu_pool p;
    unsigned moves = 0;
    void *at = NULL;

    begin(&p);
    struct dnode *dn = new_file(&p, 512);
    memset(data, 9, sizeof data);
    for (uint32_t size = STEP; size <= LAST; size += STEP) {
        struct tx tx = open_tx(&p);
        assert_int_equal(dnode_set_block_size(dn, size, 0, &tx), 0);
        assert_int_equal(dnode_write(dn, size - STEP, data, STEP / 2, &tx), 0);
        struct buf *b = contents(dn);
        assert_int_equal(b->size, size);
        moves += b->data != at;
        at = b->data;
        buf_unref(b);
    }
    assert_in_range(moves, 1, 5); /* 11 appends */
    struct buf *held = contents(dn);
    struct tx tx = open_tx(&p);
    assert_int_equal(dnode_set_block_size(dn, LAST + 512, 0, &tx), 0);
    assert_int_equal(held->size, LAST);
    buf_unref(held);
    sync_now(&p);
    reopen(&p);
    dnode_rele(dn);
    assert_int_equal(dnode_hold(p.sets[0], 1, &dn), 0);
    assert_int_equal(dnode_read(dn, 0, back, LAST), 0);
    for (unsigned i = 0; i < LAST; i++)
        assert_int_equal(back[i], i % STEP < STEP / 2 ? 9 : 0);
    dnode_rele(dn);
    dmu_pool_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_once),
        cmocka_unit_test(read_once),
        cmocka_unit_test(small_files),
        cmocka_unit_test(grows_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
