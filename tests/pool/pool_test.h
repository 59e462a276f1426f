/* A pool on devices in memory whose space maps are sets in memory. */
#ifndef TESTS_POOL_POOL_TEST_H
#define TESTS_POOL_POOL_TEST_H

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"
#include "device/device.h"
#include "pool/alloc.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "pool/txg.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/err.h"
#include "util/rangeset.h"
#include "vdev/vdev.h"

#define TEST_VDEVS 4

struct test_pool {
    struct pool pool;
    struct env env;
    unsigned vdevs;
    struct rangeset **map[TEST_VDEVS]; /* by metaslab: what its space map has as allocated */
    unsigned loads;
    device_fault_fn *fault; /* may be set before test_pool_new */
    void *fault_arg;
    bool files; /* on files instead of memory, where requests are really under way */
};

struct test_vdev {
    uint64_t size;
    unsigned ashift;
    enum vdev_class class;
};

static inline struct rangeset *test_map(struct test_pool *t, struct metaslab *m)
{
    return t->map[m->vdev->id][m->id];
}

static inline int test_load_map(void *arg, struct metaslab *m, struct rangeset *allocated)
{
    struct test_pool *t = arg;
    struct range r;
    int rc = 0;

    __atomic_fetch_add(&t->loads, 1, __ATOMIC_RELAXED);
    for (struct range *it = rangeset_first(test_map(t, m), &r); it && rc == 0;
         it = rangeset_after(test_map(t, m), &r))
        rc = rangeset_add(allocated, r.start, r.end);
    return rc;
}

/* A sparse file that is gone when it is closed. */
static inline struct device *test_file(uint64_t size)
{
    char path[] = "/tmp/tarn-pool-XXXXXX";
    struct device *d;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    close(fd);
    assert_int_equal(device_open(&d, path, DEVICE_OPEN_WRITE), 0);
    unlink(path);
    return d;
}

static inline void test_add_vdev(struct test_pool *t, struct vdev *root, const struct test_vdev *v)
{
    struct device *d;
    struct vdev *leaf;

    if (t->files)
        d = test_file(v->size);
    else
        assert_int_equal(device_memory(&d, v->size), 0);
    if (t->fault)
        assert_int_equal(device_fault(&d, d, t->fault, t->fault_arg), 0);
    assert_int_equal(vdev_leaf_on_device(&leaf, d, v->ashift, &t->env), 0);
    leaf->class = v->class;
    leaf->is_log = v->class == VDEV_CLASS_LOG;
    assert_int_equal(vdev_add_child(root, leaf), 0);
}

static inline void test_pool_new(struct test_pool *t, const struct test_vdev *vdevs, unsigned n)
{
    struct vdev *root;

    assert_true(n <= TEST_VDEVS);
    t->vdevs = n;
    assert_int_equal(vdev_root_new(&root, 4711), 0);
    for (unsigned i = 0; i < n; i++)
        test_add_vdev(t, root, &vdevs[i]);
    assert_int_equal(pool_init(&t->pool, "tank", root, &t->env), 0);
    t->pool.writable = true;
    t->pool.deflate = true;
    t->pool.features.embedded_data = t->pool.features.hole_birth = true;
    assert_int_equal(alloc_init(&t->pool, test_load_map, t), 0);
    for (unsigned i = 0; i < n; i++) {
        struct vdev *top = root->child[i];
        unsigned count;
        assert_int_equal(alloc_add_vdev(&t->pool, top), 0);
        count = alloc_metaslab_count(top);
        t->map[i] = calloc(count, sizeof *t->map[i]);
        for (unsigned k = 0; k < count; k++)
            t->map[i][k] = rangeset_new();
    }
}

static inline void test_pool_free(struct test_pool *t)
{
    for (unsigned i = 0; i < t->vdevs; i++) {
        unsigned count = alloc_metaslab_count(t->pool.root->child[i]);
        for (unsigned k = 0; k < count; k++)
            rangeset_free(t->map[i][k]);
        free(t->map[i]);
    }
    pool_fini(&t->pool);
}

/* The maps are exact: nothing is allocated twice, nothing freed that is free. */
static inline int test_write_map(void *arg, struct metaslab *m, const struct rangeset *allocs,
                                 const struct rangeset *frees)
{
    struct test_pool *t = arg;
    struct rangeset *map = test_map(t, m);
    struct range r;

    for (struct range *it = rangeset_first(allocs, &r); it; it = rangeset_after(allocs, &r)) {
        assert_true(r.start >= m->start && r.end <= m->start + m->size);
        assert_int_equal(rangeset_add_exact(map, r.start, r.end), 0);
    }
    for (struct range *it = rangeset_first(frees, &r); it; it = rangeset_after(frees, &r))
        assert_int_equal(rangeset_remove_exact(map, r.start, r.end), 0);
    m->object = 1000 + m->id;
    m->header_size = 320;
    m->map_alloc = (int64_t)rangeset_total(map);
    alloc_histogram(m, m->vdev->ashift, m->histogram);
    return 0;
}

/* Everything of a txg but objects. */
static inline void test_sync(struct test_pool *t, uint64_t txg)
{
    bool any;

    do
        assert_int_equal(alloc_sync(&t->pool, txg, test_write_map, t, &any), 0);
    while (any);
    assert_false(alloc_dirty(&t->pool, txg));
    assert_int_equal(block_wait(&t->pool), 0);
    alloc_sync_done(&t->pool, txg);
}

/* Bytes that the maps have as allocated. */
static inline uint64_t test_allocated(const struct test_pool *t)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < t->vdevs; i++)
        for (unsigned k = 0; k < alloc_metaslab_count(t->pool.root->child[i]); k++)
            sum += rangeset_total(t->map[i][k]);
    return sum;
}

/* Compressible to about a third, or not at all. */
static inline void test_text(struct env *e, void *data, size_t n)
{
    unsigned char *p = data;

    for (size_t i = 0; i < n; i += 8) {
        uint64_t r = e->random(e);
        for (size_t k = 0; k < 8 && i + k < n; k++)
            p[i + k] = (unsigned char)(r >> (k / 4) * 8 & 3);
    }
}

#endif
