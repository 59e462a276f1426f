/*
 * The /dev/fuse transport: threads that read a request, handle it and write the reply.
 *
 * Each thread has an epoll set of its own with all mounts in it, as exclusive waiters. The kernel
 * wakes the first thread that is really waiting, so a request never queues behind a thread that is
 * busy while another is free, and one busy mount needs no thread of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "fuse/server_impl.h"
#include "util/err.h"
#include "util/log.h"
#include "util/threads.h"

#define PAGE        4096
#define IDLE_MS     10000 /* an idle thread gives its buffer back; a surplus one ends */
#define MIN_THREADS 4
#define FORGET_MS   2 /* between batches of FORGETs */

/* Headers end where the payload's first page begins, so that a WRITE's data is page-aligned. */
static unsigned char *message(struct fuse_thread *t)
{
    return t->map + PAGE - FUSE_WRITE_HEAD;
}

static void reply(struct fuse_mount *m, struct fuse_request *r, int error)
{
    struct fuse_out_header head = {
        .len = (uint32_t)(sizeof head + r->out_len),
        .error = error,
        .unique = r->in.unique,
    };
    struct iovec iov[2] = {{&head, sizeof head}, {r->out, r->out_len}};
    ssize_t n;

    do
        n = writev(m->fd, iov, r->out_len ? 2 : 1);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return;
    if (errno != ENOENT && errno != ENODEV) /* aborted while we were at it */
        log_warn("%s: the kernel refused a reply to FUSE request %u: %m", m->source, r->in.opcode);
    if (!error && !atomic_load(&m->closing))
        fuse_request_undo(r);
}

static void serve(struct fuse_thread *t, struct fuse_mount *m, size_t n)
{
    struct fuse_request r = {
        .c = &m->conn,
        .out = t->map + PAGE,
        .out_cap = FUSE_PAYLOAD_MAX,
    };
    int rc = fuse_request_split(&r, message(t), n);

    if (n < sizeof r.in)
        return;
    if (!rc)
        rc = fuse_thread_run(t, m, &r);
    if (n + r.out_len > 65536)
        t->used_much = true;
    if (rc == FUSE_NO_REPLY)
        return;
    reply(m, &r, rc);
    if (r.in.opcode == FUSE_INIT)
        fuse_mount_answered_init(m, rc);
}

static void grow_if_all_busy(struct fuse_server *s)
{
    if (atomic_load_explicit(&s->idle, memory_order_relaxed) > 0)
        return;
    pthread_mutex_lock(&s->lock);
    if (!s->stopping && s->device_threads < s->opts.max_threads && fuse_device_grow(s))
        log_warn("cannot start another FUSE thread; requests may wait for one another");
    pthread_mutex_unlock(&s->lock);
}

static void receive(struct fuse_thread *t, struct fuse_mount *m)
{
    struct fuse_server *s = t->server;
    ssize_t n;

    n = read(m->fd, message(t), FUSE_WRITE_HEAD + FUSE_PAYLOAD_MAX);
    if (n < 0) {
        if (errno == ENODEV || errno == ECONNABORTED)
            fuse_mount_lost(m);
        return; /* else another thread was faster, or the request was withdrawn */
    }
    atomic_fetch_sub_explicit(&s->idle, 1, memory_order_relaxed);
    grow_if_all_busy(s);
    serve(t, m, (size_t)n);
    atomic_fetch_add_explicit(&s->idle, 1, memory_order_relaxed);
}

static void trim(struct fuse_thread *t)
{
    if (t->used_much)
        madvise(t->map + PAGE, FUSE_PAYLOAD_MAX, MADV_DONTNEED);
    t->used_much = false;
}

/* Nothing came for a while: true if the thread shall end. */
static bool surplus(struct fuse_thread *t)
{
    struct fuse_server *s = t->server;
    bool over;

    trim(t);
    pthread_mutex_lock(&s->lock);
    over = s->device_threads - s->leaving > MIN_THREADS;
    if (over)
        s->leaving++;
    pthread_mutex_unlock(&s->lock);
    return over;
}

static void thread_free(struct fuse_thread *t)
{
    if (t->epfd >= 0)
        close(t->epfd);
    if (t->map && t->map != MAP_FAILED)
        munmap(t->map, PAGE + FUSE_PAYLOAD_MAX);
    free(t);
}

