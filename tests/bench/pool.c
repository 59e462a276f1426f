/* What a block costs: allocation, compression, checksum, queueing, and the device. One thread
 * writes; processor time of the process and time on the clock are shown per block. The device is
 * memory (its copy is the device's cost), or a file in the folder of the argument. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "device/device.h"
#include "pool/alloc.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "pool/txg.h"
#include "util/buf.h"
#include "util/rangeset.h"
#include "vdev/vdev.h"

static struct env env;
static struct pool pool;

static double seconds(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(int rc, const char *what)
{
    if (rc) {
        fprintf(stderr, "%s: error %d\n", what, rc);
        exit(1);
    }
}

static int no_load(void *arg, struct metaslab *m, struct rangeset *allocated)
{
    return 0;
}

static int no_map(void *arg, struct metaslab *m, const struct rangeset *a, const struct rangeset *f)
{
    return 0;
}

static void null_submit(struct device *d, struct device_io *io)
{
    io->done(io, 0);
}

static void null_info(struct device *d, struct device_info *out)
{
    *out = (struct device_info){
        .size = 4ull << 30, .logical_shift = 9, .physical_shift = 9, .writable = true};
}

static void null_close(struct device *d)
{
    free(d->path);
    free(d);
}

static const struct device_driver null_driver = {
    .name = "null", .submit = null_submit, .info = null_info, .close = null_close};

static struct device *open_device(const char *folder, uint64_t size)
{
    char path[4096];
    struct device *d;
    int fd;

    if (!folder) {
        d = calloc(1, sizeof *d);
        *d = (struct device){.driver = &null_driver, .path = strdup("null")};
        return d;
    }
    snprintf(path, sizeof path, "%s/bench-pool-XXXXXX", folder);
    fd = mkstemp(path);
    must(fd < 0 || ftruncate(fd, (off_t)size) ? -1 : 0, path);
    close(fd);
    must(device_open(&d, path, DEVICE_OPEN_WRITE | DEVICE_OPEN_DIRECT), path);
    unlink(path);
    return d;
}

static void make_pool(const char *folder, uint64_t size)
{
    struct vdev *root, *leaf;

    must(vdev_root_new(&root, 1), "root");
    must(vdev_leaf_on_device(&leaf, open_device(folder, size), 12, &env), "leaf");
    must(vdev_add_child(root, leaf), "child");
    must(pool_init(&pool, "bench", root, &env), "pool");
    must(alloc_init(&pool, no_load, NULL), "alloc");
    must(alloc_add_vdev(&pool, leaf), "vdev");
    pool.features.embedded_data = pool.features.hole_birth = true;
}

static void end_txg(uint64_t txg)
{
    bool any;

    must(block_wait(&pool), "wait");
    must(alloc_sync(&pool, txg, no_map, NULL, &any), "sync");
    alloc_sync_done(&pool, txg);
}

/* Writes n blocks from a few buffers; frees them again. */
static void writes(const char *name, size_t size, unsigned compress, unsigned noise, unsigned n,
                   struct block_batch *batch)
{
    struct block_policy p = {.type = 19,
                             .checksum = CHECKSUM_FLETCHER4,
                             .compress = (uint8_t)compress,
                             .copies = 1,
                             .fill = 1};
    struct blkptr *bp = calloc(n, sizeof *bp);
    struct buf *b[16];
    static uint64_t txg = 4;
    double cpu, wall;

