/* The leader's work: entries are registered, handled, committed. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuse/ring_impl.h"
#include "util/bytes.h"
#include "util/log.h"
#include "util/threads.h"

/*
 * Entries per mount and queue. The kernel takes the one that was committed last, so most of them
 * cost address space only; they are for requests that come while handlers are slow. A request for
 * which there was no entry waits for the next commit, a new entry doesn't help it: so there must
 * always be some to spare.
 */
#define DEPTH_MAX   128
#define DEPTH_SPARE 8
#define DEPTH_ALL   512 /* entries of a mount in all queues, to begin with */

static _Thread_local struct fuse_ring_thread *ring_self;

static struct io_uring_sqe *get_sqe(struct fuse_ring *r)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->uring);

    while (!sqe) { /* the queue is full */
        io_uring_submit(&r->uring);
        sqe = io_uring_get_sqe(&r->uring);
    }
    return sqe;
}

static void prep_command(struct fuse_ring *r, struct fuse_ring_entry *e, uint32_t op,
                         uint64_t commit_id)
{
    struct io_uring_sqe *sqe = get_sqe(r);
    struct fuse_uring_cmd_req req = {.commit_id = commit_id, .qid = e->q->qid};

    memset(sqe, 0, 2 * sizeof *sqe);
    sqe->opcode = IORING_OP_URING_CMD;
    sqe->fd = e->q->m->fd;
    sqe->cmd_op = op;
    sqe->user_data = (uint64_t)(uintptr_t)e;
    if (op == FUSE_IO_URING_CMD_REGISTER) {
        sqe->addr = (uint64_t)(uintptr_t)e->iov;
        sqe->len = 2;
    }
    memcpy(sqe->cmd, &req, sizeof req);
}

static void arm_event(struct fuse_ring *r)
{
    struct io_uring_sqe *sqe = get_sqe(r);

    memset(sqe, 0, 2 * sizeof *sqe);
    io_uring_prep_read(sqe, r->event_fd, &r->event, sizeof r->event, 0);
    sqe->user_data = 0;
}

static void poke(struct fuse_ring *r)
{
    uint64_t one = 1;

    if (write(r->event_fd, &one, sizeof one) < 0)
        log_error("cannot wake a FUSE ring: %m");
}

static void entry_free(struct fuse_ring_entry *e)
{
    *e->all_link = e->all_next;
    if (e->all_next)
        e->all_next->all_link = e->all_link;
    if (--e->q->entries == 0)
        free(e->q);
    munmap(e->payload, e->iov[1].iov_len);
    free(e);
}

/* Gives the kernel one more entry. */
static int entry_add(struct fuse_ring *r, struct fuse_ring_queue *q)
{
    struct fuse_ring_entry *e = calloc(1, sizeof *e);
    size_t size = q->m->conn.ring_payload;

    if (!e)
        return -ENOMEM;
    e->payload = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (e->payload == MAP_FAILED) {
        free(e);
        return -ENOMEM;
    }
    e->iov[0] = (struct iovec){&e->head, sizeof e->head};
    e->iov[1] = (struct iovec){e->payload, size};
    e->q = q;
    q->entries++;
    e->all_next = r->entries;
    e->all_link = &r->entries;
    if (e->all_next)
        e->all_next->all_link = &e->all_next;
    r->entries = e;
    pthread_mutex_lock(&q->m->server->lock);
    q->m->ring_entries++;
    pthread_mutex_unlock(&q->m->server->lock);
    prep_command(r, e, FUSE_IO_URING_CMD_REGISTER, 0);
    return 0;
}

/* The kernel has let go of an entry: the connection has ended, or it never took it. */
static void entry_dead(struct fuse_ring_entry *e, int rc)
{
    struct fuse_mount *m = e->q->m;

    if (rc != -ENOTCONN && rc != -ECANCELED)
        log_warn("%s: the kernel refused an io_uring entry: %s", m->source, strerror(-rc));
    entry_free(e);
    pthread_mutex_lock(&m->server->lock);
    m->ring_entries--;
    fuse_mount_try_recycle(m);
    pthread_mutex_unlock(&m->server->lock);
}

/* As many as there is memory for. */
static void entries_add(struct fuse_ring *r, struct fuse_ring_queue *q, unsigned n)
{
    while (n-- > 0 && entry_add(r, q) == 0)
        ;
}

static unsigned depth(const struct fuse_rings *all)
{
    return MAX(4, MIN(16, DEPTH_ALL / all->queues));
}

static int queue_add(struct fuse_ring *r, struct fuse_mount *m, unsigned qid)
{
    struct fuse_ring_queue *q = calloc(1, sizeof *q);

    if (!q)
        return -ENOMEM;
    q->m = m;
    q->qid = (uint16_t)qid;
    entries_add(r, q, depth(r->all));
    if (q->entries)
        return 0;
    free(q);
    return -ENOMEM;
}

