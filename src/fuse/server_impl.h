/*
 * Inside the server: threads, mounts, and how a mount ends.
 *
 * struct fuse_mount is never freed before the server is: a thread may still hold a pointer that it
 * got from epoll or a ring. Before it touches what belongs to the mount it says so in its `serving`
 * and then looks at `closing` (fuse_thread_enter); who ends a mount sets `closing` and then waits
 * until no thread is serving it (fuse_mount_drain). Both sides are sequentially consistent, so one
 * of them sees the other.
 */
#ifndef FUSE_SERVER_IMPL_H
#define FUSE_SERVER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "fuse/fuse.h"
#include "fuse/request_impl.h"

struct fuse_rings;

#define FUSE_COUNT_STRIPES 8

struct fuse_thread {
    struct fuse_server *server;
    struct fuse_thread *next; /* server->lock */
    pthread_t id;
    _Atomic(struct fuse_mount *) serving;
    unsigned stripe; /* of the request counters */
    /* Threads that read /dev/fuse: */
    int epfd;           /* all mounts, each with EPOLLEXCLUSIVE */
    unsigned char *map; /* a page, the end of which takes the headers, and the payload */
    bool used_much;     /* of the payload since it was last given back to the kernel */
    bool forgets;       /* of mounts that use io_uring; does nothing else */
    bool notifies;      /* the keeper: never in the file system */
};

struct fuse_invalidation {
    struct fuse_invalidation *next;
    struct fuse_mount *m;
    uint64_t serial;
    enum { FUSE_INVALIDATE_INODE, FUSE_INVALIDATE_ENTRY, FUSE_INVALIDATE_NAMES } kind;
    uint64_t ino;
    char name[];
};

/* watcher.c */
struct fuse_watcher {
    pthread_t id;
    bool running; /* the thread exists */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic bool asleep; /* somebody must wake it */
    bool stop;           /* lock */
    /* The thread's: */
    uint64_t seen;      /* requests at its last look */
    bool let_halt;      /* it must not or cannot keep the processors awake */
    int awake_fd;       /* while it does */
    unsigned few_ticks; /* in a row with few requests, meanwhile */
};

struct fuse_server {
    struct fuse_server_options opts;
    pthread_mutex_t lock;
    pthread_cond_t changed;      /* whatever lock guards */
    int stop_fd;                 /* an eventfd in every epoll set */
    bool stopping;               /* lock */
    struct fuse_thread *threads; /* lock; device and ring threads */
    struct fuse_mount *mounts;   /* lock; all ever used */
    unsigned device_threads;     /* lock */
    unsigned leaving;            /* lock; of them, those that end for want of work */
    _Atomic unsigned idle;       /* device threads that wait for a request */
    struct fuse_rings *rings;    /* NULL: no io_uring */
    struct fuse_watcher watcher;
    struct {
        _Alignas(64) _Atomic uint64_t count;
    } served[FUSE_COUNT_STRIPES]; /* requests begun */

    /* The keeper: a thread that sends invalidations and reports mounts that have gone. */
    pthread_t keeper;
    pthread_cond_t keeper_work;                          /* lock */
    struct fuse_invalidation *inval_first, **inval_last; /* lock */
    uint64_t inval_asked, inval_sending; /* lock; serial numbers, the latter 0 if none is */
    bool keeper_stop;                    /* lock */
};

struct fuse_mount {
    struct fuse_conn conn;
    struct fuse_server *server;
    struct fuse_mount *next; /* server->lock */
    _Atomic bool closing;    /* conn.fs must not be touched any more */
    _Atomic bool paused;     /* nor for the moment */
    int fd;
    char *source, *target;
    dev_t dev;      /* st_dev of the file system */
    bool by_helper; /* mounted by fusermount3 */
    void (*gone)(void *arg, struct fuse_mount *m);
    void *gone_arg;

    /* server->lock: */
    bool in_use;           /* between fuse_mount_new and the end of the connection */
    bool watched;          /* in the epoll sets */
    bool only_forgets;     /* by the thread for FORGETs */
    bool ready;            /* INIT has been answered */
    bool lost;             /* the kernel has ended the connection */
    bool unmounting;       /* fuse_mount_unmount() reports the end, not gone() */
    bool reported;         /* gone() has been called or need not be */
    bool reporting;        /* gone() is running */
    bool released;         /* fuse_mount_free() */
    unsigned ring_entries; /* entries that the kernel may still fill */
    unsigned waiting;      /* threads with a request that wait for the end of a pause */

