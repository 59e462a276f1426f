/* Pools with a wrong made on purpose: verify has to say which. The tool runs in a child, as it
 * forbids its process to write. */
#include "verify_test.h"

#include "../support/zil_chain.h"
#include "codec/compress.h"
#include "pool/alloc.h"
#include "pool/txg.h"
#include "spa/spa_impl.h"
#include "util/buf.h"

static void nothing_wrong(void **state)
{
    struct spa *spa = create();
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    assert_int_equal(verify(said, sizeof said), 0);
    assert_non_null(strstr(said, "\"leaks\":0"));
}

/* Space that is allocated for a block that nobody keeps. */
static void leak(void **state)
{
    struct spa *spa = create();
    struct blkptr bp = {{0}};
    struct tx tx;
    assert_ok(tx_begin(&tx, spa_pool(spa)));
    assert_ok(alloc_blocks(spa_pool(spa), tx.txg, 8192, 1, false, &bp));
    tx_end(&tx);
    assert_ok(dataset_create(spa_dsl(spa), "tank/b", NULL, 0, 0));
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    assert_int_equal(verify(said, sizeof said), 1);
    assert_non_null(strstr(said, "\"leaks\":1"));
    assert_non_null(strstr(said, "\"leaked\":8192"));
    assert_non_null(strstr(said, "\"finding\":\"leak\""));
}

/* The root block of tank/a. */
static struct blkptr root_block(struct spa *spa)
{
    struct dataset *ds;
    struct objset *os;
    assert_ok(dataset_hold(spa_dsl(spa), "tank/a", &ds));
    assert_ok(dataset_objset(ds, &os));
    struct blkptr bp = *objset_root(os);
    dataset_rele(ds);
    return bp;
}

/* Where a copy of a block is in the image. */
static uint64_t place_of(const struct blkptr *bp, int copy)
{
    return dva_offset(bp, copy) + 0x400000;
}

static void spoil(uint64_t place)
{
    unsigned char wrong[512];
    memset(wrong, 0x5a, sizeof wrong);
    int fd = open(image, O_WRONLY);
    assert_int_equal(pwrite(fd, wrong, sizeof wrong, (off_t)place), 512);
    close(fd);
}

/* The space of a block that is in use is given back. */
static void used_but_free(void **state)
{
    struct spa *spa = create();
    struct blkptr bp = root_block(spa);
    struct tx tx;
    assert_ok(tx_begin(&tx, spa_pool(spa)));
    assert_ok(
        alloc_free(spa_pool(spa), tx.txg, dva_vdev(&bp, 0), dva_offset(&bp, 0), dva_asize(&bp, 0)));
    tx_end(&tx);
    assert_ok(dataset_create(spa_dsl(spa), "tank/b", NULL, 0, 0));
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    assert_int_equal(verify(said, sizeof said), 1);
    assert_non_null(strstr(said, "\"used_but_free\":1"));
    assert_non_null(strstr(said, "in use, but free by the space map"));
}

/* What one overwrites all of a block with: no copy is right any more. */
static void unreadable(void **state)
{
    struct spa *spa = create();
    struct blkptr bp = root_block(spa);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    for (int i = 0; i < bp_copies(&bp); i++)
        spoil(place_of(&bp, i));
    assert_int_equal(verify(said, sizeof said), 1);
    assert_non_null(strstr(said, "\"finding\":\"unreadable\""));
    assert_non_null(strstr(said, "checksum mismatch"));
}

static int name_a_table(struct dsl *dsl, void *arg, struct tx *tx)
{
    return zap_add_u64(dsl->mos, MOS_DIRECTORY, "DDT-sha256-zap-unique", 99999, tx);
}

/* A table that is not there is not a table at its end. */
static void missing_table(void **state)
{
    struct spa *spa = create();
    assert_ok(dsl_task(spa_dsl(spa), nothing, name_a_table, NULL, DSL_SPACE_NONE));
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    assert_int_equal(verify(said, sizeof said), 1);
    assert_non_null(strstr(said, "DDT-sha256-zap-unique"));
}

static int make_an_object(struct dsl *dsl, void *arg, struct tx *tx)
{
    uint64_t object;
    return zap_create_simple(dsl->mos, OT_OTHER_ZAP, 0, tx, &object);
}

