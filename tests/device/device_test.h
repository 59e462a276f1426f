/* Temporary files and running the same tests over both engines. */
#ifndef TESTS_DEVICE_DEVICE_TEST_H
#define TESTS_DEVICE_DEVICE_TEST_H

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/test.h"
#include "device/device.h"

/* A new empty directory in TMPDIR or /var/tmp (not /tmp, which may be in memory and then knows no
 * direct I/O worth testing). */
static inline void temp_dir(char out[PATH_MAX])
{
    const char *base = getenv("TMPDIR");
    snprintf(out, PATH_MAX, "%s/tarn-test-XXXXXX", base ? base : "/var/tmp");
    assert_non_null(mkdtemp(out));
}

static inline void remove_dir(const char *dir)
{
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static inline void make_file(const char *path, uint64_t size)
{
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    close(fd);
}

/* Counts requests that are in flight and keeps the first error. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned pending; /* under lock, as rc */
    int rc;
};

struct gated_io {
    struct device_io io;
    struct gate *gate;
};

static inline void gate_init(struct gate *g)
{
    *g = (struct gate){.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
}

static inline void gate_done(struct device_io *io, int rc)
{
    struct gate *g = ((struct gated_io *)io)->gate;
    pthread_mutex_lock(&g->lock);
    if (rc && !g->rc)
        g->rc = rc;
    if (--g->pending == 0)
        pthread_cond_broadcast(&g->cond);
    pthread_mutex_unlock(&g->lock);
}

static inline void gate_submit(struct gate *g, struct device *d, struct gated_io *io,
                               enum device_op op, uint64_t offset, void *data, size_t n)
{
    pthread_mutex_lock(&g->lock);
    g->pending++;
    pthread_mutex_unlock(&g->lock);
    io->io =
        (struct device_io){.op = op, .offset = offset, .size = n, .data = data, .done = gate_done};
    io->gate = g;
    device_submit(d, &io->io);
}

static inline int gate_wait(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (g->pending)
        pthread_cond_wait(&g->cond, &g->lock);
    int rc = g->rc;
    g->rc = 0;
    pthread_mutex_unlock(&g->lock);
    return rc;
}

#endif