static void attach(struct fuse_ring *r, struct fuse_ring_attach *a)
{
    struct fuse_rings *all = r->all;
    int rc = 0;

    for (unsigned qid = r->index; qid < all->queues && !rc; qid += all->count)
        rc = queue_add(r, a->m, qid);
    io_uring_submit(&r->uring);
    pthread_mutex_lock(&all->lock);
    if (rc)
        a->rc = rc;
    a->left--;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

static void commit(struct fuse_ring *r, struct fuse_ring_entry *e)
{
    e->q->handling--;
    prep_command(r, e, FUSE_IO_URING_CMD_COMMIT_AND_FETCH, e->head.ring_ent_in_out.commit_id);
}

/* What others have left for the leader. */
static void take_messages(struct fuse_ring *r)
{
    struct fuse_ring_entry *done, *e;
    struct fuse_ring_attach_node *list, *node;
    struct fuse_ring_queue *q;

    pthread_mutex_lock(&r->lock);
    done = r->done;
    list = r->attach;
    q = r->short_of;
    r->done = NULL;
    r->attach = NULL;
    r->short_of = NULL;
    pthread_mutex_unlock(&r->lock);
    if (q && q->entries - q->handling < DEPTH_SPARE && q->entries < DEPTH_MAX)
        entries_add(r, q, DEPTH_SPARE);
    while ((e = done)) {
        done = e->next;
        commit(r, e);
    }
    while ((node = list)) {
        list = node->next;
        attach(r, node->job);
    }
}

static void handle(struct fuse_ring_thread *t, struct fuse_ring_entry *e)
{
    struct fuse_mount *m = e->q->m;
    struct fuse_uring_ent_in_out *io = &e->head.ring_ent_in_out;
    struct fuse_request q = {
        .c = &m->conn,
        .arg = e->head.op_in,
        .data = e->payload,
        .data_len = MIN(io->payload_sz, e->iov[1].iov_len),
        .out = e->payload,
        .out_cap = e->iov[1].iov_len,
    };
    struct fuse_out_header out;
    int rc;

    memcpy(&q.in, e->head.in_out, sizeof q.in);
    fuse_thread_enter(&t->base, m);
    rc = fuse_thread_run(&t->base, m, &q);
    fuse_thread_leave(&t->base, m);
    out = (struct fuse_out_header){
        .len = (uint32_t)(sizeof out + q.out_len),
        .error = rc == FUSE_NO_REPLY ? 0 : rc,
        .unique = q.in.unique,
    };
    memcpy(e->head.in_out, &out, sizeof out);
    io->payload_sz = (uint32_t)q.out_len;
}

/* Handles a filled entry. False if leadership was lost meanwhile. */
static bool serve(struct fuse_ring_thread *t, struct fuse_ring_entry *e)
{
    struct fuse_ring *r = t->ring;
    uintptr_t busy = (uintptr_t)t | FUSE_RING_HANDLING;

    e->q->handling++;
    r->current = e->q;
    atomic_store(&r->state, busy);
    atomic_fetch_add(&r->serial, 1);
    handle(t, e);
    if (atomic_compare_exchange_strong(&r->state, &busy, (uintptr_t)t)) {
        commit(r, e);
        return true;
    }
    pthread_mutex_lock(&r->lock);
    e->next = r->done;
    r->done = e;
    pthread_mutex_unlock(&r->lock);
    poke(r);
    return false;
}

void fuse_ring_lead(struct fuse_ring_thread *t)
{
    struct fuse_ring *r = t->ring;

    ring_self = t;
    atomic_store(&r->state, (uintptr_t)t);
    take_messages(r);
    for (;;) {
        struct io_uring_cqe *cqe;
        struct fuse_ring_entry *e;
        int res;

        if (io_uring_cq_ready(&r->uring) == 0)
            io_uring_submit_and_wait(&r->uring, 1);
        else if (io_uring_sq_ready(&r->uring) > 0)
            io_uring_submit(&r->uring); /* a reply should not wait for the next request's handler */
        if (io_uring_peek_cqe(&r->uring, &cqe))
            continue;
        e = io_uring_cqe_get_data(cqe);
        res = cqe->res;
        io_uring_cqe_seen(&r->uring, cqe);
        if (!e) {
            arm_event(r);
            take_messages(r);
            if (fuse_ring_stopping(r))
                return;
        } else if (res < 0) {
            entry_dead(e, res);
        } else if (!serve(t, e)) {
            return;
        }
    }
}

void fuse_ring_before_wait(void)
{
    struct fuse_ring_thread *t = ring_self;

    if (t)
        fuse_ring_take(t->ring, (uintptr_t)t | FUSE_RING_HANDLING);
}

int fuse_ring_open(struct fuse_ring *r)
{
    struct io_uring_params p = {
        .flags = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE | IORING_SETUP_COOP_TASKRUN,
        .cq_entries = 1024,
    };
    int rc = io_uring_queue_init_params(64, &r->uring, &p);

    if (!rc)
        arm_event(r);
    return rc;
}

void fuse_ring_close(struct fuse_ring *r)
{
    io_uring_queue_exit(&r->uring);
    while (r->entries) /* of connections that could not be ended */
        entry_free(r->entries);
}