/* An object that nothing refers to. */
static void mos_leak(void **state)
{
    struct spa *spa = create();
    assert_ok(dsl_task(spa_dsl(spa), nothing, make_an_object, NULL, DSL_SPACE_NONE));
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    assert_int_equal(verify(said, sizeof said), 1);
    assert_non_null(strstr(said, "\"finding\":\"mos_leak\""));
    assert_non_null(strstr(said, "(other ZAP) leaked"));
    assert_non_null(strstr(said, "\"wrong_mos_references\":1"));
}

static int count_feature(struct dsl *dsl, void *arg, struct tx *tx)
{
    return feature_change(dsl, FEATURE_LARGE_BLOCKS, 1, tx);
}

/* A feature that seems to be in use once more than it is. */
static void feature_count(void **state)
{
    struct spa *spa = create();
    assert_ok(dsl_task(spa_dsl(spa), nothing, count_feature, NULL, DSL_SPACE_NONE));
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    assert_int_equal(verify(said, sizeof said), 1);
    assert_non_null(strstr(said, "feature large_blocks is counted 1 times, but used 0 times"));
}

static int refer_twice(struct dsl *dsl, void *arg, struct tx *tx)
{
    uint64_t object;
    int rc = zap_get_u64(dsl->mos, MOS_DIRECTORY, "history", &object);
    return rc ? rc : zap_add_u64(dsl->mos, MOS_DIRECTORY, "tmp_userrefs", object, tx);
}

static int refer_to_nothing(struct dsl *dsl, void *arg, struct tx *tx)
{
    return zap_add_u64(dsl->mos, MOS_DIRECTORY, "tmp_userrefs", 99999, tx);
}

static void mos_references(void **state)
{
    static dsl_task_fn *const wrongs[] = {refer_twice, refer_to_nothing};
    static const char *const words[] = {"which something else refers to as well",
                                        "MOS object 99999, which does not exist"};
    for (int i = 0; i < 2; i++) {
        struct spa *spa = create();
        assert_ok(dsl_task(spa_dsl(spa), nothing, wrongs[i], NULL, DSL_SPACE_NONE));
        assert_ok(spa_close(spa, SPA_END_EXPORT));
        assert_int_equal(verify(said, sizeof said), 1);
        assert_non_null(strstr(said, words[i]));
    }
}

/* One of several copies of a block is wrong: the block can be read, and is told of all the same. */
static void one_copy(void **state)
{
    struct spa *spa = create();
    struct blkptr bp = root_block(spa);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    assert_true(bp_copies(&bp) > 1);
    spoil(place_of(&bp, bp_copies(&bp) - 1));
    assert_int_equal(verify(said, sizeof said), 1);
    assert_non_null(strstr(said, "\"finding\":\"repairable\""));
    assert_non_null(strstr(said, "copy 2 of 2 cannot be read"));
    assert_non_null(strstr(said, "\"repairable\":1"));
    assert_non_null(strstr(said, "\"unreadable\":0"));
}

static int lose_config(struct dsl *dsl, void *arg, struct tx *tx)
{
    return zap_set_u64(dsl->mos, MOS_DIRECTORY, "config", 99999, tx);
}

/* An older state is compared with its own configuration, not with the newest one. */
static void older_state(void **state)
{
    struct spa *spa = create();
    uint64_t txg = txg_synced_number(spa_pool(spa)->txg);
    assert_ok(dsl_task(spa_dsl(spa), nothing, lose_config, NULL, DSL_SPACE_NONE));
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    assert_int_equal(verify_txg(txg, said, sizeof said), 0);
    assert_non_null(strstr(said, "\"leaks\":0"));
    assert_int_equal(verify(said, sizeof said), 1);
}

/* ---- A log that was claimed and not replayed ---- */

/* Two records about the same block of data, the first of them replayed. *place: in the image, of
 * that block; with chain, of the second block of the log, which then has the second record.
 * clone: a third record clones the block, and a hole. */
