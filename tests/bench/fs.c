/*
 * What the file layer costs per operation, without a front end:
 * bench_fs [FILES [SIZE-OF-POOL-MB [CACHE-LIMIT-MB]]].
 * Makes a pool on a sparse file and in it directories of 10^3 ... FILES files; a line per
 * directory, in microseconds per file of wall clock and, in brackets, of all threads' processor
 * time; a growing figure from line to line would be worse than logarithmic. Compare within one run
 * only.
 */
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
#include "pool/pool.h"
#include "spa/spa.h"
#include "util/err.h"

static struct fs *fs;
static struct timespec start;
static struct rusage usage;

static void begin(void)
{
    clock_gettime(CLOCK_MONOTONIC, &start);
    getrusage(RUSAGE_SELF, &usage);
}

static double cpu(const struct rusage *r)
{
    return r->ru_utime.tv_sec + r->ru_stime.tv_sec +
           (r->ru_utime.tv_usec + r->ru_stime.tv_usec) / 1e6;
}

static void end(const char *what, unsigned n)
{
    struct timespec t;
    struct rusage u;
    clock_gettime(CLOCK_MONOTONIC, &t);
    getrusage(RUSAGE_SELF, &u);
    double wall = (t.tv_sec - start.tv_sec) + (t.tv_nsec - start.tv_nsec) / 1e9;
    printf(" %s %.2f (%.2f)", what, wall / n * 1e6, (cpu(&u) - cpu(&usage)) / n * 1e6);
    fflush(stdout);
}

static void must(int rc, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, err_text(rc));
    exit(1);
}

static const char *name_of(unsigned i)
{
    static char name[32];
    sprintf(name, "file-%08u", i);
    return name;
}

static void make(uint64_t dir, unsigned n)
{
    static const char data[4096] = "some text";
    struct fs_new new = {.mode = S_IFREG | 0644};
    struct fs_attr a;
    begin();
    for (unsigned i = 0; i < n; i++) {
        must(fs_create(fs, dir, name_of(i), &new, &a), "creating");
        fs_forget(fs, a.ino, 1);
    }
    end("create", n);
    begin();
    for (unsigned i = 0; i < n; i++) {
        must(fs_lookup(fs, dir, name_of(i), &a), "looking up");
        must(fs_write(fs, a.ino, 0, data, sizeof data, 0), "writing");
        fs_forget(fs, a.ino, 1);
    }
    end("write4k", n);
}

static void look(uint64_t dir, unsigned n)
{
    char data[4096];
    struct fs_attr a;
    begin();
    for (unsigned i = 0; i < n; i++) {
        must(fs_lookup(fs, dir, name_of((uint64_t)i * 7919 % n), &a), "looking up");
        fs_forget(fs, a.ino, 1);
    }
    end("lookup", n);
    must(fs_lookup(fs, dir, name_of(0), &a), "looking up");
    begin();
    for (unsigned i = 0; i < n; i++)
        must(fs_getattr(fs, a.ino, &a), "attributes");
    end("getattr", n);
    begin();
    for (unsigned i = 0; i < n; i++)
        must(fs_read(fs, a.ino, 0, data, sizeof data), "reading");
    end("read4k", n);
    fs_forget(fs, a.ino, 1);
}

static bool count(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                  uint64_t next, const struct fs_attr *attr)
{
    ++*(unsigned *)arg;
    return true;
}

static void list_and_remove(uint64_t dir, unsigned n)
{
    unsigned seen = 0;
    begin();
    must(fs_readdir(fs, dir, 0, false, count, &seen), "listing");
    end("list", n);
    if (seen != n + 2)
        fprintf(stderr, "%u entries instead of %u\n", seen, n + 2);
    begin();
    for (unsigned i = 0; i < n; i++)
        must(fs_unlink(fs, dir, name_of(i)), "removing");
    end("unlink", n);
}

static void one_size(unsigned n)
{
    char name[16];
    struct fs_new new = {.mode = S_IFDIR | 0755};
    struct fs_attr dir;
    sprintf(name, "d%u", n);
    must(fs_create(fs, FS_ROOT_INO, name, &new, &dir), "making a directory");
    printf("%7u:", n);
    make(dir.ino, n);
    look(dir.ino, n);
    list_and_remove(dir.ino, n);
    printf("\n");
}

int main(int argc, char **argv)
{
    unsigned most = argc > 1 ? atoi(argv[1]) : 10000;
    off_t size = (argc > 2 ? atoll(argv[2]) : 8192) << 20;
    static const struct fs_options options = {.xattr = FS_XATTR_SA, .acltype = FS_ACL_POSIX};
    char path[] = "/tmp/tarn-bench-XXXXXX";
    const char *paths[] = {path};
    struct spa_create_args args = {.name = "bench", .paths = paths, .npaths = 1};
    struct dataset *ds;
    struct spa *spa;
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, size) < 0)
        return 1;
    close(fd);
    if (argc > 3) {
        char limit[32];
        sprintf(limit, "%sM", argv[3]);
        setenv("TARN_CACHE_LIMIT", limit, 1);
    }
    dsl_register_format(fs_format);
    must(spa_create(&args, false, NULL, &spa), "making a pool");
    must(dataset_hold(spa_dsl(spa), "bench", &ds), "the file system");
    must(fs_open(&fs, ds, &options), "opening it");
    for (unsigned n = 1000; n <= most; n *= 10)
        one_size(n);
    fs_close(fs);
    dataset_rele(ds);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("most memory: %ld MB\n", u.ru_maxrss >> 10);
    must(spa_close(spa, SPA_END_EXPORT), "exporting");
    unlink(path);
    return 0;
}