    _Atomic uint64_t counts[FUSE_COUNT_STRIPES][FUSE_OPCODE_LIMIT];
};

/* Marks the thread as serving m; false if m's file system must not be touched. To be paired with
 * fuse_thread_leave() in both cases. */
bool fuse_thread_enter(struct fuse_thread *t, struct fuse_mount *m);
void fuse_thread_leave(struct fuse_thread *t, struct fuse_mount *m);

/* With server->lock held. */
void fuse_thread_add(struct fuse_server *s, struct fuse_thread *t);
void fuse_thread_remove(struct fuse_server *s, struct fuse_thread *t);

/* Runs a request that was split or got from a ring: fuse_request_run() unless the mount is closing.
 */
int fuse_thread_run(struct fuse_thread *t, struct fuse_mount *m, struct fuse_request *r);

/* device.c: the threads that read /dev/fuse. All with server->lock held, but for main. */
int fuse_device_grow(struct fuse_server *s);
int fuse_device_grow_forgets(struct fuse_server *s);
int fuse_device_watch(struct fuse_server *s, struct fuse_mount *m);
void fuse_device_only_forgets(struct fuse_server *s, struct fuse_mount *m); /* watched already */
void fuse_device_unwatch(struct fuse_server *s, struct fuse_mount *m);

/* mount.c */
void fuse_mount_answered_init(struct fuse_mount *m, int rc);
void fuse_mount_lost(struct fuse_mount *m);  /* takes server->lock */
void fuse_mount_drain(struct fuse_mount *m); /* takes server->lock */
/* With server->lock held: recycles m if its owner, the kernel and all threads are done with it. */
void fuse_mount_try_recycle(struct fuse_mount *m);
void fuse_mount_report_gone(struct fuse_mount *m);

/* notify.c: the keeper. */
int fuse_keeper_start(struct fuse_server *s);
void fuse_keeper_stop(struct fuse_server *s);
void fuse_forget_attr(struct fuse_conn *c, uint64_t ino);
void fuse_forget_data(struct fuse_conn *c, uint64_t ino); /* and the attributes */
void fuse_keeper_drop(struct fuse_mount *m); /* with server->lock held: m's pending invalidations */

/* watcher.c */
void fuse_watcher_init(struct fuse_watcher *w, bool let_halt);
int fuse_watcher_start(struct fuse_server *s);
void fuse_watcher_stop(struct fuse_watcher *w);
void fuse_watcher_destroy(struct fuse_watcher *w);
/* A thread with that stripe has begun a request. */
void fuse_watcher_request(struct fuse_server *s, unsigned stripe);

/* ring.c: FUSE over io_uring. */
int fuse_rings_new(struct fuse_rings **out, struct fuse_server *s);
void fuse_rings_free(struct fuse_rings *rings);
/* The watcher's look at the leaders: another takes over from one that has been in the same handler
 * since the last look. */
void fuse_rings_look(struct fuse_rings *rings);
/* The calling thread, which may be in a handler, is about to wait for long: another thread is to
 * take care of what it is responsible for. */
void fuse_ring_before_wait(void);
/* After INIT has been answered with FUSE_OVER_IO_URING: gives the kernel entries in every queue. */
int fuse_rings_attach(struct fuse_rings *rings, struct fuse_mount *m);

/* attach.c: the mount table. Paths may contain anything. */
struct fuse_attach {
    const struct fuse_mount_options *opts;
    int fd;         /* out: the FUSE descriptor */
    bool by_helper; /* out */
};
int fuse_attach(struct fuse_attach *a);
int fuse_attach_change(const char *target, const struct fuse_mount_options *opts);
int fuse_attach_refresh(const char *target); /* a remount that changes nothing */
/* Places where a mount of ours is mounted in this namespace; their number, or -errno. first (may be
 * NULL) is allocated. The kernel uses device numbers again at once: two mounts of a dataset, one
 * after the other, may look the same. */
int fuse_attach_find(dev_t dev, const char *source, char **first);
/* Whether what is mounted there has lost its server. Makes a request: stat(2) might be answered
 * from what the kernel has cached. */
bool fuse_attach_is_dead(const char *target);
/* -EBUSY if it is in use, -EINVAL if it isn't mounted. lazy: MNT_DETACH. */
int fuse_detach(const char *target, bool by_helper, bool lazy);
bool fuse_attach_abort(dev_t dev); /* through fusectl; false: not possible */
void fuse_attach_tune(dev_t dev);  /* read-ahead, where we may */

#endif
