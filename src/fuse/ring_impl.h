/*
 * FUSE over io_uring: the kernel has a queue of requests per CPU, and hands a request to a task on
 * the CPU that made it: no other CPU has to be woken, which is most of what a request costs.
 *
 * Each CPU we may run on has a ring, with entries (a header and a payload each) of every mount. One
 * thread at a time leads a ring: it waits for entries to be filled, handles them and commits them.
 * A handler that waits for long must not hold up the rest, so leadership can be taken from a thread
 * that is in a handler: by itself, if it knows (fuse_ring_before_wait), or by the watcher
 * (watcher.c), which looks at the rings every few milliseconds while there is work. Another thread then leads.
 * The old leader, done at last, leaves its reply with the new one and stands by.
 *
 * ring->state names the leader (a struct fuse_ring_thread *), with the lowest bit set while it is
 * in a handler; 0 after leadership has been taken. Whoever changes it from a leader in a handler to
 * 0 appoints the next one. The user-space side of the io_uring belongs to the leader, and to nobody
 * while the state is 0. Threads that have submitted an entry live as long as the ring, because the
 * kernel completes it in their name.
 */
#ifndef FUSE_RING_IMPL_H
#define FUSE_RING_IMPL_H

#include <liburing.h>

#include "fuse/server_impl.h"

#define FUSE_RING_HANDLING 1u

/* The entries that a mount has in a queue. The leader's. */
struct fuse_ring_queue {
    struct fuse_mount *m;
    uint16_t qid;
    unsigned entries;  /* that the kernel knows */
    unsigned handling; /* of them, those that wait for our reply */
};

struct fuse_ring_entry {
    struct fuse_uring_req_header head; /* first: the kernel writes it */
    unsigned char *payload;
    struct iovec iov[2];
    struct fuse_ring_queue *q;
    struct fuse_ring_entry *next;                 /* in ring->done */
    struct fuse_ring_entry *all_next, **all_link; /* in ring->entries */
};

/* Asks the rings' leaders to give the kernel entries of a mount. */
struct fuse_ring_attach {
    struct fuse_mount *m;
    unsigned left; /* rings->lock; leaders that have yet to do it */
    int rc;        /* rings->lock */
};

struct fuse_ring_attach_node {
    struct fuse_ring_attach_node *next;
    struct fuse_ring_attach *job;
};

struct fuse_ring_thread {
    struct fuse_thread base;
    struct fuse_ring *ring;
    struct fuse_ring_thread *next; /* in ring->threads */
};

struct fuse_ring {
    struct fuse_rings *all;
    struct io_uring uring; /* the leader's */
    int cpu;
    unsigned index; /* serves the queues with qid % rings->count == index */
    int event_fd;
    uint64_t event;                  /* what is read from it */
    struct fuse_ring_entry *entries; /* the leader's; all that the kernel knows */
    _Atomic uintptr_t state;
    _Atomic uint64_t serial;         /* requests begun */
    struct fuse_ring_queue *current; /* of the request in the handler; for whoever takes over */
    uint64_t seen;                   /* the watcher's: serial at its last look */

    pthread_mutex_t lock;
    pthread_cond_t standby;
    bool vacant;                      /* lock; a leader is wanted */
    bool stop;                        /* lock */
    unsigned idle;                    /* lock; threads that stand by */
    unsigned count;                   /* lock; threads */
    struct fuse_ring_thread *threads; /* lock */
    struct fuse_ring_entry *done;     /* lock; replies of former leaders */
    struct fuse_ring_queue *short_of; /* lock; the queue that a slow handler took an entry from */
    struct fuse_ring_attach_node *attach; /* lock */
};

struct fuse_rings {
    struct fuse_server *server;
    unsigned count;  /* of rings */
    unsigned queues; /* of the kernel: possible CPUs */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct fuse_ring ring[];
};

/* ring.c: leads t->ring until leadership is lost or the ring stops. */
void fuse_ring_lead(struct fuse_ring_thread *t);
int fuse_ring_open(struct fuse_ring *r);
void fuse_ring_close(struct fuse_ring *r); /* the threads have ended */

/* ring_threads.c */
bool fuse_ring_stopping(struct fuse_ring *r);
/* Takes leadership from a leader in its handler (a value of r->state); nothing if that has changed.
 */
void fuse_ring_take(struct fuse_ring *r, uintptr_t leader);

#endif