static void make_log(struct spa *spa, bool chain, bool clone, uint64_t *place)
{
    struct block_policy policy = {.type = OT_PLAIN_FILE,
                                  .checksum = CHECKSUM_FLETCHER4,
                                  .compress = COMPRESS_OFF,
                                  .copies = 1,
                                  .fill = 1};
    unsigned char pointer[ZIL_POINTER_SIZE];
    struct pool *pool = spa_pool(spa);
    static struct chain_writer c;
    struct blkptr bp, hole;
    struct buf *b = buf_new_zero(8192);
    struct dataset *ds;
    struct objset *os;
    struct tx tx;
    bp_zero(&hole);
    assert_ok(dataset_hold(spa_dsl(spa), "tank/a", &ds));
    assert_ok(dataset_objset(ds, &os));
    assert_ok(tx_begin(&tx, pool));
    memset(b->data, 'd', b->size);
    assert_ok(block_write(pool, tx.txg, NULL, &policy, b, &hole, &bp));
    assert_ok(block_wait(pool));
    buf_unref(b);
    bp_encode(&bp, pointer);
    chain_begin(&c, pool, tx.txg);
    for (int i = 0; i < 2; i++) {
        chain_record(&c, ZIL_WRITE);
        CHAIN_WORDS(&c, 99, 0, 8192, 0);
        chain_add(&c, pointer, sizeof pointer);
        if (chain)
            chain_end_block(&c);
    }
    if (clone) {
        unsigned char zero[ZIL_POINTER_SIZE] = {0};
        chain_record(&c, ZIL_CLONE_RANGE);
        CHAIN_WORDS(&c, 98, 0, 16384, 8192, 2);
        chain_add(&c, pointer, sizeof pointer);
        chain_add(&c, zero, sizeof zero);
    }
    chain_end_block(&c);
    struct zil_header h = chain_header(&c);
    h.claim_txg = tx.txg;
    h.claim_blk_seq = c.n + 1;
    h.claim_lr_seq = c.seq;
    h.replay_seq = 1;
    h.flags = ZIL_HEADER_REPLAY | ZIL_HEADER_CLAIM_LR_SEQ;
    zil_header_set(os, &h, &tx);
    tx_end(&tx);
    dataset_rele(ds);
    *place = place_of(chain ? &c.bp[1] : &bp, 0);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

/* What its records point to belongs to it, and is read. */
static void claimed_log(void **state)
{
    uint64_t place;
    make_log(create(), false, false, &place);
    assert_int_equal(verify(said, sizeof said), 0);
    assert_non_null(strstr(said, "\"leaks\":0"));
    spoil(place);
    assert_int_equal(verify(said, sizeof said), 1);
    assert_non_null(strstr(said, "\"finding\":\"unreadable\""));
    assert_non_null(strstr(said, "\"leaks\":0"));
}

/* A record that clones a block is one more owner of it, which the clone table has to know. */
static void cloned_in_a_log(void **state)
{
    uint64_t place;
    make_log(create(), false, true, &place);
    assert_int_equal(verify(said, sizeof said), 1);
    assert_non_null(strstr(said, "\"finding\":\"double_use\""));
    assert_non_null(strstr(said, "level -2 block 3: 8192 of its bytes"));
}

static void damaged_log(void **state)
{
    uint64_t place;
    make_log(create(), true, false, &place);
    assert_int_equal(verify(said, sizeof said), 0);
    spoil(place);
    assert_int_equal(verify(said, sizeof said), 1);
    assert_non_null(strstr(said, "it is damaged behind record 1"));
    char target[100];
    snprintf(target, sizeof target, "%s:tank/a", image);
    char *ls[] = {(char *)"ls", target, NULL};
    assert_int_equal(run_tool(2, ls, said, sizeof said), 0);
    assert_non_null(strstr(said, "the intent log of tank/a is damaged: changes in it are lost"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_wrong),   cmocka_unit_test(leak),
        cmocka_unit_test(used_but_free),   cmocka_unit_test(unreadable),
        cmocka_unit_test(missing_table),   cmocka_unit_test(mos_leak),
        cmocka_unit_test(feature_count),
        cmocka_unit_test(mos_references),  cmocka_unit_test(one_copy),
        cmocka_unit_test(claimed_log),     cmocka_unit_test(damaged_log),
        cmocka_unit_test(cloned_in_a_log), cmocka_unit_test(older_state),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
