#include <pthread.h>

#include "pool_test.h"

#define MIB (1ull << 20)
#define KIB (1ull << 10)

static struct test_vdev one_vdev = {128 * MIB, 12, VDEV_CLASS_NORMAL};

static void take(struct test_pool *t, uint64_t txg, uint64_t psize, int copies, struct blkptr *bp)
{
    bp_zero(bp);
    assert_int_equal(alloc_blocks(&t->pool, txg, psize, copies, false, bp), 0);
    bits_set(&bp->w[6], 40, 8, 7);
}

static int give(struct test_pool *t, uint64_t txg, const struct blkptr *bp)
{
    int rc = 0;

    for (int i = 0; i < bp_copies(bp) && rc == 0; i++)
        rc = alloc_free(&t->pool, txg, dva_vdev(bp, i), dva_offset(bp, i), dva_asize(bp, i));
    return rc;
}

static void blocks_of_one_size_follow_each_other(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct blkptr bp[100];

    test_pool_new(&t, &one_vdev, 1);
    for (int i = 0; i < 100; i++) {
        take(&t, 4, 128 * KIB, 1, &bp[i]);
        assert_int_equal(dva_asize(&bp[i], 0), 128 * KIB);
        if (i > 0 && i < 20)
            assert_int_equal(dva_offset(&bp[i], 0), dva_offset(&bp[i - 1], 0) + 128 * KIB);
    }
    test_sync(&t, 4);
    assert_int_equal(test_allocated(&t), 100 * 128 * KIB);
    assert_int_equal(t.loads, 0); /* untouched metaslabs need no reading */
    test_pool_free(&t);
}

static void sizes_are_rounded_to_sectors(void **state)
{
    struct test_vdev v[] = {{128 * MIB, 9, 0}, {128 * MIB, 13, 0}};
    struct test_pool t = {.env = test_env()};
    struct blkptr bp;

    test_pool_new(&t, v, 2);
    for (int i = 0; i < 20000; i++) {
        take(&t, 4, 512, 1, &bp);
        assert_int_equal(dva_asize(&bp, 0), dva_vdev(&bp, 0) ? 8192 : 512);
    }
    test_sync(&t, 4);
    test_pool_free(&t);
}

/* Allocated and freed in one txg: both are written. */
static void short_lived_blocks_are_written_twice(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct alloc_space s;
    struct blkptr bp;

    test_pool_new(&t, &one_vdev, 1);
    take(&t, 4, 4096, 3, &bp);
    assert_int_equal(give(&t, 4, &bp), 0);
    test_sync(&t, 4);
    assert_int_equal(test_allocated(&t), 0);
    alloc_space(&t.pool, &s);
    assert_int_equal(s.alloc, 3 * 4096);
    assert_int_equal(s.deferred, 3 * 4096);
    test_pool_free(&t);
}

/* Space freed in T is given out again in T + 3, not earlier. */
static void freed_space_comes_back(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct alloc_space s;
    struct blkptr bp;

    test_pool_new(&t, &one_vdev, 1);
    take(&t, 9, 4 * MIB, 1, &bp);
    test_sync(&t, 9);
    assert_int_equal(give(&t, 10, &bp), 0);
    for (uint64_t txg = 10; txg <= 12; txg++) {
        assert_int_equal(alloc_claim(&t.pool, txg, 0, dva_offset(&bp, 0), 4096), -EINVAL);
        alloc_space(&t.pool, &s);
        assert_int_equal(s.alloc, 4 * MIB);
        assert_int_equal(s.deferred, txg == 10 ? 0 : 4 * MIB);
        assert_int_equal(test_allocated(&t), txg == 10 ? 4 * MIB : 0);
        test_sync(&t, txg);
    }
    alloc_space(&t.pool, &s);
    assert_int_equal(s.alloc, 0);
    assert_int_equal(s.deferred, 0);
    assert_int_equal(alloc_claim(&t.pool, 13, 0, dva_offset(&bp, 0), 4096), 0);
    test_sync(&t, 13);
    assert_int_equal(test_allocated(&t), 4096);
    test_pool_free(&t);
}

