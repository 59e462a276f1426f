/*
 * The asynchronous requests of one open file or block device: a first-in first-out list, and an
 * engine (io_uring or threads) that takes requests from it and finishes them. The engine starts
 * with the first request, so that a device that is only read synchronously costs no thread.
 *
 * Direct mode. A descriptor either has O_DIRECT set, and then no request of ours uses the page
 * cache, or it has not, and then all of them do. Mixing the two would be wrong with sectors smaller
 * than a page: a buffered write of 512 bytes makes a whole page dirty, and its write-back undoes
 * what a direct write has put next to it meanwhile. The first request that O_DIRECT cannot serve
 * makes the queue leave direct mode for good: no request starts until the running writes have
 * finished, then O_DIRECT is cleared with fcntl and everything goes on.
 */
#ifndef DEVICE_QUEUE_IMPL_H
#define DEVICE_QUEUE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "device/device.h"

struct queue;

struct engine {
    const char *name;
    int (*start)(struct queue *q); /* sets q->state; 0 or a negative errno */
    void (*wake)(struct queue *q); /* requests are waiting, or q->stop; called with the lock held */
    void (*join)(struct queue *q); /* after q->stop: ends the threads, frees q->state */
};

extern const struct engine engine_ring, engine_threads;

struct queue {
    int fd;
    bool block;                /* a block device: discard is an ioctl */
    const struct engine *only; /* the engine to use, NULL: the best that starts */

    _Atomic bool direct; /* O_DIRECT is set; changes only once, under the lock */

    pthread_mutex_t lock;           /* guards what follows; never held across a device wait */
    pthread_cond_t changed;         /* running, writes, leaving or stop has changed */
    struct device_io *head, **tail; /* waiting */
    unsigned running;               /* taken by the engine and not finished */
    unsigned writes;                /* running writes, those of queue_write_begin included */
    bool leaving;                   /* direct mode is to end: nothing starts until writes is 0 */
    bool stop;
    const struct engine *engine; /* NULL before the first request */
    void *state;                 /* of the engine */
};

int queue_init(struct queue *q, int fd, bool block); /* 0 or -ENOMEM */
void queue_destroy(struct queue *q);                 /* waits for all requests */

/* Gives io to the engine; with leave, after direct mode has ended. */
void queue_submit(struct queue *q, struct device_io *io, bool leave);

/* Around a write in the calling thread; with leave, direct mode has ended when begin returns. */
void queue_write_begin(struct queue *q, bool leave);
void queue_write_end(struct queue *q);

/* For engines. take: the next request that may start, NULL if there is none; with the lock held.
 * finish: calls done; without the lock. perform: does the request in the calling thread. */
struct device_io *queue_take(struct queue *q);
void queue_finish(struct queue *q, struct device_io *io, int rc);
int queue_perform(struct queue *q, const struct device_io *io);

/* The pieces of a vectored request from byte moved on; how many. */
unsigned iov_rest(const struct device_io *io, size_t moved, struct iovec out[DEVICE_IOV_MAX]);

/* Complete transfers in the calling thread; -EIO at the end of the file. */
int fd_read(int fd, uint64_t offset, void *data, size_t n);
int fd_write(int fd, uint64_t offset, const void *data, size_t n);

#endif
