/*
 * What file vdevs cost: page cache or O_DIRECT, io_uring or threads. Usage:
 * bench_device [FILE [MIB]]. A line per combination: fill (a sparse file, 128 KiB requests),
 * rewrite and read in MiB/s; w4k and r4k: random 4 KiB requests per second; commit: milliseconds of
 * a flush after 8 MiB, four uberblocks and another flush; sync: microseconds of a read in the
 * caller; cpu: seconds of the whole line. Compare within one run only.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "device/device.h"
#include "util/bytes.h"
#include "util/err.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

enum { DEPTH_MOST = 64 };

/* A loop of requests: each one submits its successor. */
struct load {
    struct device *d;
    enum device_op op;
    size_t n;
    uint64_t span; /* bytes of the file that are used */
    bool random;
    uint64_t seed;
    pthread_mutex_t lock; /* guards left, next, running, rc, seed */
    pthread_cond_t cond;
    uint64_t left, next;
    unsigned running;
    int rc;
};

struct one {
    struct device_io io;
    struct load *load;
};

static bool aim(struct load *l, struct device_io *io)
{
    if (!l->left || l->rc)
        return false;
    l->left--;
    if (l->random) {
        l->seed = l->seed * 6364136223846793005ull + 1442695040888963407ull;
        io->offset = (l->seed >> 20) % (l->span / l->n) * l->n;
    } else {
        io->offset = l->next;
        l->next += l->n;
    }
    return true;
}

static void one_done(struct device_io *io, int rc)
{
    struct load *l = ((struct one *)io)->load;
    pthread_mutex_lock(&l->lock);
    if (rc)
        l->rc = rc;
    bool more = aim(l, io);
    if (!more && --l->running == 0)
        pthread_cond_signal(&l->cond);
    pthread_mutex_unlock(&l->lock);
    if (more)
        device_submit(l->d, io);
}

static void check(int rc)
{
    if (rc) {
        fprintf(stderr, "bench_device: %s\n", err_text(rc));
        exit(1);
    }
}

/* Seconds for the load and a flush. */
static double run(struct device *d, enum device_op op, size_t n, uint64_t span, uint64_t count,
                  bool random, unsigned depth)
{
    struct load l = {.d = d,
                     .op = op,
                     .n = n,
                     .span = span,
                     .random = random,
                     .seed = 42,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .cond = PTHREAD_COND_INITIALIZER,
                     .left = count};
    struct one ones[DEPTH_MOST];
    double start = now();
    for (unsigned i = 0; i < depth; i++) {
        ones[i] = (struct one){
            .load = &l,
            .io = {.op = op, .size = n, .data = aligned_alloc(4096, n), .done = one_done}};
        memset(ones[i].io.data, (int)i + 1, n);
        pthread_mutex_lock(&l.lock);
        bool more = aim(&l, &ones[i].io);
        l.running += more;
        pthread_mutex_unlock(&l.lock);
        if (more)
            device_submit(d, &ones[i].io);
    }
    pthread_mutex_lock(&l.lock);
    while (l.running)
        pthread_cond_wait(&l.cond, &l.lock);
    pthread_mutex_unlock(&l.lock);
    check(l.rc);
    if (op == DEVICE_WRITE)
        check(device_flush(d));
    double t = now() - start;
    for (unsigned i = 0; i < depth; i++)
        free(ones[i].io.data);
    return t;
}

/* As a pool commits: data, flush, four uberblock slots, flush. Milliseconds each. */
static double commits(struct device *d, uint64_t span, unsigned count)
{
    double t = 0;
    void *slot = aligned_alloc(4096, 4096);
    memset(slot, 1, 4096);
    for (unsigned i = 0; i < count; i++) {
        t += run(d, DEVICE_WRITE, 131072, span, 64, true, 16);
        double start = now();
        for (unsigned k = 0; k < 4; k++)
            check(device_write(d, k * 262144 + 131072 + i % 32 * 4096, slot, 4096));
        check(device_flush(d));
        t += now() - start;
    }
    free(slot);
    return t / count * 1e3;
}

static void forget(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static double sync_reads(struct device *d, size_t n, uint64_t span, unsigned count)
{
    unsigned char *data = aligned_alloc(4096, n);
    uint64_t seed = 7;
    double start = now();
    for (unsigned i = 0; i < count; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        check(device_read(d, (seed >> 20) % (span / n) * n, data, n));
    }
    free(data);
    return (now() - start) / count * 1e6;
}

static void bench(const char *path, const char *engine, unsigned flags, uint64_t span)
{
    struct device *d;
    double mib = (double)span / (1 << 20), start_cpu = cpu();
    setenv("TARN_DEVICE_ENGINE", engine, 1);
    int fd = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)span))
        check(-EINVAL);
    close(fd);
    check(device_open(&d, path, DEVICE_OPEN_WRITE | flags));
    double fill = run(d, DEVICE_WRITE, 131072, span, span / 131072, false, 16);
    double again = run(d, DEVICE_WRITE, 131072, span, span / 131072, false, 16);
    double small = run(d, DEVICE_WRITE, 4096, span, 8192, true, 32);
    double commit = commits(d, span, 16);
    forget(path);
    double seq = run(d, DEVICE_READ, 131072, span, span / 131072, false, 8);
    forget(path);
    double rnd = run(d, DEVICE_READ, 4096, span, 16384, true, 32);
    double warm = sync_reads(d, 4096, 8 << 20, 4000);
    device_close(d);
    printf("%-8s %-7s %7.0f %7.0f %8.0f %8.1f %7.0f %8.0f %8.1f %6.1f\n", engine,
           flags ? "direct" : "cached", mib / fill, mib / again, 8192 / small, commit, mib / seq,
           16384 / rnd, warm, cpu() - start_cpu);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "/var/tmp/tarn-bench-device";
    uint64_t span = (argc > 2 ? strtoull(argv[2], NULL, 0) : 256) << 20;
    printf("%-8s %-7s %7s %7s %8s %8s %7s %8s %8s %6s\n", "engine", "cache", "fill", "rewrite",
           "w4k/s", "commit", "read", "r4k/s", "sync us", "cpu s");
    for (int round = 0; round < 2; round++)
        for (unsigned i = 0; i < 4; i++)
            bench(path, i & 1 ? "threads" : "ring", i & 2 ? DEVICE_OPEN_DIRECT : 0, span);
    unlink(path);
    return 0;
}