static void wrong_frees_are_refused(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct blkptr bp;

    test_pool_new(&t, &one_vdev, 1);
    take(&t, 4, 8192, 1, &bp);
    test_sync(&t, 4);
    uint64_t at = dva_offset(&bp, 0);
    assert_int_equal(alloc_free(&t.pool, 5, 0, at + 512, 4096), -EINVAL);
    assert_int_equal(alloc_free(&t.pool, 5, 0, at, 512), -EINVAL);
    assert_int_equal(alloc_free(&t.pool, 5, 0, at, 0), -EINVAL);
    assert_int_equal(alloc_free(&t.pool, 5, 1, at, 4096), -EINVAL);
    assert_int_equal(alloc_free(&t.pool, 5, 0, 16 * MIB - 4096, 8192), -EINVAL); /* two metaslabs */
    assert_int_equal(alloc_free(&t.pool, 5, 0, 1ull << 60, 4096), -EINVAL);
    assert_int_equal(alloc_free(&t.pool, 5, 0, ~0ull << 12, 4096), -EINVAL);
    assert_int_equal(alloc_free(&t.pool, 5, 0, at + 8192, 4096), -EINVAL); /* free */
    assert_int_equal(alloc_free(&t.pool, 5, 0, at, 4096), 0);
    assert_int_equal(alloc_free(&t.pool, 5, 0, at, 8192), -EINVAL); /* half of it again */
    assert_int_equal(alloc_free(&t.pool, 6, 0, at, 4096), -EINVAL);
    test_sync(&t, 5);
    assert_int_equal(alloc_free(&t.pool, 6, 0, at, 4096), -EINVAL);
    test_sync(&t, 6);
    assert_int_equal(alloc_free(&t.pool, 7, 0, at, 4096), -EINVAL);
    assert_int_equal(alloc_free(&t.pool, 7, 0, at + 4096, 4096), 0);
    test_sync(&t, 7);
    assert_int_equal(test_allocated(&t), 0);
    test_pool_free(&t);
}

static void undone_allocations_leave_no_trace(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct alloc_space s;
    struct blkptr bp, again;
    bool any;

    test_pool_new(&t, &one_vdev, 1);
    take(&t, 4, 8192, 3, &bp);
    assert_true(alloc_dirty(&t.pool, 4));
    alloc_undo(&t.pool, 4, &bp);
    alloc_space(&t.pool, &s);
    assert_int_equal(s.alloc, 0);
    test_sync(&t, 4);
    assert_int_equal(test_allocated(&t), 0);
    assert_int_equal(alloc_sync(&t.pool, 5, test_write_map, &t, &any), 0);
    assert_false(any);
    take(&t, 5, 8192, 1, &again);
    /* Once its ALLOC is written, undoing is freeing. */
    assert_int_equal(alloc_sync(&t.pool, 5, test_write_map, &t, &any), 0);
    assert_true(any);
    alloc_undo(&t.pool, 5, &again);
    test_sync(&t, 5);
    assert_int_equal(test_allocated(&t), 0);
    test_pool_free(&t);
}

static bool distinct(const struct blkptr *bp, int a, int b, unsigned shift)
{
    return dva_vdev(bp, a) != dva_vdev(bp, b) ||
           dva_offset(bp, a) >> shift != dva_offset(bp, b) >> shift;
}

static void copies_are_spread(void **state)
{
    struct test_vdev v[] = {one_vdev, one_vdev, one_vdev};
    struct test_pool t = {.env = test_env()};
    struct blkptr bp;

    for (unsigned n = 1; n <= 3; n++) {
        test_pool_new(&t, v, n);
        for (int i = 0; i < 500; i++) {
            take(&t, 4, 512 << test_below(&t.env, 8), 3, &bp);
            assert_int_equal(bp_copies(&bp), 3);
            assert_true(distinct(&bp, 0, 1, 24) && distinct(&bp, 0, 2, 24) &&
                        distinct(&bp, 1, 2, 24));
            if (n > 1)
                assert_true(dva_vdev(&bp, 0) != dva_vdev(&bp, 1));
            if (n > 2)
                assert_true(dva_vdev(&bp, 0) != dva_vdev(&bp, 2));
        }
        test_sync(&t, 4);
        test_pool_free(&t);
    }
}

