/*
 * fuse_bench DIR: what a mount costs per request, in figures that storage has little part in.
 * Several rounds. Compare with another file system in the same run, never absolutely.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 7
#define STATS  20000
#define FILES  3000
#define BIG    (256u << 20)
#define CHUNK  (1u << 20)

static const char *top;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "fuse_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Prints the median and the best of fn's results over the rounds. */
static void measure(const char *what, const char *unit, bool more_is_better, double (*fn)(int arg),
                    int arg)
{
    double v[ROUNDS];

    for (int i = 0; i < ROUNDS; i++)
        v[i] = fn(arg);
    qsort(v, ROUNDS, sizeof v[0], by_value);
    printf("%-28s%10.2f%10.2f  %s\n", what, v[ROUNDS / 2], v[more_is_better ? ROUNDS - 1 : 0],
           unit);
    fflush(stdout);
}

/* One request that nothing can answer from a cache. */
static double one_request(int arg)
{
    struct statx st;
    double t = now();

    for (int i = 0; i < STATS; i++) {
        if (statx(AT_FDCWD, top, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &st))
            die("statx");
    }
    return (now() - t) / STATS * 1e6;
}

static void file_name(char *buf, size_t cap, int client, int i)
{
    snprintf(buf, cap, "%s/c%d/f%d", top, client, i);
}

static void *make_files(void *arg)
{
    static const char data[4096] = "x";
    int client = (int)(intptr_t)arg;
    char name[4200];

    for (int i = 0; i < FILES; i++) {
        int fd;

        file_name(name, sizeof name, client, i);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (fd < 0 || write(fd, data, sizeof data) != sizeof data || close(fd))
            die(name);
    }
    return NULL;
}

static void *remove_files(void *arg)
{
    char name[4200];

    for (int i = 0; i < FILES; i++) {
        file_name(name, sizeof name, (int)(intptr_t)arg, i);
        if (unlink(name))
            die(name);
    }
    return NULL;
}

static double in_parallel(int clients, void *(*fn)(void *))
{
    pthread_t id[64];
    double t = now();

    for (int c = 0; c < clients; c++)
        pthread_create(&id[c], NULL, fn, (void *)(intptr_t)c);
    for (int c = 0; c < clients; c++)
        pthread_join(id[c], NULL);
    return now() - t;
}

static void dirs(int clients, int make)
{
    char name[4200];

    for (int c = 0; c < clients; c++) {
        snprintf(name, sizeof name, "%s/c%d", top, c);
        if (make ? mkdir(name, 0755) : rmdir(name))
            die(name);
    }
}

static double remove_seconds;

static double create_files(int clients)
{
    double t;

    dirs(clients, 1);
    t = in_parallel(clients, make_files);
    remove_seconds = in_parallel(clients, remove_files);
    dirs(clients, 0);
    return t;
}

static double create_one(int clients)
{
    return create_files(clients) / FILES * 1e6;
}

static double create_rate(int clients)
{
    return clients * FILES / create_files(clients);
}

static double remove_one(int clients)
{
    create_files(clients);
    return remove_seconds / FILES * 1e6;
}

static char *chunk;

static double write_big(int arg)
{
    char name[4200];
    double t = now();
    int fd;

    snprintf(name, sizeof name, "%s/big", top);
    fd = open(name, O_WRONLY | O_CREAT, 0644);
    for (unsigned done = 0; done < BIG; done += CHUNK) {
        if (write(fd, chunk, CHUNK) != CHUNK)
            die(name);
    }
    close(fd);
    return BIG / (now() - t) * 1e-9;
}

static double read_big(int cached)
{
    char name[4200];
    double t;
    int fd;

    snprintf(name, sizeof name, "%s/big", top);
    fd = open(name, O_RDONLY);
    if (!cached)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    t = now();
    while (read(fd, chunk, CHUNK) > 0)
        ;
    t = now() - t;
    close(fd);
    return BIG / t * 1e-9;
}

int main(int argc, char **argv)
{
    char name[4200];

    if (argc != 2) {
        fprintf(stderr, "usage: fuse_bench DIR\n");
        return 2;
    }
    top = argv[1];
    chunk = malloc(CHUNK);
    if (!chunk)
        return 1;
    memset(chunk, 'x', CHUNK);
    printf("%-28s%10s%10s\n", "", "median", "best");
    measure("one request", "us", false, one_request, 0);
    measure("create + 4K write + close", "us", false, create_one, 1);
    measure("files, 1 client", "1/s", true, create_rate, 1);
    measure("files, 2 clients", "1/s", true, create_rate, 2);
    measure("unlink", "us", false, remove_one, 1);
    write_big(0);
    measure("write, 1 MiB calls", "GB/s", true, write_big, 0);
    measure("read, 1 MiB calls", "GB/s", true, read_big, 0);
    measure("read again", "GB/s", true, read_big, 1);
    snprintf(name, sizeof name, "%s/big", top);
    unlink(name);
    free(chunk);
    return 0;
}