    for (int i = 0; i < 16; i++) {
        b[i] = buf_new_zero(size);
        for (size_t k = 0; k < size * noise / 256; k++)
            b[i]->data[k] = (unsigned char)env.random(&env);
    }
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    wall = seconds(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < n; i++)
        must(block_write(&pool, txg, batch, &p, b[i % 16], NULL, &bp[i]), "write");
    if (batch)
        must(block_batch_submit(&pool, batch), "batch");
    must(block_wait(&pool), "wait");
    cpu = (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / n;
    wall = (seconds(CLOCK_MONOTONIC) - wall) / n;
    printf("%-28s %8.2f us cpu %8.2f us wall %8.0f MB/s\n", name, cpu * 1e6, wall * 1e6,
           (double)size / wall / 1e6);
    end_txg(txg++);
    for (unsigned i = 0; i < n; i++)
        must(block_free(&pool, txg, NULL, &bp[i]), "free");
    for (int i = 0; i < 4; i++)
        end_txg(txg++);
    for (int i = 0; i < 16; i++)
        buf_unref(b[i]);
    free(bp);
}

static void allocations(void)
{
    enum { N = 200000 };
    struct blkptr *bp = malloc(N * sizeof *bp);
    double t = seconds(CLOCK_THREAD_CPUTIME_ID);

    for (int i = 0; i < N; i++)
        must(alloc_blocks(&pool, 900, 4096, 1, false, &bp[i]), "alloc");
    t = seconds(CLOCK_THREAD_CPUTIME_ID) - t;
    printf("%-28s %8.1f ns\n", "allocate, empty", t / N * 1e9);
    for (int i = 0; i < N; i++) {
        int k = (int)(env.random(&env) % N);
        struct blkptr x = bp[i];
        bp[i] = bp[k];
        bp[k] = x;
    }
    end_txg(900);
    t = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < N / 2; i++)
        must(alloc_free(&pool, 901, 0, dva_offset(&bp[i], 0), 4096), "free");
    t = seconds(CLOCK_THREAD_CPUTIME_ID) - t;
    printf("%-28s %8.1f ns\n", "free, random order", t / (N / 2) * 1e9);
    for (uint64_t txg = 901; txg < 905; txg++)
        end_txg(txg);
    t = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < N / 4; i++)
        must(alloc_blocks(&pool, 905, 4096, 1, false, &bp[i]), "alloc");
    t = seconds(CLOCK_THREAD_CPUTIME_ID) - t;
    printf("%-28s %8.1f ns\n", "allocate, fragmented", t / (N / 4) * 1e9);
    free(bp);
}

static int no_sync(void *arg, uint64_t txg)
{
    return 0;
}

static void holds(void)
{
    struct txg_config c = {.sync = no_sync};
    struct txg_engine *e;
    enum { N = 5000000 };
    double t;

    must(txg_engine_new(&e, &c, 3), "engine");
    must(txg_engine_start(e), "engine");
    t = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < N; i++) {
        struct txg_hold h;
        txg_hold_open(e, &h);
        txg_release(e, &h);
    }
    t = seconds(CLOCK_THREAD_CPUTIME_ID) - t;
    printf("%-28s %8.1f ns\n", "txg hold and release", t / N * 1e9);
    txg_engine_free(e);
}

int main(int argc, char **argv)
{
    struct block_batch *batch;

    env_init_seeded(&env, 1);
    make_pool(argc > 1 ? argv[1] : NULL, 4ull << 30);
    holds();
    writes("512 bytes, off", 512, COMPRESS_OFF, 256, 100000, NULL);
    writes("4 KiB, off", 4096, COMPRESS_OFF, 256, 100000, NULL);
    writes("4 KiB, lz4", 4096, COMPRESS_LZ4, 128, 100000, NULL);
    writes("16 KiB, lz4, half", 16384, COMPRESS_LZ4, 128, 50000, NULL);
    writes("128 KiB, off", 131072, COMPRESS_OFF, 256, 8000, NULL);
    writes("128 KiB, lz4, half", 131072, COMPRESS_LZ4, 128, 8000, NULL);
    writes("128 KiB, lz4, noise", 131072, COMPRESS_LZ4, 256, 8000, NULL);
    writes("1 MiB, off", 1 << 20, COMPRESS_OFF, 256, 1000, NULL);
    must(block_batch_new(&batch), "batch");
    writes("16 KiB, lz4, batch", 16384, COMPRESS_LZ4, 128, 50000, batch);
    block_batch_free(batch);
    allocations();
    pool_fini(&pool);
    return 0;
}