/* Empty vdevs get more; log and non-allocating ones nothing. */
static void vdevs_are_chosen_by_room_and_class(void **state)
{
    struct test_vdev v[] = {{512 * MIB, 12, 0},
                            {128 * MIB, 12, 0},
                            {128 * MIB, 12, VDEV_CLASS_LOG},
                            {128 * MIB, 12, 0}};
    struct test_pool t = {.env = test_env()};
    uint64_t bytes[4] = {0};
    struct blkptr bp;

    test_pool_new(&t, v, 4);
    t.pool.root->child[3]->non_allocating = true;
    for (int i = 0; i < 2000; i++) {
        take(&t, 4, 64 * KIB, 1, &bp);
        bytes[dva_vdev(&bp, 0)] += 64 * KIB;
    }
    assert_int_equal(bytes[2], 0);
    assert_int_equal(bytes[3], 0);
    assert_in_range(bytes[0] / (bytes[1] / 10), 30, 60); /* sizes are 4.4 : 1 */
    assert_int_equal(alloc_blocks_class(&t.pool, 4, 4096, 1, false, VDEV_CLASS_LOG, &bp), 0);
    assert_int_equal(dva_vdev(&bp, 0), 2);
    test_sync(&t, 4);
    test_pool_free(&t);
}

static void metadata_prefers_special(void **state)
{
    struct test_vdev v[] = {{128 * MIB, 12, 0}, {64 * MIB, 12, VDEV_CLASS_SPECIAL}};
    struct test_pool t = {.env = test_env()};
    unsigned normal = 0;
    struct blkptr bp;

    test_pool_new(&t, v, 2);
    take(&t, 4, 4096, 1, &bp);
    assert_int_equal(dva_vdev(&bp, 0), 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(alloc_blocks(&t.pool, 4, 128 * KIB, 1, true, &bp), 0);
        if (dva_vdev(&bp, 0) == 0)
            normal++;
        if (i < 300)
            assert_int_equal(normal, 0);
    }
    assert_true(normal > 0); /* when it is full */
    test_sync(&t, 4);
    test_pool_free(&t);
}

static void fills_to_the_last_sector(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct blkptr *bp = calloc(40000, sizeof *bp);
    struct alloc_space s;
    unsigned n = 0;

    test_pool_new(&t, &one_vdev, 1);
    alloc_space(&t.pool, &s);
    assert_int_equal(s.size, 7ull << 24);
    while (alloc_blocks(&t.pool, 4, 4096, 1, false, &bp[n]) == 0)
        n++;
    assert_int_equal(n, s.size / 4096);
    assert_int_equal(alloc_blocks(&t.pool, 4, 512, 3, true, &bp[n]), -ENOSPC);
    alloc_space(&t.pool, &s);
    assert_int_equal(s.alloc, s.size);
    test_sync(&t, 4);
    /* Every second sector: nothing larger than a sector fits. No deferral in a pool so full. */
    for (unsigned i = 0; i < n; i += 2) {
        bits_set(&bp[i].w[6], 40, 8, 7);
        assert_int_equal(give(&t, 5, &bp[i]), 0);
    }
    test_sync(&t, 5);
    assert_int_equal(alloc_blocks(&t.pool, 6, 8192, 1, false, &bp[n]), -ENOSPC);
    assert_int_equal(alloc_blocks(&t.pool, 6, 4096, 1, false, &bp[n]), 0);
    alloc_space(&t.pool, &s);
    assert_true(s.fragmentation > 80 && s.fragmentation <= 100);
    test_sync(&t, 6);
    free(bp);
    test_pool_free(&t);
}

