/* Free space that is lent out (pool/alloc.h). */
#include <pthread.h>

#include "pool_test.h"

#define MIB (1ull << 20)

static struct test_vdev small_vdev = {80 * MIB, 12, VDEV_CLASS_NORMAL};

static int take(struct test_pool *t, uint64_t txg, uint64_t psize, struct blkptr *bp)
{
    bp_zero(bp);
    int rc = alloc_blocks(&t->pool, txg, psize, 1, false, bp);
    bits_set(&bp->w[6], 40, 8, 7);
    return rc;
}

static struct metaslab *first(struct test_pool *t)
{
    return alloc_metaslab(t->pool.root->child[0], 0);
}

/* What is lent is not allocated, and is free again afterwards; no map or histogram shows it. */
static void lent_space_is_not_allocated(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct rangeset *lent = rangeset_new(), *allocated = rangeset_new();
    uint64_t before[32], after[32], at;
    struct blkptr bp;

    test_pool_new(&t, &small_vdev, 1);
    assert_int_equal(take(&t, 4, 65536, &bp), 0);
    test_sync(&t, 4);
    struct metaslab *m = alloc_metaslab(t.pool.root->child[0],
                                        (unsigned)(dva_offset(&bp, 0) >> t.pool.root->child[0]->metaslab_shift));
    at = dva_offset(&bp, 0) + 65536;
    assert_int_equal(alloc_histogram(m, 12, before), 0);
    assert_int_equal(alloc_lend(m, at, 8192, false, lent), 0);
    assert_int_equal(rangeset_total(lent), 8192);
    assert_true(rangeset_contains(lent, at, at + 8192));
    assert_int_equal(alloc_claim(&t.pool, 5, 0, at, 4096), -EINVAL);
    assert_int_equal(alloc_free(&t.pool, 5, 0, at, 4096), -EINVAL);
    assert_int_equal(alloc_histogram(m, 12, after), 0);
    for (int i = 0; i < 9; i++)
        assert_int_equal(after[i], i == 1); /* the 8 KiB stand for themselves */
    assert_int_equal(alloc_snapshot(m, allocated), 0);
    assert_int_equal(rangeset_total(allocated), 65536);
    alloc_return(m);
    assert_int_equal(alloc_histogram(m, 12, after), 0);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(alloc_claim(&t.pool, 5, 0, at, 4096), 0);
    test_sync(&t, 5);
    rangeset_free(lent);
    rangeset_free(allocated);
    test_pool_free(&t);
}

static void lending_goes_on_where_it_ended(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct metaslab *m;
    uint64_t at = 0, sum = 0;

    test_pool_new(&t, &small_vdev, 1);
    m = first(&t);
    while (at < m->size) {
        struct rangeset *lent = rangeset_new();
        struct range r;
        assert_int_equal(alloc_lend(m, at, 3 * MIB, false, lent), 0);
        assert_true(rangeset_first(lent, &r));
        assert_int_equal(r.start, at);
        at = r.end;
        sum += rangeset_total(lent);
        alloc_return(m);
        rangeset_free(lent);
    }
    assert_int_equal(sum, m->size);
    test_pool_free(&t);
}

static void *give_back(void *arg)
{
    struct test_pool *t = arg;

    for (unsigned i = 0; i < alloc_metaslab_count(t->pool.root->child[0]); i++)
        alloc_return(alloc_metaslab(t->pool.root->child[0], i));
    return NULL;
}

/* Who finds no space because all of it is lent waits. */
static void loans_are_waited_for(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct blkptr bp;
    pthread_t thread;

    test_pool_new(&t, &small_vdev, 1);
    for (unsigned i = 0; i < alloc_metaslab_count(t.pool.root->child[0]); i++) {
        struct rangeset *lent = rangeset_new();
        assert_int_equal(alloc_lend(alloc_metaslab(t.pool.root->child[0], i), 0, UINT64_MAX, false, lent), 0);
        rangeset_free(lent);
    }
    assert_int_equal(pthread_create(&thread, NULL, give_back, &t), 0);
    assert_int_equal(take(&t, 4, 65536, &bp), 0);
    pthread_join(thread, NULL);
    test_sync(&t, 4);
    test_pool_free(&t);
}

/* What was freed is remembered until it is asked for, or allocated again. */
static void freed_space_is_remembered(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct vdev *top;
    struct blkptr a, b;

    test_pool_new(&t, &small_vdev, 1);
    atomic_store(&t.pool.autotrim, true);
    top = t.pool.root->child[0];
    assert_int_equal(take(&t, 4, 65536, &a), 0);
    assert_int_equal(take(&t, 4, 65536, &b), 0);
    test_sync(&t, 4);
    for (int i = 0; i < 2; i++) {
        const struct blkptr *bp = i ? &b : &a;
        assert_int_equal(alloc_free(&t.pool, 5, 0, dva_offset(bp, 0), 65536), 0);
    }
    for (uint64_t txg = 5; txg < 8; txg++) {
        assert_int_equal(alloc_freed_bytes(top), 0);
        test_sync(&t, txg);
    }
    assert_int_equal(alloc_freed_bytes(top), 131072);
    assert_int_equal(alloc_claim(&t.pool, 8, 0, dva_offset(&a, 0), 4096), 0);
    uint64_t sum = 0;
    for (unsigned i = 0; i < alloc_metaslab_count(top); i++) {
        struct rangeset *lent = rangeset_new();
        assert_int_equal(alloc_lend(alloc_metaslab(top, i), 0, 0, true, lent), 0);
        sum += rangeset_total(lent);
        assert_false(rangeset_overlaps(lent, dva_offset(&a, 0), dva_offset(&a, 0) + 4096));
        alloc_return(alloc_metaslab(top, i));
        rangeset_free(lent);
    }
    assert_int_equal(sum, 131072 - 4096);
    assert_int_equal(alloc_freed_bytes(top), 0);
    test_sync(&t, 8);
    test_pool_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lent_space_is_not_allocated),
        cmocka_unit_test(lending_goes_on_where_it_ended),
        cmocka_unit_test(loans_are_waited_for),
        cmocka_unit_test(freed_space_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
