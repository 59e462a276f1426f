/*
 * A leaf's queues of writes and of asynchronous reads (read-ahead, and the columns of redundant
 * vdevs). A few go to the device at a time; what comes meanwhile waits here, and when a place
 * becomes free, waiting requests that continue each other leave as one. So a slow device gets few
 * large requests though blocks are small, and a fast one gets each at once. It also keeps the
 * device's own queue short, so that a read somebody waits for does not wait behind a whole txg.
 *
 * Joined requests are vectors where the device takes them and the memory is aligned; else small
 * writes are copied together.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"
#include "util/cleanup.h"
#include "util/hashmap.h"
#include "vdev/leaf_impl.h"

#define DEPTH_WRITE 10 /* requests at the device */
#define DEPTH_READ  10
#define VECTOR_MAX  ((size_t)1 << 20)   /* bytes of a joined request */
#define COPY_MAX    ((size_t)256 << 10) /* of one that is copied together, */
#define COPY_PART   ((size_t)64 << 10)  /* and of its parts: larger ones gain nothing */
#define LOOK_MAX    128                 /* waiting requests to look at for ones that continue */

struct line {
    unsigned depth, running;
    struct vdev_io *head, **tail; /* waiting, oldest first */
};

struct leaf_queue {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t idle;  /* nothing is running */
    struct line lines[2]; /* reads, writes */
    bool vectors;
    struct leaf_ahead *ahead;
};

/* Several requests as one. */
struct joined {
    struct device_io device_io;
    struct vdev *leaf;
    struct vdev_io *parts;
    bool write;
    struct buf *data; /* NULL: a vector */
    struct iovec iov[DEVICE_IOV_MAX];
};

/* What take_run() found. */
struct run {
    struct vdev_io *first, *last;
    unsigned count;
    size_t size;
    bool vector;
};

static void send_next(struct vdev *leaf, bool write);

int leaf_queue_new(struct vdev *leaf)
{
    struct leaf_queue *q = calloc(1, sizeof *q);
    struct device_info info;

    if (!q)
        return -ENOMEM;
    q->ahead = leaf_ahead_new();
    if (!q->ahead) {
        free(q);
        return -ENOMEM;
    }
    device_info(leaf->device, &info);
    q->vectors = info.vectors;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->idle, NULL);
    for (int i = 0; i < 2; i++) {
        q->lines[i].depth = i ? DEPTH_WRITE : DEPTH_READ;
        q->lines[i].tail = &q->lines[i].head;
    }
    leaf->private = q;
    return 0;
}

void leaf_queue_free(struct vdev *leaf)
{
    struct leaf_queue *q = leaf->private;

    if (!q)
        return;
    leaf_ahead_free(q->ahead);
    pthread_cond_destroy(&q->idle);
    pthread_mutex_destroy(&q->lock);
    free(q);
    leaf->private = NULL;
}

static void single_done(struct device_io *dio, int rc)
{
    struct vdev_io *io = container_of(dio, struct vdev_io, device_io);
    struct vdev *leaf = io->leaf;
    bool write = io->write;

    leaf_finish(io, rc); /* it is its owner's again */
    send_next(leaf, write);
}

static void send_single(struct vdev *leaf, struct vdev_io *io)
{
    io->device_io = (struct device_io){
        .op = io->write ? DEVICE_WRITE : DEVICE_READ,
        .offset = io->offset + VDEV_LABEL_START,
        .size = io->size,
        .data = io->data,
        .done = single_done,
    };
    device_submit(leaf->device, &io->device_io);
}

static void joined_done(struct device_io *dio, int rc)
{
    struct joined *j = container_of(dio, struct joined, device_io);
    struct vdev *leaf = j->leaf;
    bool write = j->write;

    for (struct vdev_io *io = j->parts, *next; io; io = next) {
        next = io->next;
        leaf_finish(io, rc);
    }
    buf_unref(j->data);
    free(j);
    send_next(leaf, write);
}

static bool aligned(const struct vdev_io *io)
{
    return (((uintptr_t)io->data | io->size | io->offset) & (BUF_ALIGN - 1)) == 0;
}

/* May this one go with the others? */
static bool fits(const struct run *r, const struct vdev_io *io)
{
    if (r->first->retried || io->retried)
        return false; /* one bad sector must not take its neighbours along */
    if (r->vector)
        return aligned(io) && r->size + io->size <= VECTOR_MAX && r->count < DEVICE_IOV_MAX;
    return io->write && io->size <= COPY_PART && r->first->size <= COPY_PART &&
           r->size + io->size <= COPY_MAX;
}