static void *device_main(void *arg)
{
    struct fuse_thread *t = arg;
    struct fuse_server *s = t->server;
    bool leaving = false;

    while (!leaving) {
        struct epoll_event ev;
        int n = epoll_wait(t->epfd, &ev, 1, IDLE_MS);
        struct fuse_mount *m = n > 0 ? ev.data.ptr : NULL;

        if (n == 0)
            leaving = surplus(t);
        if (n <= 0)
            continue;
        if (!m)
            break; /* the server ends */
        fuse_thread_enter(t, m);
        receive(t, m);
        fuse_thread_leave(t, m);
    }
    atomic_fetch_sub(&s->idle, 1);
    pthread_mutex_lock(&s->lock);
    fuse_thread_remove(s, t);
    thread_free(t);
    s->device_threads--;
    s->leaving -= leaving;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Serves what has come for m up to now. */
static void take_forgets(struct fuse_thread *t, struct fuse_mount *m)
{
    struct fuse_in_header in;
    ssize_t n;

    while ((n = read(m->fd, message(t), FUSE_WRITE_HEAD + FUSE_PAYLOAD_MAX)) > 0) {
        memcpy(&in, message(t), sizeof in);
        serve(t, m, (size_t)n);
        if (in.opcode == FUSE_FORGET || in.opcode == FUSE_BATCH_FORGET ||
            in.opcode == FUSE_INTERRUPT)
            continue;
        /* The kernel has given up the rings. */
        pthread_mutex_lock(&t->server->lock);
        if (m->watched) {
            fuse_device_unwatch(t->server, m);
            fuse_device_watch(t->server, m);
        }
        pthread_mutex_unlock(&t->server->lock);
        return;
    }
    if (n < 0 && (errno == ENODEV || errno == ECONNABORTED))
        fuse_mount_lost(m);
}

/*
 * With io_uring only FORGETs come through /dev/fuse, one for each file that is removed, and none of
 * them is urgent. One thread takes those of all mounts, many at a time: the kernel does not have to
 * wake a thread for each, and packs what has come meanwhile into one message.
 */
static void *forget_main(void *arg)
{
    struct fuse_thread *t = arg;
    struct fuse_server *s = t->server;
    const struct timespec pause = {.tv_nsec = FORGET_MS * 1000000};
    bool stop = false;

    while (!stop) {
        struct epoll_event ev[64];
        int n = epoll_wait(t->epfd, ev, 64, IDLE_MS);

        if (n == 0)
            trim(t);
        for (int i = 0; i < n; i++) {
            struct fuse_mount *m = ev[i].data.ptr;

            if (!m) {
                stop = true;
                continue;
            }
            fuse_thread_enter(t, m);
            take_forgets(t, m);
            fuse_thread_leave(t, m);
        }
        if (!stop && n > 0)
            nanosleep(&pause, NULL);
    }
    pthread_mutex_lock(&s->lock);
    fuse_thread_remove(s, t);
    thread_free(t);
    s->device_threads--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int watch(struct fuse_thread *t, int fd, struct fuse_mount *m)
{
    struct epoll_event ev = {
        .events = EPOLLIN | (m && !t->forgets ? EPOLLEXCLUSIVE : 0),
        .data.ptr = m,
    };

    return epoll_ctl(t->epfd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int thread_prepare(struct fuse_server *s, struct fuse_thread *t)
{
    int rc;

    t->map = mmap(NULL, PAGE + FUSE_PAYLOAD_MAX, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t->map == MAP_FAILED)
        return -ENOMEM;
    t->epfd = epoll_create1(EPOLL_CLOEXEC);
    if (t->epfd < 0)
        return -errno;
    rc = watch(t, s->stop_fd, NULL);
    for (struct fuse_mount *m = s->mounts; m && !rc && !t->forgets; m = m->next) {
        if (m->watched && !m->only_forgets)
            rc = watch(t, m->fd, m);
    }
    return rc;
}

static int thread_new(struct fuse_server *s, bool forgets)
{
    struct fuse_thread *t = calloc(1, sizeof *t);
    int rc;

    if (!t)
        return err_set(ENOMEM, "no memory for a FUSE thread");
    t->server = s;
    t->epfd = -1;
    t->forgets = forgets;
    rc = thread_prepare(s, t);
    if (rc) {
        thread_free(t);
        return err_set(-rc, "cannot prepare a FUSE thread: %s", strerror(-rc));
    }
    fuse_thread_add(s, t);
    s->device_threads++;
    atomic_fetch_add(&s->idle, !forgets);
    rc = thread_start(&t->id, forgets ? "fuse-forget" : "fuse", forgets ? forget_main : device_main,
                      t);
    if (rc) {
        atomic_fetch_sub(&s->idle, !forgets);
        s->device_threads--;
        fuse_thread_remove(s, t);
        thread_free(t);
        return err_set(-rc, "cannot start a FUSE thread: %s", strerror(-rc));
    }
    pthread_detach(t->id);
    return 0;
}

int fuse_device_grow(struct fuse_server *s)
{
    return thread_new(s, false);
}

int fuse_device_grow_forgets(struct fuse_server *s)
{
    return thread_new(s, true);
}

int fuse_device_watch(struct fuse_server *s, struct fuse_mount *m)
{
    int rc = 0;

    for (struct fuse_thread *t = s->threads; t && !rc; t = t->next) {
        if (t->epfd >= 0 && !t->forgets)
            rc = watch(t, m->fd, m);
    }
    m->watched = true;
    m->only_forgets = false;
    if (rc)
        fuse_device_unwatch(s, m);
    return rc;
}

void fuse_device_unwatch(struct fuse_server *s, struct fuse_mount *m)
{
    if (!m->watched)
        return;
    m->watched = false;
    for (struct fuse_thread *t = s->threads; t; t = t->next) {
        if (t->epfd >= 0)
            epoll_ctl(t->epfd, EPOLL_CTL_DEL, m->fd, NULL);
    }
}

void fuse_device_only_forgets(struct fuse_server *s, struct fuse_mount *m)
{
    struct fuse_thread *t = s->threads;

    while (t && !t->forgets)
        t = t->next;
    if (!t || !m->watched)
        return;
    fuse_device_unwatch(s, m);
    if (watch(t, m->fd, m)) {
        fuse_device_watch(s, m);
        return;
    }
    m->watched = m->only_forgets = true;
}
