/*
 * The object layer on a pool in memory: what open context costs, what the sync costs.
 *   bench_dmu [files]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "device/device.h"
#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/tx.h"
#include "pool/alloc.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "pool/txg.h"
#include "util/buf.h"
#include "util/rangeset.h"
#include "vdev/vdev.h"

#define DISK (4ull << 30)

static struct pool pool;
static struct env env;
static uint64_t txg = TXG_INITIAL;
static const struct objset_props props = {.checksum = CHECKSUM_ON, .compress = COMPRESS_ON,
                                          .copies = 1, .recordsize = 131072};

static void check(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(-rc));
        exit(1);
    }
}

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double cpu(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int load_map(void *arg, struct metaslab *m, struct rangeset *allocated)
{
    return 0;
}

static int write_map(void *arg, struct metaslab *m, const struct rangeset *allocs,
                     const struct rangeset *frees)
{
    return 0;
}

static void open_pool(void)
{
    static const struct txg_config config = {.dirty_max = 8ull << 30};
    struct vdev *root, *leaf;
    struct device *d;

    env_init_seeded(&env, 1);
    check(vdev_root_new(&root, 1), "root");
    check(device_memory(&d, DISK), "device");
    check(vdev_leaf_on_device(&leaf, d, 12, &env), "leaf");
    check(vdev_add_child(root, leaf), "child");
    check(pool_init(&pool, "bench", root, &env), "pool");
    pool.features.lz4 = pool.features.embedded_data = pool.features.hole_birth = true;
    pool.deflate = pool.writable = true;
    pool.cache_limit = 6ull << 30;
    check(alloc_init(&pool, load_map, NULL), "alloc");
    check(alloc_add_vdev(&pool, leaf), "metaslabs");
    check(txg_engine_new(&pool.txg, &config, TXG_INITIAL - 1), "txg");
}

static void sync_set(struct objset *os, const char *what, double n)
{
    struct blkptr root;
    struct tx tx;
    double t = now(), c = cpu();
    bool any;

    tx_begin_syncing(&tx, &pool, txg);
    check(objset_sync(os, &tx, &root), "sync");
    t = now() - t;
    c = cpu() - c;
    do
        check(alloc_sync(&pool, txg, write_map, NULL, &any), "alloc_sync");
    while (any);
    check(block_wait(&pool), "wait");
    alloc_sync_done(&pool, txg++);
    printf("%-44s %8.2f us each (%.2f us of CPU)\n", what, t / n * 1e6, c / n * 1e6);
}

static struct tx open_tx(void)
{
    return (struct tx){.pool = &pool, .txg = txg};
}

static void fill(unsigned char *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)((i * 7 + seed) >> (i % 3));
    for (size_t i = 0; i < n; i += 16)
        memcpy(p + i, &seed, sizeof seed);
}

static void report(const char *what, double t, double c, double n)
{
    printf("%-44s %8.2f us each (%.2f us of CPU)\n", what, (now() - t) / n * 1e6,
           (cpu() - c) / n * 1e6);
}

static uint64_t create_files(struct objset *os, unsigned n, const char *what)
{
    struct object_params params = {.type = OT_PLAIN_FILE, .bonus_type = OT_SA, .bonus_len = 176,
                                   .block_size = 4096};
    unsigned char data[4096], bonus[176] = {1};
    struct tx tx = open_tx();
    uint64_t first = 0;
    double t = now(), c = cpu();

    fill(data, sizeof data, 3);
    for (unsigned i = 0; i < n; i++) {
        struct dnode *dn;
        memcpy(data, &i, sizeof i);
        check(object_create(os, 0, &params, &tx, &dn), "create");
        check(dnode_bonus_set(dn, bonus, sizeof bonus, 0, &tx), "bonus");
        check(dnode_write(dn, 0, data, sizeof data, &tx), "write");
        if (i == 0)
            first = dnode_object(dn);
        dnode_rele(dn);
    }
    report(what, t, c, n);
    return first;
}

static void small_files(struct objset *os, unsigned n)
{
    unsigned char data[4096];
    uint64_t first = create_files(os, n, "create, set bonus, write 4K; memory is new");
    struct tx tx;
    double t, c;

    sync_set(os, "sync of a new file", n);
    tx = open_tx();
    t = now(), c = cpu();
    for (unsigned i = 0; i < n; i++) {
        struct dnode *dn;
        check(dnode_hold(os, first + i, &dn), "hold");
        check(dnode_bonus_patch(dn, 40, &i, sizeof i, &tx), "patch");
        dnode_rele(dn);
    }
    report("hold and patch bonus", t, c, n);
    sync_set(os, "sync of a patched bonus", n);
    t = now(), c = cpu();
    for (unsigned i = 0; i < n; i++) {
        struct dnode *dn;
        check(dnode_hold(os, first + i, &dn), "hold");
        check(dnode_read(dn, 0, data, sizeof data), "read");
        dnode_rele(dn);
    }
    report("hold and read 4K, cached", t, c, n);
    pool.cache_limit = 64 << 20;
    for (int i = 0; i < 4; i++) {
        create_files(os, n / 10, "create, set bonus, write 4K; memory recycled");
        sync_set(os, "sync of a new file", n / 10);
    }
    pool.cache_limit = 6ull << 30;
}

static void big_file(struct objset *os, unsigned blocks)
{
    struct object_params params = {.type = OT_PLAIN_FILE, .block_size = 131072};
    unsigned char *data = malloc(131072);
    struct tx tx = open_tx();
    struct dnode *dn;
    double t, c;

    fill(data, 131072, 5);
    check(object_create(os, 0, &params, &tx, &dn), "create");
    for (int pass = 0; pass < 2; pass++) {
        tx = open_tx();
        t = now(), c = cpu();
        for (uint64_t i = 0; i < blocks; i++) {
            memcpy(data, &i, 8);
            check(dnode_write(dn, i * 131072, data, 131072, &tx), "write");
        }
        printf("%-44s %8.2f GB/s (%.2f of CPU)\n", pass ? "write 128K over it" : "write 128K, new",
               blocks * 131072.0 / (now() - t) / 1e9, blocks * 131072.0 / (cpu() - c) / 1e9);
        sync_set(os, "sync of a 128K block", blocks);
    }
    t = now(), c = cpu();
    for (int pass = 0; pass < 4; pass++) {
        for (uint64_t i = 0; i < blocks; i++)
            check(dnode_read(dn, i * 131072, data, 131072), "read");
    }
    printf("%-44s %8.2f GB/s (%.2f of CPU)\n", "read 128K, cached", 4 * blocks * 131072.0 / (now() - t) / 1e9,
           4 * blocks * 131072.0 / (cpu() - c) / 1e9);
    t = now(), c = cpu();
    for (uint64_t i = 0; i < blocks * 32ull; i++)
        check(dnode_read(dn, i * 4096, data, 4096), "read");
    printf("%-44s %8.2f us each (%.2f us of CPU)\n", "read 4K of it, cached",
           (now() - t) / blocks / 32 * 1e6, (cpu() - c) / blocks / 32 * 1e6);
    dnode_rele(dn);
    free(data);
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 100000;
    struct objset *os;
    struct tx tx;

    open_pool();
    tx = open_tx();
    check(objset_create(&os, &pool, 54, OBJSET_OTHER, 0, &props, NULL, NULL, &tx), "set");
    small_files(os, n);
    big_file(os, n / 50);
    objset_close(os);
    txg_engine_free(pool.txg);
    pool_fini(&pool);
    return 0;
}