/* One place left, three copies wanted. */
static void fewer_copies_when_space_is_short(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct blkptr bp = {{0}}, last = bp;
    struct alloc_space s;

    test_pool_new(&t, &one_vdev, 1);
    while (alloc_blocks(&t.pool, 4, 128 * KIB, 1, false, &bp) == 0)
        last = bp;
    bits_set(&last.w[6], 40, 8, 7);
    test_sync(&t, 4);
    assert_int_equal(give(&t, 5, &last), 0);
    test_sync(&t, 5);
    assert_int_equal(alloc_blocks(&t.pool, 6, 64 * KIB, 3, false, &bp), 0);
    bits_set(&bp.w[6], 40, 8, 7);
    assert_int_equal(bp_copies(&bp), 2); /* both in one metaslab */
    assert_false(distinct(&bp, 0, 1, 24));
    alloc_space(&t.pool, &s);
    assert_int_equal(s.alloc, s.size);
    test_sync(&t, 6);
    test_pool_free(&t);
}

/* Metaslabs that are not used are unloaded, and come back as they were. */
static void idle_metaslabs_are_unloaded(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct blkptr bp, more;

    test_pool_new(&t, &one_vdev, 1);
    take(&t, 4, MIB, 1, &bp);
    test_sync(&t, 4);
    for (uint64_t txg = 5; txg < 60; txg++)
        test_sync(&t, txg);
    assert_int_equal(t.loads, 0);
    assert_int_equal(give(&t, 60, &bp), 0); /* without loading */
    test_sync(&t, 60);
    assert_int_equal(t.loads, 0);
    assert_int_equal(alloc_claim(&t.pool, 61, 0, dva_offset(&bp, 0), MIB), -EINVAL); /* deferred */
    assert_int_equal(t.loads, 1);
    for (uint64_t txg = 61; txg < 63; txg++)
        test_sync(&t, txg);
    assert_int_equal(alloc_claim(&t.pool, 63, 0, dva_offset(&bp, 0), MIB), 0);
    take(&t, 63, MIB, 1, &more);
    test_sync(&t, 63);
    assert_int_equal(test_allocated(&t), 2 * MIB);
    test_pool_free(&t);
}

static int load_damaged(void *arg, struct metaslab *m, struct rangeset *allocated)
{
    if (m->id == 0)
        return err_set(EBADE, "a test says so");
    return m->id == 1 ? rangeset_add(allocated, m->start + m->size, m->start + m->size + 4096)
                      : test_load_map(arg, m, allocated);
}

static void damaged_maps_are_left_alone(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct blkptr bp;
    unsigned count;

    test_pool_new(&t, &one_vdev, 1);
    alloc_fini(&t.pool);
    assert_int_equal(alloc_init(&t.pool, load_damaged, &t), 0);
    assert_int_equal(alloc_add_vdev(&t.pool, t.pool.root->child[0]), 0);
    count = alloc_metaslab_count(t.pool.root->child[0]);
    for (unsigned i = 0; i < count; i++) {
        struct metaslab *m = alloc_metaslab(t.pool.root->child[0], i);
        m->object = 100 + i;
        m->header_size = 24;
    }
    for (int i = 0; i < 300; i++) {
        take(&t, 4, 128 * KIB, 1, &bp);
        assert_true(dva_offset(&bp, 0) >> 24 >= 2);
    }
    assert_int_equal(alloc_load(alloc_metaslab(t.pool.root->child[0], 0)), -EIO);
    test_sync(&t, 4);
    test_pool_free(&t);
}

/* A map that is freed from while it is not loaded must not be loaded in the middle of its sync: the
 * writer of the map allocates. */
static int allocate_in_sync(void *arg, struct metaslab *m, const struct rangeset *allocs,
                            const struct rangeset *frees)
{
    struct test_pool *t = arg;
    struct rangeset *snapshot = rangeset_new();
    struct blkptr bp;

    if (rangeset_count(allocs) == 0) {
        for (int i = 0; i < 400; i++) {
            take(t, 60, 128 * KIB, 1, &bp);
            assert_true(dva_offset(&bp, 0) >> 24 != m->id);
        }
        assert_int_equal(alloc_snapshot(m, snapshot), -EBUSY);
        assert_int_equal(alloc_load(m), -EBUSY);
    }
    rangeset_free(snapshot);
    return test_write_map(arg, m, allocs, frees);
}

