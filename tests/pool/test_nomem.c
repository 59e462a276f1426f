/* Every allocation fails in turn: the result is -ENOMEM, nothing leaks, and no space is lost. */
#include "../support/alloc.h"
#include "codec/checksum.h"
#include "codec/compress.h"
#include "pool_test.h"

#define MIB (1ull << 20)

static const struct bookmark mark = {1, 2, 0, 4};
static const struct test_vdev vdevs[] = {{128 * MIB, 12, 0}, {128 * MIB, 9, 0}};

static void settle(struct test_pool *t, uint64_t *txg)
{
    for (int i = 0; i < 4; i++)
        test_sync(t, (*txg)++);
}

/* Buffers are kept for reuse; without these a write would allocate nothing. */
static void hoard(struct buf **list, unsigned n, size_t size)
{
    for (unsigned i = 0; i < n; i++)
        list[i] = buf_new(size);
}

static void drop(struct buf **list, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        buf_unref(list[i]);
}

static void write_at(struct test_pool *t, struct block_batch *batch, struct buf *data,
                     unsigned compress, uint64_t *txg)
{
    struct block_policy p = {.type = 19,
                             .checksum = CHECKSUM_FLETCHER4,
                             .compress = (uint8_t)compress,
                             .copies = 2,
                             .fill = 1};
    struct buf *held[64], *got;
    struct alloc_space before, after;
    struct blkptr bp;
    unsigned failures = 0;

    for (unsigned at = 1;; at++) {
        int rc;
        bool failed;
        alloc_space(&t->pool, &before);
        hoard(held, 64, 4096 * (1 + at % 9));
        alloc_fail_at(at);
        rc = block_write(&t->pool, *txg, batch, &p, data, NULL, &bp);
        failed = alloc_failed();
        alloc_fail_at(0);
        drop(held, 64);
        if (rc) {
            assert_int_equal(rc, -ENOMEM);
            failures++;
            settle(t, txg);
            alloc_space(&t->pool, &after);
            assert_int_equal(after.alloc, before.alloc);
            continue;
        }
        if (batch) {
            block_set_batch(&t->pool, batch);
            assert_int_equal(block_read(&t->pool, &bp, &mark, &got), 0);
            buf_unref(got);
            block_set_batch(&t->pool, NULL);
            block_batch_submit(&t->pool, batch);
        }
        assert_int_equal(block_wait(&t->pool), 0);
        assert_int_equal(block_read(&t->pool, &bp, &mark, &got), 0);
        assert_memory_equal(got->data, data->data, data->size);
        buf_unref(got);
        assert_int_equal(block_free(&t->pool, *txg, NULL, &bp), 0);
        settle(t, txg);
        if (!failed)
            break;
    }
    printf("%u failures\n", failures);
}

static void writing(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct buf *data = buf_new_zero(128 << 10);
    struct block_batch *batch;
    uint64_t txg = 4;

    test_fill(&t.env, data->data, 70000);
    for (uint64_t gang = 0; gang <= 4096; gang += 4096) {
        test_pool_new(&t, vdevs, 2);
        block_force_gangs(&t.pool, gang);
        assert_int_equal(block_batch_new(&batch), 0);
        write_at(&t, NULL, data, COMPRESS_OFF, &txg);
        write_at(&t, NULL, data, COMPRESS_LZ4, &txg);
        write_at(&t, batch, data, COMPRESS_LZ4, &txg);
        block_batch_free(batch);
        assert_int_equal(test_allocated(&t), 0);
        test_pool_free(&t);
    }
    buf_unref(data);
}

static void reading(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct block_policy p = {.type = 19,
                             .checksum = CHECKSUM_FLETCHER4,
                             .compress = COMPRESS_LZ4,
                             .copies = 2,
                             .fill = 1};
    struct buf *data = buf_new_zero(128 << 10), *got;
    struct blkptr bp;

    test_fill(&t.env, data->data, 70000);
    for (uint64_t gang = 0; gang <= 4096; gang += 4096) {
        test_pool_new(&t, vdevs, 2);
        block_force_gangs(&t.pool, gang);
        assert_int_equal(block_write(&t.pool, 4, NULL, &p, data, NULL, &bp), 0);
        test_sync(&t, 4);
        for (unsigned at = 1;; at++) {
            int rc;
            bool failed;
            alloc_fail_at(at);
            rc = block_read(&t.pool, &bp, &mark, &got);
            failed = alloc_failed();
            alloc_fail_at(0);
            assert_true(rc == 0 || (failed && rc == -ENOMEM));
            if (rc == 0) {
                assert_memory_equal(got->data, data->data, data->size);
                buf_unref(got);
            }
            if (!failed)
                break;
        }
        test_pool_free(&t);
    }
    buf_unref(data);
}

