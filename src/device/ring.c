/*
 * The io_uring engine: one thread per device owns the ring, submits what is in the queue and
 * finishes what has completed. Other threads never touch the ring; they put requests into the queue
 * and write to an eventfd, of which a read is always pending in the ring, if the thread may be
 * asleep in the kernel.
 *
 * The ring belongs to one thread because requests belong to the thread that submits them: they are
 * cancelled when it exits, and their completion waits for it when it blocks elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "device/queue_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/threads.h"

enum {
    DEPTH = 128,    /* requests of one device in the kernel */
    ONCE = 1 << 30, /* most bytes of one submission: its length is 32 bits */
    EVENT = DEPTH   /* user data of the eventfd's read */
};

struct slot {
    struct device_io *io;
    size_t moved;      /* bytes of a read or write that is done in several steps */
    struct slot *next; /* free list */
    struct iovec iov[DEVICE_IOV_MAX];
};

struct ring {
    struct io_uring uring;
    int event;
    uint64_t event_value;
    bool event_armed;
    _Atomic bool asleep; /* the thread will not look at the queue again by itself */
    pthread_t thread;

    /* For the start: the ring is made in its own thread. */
    pthread_mutex_t lock;
    pthread_cond_t started;
    int rc; /* 1 until known; under lock */

    struct slot *free;
    unsigned busy; /* slots in use */
    struct slot slots[DEPTH];
};

static bool ops_known(struct io_uring *u)
{
    static const int ops[] = {IORING_OP_READ,   IORING_OP_WRITE, IORING_OP_READV,
                              IORING_OP_WRITEV, IORING_OP_FSYNC, IORING_OP_FALLOCATE};
    struct io_uring_probe *probe = io_uring_get_probe_ring(u);
    bool ok = probe != NULL;
    for (size_t i = 0; ok && i < ARRAY_LEN(ops); i++)
        ok = io_uring_opcode_supported(probe, ops[i]);
    if (probe)
        io_uring_free_probe(probe);
    return ok;
}