/* Takes *at out of the line and puts it at its end of the run. */
static void take_one(struct line *l, struct vdev_io **at, struct run *r, bool behind)
{
    struct vdev_io *io = *at;

    *at = io->next;
    if (!*at)
        l->tail = at;
    io->next = behind ? NULL : r->first;
    if (behind)
        r->last = r->last->next = io;
    else
        r->first = io;
    r->count++;
    r->size += io->size;
}

static bool near(const struct run *r, const struct vdev_io *io)
{
    return io->offset < r->last->offset + VECTOR_MAX && r->first->offset < io->offset + VECTOR_MAX;
}

/* Takes the oldest out of the line, and those that lie next to it. Workers finish neighbours in any
 * order, so the search goes back to what was only near. With the lock held. */
static void take_run(const struct leaf_queue *q, struct line *l, struct run *r)
{
    struct vdev_io **at = &l->head, **passed = NULL, *io = l->head;

    *r = (struct run){io, io, 1, io->size, q->vectors && aligned(io)};
    l->head = io->next;
    if (!l->head)
        l->tail = &l->head;
    io->next = NULL;
    for (unsigned i = 0; (io = *at) != NULL && i < LOOK_MAX; i++) {
        bool behind = io->offset == r->last->offset + r->last->size;
        if ((behind || io->offset + io->size == r->first->offset) && fits(r, io)) {
            take_one(l, at, r, behind);
            at = passed ? passed : at;
            passed = NULL;
        } else {
            passed = passed || !near(r, io) ? passed : at;
            at = &io->next;
        }
    }
}

/* Puts all but the first back, in front, when there is no memory to send them together. */
static void untake_run(struct leaf_queue *q, struct line *l, struct run *r)
{
    if (!r->first->next)
        return;
    MUTEX_GUARD(&q->lock);
    r->last->next = l->head;
    if (!l->head)
        l->tail = &r->last->next;
    l->head = r->first->next;
    r->first->next = NULL;
}

/* The memory of a run in j: its pieces, or a copy. */
static bool gather(struct joined *j, const struct run *r)
{
    unsigned n = 0;
    size_t at = 0;

    if (!r->vector && !(j->data = buf_new(r->size)))
        return false;
    for (struct vdev_io *io = r->first; io; io = io->next) {
        if (r->vector)
            j->iov[n++] = (struct iovec){io->data, io->size};
        else
            memcpy(j->data->data + at, io->data, io->size);
        at += io->size;
    }
    return true;
}

static bool send_joined(struct vdev *leaf, const struct run *r)
{
    struct joined *j = malloc(sizeof *j);

    if (!j)
        return false;
    j->leaf = leaf;
    j->parts = r->first;
    j->write = r->first->write;
    j->data = NULL;
    if (!gather(j, r)) {
        free(j);
        return false;
    }
    j->device_io = (struct device_io){
        .op = j->write ? DEVICE_WRITE : DEVICE_READ,
        .offset = r->first->offset + VDEV_LABEL_START,
        .size = r->size,
        .data = j->data ? j->data->data : NULL,
        .iov = j->data ? NULL : j->iov,
        .iovcnt = j->data ? 0 : r->count,
        .done = joined_done,
    };
    device_submit(leaf->device, &j->device_io);
    return true;
}

/* A request has finished: the next one takes its place. */
static void send_next(struct vdev *leaf, bool write)
{
    struct leaf_queue *q = leaf->private;
    struct line *l = &q->lines[write];
    struct run r = {0};

    pthread_mutex_lock(&q->lock);
    if (l->head)
        take_run(q, l, &r);
    else if (--l->running == 0)
        pthread_cond_signal(&q->idle);
    pthread_mutex_unlock(&q->lock);
    if (!r.first || (r.count > 1 && send_joined(leaf, &r)))
        return;
    untake_run(q, l, &r);
    send_single(leaf, r.first);
}

void leaf_queue_drain(struct vdev *leaf)
{
    struct leaf_queue *q = leaf->device ? leaf->private : NULL;

    if (!q)
        return;
    MUTEX_GUARD(&q->lock);
    while (q->lines[0].running || q->lines[1].running)
        pthread_cond_wait(&q->idle, &q->lock);
}

struct leaf_ahead *leaf_queue_ahead(struct vdev *leaf)
{
    struct leaf_queue *q = leaf->private;

    return q->ahead;
}

void leaf_queue_submit(struct vdev *leaf, struct vdev_io *io)
{
    struct leaf_queue *q = leaf->private;
    struct line *l = &q->lines[io->write];
    bool wait;

    if (io->write)
        leaf_ahead_forget(q->ahead, io->offset, io->size);
    pthread_mutex_lock(&q->lock);
    wait = l->running >= l->depth;
    if (wait) {
        io->next = NULL;
        *l->tail = io;
        l->tail = &io->next;
    } else {
        l->running++;
    }
    pthread_mutex_unlock(&q->lock);
    if (!wait)
        send_single(leaf, io);
}