static int count_only(void *arg, struct metaslab *m, const struct rangeset *allocs,
                      const struct rangeset *frees)
{
    return 0;
}

/* Frees and syncs. */
static void freeing(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct alloc_space s;
    struct blkptr *bp = calloc(400, sizeof *bp);

    for (unsigned at = 1; at < 60; at++) {
        unsigned done = 0;
        uint64_t txg = 5;
        bool any = true;
        int rc = 0;
        test_pool_new(&t, vdevs, 2);
        for (unsigned i = 0; i < 400; i++)
            assert_int_equal(alloc_blocks(&t.pool, 4, 4096, 1, false, &bp[i]), 0);
        test_sync(&t, 4);
        alloc_fail_at(at);
        for (unsigned i = 0; i < 400; i += 2) {
            rc = alloc_free(&t.pool, txg, dva_vdev(&bp[i], 0), dva_offset(&bp[i], 0), 4096);
            if (rc) {
                assert_int_equal(rc, -ENOMEM);
                assert_int_equal(
                    alloc_free(&t.pool, txg, dva_vdev(&bp[i], 0), dva_offset(&bp[i], 0), 4096), 0);
            }
            done++;
        }
        while (any)
            if ((rc = alloc_sync(&t.pool, txg, count_only, NULL, &any)) != 0)
                assert_int_equal(rc, -ENOMEM), any = true;
        for (int i = 0; i < 6; i++)
            alloc_sync_done(&t.pool, txg++); /* what fails is tried again */
        alloc_fail_at(0);
        for (int i = 0; i < 4; i++)
            alloc_sync_done(&t.pool, txg++);
        alloc_space(&t.pool, &s);
        assert_int_equal(s.alloc, (400 - done) * 4096);
        assert_int_equal(s.deferred, 0);
        test_pool_free(&t);
    }
    free(bp);
}

static void loading(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct blkptr bp;
    unsigned failures = 0;

    for (unsigned at = 1;; at++) {
        int rc;
        bool failed;
        test_pool_new(&t, vdevs, 1);
        for (int i = 0; i < 50; i++)
            assert_int_equal(alloc_blocks(&t.pool, 4, 4096, 1, false, &bp), 0);
        for (uint64_t txg = 4; txg < 60; txg++)
            test_sync(&t, txg); /* unloads */
        alloc_fail_at(at);
        rc = alloc_load(alloc_metaslab(t.pool.root->child[0], 0));
        failed = alloc_failed();
        alloc_fail_at(0);
        if (rc) {
            assert_int_equal(rc, -ENOMEM);
            failures++;
            assert_int_equal(alloc_load(alloc_metaslab(t.pool.root->child[0], 0)), 0);
        }
        test_pool_free(&t);
        if (!failed)
            break;
    }
    assert_true(failures > 2);
}

static void making_a_pool(void **state)
{
    struct env env = test_env();

    for (unsigned at = 1;; at++) {
        struct pool pool = {.writable = false};
        struct vdev *root = NULL, *leaf;
        struct device *d;
        bool failed;
        int rc;
        alloc_fail_at(at);
        rc = vdev_root_new(&root, 7);
        rc = rc ? rc : device_memory(&d, 64 * MIB);
        rc = rc ? rc : vdev_leaf_on_device(&leaf, d, 9, &env);
        if (rc == 0 && (rc = vdev_add_child(root, leaf)) != 0)
            vdev_tree_free(leaf);
        rc = rc ? rc : pool_init(&pool, "tank", root, &env);
        if (rc == 0) {
            rc = alloc_init(&pool, test_load_map, NULL);
            rc = rc ? rc : alloc_add_vdev(&pool, leaf);
            alloc_fail_at(0);
            pool_fini(&pool);
        } else if (root) {
            vdev_tree_free(root);
        }
        failed = alloc_failed() || rc;
        alloc_fail_at(0);
        assert_true(rc == 0 || rc == -ENOMEM);
        if (!failed)
            break;
    }
}

static int no_sync(void *arg, uint64_t txg)
{
    return 0;
}

static void making_an_engine(void **state)
{
    struct txg_config c = {.sync = no_sync};

    for (unsigned at = 1;; at++) {
        struct txg_engine *e;
        int rc;
        alloc_fail_at(at);
        rc = txg_engine_new(&e, &c, 3);
        alloc_fail_at(0);
        if (rc == 0) {
            txg_engine_free(e);
            break;
        }
        assert_int_equal(rc, -ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(making_a_pool), cmocka_unit_test(making_an_engine),
        cmocka_unit_test(writing),       cmocka_unit_test(reading),
        cmocka_unit_test(freeing),       cmocka_unit_test(loading),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