static int ring_setup(struct ring *r)
{
    int rc = io_uring_queue_init(2 * DEPTH, &r->uring,
                                 IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    if (rc == -EINVAL) /* before Linux 6.1 */
        rc = io_uring_queue_init(2 * DEPTH, &r->uring, 0);
    if (rc == 0 && !ops_known(&r->uring)) {
        io_uring_queue_exit(&r->uring);
        rc = -EOPNOTSUPP;
    }
    return rc;
}

static void prepare_vector(struct io_uring_sqe *e, struct queue *q, struct slot *s)
{
    const struct device_io *io = s->io;
    unsigned n = iov_rest(io, s->moved, s->iov);
    if (io->op == DEVICE_READ)
        io_uring_prep_readv(e, q->fd, s->iov, n, io->offset + s->moved);
    else
        io_uring_prep_writev(e, q->fd, s->iov, n, io->offset + s->moved);
}

static void prepare(struct ring *r, struct queue *q, struct slot *s, unsigned flags)
{
    struct io_uring_sqe *e = io_uring_get_sqe(&r->uring);
    struct device_io *io = s->io;
    uint64_t offset = io->offset + s->moved;
    unsigned n = (unsigned)MIN(io->size - s->moved, (size_t)ONCE);
    if (io->iov) {
        prepare_vector(e, q, s);
        io_uring_sqe_set_flags(e, flags);
        io_uring_sqe_set_data64(e, (uint64_t)(s - r->slots));
        return;
    }
    switch (io->op) {
    case DEVICE_READ:
        io_uring_prep_read(e, q->fd, (char *)io->data + s->moved, n, offset);
        break;
    case DEVICE_WRITE:
        io_uring_prep_write(e, q->fd, (char *)io->data + s->moved, n, offset);
        break;
    case DEVICE_FLUSH:
        io_uring_prep_fsync(e, q->fd, IORING_FSYNC_DATASYNC);
        break;
    case DEVICE_DISCARD:
        io_uring_prep_fallocate(e, q->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, io->offset,
                                io->size);
        break;
    }
    io_uring_sqe_set_flags(e, flags);
    io_uring_sqe_set_data64(e, (uint64_t)(s - r->slots));
}

static void release(struct ring *r, struct slot *s)
{
    s->next = r->free;
    r->free = s;
    r->busy--;
}

/* Takes a completion in. Requests that are not finished go back to the kernel. */
static void complete(struct ring *r, struct queue *q, struct slot *s, int res)
{
    struct device_io *io = s->io;
    bool transfer = io->op == DEVICE_READ || io->op == DEVICE_WRITE;
    if (res == -EINTR || res == -EAGAIN || res == -ECANCELED) {
        prepare(r, q, s, IOSQE_ASYNC);
        return;
    }
    if (transfer && res > 0) {
        s->moved += (size_t)res;
        if (s->moved < io->size) {
            prepare(r, q, s, 0);
            return;
        }
        res = 0;
    } else if (transfer && res == 0) {
        res = -EIO; /* end of file */
    }
    release(r, s);
    queue_finish(q, io, res > 0 ? 0 : res);
}

static void arm_event(struct ring *r)
{
    if (r->event_armed)
        return;
    struct io_uring_sqe *e = io_uring_get_sqe(&r->uring);
    io_uring_prep_read(e, r->event, &r->event_value, sizeof r->event_value, 0);
    io_uring_sqe_set_data64(e, EVENT);
    r->event_armed = true;
}

/* Moves requests from the queue into the ring; false when the thread is to end. */
static bool fill(struct ring *r, struct queue *q)
{
    MUTEX_GUARD(&q->lock);
    while (r->free) {
        struct device_io *io = queue_take(q);
        if (!io)
            break;
        struct slot *s = r->free;
        r->free = s->next;
        r->busy++;
        s->io = io;
        s->moved = 0;
        /* The ring has room: twice as many entries as slots, and each slot has at most one. */
        prepare(r, q, s, 0);
    }
    atomic_store(&r->asleep, true);
    return !q->stop || r->busy;
}

static void reap(struct ring *r, struct queue *q)
{
    enum { BATCH = 32 };
    struct io_uring_cqe *cqes[BATCH];
    unsigned n;
    while ((n = io_uring_peek_batch_cqe(&r->uring, cqes, BATCH)) > 0) {
        for (unsigned i = 0; i < n; i++) {
            uint64_t data = io_uring_cqe_get_data64(cqes[i]);
            if (data == EVENT)
                r->event_armed = false;
            else
                complete(r, q, &r->slots[data], cqes[i]->res);
        }
        io_uring_cq_advance(&r->uring, n);
    }
}

static void *ring_main(void *arg)
{
    struct queue *q = arg;
    struct ring *r = q->state;
    int rc = ring_setup(r);
    pthread_mutex_lock(&r->lock);
    r->rc = rc;
    pthread_cond_signal(&r->started);
    pthread_mutex_unlock(&r->lock);
    if (rc)
        return NULL;
    while (fill(r, q)) {
        arm_event(r);
        io_uring_submit_and_wait(&r->uring, 1);
        atomic_store(&r->asleep, false);
        reap(r, q);
    }
    io_uring_queue_exit(&r->uring);
    return NULL;
}

static void ring_free(struct queue *q)
{
    struct ring *r = q->state;
    close(r->event);
    pthread_cond_destroy(&r->started);
    pthread_mutex_destroy(&r->lock);
    free(r);
    q->state = NULL;
}

static int ring_start(struct queue *q)
{
    struct ring *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    r->event = eventfd(0, EFD_CLOEXEC);
    if (r->event < 0) {
        int rc = -errno;
        free(r);
        return rc;
    }
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->started, NULL);
    r->rc = 1;
    for (size_t i = 0; i < DEPTH; i++) {
        r->slots[i].next = r->free;
        r->free = &r->slots[i];
    }
    q->state = r;
    int rc = thread_start(&r->thread, "tarn-ring", ring_main, q);
    if (rc == 0) {
        pthread_mutex_lock(&r->lock);
        while (r->rc == 1)
            pthread_cond_wait(&r->started, &r->lock);
        rc = r->rc;
        pthread_mutex_unlock(&r->lock);
        if (rc)
            pthread_join(r->thread, NULL);
    }
    if (rc)
        ring_free(q);
    return rc;
}

static void ring_wake(struct queue *q)
{
    struct ring *r = q->state;
    uint64_t one = 1;
    if (atomic_exchange(&r->asleep, false)) {
        /* Cannot fail: the counter is far from its limit. */
        ssize_t n = write(r->event, &one, sizeof one);
        (void)n;
    }
}

static void ring_join(struct queue *q)
{
    struct ring *r = q->state;
    pthread_join(r->thread, NULL);
    ring_free(q);
}

const struct engine engine_ring = {
    .name = "ring",
    .start = ring_start,
    .wake = ring_wake,
    .join = ring_join,
};
