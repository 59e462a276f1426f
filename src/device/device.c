#include "device/device.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device_impl.h"
#include "util/cleanup.h"

void device_close(struct device *d)
{
    if (d)
        d->driver->close(d);
}

void device_info(struct device *d, struct device_info *out)
{
    d->driver->info(d, out);
}

int device_read(struct device *d, uint64_t offset, void *data, size_t n)
{
    return n ? d->driver->read(d, offset, data, n) : 0;
}

int device_write(struct device *d, uint64_t offset, const void *data, size_t n)
{
    return n ? d->driver->write(d, offset, data, n) : 0;
}

void device_submit(struct device *d, struct device_io *io)
{
    d->driver->submit(d, io);
}

struct waiter {
    struct device_io io;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool finished; /* under lock, as rc */
    int rc;
};

static void waiter_done(struct device_io *io, int rc)
{
    struct waiter *w = (struct waiter *)io;
    pthread_mutex_lock(&w->lock);
    w->rc = rc;
    w->finished = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

int device_wait(struct device *d, enum device_op op, uint64_t offset, void *data, size_t n)
{
    struct waiter w = {
        .io = {.op = op, .offset = offset, .size = n, .data = data, .done = waiter_done},
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .cond = PTHREAD_COND_INITIALIZER,
    };
    device_submit(d, &w.io);
    pthread_mutex_lock(&w.lock);
    while (!w.finished)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_cond_destroy(&w.cond);
    pthread_mutex_destroy(&w.lock);
    return w.rc;
}

int device_flush(struct device *d)
{
    return device_wait(d, DEVICE_FLUSH, 0, NULL, 0);
}

int device_discard(struct device *d, uint64_t offset, uint64_t n)
{
    return n ? device_wait(d, DEVICE_DISCARD, offset, NULL, n) : 0;
}

char *device_absolute_path(const char *path)
{
    char *cwd CLEANUP_FREE = NULL;
    char *whole = NULL;
    if (path[0] == '/')
        return strdup(path);
    cwd = getcwd(NULL, 0);
    if (!cwd)
        return errno == ENOMEM ? NULL : strdup(path);
    return asprintf(&whole, "%s/%s", strcmp(cwd, "/") ? cwd : "", path) < 0 ? NULL : whole;
}

struct child {
    struct device_io io;
    struct device_io *parent;
};

static void child_done(struct device_io *io, int rc)
{
    struct device_io *parent = ((struct child *)io)->parent;
    free(io);
    parent->done(parent, rc);
}

struct device_io *device_child_io(struct device_io *parent)
{
    struct child *c = malloc(sizeof *c);
    if (!c)
        return NULL;
    c->io = (struct device_io){.op = parent->op,
                               .offset = parent->offset,
                               .size = parent->size,
                               .data = parent->data,
                               .done = child_done};
    c->parent = parent;
    return &c->io;
}