static void no_loading_while_syncing(void **state)
{
    struct test_pool t = {.env = test_env()};
    struct blkptr bp;
    bool any;

    test_pool_new(&t, &one_vdev, 1);
    take(&t, 4, MIB, 1, &bp);
    for (uint64_t txg = 4; txg < 60; txg++)
        test_sync(&t, txg);
    assert_int_equal(give(&t, 60, &bp), 0);
    assert_int_equal(alloc_sync(&t.pool, 60, allocate_in_sync, &t, &any), 0);
    test_sync(&t, 60);
    test_pool_free(&t);
}

/* What a rewritten map must have is what a map that was appended to has. */
static int compare_snapshot(void *arg, struct metaslab *m, const struct rangeset *allocs,
                            const struct rangeset *frees)
{
    struct test_pool *t = arg;
    struct rangeset *snapshot = rangeset_new(), *map = test_map(t, m);
    struct range r, q;
    int rc = alloc_snapshot(m, snapshot);

    test_write_map(arg, m, allocs, frees);
    if (rc == 0) {
        assert_int_equal(rangeset_total(snapshot), rangeset_total(map));
        for (struct range *it = rangeset_first(map, &r); it; it = rangeset_after(map, &r)) {
            assert_true(rangeset_next(snapshot, r.start, &q));
            assert_int_equal(q.start, r.start);
            assert_int_equal(q.end, r.end);
        }
    }
    rangeset_free(snapshot);
    return 0;
}

static void histograms_cover_the_free_space(struct test_pool *t)
{
    for (unsigned v = 0; v < t->vdevs; v++) {
        struct vdev *top = t->pool.root->child[v];
        for (unsigned i = 0; i < alloc_metaslab_count(top); i++) {
            struct metaslab *m = alloc_metaslab(top, i);
            uint64_t hist[32], least = 0;
            if (m->object == 0)
                continue;
            alloc_histogram(m, top->ashift, hist);
            for (int b = 0; b < 32; b++)
                least += hist[b] << (b + top->ashift);
            assert_true(least <= m->size);
        }
    }
}

enum { LIVE = 3000 };

/* Random allocations and frees of several txgs against sets that check each word of each map. */
static void model(void **state)
{
    struct test_vdev v[] = {{128 * MIB, 12, 0}, {192 * MIB, 9, 0}};
    struct test_pool t = {.env = test_env()};
    struct blkptr *live = calloc(LIVE, sizeof *live);
    struct rangeset *resting[2][2]; /* [txg & 1][vdev]: freed in one of the last two txgs */
    unsigned n = 0;
    uint64_t used = 0;
    struct alloc_space s;

    for (int i = 0; i < 4; i++)
        resting[i / 2][i % 2] = rangeset_new();
    test_pool_new(&t, v, 2);
    for (uint64_t txg = 4; txg < 120; txg++) {
        struct rangeset *freed[2] = {rangeset_new(), rangeset_new()};
        bool any = true;
        for (int op = 0; op < 200; op++) {
            if (n < LIVE && test_below(&t.env, 100) < (txg % 20 < 10 ? 70u : 30u)) {
                uint64_t psize = (1 + test_below(&t.env, 1u << test_below(&t.env, 9))) * 512;
                int copies = 1 + (int)test_below(&t.env, 3);
                if (alloc_blocks(&t.pool, txg, psize, copies, test_below(&t.env, 2), &live[n]) != 0)
                    continue;
                bits_set(&live[n].w[6], 40, 8, 7);
                for (int i = 0; i < bp_copies(&live[n]); i++) {
                    uint64_t at = dva_offset(&live[n], i), size = dva_asize(&live[n], i);
                    unsigned id = (unsigned)dva_vdev(&live[n], i);
                    used += size;
                    assert_false(rangeset_overlaps(freed[id], at, at + size));
                    assert_false(rangeset_overlaps(resting[0][id], at, at + size));
                    assert_false(rangeset_overlaps(resting[1][id], at, at + size));
                }
                n++;
            } else if (n > 0) {
                unsigned k = (unsigned)test_below(&t.env, n);
                for (int i = 0; i < bp_copies(&live[k]); i++) {
                    uint64_t at = dva_offset(&live[k], i), size = dva_asize(&live[k], i);
                    rangeset_add(freed[dva_vdev(&live[k], i)], at, at + size);
                    used -= size;
                }
                assert_int_equal(give(&t, txg, &live[k]), 0);
                live[k] = live[--n];
            }
        }
        while (any)
            assert_int_equal(alloc_sync(&t.pool, txg, compare_snapshot, &t, &any), 0);
        alloc_sync_done(&t.pool, txg);
        assert_int_equal(test_allocated(&t), used);
        histograms_cover_the_free_space(&t);
        alloc_space(&t.pool, &s);
        assert_int_equal(s.alloc, used + s.deferred);
        for (int i = 0; i < 2; i++) {
            rangeset_free(resting[txg & 1][i]);
            resting[txg & 1][i] = freed[i];
        }
    }
    for (int i = 0; i < 4; i++)
        rangeset_free(resting[i / 2][i % 2]);
    free(live);
    test_pool_free(&t);
}

