#include "device/queue_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/bytes.h"
#include "util/log.h"

int queue_init(struct queue *q, int fd, bool block)
{
    *q = (struct queue){.fd = fd, .block = block};
    q->tail = &q->head;
    atomic_init(&q->direct, false);
    /* For tests and for whoever must do without io_uring: TARN_DEVICE_ENGINE=threads. */
    const char *wish = getenv("TARN_DEVICE_ENGINE");
    if (wish && strcmp(wish, engine_threads.name) == 0)
        q->only = &engine_threads;
    else if (wish && strcmp(wish, engine_ring.name) == 0)
        q->only = &engine_ring;
    int rc = pthread_mutex_init(&q->lock, NULL);
    if (rc == 0) {
        rc = pthread_cond_init(&q->changed, NULL);
        if (rc)
            pthread_mutex_destroy(&q->lock);
    }
    return rc ? -ENOMEM : 0;
}

void queue_destroy(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (q->head || q->running || q->writes)
        pthread_cond_wait(&q->changed, &q->lock);
    q->stop = true;
    if (q->engine)
        q->engine->wake(q);
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    if (q->engine)
        q->engine->join(q);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
}

/* With the lock held. */
static int start_engine(struct queue *q)
{
    const struct engine *order[] = {&engine_ring, &engine_threads};
    int rc = 0;
    for (int i = 0; i < 2 && !q->engine; i++) {
        if (q->only && q->only != order[i])
            continue;
        rc = order[i]->start(q);
        if (rc == 0)
            q->engine = order[i];
        else if (order[i] == &engine_ring && !q->only)
            log_debug("io_uring is not available (%s): device requests use threads", strerror(-rc));
    }
    return q->engine ? 0 : rc;
}

/* With the lock held: ends direct mode if that is wanted and possible now. */
static void try_leave(struct queue *q)
{
    if (!q->leaving || q->writes)
        return;
    int flags = fcntl(q->fd, F_GETFL);
    if (flags >= 0)
        fcntl(q->fd, F_SETFL, flags & ~O_DIRECT);
    atomic_store(&q->direct, false);
    q->leaving = false;
    pthread_cond_broadcast(&q->changed);
    if (q->head && q->engine)
        q->engine->wake(q);
}

static void want_leave(struct queue *q)
{
    if (atomic_load(&q->direct)) {
        q->leaving = true;
        try_leave(q);
    }
}

void queue_submit(struct queue *q, struct device_io *io, bool leave)
{
    io->next = NULL;
    pthread_mutex_lock(&q->lock);
    int rc = q->engine ? 0 : start_engine(q);
    if (rc == 0) {
        *q->tail = io;
        q->tail = &io->next;
        if (leave)
            want_leave(q);
        q->engine->wake(q);
    }
    pthread_mutex_unlock(&q->lock);
    if (rc)
        io->done(io, rc);
}

struct device_io *queue_take(struct queue *q)
{
    struct device_io *io = q->leaving ? NULL : q->head;
    if (!io)
        return NULL;
    q->head = io->next;
    if (!q->head)
        q->tail = &q->head;
    io->next = NULL;
    q->running++;
    q->writes += io->op == DEVICE_WRITE;
    return io;
}

void queue_finish(struct queue *q, struct device_io *io, int rc)
{
    bool write = io->op == DEVICE_WRITE;
    bool refused = rc == -EINVAL && (write || io->op == DEVICE_READ) && atomic_load(&q->direct);
    /* After done the request is the caller's again. It still counts as running, so that the
     * device cannot be closed under it. */
    if (!refused)
        io->done(io, rc);
    pthread_mutex_lock(&q->lock);
    q->running--;
    q->writes -= write;
    if (refused) { /* the file system wants a stricter alignment than it says */
        io->next = q->head;
        if (!q->head)
            q->tail = &io->next;
        q->head = io;
        want_leave(q);
        q->engine->wake(q);
    }
    try_leave(q);
    if (!q->running && !q->head)
        pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void queue_write_begin(struct queue *q, bool leave)
{
    pthread_mutex_lock(&q->lock);
    if (leave)
        want_leave(q);
    while (q->leaving)
        pthread_cond_wait(&q->changed, &q->lock);
    q->writes++;
    pthread_mutex_unlock(&q->lock);
}

void queue_write_end(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->writes--;
    try_leave(q);
    if (!q->writes)
        pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

int fd_read(int fd, uint64_t offset, void *data, size_t n)
{
    unsigned char *p = data;
    while (n) {
        ssize_t got = pread(fd, p, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got ? -errno : -EIO;
        p += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return 0;
}

int fd_write(int fd, uint64_t offset, const void *data, size_t n)
{
    const unsigned char *p = data;
    while (n) {
        ssize_t put = pwrite(fd, p, n, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put ? -errno : -EIO;
        p += put;
        offset += (uint64_t)put;
        n -= (size_t)put;
    }
    return 0;
}

unsigned iov_rest(const struct device_io *io, size_t moved, struct iovec out[DEVICE_IOV_MAX])
{
    unsigned n = 0;
    for (unsigned i = 0; i < io->iovcnt; i++) {
        size_t skip = MIN(moved, io->iov[i].iov_len);
        moved -= skip;
        if (skip < io->iov[i].iov_len)
            out[n++] =
                (struct iovec){(char *)io->iov[i].iov_base + skip, io->iov[i].iov_len - skip};
    }
    return n;
}

static int perform_vector(struct queue *q, const struct device_io *io)
{
    uint64_t offset = io->offset;
    int rc = 0;
    for (unsigned i = 0; i < io->iovcnt && rc == 0; i++) {
        const struct iovec *v = &io->iov[i];
        rc = io->op == DEVICE_READ ? fd_read(q->fd, offset, v->iov_base, v->iov_len)
                                   : fd_write(q->fd, offset, v->iov_base, v->iov_len);
        offset += v->iov_len;
    }
    return rc;
}

static int discard(struct queue *q, uint64_t offset, uint64_t n)
{
    int rc;
    if (q->block) {
        uint64_t range[2] = {offset, n};
        rc = ioctl(q->fd, BLKDISCARD, range);
    } else {
        do
            rc = fallocate(q->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                           (off_t)n);
        while (rc && errno == EINTR);
    }
    return rc ? -errno : 0;
}

int queue_perform(struct queue *q, const struct device_io *io)
{
    if (io->iov)
        return perform_vector(q, io);
    switch (io->op) {
    case DEVICE_READ:
        return fd_read(q->fd, io->offset, io->data, io->size);
    case DEVICE_WRITE:
        return fd_write(q->fd, io->offset, io->data, io->size);
    case DEVICE_FLUSH:
        return fdatasync(q->fd) ? -errno : 0;
    case DEVICE_DISCARD:
        return discard(q, io->offset, io->size);
    }
    return -EINVAL;
}
