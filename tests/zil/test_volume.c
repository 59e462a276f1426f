/* A volume's log replayed: on a real object layer, with a double for the dataset; in memory (the
 * txg engine never runs), as the offline tools do it. */
#include "../dmu/dmu_test.h"

#include "../support/zil_chain.h"
#include "dsl/dataset.h"

#define BLOCK  8192
#define VOLUME (64u << 10)

struct dataset {
    struct objset *os;
    struct pool *pool;
};

int dataset_objset(struct dataset *ds, struct objset **out)
{
    *out = ds->os;
    return 0;
}

bool dataset_is_snapshot(const struct dataset *ds)
{
    return false;
}

int dataset_tx_begin(struct dataset *ds, enum dataset_tx_kind kind, uint64_t bytes, struct tx *tx)
{
    return tx_begin(tx, ds->pool);
}

void dataset_tx_end(struct tx *tx)
{
    tx_end(tx);
}

struct test {
    struct dmu_pool p;
    struct dataset ds;
    struct chain_writer c;
    struct zil_replay z;
    unsigned char want[VOLUME];
};

static int setup(void **state)
{
    static struct test x;
    struct object_params params = {.type = OT_ZVOL, .block_size = BLOCK};
    struct txg_config config = {.sync = dmu_sync_txg, .arg = &x.p};
    struct dnode *dn;
    struct tx tx;
    memset(&x, 0, sizeof x);
    dmu_pool_new(&x.p);
    add_set(&x.p, OBJSET_ZVOL, 0, &test_props);
    tx = open_tx(&x.p);
    assert_int_equal(object_create(x.p.sets[0], 1, &params, &tx, &dn), 0);
    memset(x.want, 'o', VOLUME);
    assert_int_equal(dnode_write(dn, 0, x.want, VOLUME, &tx), 0);
    dnode_rele(dn);
    sync_now(&x.p);
    txg_engine_free(x.p.t.pool.txg);
    assert_int_equal(txg_engine_new(&x.p.t.pool.txg, &config, x.p.txg - 1), 0);
    x.p.t.pool.in_memory = true;
    x.ds = (struct dataset){x.p.sets[0], &x.p.t.pool};
    chain_begin(&x.c, &x.p.t.pool, x.p.txg);
    *state = &x;
    return 0;
}

static int teardown(void **state)
{
    dmu_pool_free(&((struct test *)*state)->p);
    return 0;
}

static int replay(struct test *x)
{
    struct zil_header h;
    struct tx tx;
    chain_end_block(&x->c);
    h = chain_header(&x->c);
    assert_int_equal(tx_begin(&tx, &x->p.t.pool), 0);
    zil_header_set(x->ds.os, &h, &tx);
    tx_end(&tx);
    return zil_replay_volume(&x->ds, &x->z);
}

static void has(struct test *x)
{
    static unsigned char got[VOLUME];
    struct dnode *dn;
    assert_int_equal(dnode_hold(x->ds.os, 1, &dn), 0);
    assert_int_equal(dnode_read(dn, 0, got, VOLUME), 0);
    dnode_rele(dn);
    assert_memory_equal(got, x->want, VOLUME);
}

/* A block for records to point to. */
static void write_data(struct test *x, unsigned char pointer[ZIL_POINTER_SIZE])
{
    struct block_policy policy = {.type = OT_ZVOL,
                                  .checksum = CHECKSUM_FLETCHER4,
                                  .compress = COMPRESS_OFF,
                                  .copies = 1,
                                  .fill = 1};
    struct buf *b = buf_new(BLOCK);
    struct blkptr bp, hole;
    bp_zero(&hole);
    memset(b->data, 'b', b->size);
    assert_int_equal(block_write(&x->p.t.pool, x->c.txg - 1, NULL, &policy, b, &hole, &bp), 0);
    assert_int_equal(block_wait(&x->p.t.pool), 0);
    buf_unref(b);
    bp_encode(&bp, pointer);
}

static void whole(void **state)
{
    struct test *x = *state;
    unsigned char bytes[ZIL_POINTER_SIZE];
    write_data(x, bytes);
    chain_write(&x->c, 1, 5000, "inline", 6);
    memcpy(x->want + 5000, "inline", 6);
    chain_record(&x->c, ZIL_TRUNCATE);
    CHAIN_WORDS(&x->c, 1, 2 * BLOCK, BLOCK + 100);
    memset(x->want + 2 * BLOCK, 0, BLOCK + 100);
    chain_record(&x->c, ZIL_WRITE); /* of a part of the block: all of it is written */
    CHAIN_WORDS(&x->c, 1, 4 * BLOCK + 512, 1024, 0);
    chain_add(&x->c, bytes, sizeof bytes);
    memset(x->want + 4 * BLOCK, 'b', BLOCK);
    chain_record(&x->c, ZIL_CLONE_RANGE);
    CHAIN_WORDS(&x->c, 1, 6 * BLOCK, 2 * BLOCK, BLOCK, 2);
    chain_add(&x->c, bytes, sizeof bytes);
    memset(x->want + 6 * BLOCK, 'b', BLOCK);
    memset(bytes, 0, sizeof bytes); /* a hole that was never written */
    chain_add(&x->c, bytes, sizeof bytes);
    memset(x->want + 7 * BLOCK, 0, BLOCK);
    assert_int_equal(replay(x), 0);
    assert_int_equal(x->z.result.records, 4);
    has(x);
    struct zil_result waiting;
    assert_int_equal(zil_pending(&x->ds, &waiting), 0);
    assert_int_equal(waiting.records, 0);
}

static void only_claimed(void **state)
{
    struct test *x = *state;
    chain_write(&x->c, 1, 0, "left out", 8);
    x->z.claimed_only = true;
    assert_int_equal(replay(x), 0);
    assert_int_equal(x->z.unclaimed, 1);
    has(x);
}

static void of_a_file_system(void **state)
{
    struct test *x = *state;
    chain_write(&x->c, 1, 0, "first", 5);
    memcpy(x->want, "first", 5);
    chain_create(&x->c, ZIL_CREATE, 1, 2, 0100644, "name", NULL);
    chain_write(&x->c, 1, 0, "third", 5);
    assert_int_equal(replay(x), -EBADE);
    assert_int_equal(x->z.failed_seq, 2);
    has(x);
}

static void too_much(void **state)
{
    struct test *x = *state;
    chain_write(&x->c, 1, 0, "first", 5);
    memcpy(x->want, "first", 5);
    chain_write(&x->c, 1, 0, "second", 6);
    x->p.t.pool.cache_limit = 1;
    assert_int_equal(replay(x), -ENOMEM);
    assert_true(x->z.failed_seq > 0);
}

/* One record may be about more than memory holds. */
static void too_much_at_once(void **state)
{
    struct test *x = *state;
    unsigned char bytes[ZIL_POINTER_SIZE];
    write_data(x, bytes);
    chain_record(&x->c, ZIL_CLONE_RANGE);
    CHAIN_WORDS(&x->c, 1, 0, 6 * BLOCK, BLOCK, 6);
    for (int i = 0; i < 6; i++)
        chain_add(&x->c, bytes, sizeof bytes);
    chain_end_block(&x->c);
    x->p.t.pool.cache_limit = txg_dirty_bytes(x->p.t.pool.txg) + 3 * BLOCK;
    assert_int_equal(replay(x), -ENOMEM);
    assert_int_equal(x->z.failed_seq, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whole),    TEST(only_claimed),     TEST(of_a_file_system),
        TEST(too_much), TEST(too_much_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
