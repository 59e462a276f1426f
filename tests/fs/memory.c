/*
 * Is memory bounded by the cache limit and 256 MB? A pool on a sparse file, without a front end:
 *   fsmemory LIMIT-MB files N         N files of 4 KB in a directory, all referred to as by a kernel
 *   fsmemory LIMIT-MB sparse N        N writes at random offsets of a file of 1 TB, in two record sizes
 *   fsmemory LIMIT-MB blocks N        a file of N blocks of 512 bytes, N/10 random overwrites, removal
 * For each phase: microseconds per operation, of wall clock and (in brackets) of all threads'
 * processor time, and what was resident at most so far. Status 1 if that was too much.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "fs/format.h"
#include "fs/fs.h"
#include "nvlist/nvlist.h"
#include "pool/pool.h"
#include "pool/txg.h"
#include "spa/spa.h"
#include "util/env.h"
#include "util/err.h"

#define ALLOWED_MB 256

static struct spa *spa;
static struct dataset *ds;
static struct fs *fs;
static struct env env;
static struct timespec start;
static double start_cpu;

static void must(int64_t rc, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, err_text((int)rc));
    exit(2);
}

static double cpu(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return r.ru_utime.tv_sec + r.ru_stime.tv_sec +
           (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

/* A line of /proc/self/status, in MB. */
static long status_mb(const char *name)
{
    char line[128];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            kb = strtol(line + strlen(name) + 1, NULL, 10);
    if (f)
        fclose(f);
    return kb >> 10;
}

static void begin(void)
{
    clock_gettime(CLOCK_MONOTONIC, &start);
    start_cpu = cpu();
}

static void end(const char *what, double n)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double wall = (t.tv_sec - start.tv_sec) + (t.tv_nsec - start.tv_nsec) / 1e9;
    printf("%-24s %9.0f times %8.2f us (%.2f)   resident %5ld MB, at most %5ld MB\n", what, n,
           wall / n * 1e6, (cpu() - start_cpu) / n * 1e6, status_mb("VmRSS:"), status_mb("VmHWM:"));
    fflush(stdout);
}

static void sync_pool(void)
{
    must(txg_wait_synced(spa_pool(spa)->txg, 0), "syncing");
}

/* ---- The pool ---- */

static char path[4096];

static void make_pool(const char *recordsize)
{
    static const struct fs_options options = {.xattr = FS_XATTR_SA, .acltype = FS_ACL_POSIX};
    const char *paths[] = {path};
    struct spa_create_args args = {.name = "memory", .paths = paths, .npaths = 1, .ashift = 9};
    struct nvlist *props = nvlist_new();
    const char *tmp = getenv("TARN_TMP");
    snprintf(path, sizeof path, "%s/tarn-memory-XXXXXX", tmp ? tmp : "/var/tmp");
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, 40ll << 30) < 0)
        exit(2);
    close(fd);
    must(props ? 0 : -ENOMEM, "properties");
    must(nvlist_add_string(props, "recordsize", recordsize), "properties");
    args.fs_props = props;
    dsl_register_format(fs_format);
    must(spa_create(&args, false, NULL, &spa), "making a pool");
    unlink(path);
    nvlist_free(props);
    must(dataset_hold(spa_dsl(spa), "memory", &ds), "the file system");
    must(fs_open(&fs, ds, &options), "opening it");
}

static void end_pool(void)
{
    fs_close(fs);
    dataset_rele(ds);
    must(spa_close(spa, SPA_END_DROP), "closing");
}

/* Bytes that do not compress. */
static void fill(void *data, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t r = env.random(&env);
        memcpy((char *)data + i, &r, 8);
    }
}

static uint64_t new_file(const char *name, uint64_t dir)
{
    struct fs_new new = {.mode = S_IFREG | 0644};
    struct fs_attr a;
    must(fs_create(fs, dir, name, &new, &a), "creating");
    return a.ino;
}

/* ---- Many files ---- */

static const char *name_of(unsigned i)
{
    static char name[32];
    sprintf(name, "file-%08u", i);
    return name;
}