/* Several threads allocate and free while a txg is being synced. */
struct worker {
    struct test_pool *t;
    struct env env;
    pthread_t thread;
    struct blkptr live[500];
    unsigned n;
};

static _Atomic uint64_t stress_txg;
static pthread_rwlock_t stress_hold = PTHREAD_RWLOCK_INITIALIZER;

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < 20000; i++) {
        pthread_rwlock_rdlock(&stress_hold); /* stands for a txg hold */
        uint64_t txg = atomic_load(&stress_txg);
        if (w->n < 500 && w->env.random(&w->env) % 100 < 55) {
            uint64_t psize = 512ull << test_below(&w->env, 8);
            if (alloc_blocks(&w->t->pool, txg, psize, 1 + (int)test_below(&w->env, 3),
                             test_below(&w->env, 2), &w->live[w->n]) == 0) {
                bits_set(&w->live[w->n].w[6], 40, 8, 7);
                w->n++;
            }
        } else if (w->n > 0) {
            unsigned k = (unsigned)test_below(&w->env, w->n);
            assert_int_equal(give(w->t, txg, &w->live[k]), 0);
            w->live[k] = w->live[--w->n];
        }
        pthread_rwlock_unlock(&stress_hold);
    }
    return NULL;
}

static void threads(void **state)
{
    struct test_vdev v[] = {{1024 * MIB, 9, 0}, {256 * MIB, 12, 0}};
    struct test_pool t = {.env = test_env()};
    struct worker *w = calloc(4, sizeof *w);
    uint64_t used = 0;

    test_pool_new(&t, v, 2);
    atomic_store(&stress_txg, 4);
    for (int i = 0; i < 4; i++) {
        w[i].t = &t;
        env_init_seeded(&w[i].env, t.env.random(&t.env));
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (int i = 0; i < 30; i++) {
        uint64_t txg;
        pthread_rwlock_wrlock(&stress_hold); /* quiesced */
        txg = atomic_fetch_add(&stress_txg, 1);
        pthread_rwlock_unlock(&stress_hold);
        test_sync(&t, txg);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(w[i].thread, NULL);
    test_sync(&t, atomic_load(&stress_txg));
    for (int i = 0; i < 4; i++)
        for (unsigned k = 0; k < w[i].n; k++)
            for (int d = 0; d < bp_copies(&w[i].live[k]); d++)
                used += dva_asize(&w[i].live[k], d);
    assert_int_equal(test_allocated(&t), used);
    free(w);
    test_pool_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_one_size_follow_each_other),
        cmocka_unit_test(sizes_are_rounded_to_sectors),
        cmocka_unit_test(freed_space_comes_back),
        cmocka_unit_test(short_lived_blocks_are_written_twice),
        cmocka_unit_test(wrong_frees_are_refused),
        cmocka_unit_test(undone_allocations_leave_no_trace),
        cmocka_unit_test(copies_are_spread),
        cmocka_unit_test(vdevs_are_chosen_by_room_and_class),
        cmocka_unit_test(metadata_prefers_special),
        cmocka_unit_test(fills_to_the_last_sector),
        cmocka_unit_test(fewer_copies_when_space_is_short),
        cmocka_unit_test(idle_metaslabs_are_unloaded),
        cmocka_unit_test(damaged_maps_are_left_alone),
        cmocka_unit_test(no_loading_while_syncing),
        cmocka_unit_test(model),
        cmocka_unit_test(threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