static void files(unsigned n)
{
    char data[4096];
    uint64_t *ino = malloc(n * sizeof *ino);
    fill(data, sizeof data);
    make_pool("128K");
    begin();
    for (unsigned i = 0; i < n; i++) {
        ino[i] = new_file(name_of(i), FS_ROOT_INO);
        memcpy(data, &i, sizeof i);
        must(fs_write(fs, ino[i], 0, data, sizeof data, 0), "writing");
    }
    sync_pool();
    end("create and write 4K", n);
    begin();
    for (unsigned i = 0; i < n / 40; i++)
        must(fs_read(fs, ino[env.random(&env) % n], 0, data, sizeof data), "reading");
    end("read at random", n / 40);
    begin();
    for (unsigned i = 0; i < n / 40; i++)
        must(fs_write(fs, ino[env.random(&env) % n], 0, data, sizeof data, 0), "writing");
    sync_pool();
    end("write at random", n / 40);
    begin();
    for (unsigned i = 0; i < n / 10; i++)
        must(fs_unlink(fs, FS_ROOT_INO, name_of(i)), "removing");
    for (unsigned i = 0; i < n; i++)
        fs_forget(fs, ino[i], 1);
    sync_pool();
    end("remove", n / 10);
    free(ino);
    end_pool();
}

/* ---- A large sparse file ---- */

static void sparse_in(const char *recordsize, unsigned n)
{
    char data[4096], what[32];
    make_pool(recordsize);
    uint64_t ino = new_file("sparse", FS_ROOT_INO);
    fill(data, sizeof data);
    begin();
    for (unsigned i = 0; i < n; i++) {
        uint64_t off = env.random(&env) % (1ull << 40) & ~4095ull;
        must(fs_write(fs, ino, off, data, sizeof data, 0), "writing");
    }
    sync_pool();
    sprintf(what, "sparse, recordsize %s", recordsize);
    end(what, n);
    begin();
    must(fs_unlink(fs, FS_ROOT_INO, "sparse"), "removing");
    fs_forget(fs, ino, 1);
    sync_pool();
    end("remove", 1);
    end_pool();
}

/* ---- Many blocks ---- */

static void blocks(uint64_t n)
{
    enum { CHUNK = 1 << 20 };
    char *data = malloc(CHUNK);
    make_pool("512");
    uint64_t ino = new_file("blocks", FS_ROOT_INO), per = CHUNK / 512;
    fill(data, CHUNK);
    begin();
    for (uint64_t i = 0; i < n; i += per)
        must(fs_write(fs, ino, i * 512, data, CHUNK, 0), "writing");
    sync_pool();
    end("write blocks of 512", n);
    begin();
    for (uint64_t i = 0; i < n / 10; i++)
        must(fs_write(fs, ino, env.random(&env) % n * 512, data, 512, 0), "writing");
    sync_pool();
    end("overwrite at random", n / 10);
    begin();
    must(fs_unlink(fs, FS_ROOT_INO, "blocks"), "removing");
    fs_forget(fs, ino, 1);
    for (int i = 0; i < 4; i++)
        sync_pool();
    end("remove", n);
    free(data);
    end_pool();
}

int main(int argc, char **argv)
{
    char limit[32];
    const char *seed = getenv("TARN_SEED");
    if (argc != 4)
        return 2;
    snprintf(limit, sizeof limit, "%sM", argv[1]);
    setenv("TARN_CACHE_LIMIT", limit, 1);
    env_init_seeded(&env, seed ? strtoull(seed, NULL, 10) : 1);
    if (strcmp(argv[2], "files") == 0) {
        files(atoi(argv[3]));
    } else if (strcmp(argv[2], "sparse") == 0) {
        sparse_in("128K", atoi(argv[3]));
        sparse_in("4K", atoi(argv[3]));
    } else {
        blocks(strtoull(argv[3], NULL, 10));
    }
    long most = status_mb("VmHWM:"), allowed = atol(argv[1]) + ALLOWED_MB;
    if (most > allowed)
        printf("%ld MB were resident; %ld MB are allowed\n", most, allowed);
    return most > allowed;
}
