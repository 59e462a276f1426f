/* The server: its threads, and who serves what. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fuse/server_impl.h"
#include "util/err.h"
#include "util/threads.h"

#define DEFAULT_MAX_THREADS 64

bool fuse_thread_enter(struct fuse_thread *t, struct fuse_mount *m)
{
    atomic_store(&t->serving, m);
    return !atomic_load(&m->closing);
}

void fuse_thread_leave(struct fuse_thread *t, struct fuse_mount *m)
{
    atomic_store(&t->serving, NULL);
    if (!atomic_load(&m->closing) && !atomic_load(&m->paused))
        return;
    pthread_mutex_lock(&t->server->lock);
    pthread_cond_broadcast(&t->server->changed);
    pthread_mutex_unlock(&t->server->lock);
}

void fuse_thread_add(struct fuse_server *s, struct fuse_thread *t)
{
    static _Atomic unsigned stripes;

    t->stripe = atomic_fetch_add(&stripes, 1) % FUSE_COUNT_STRIPES;
    t->next = s->threads;
    s->threads = t;
}

void fuse_thread_remove(struct fuse_server *s, struct fuse_thread *t)
{
    for (struct fuse_thread **p = &s->threads; *p; p = &(*p)->next) {
        if (*p == t) {
            *p = t->next;
            break;
        }
    }
}

/* When the file system has been taken away, what is left of its users gets an error. */
static int run_closed(const struct fuse_request *r)
{
    switch (r->in.opcode) {
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_NOTIFY_REPLY:
        return FUSE_NO_REPLY;
    }
    return -ENOTCONN;
}

/* While the mount pauses the thread is not serving it; others must serve what it is responsible
 * for. */
static void wait_for_end_of_pause(struct fuse_thread *t, struct fuse_mount *m)
{
    struct fuse_server *s = t->server;

    fuse_ring_before_wait();
    while (atomic_load(&m->paused)) {
        pthread_mutex_lock(&s->lock);
        m->waiting++;
        atomic_store(&t->serving, NULL);
        pthread_cond_broadcast(&s->changed);
        while (atomic_load(&m->paused) && !atomic_load(&m->closing))
            pthread_cond_wait(&s->changed, &s->lock);
        atomic_store(&t->serving, m);
        m->waiting--;
        pthread_mutex_unlock(&s->lock);
        if (atomic_load(&m->closing))
            return;
    }
}

int fuse_thread_run(struct fuse_thread *t, struct fuse_mount *m, struct fuse_request *r)
{
    fuse_watcher_request(t->server, t->stripe);
    if (r->in.opcode < FUSE_OPCODE_LIMIT)
        atomic_fetch_add_explicit(&m->counts[t->stripe][r->in.opcode], 1, memory_order_relaxed);
    if (atomic_load(&m->paused))
        wait_for_end_of_pause(t, m);
    if (atomic_load(&m->closing))
        return run_closed(r);
    return fuse_request_run(r);
}

static int start_threads(struct fuse_server *s)
{
    unsigned n = thread_cpu_count();
    int rc = 0;

    if (n < 2)
        n = 2;
    if (n > 4)
        n = 4;
    pthread_mutex_lock(&s->lock);
    while (!rc && s->device_threads < n && s->device_threads < s->opts.max_threads)
        rc = fuse_device_grow(s);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void stop_device_threads(struct fuse_server *s)
{
    uint64_t one = 1;

    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    if (write(s->stop_fd, &one, sizeof one) != sizeof one)
        abort(); /* an eventfd of our own cannot refuse a one */
    while (s->device_threads > 0)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void free_mounts(struct fuse_server *s)
{
    while (s->mounts) {
        struct fuse_mount *m = s->mounts;

        s->mounts = m->next;
        if (m->fd >= 0)
            close(m->fd);
        free(m->source);
        free(m->target);
        free(m);
    }
}

static void server_destroy(struct fuse_server *s)
{
    close(s->stop_fd);
    fuse_watcher_destroy(&s->watcher);
    pthread_cond_destroy(&s->keeper_work);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int fuse_server_new(struct fuse_server **out, const struct fuse_server_options *opts)
{
    struct fuse_server *s = calloc(1, sizeof *s);
    int rc;

    if (!s)
        return err_set(ENOMEM, "no memory for the FUSE server");
    if (opts)
        s->opts = *opts;
    if (s->opts.max_threads == 0)
        s->opts.max_threads = DEFAULT_MAX_THREADS;
    s->inval_last = &s->inval_first;
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->stop_fd < 0) {
        rc = err_set(errno, "cannot make an event descriptor: %m");
        free(s);
        return rc;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    pthread_cond_init(&s->keeper_work, NULL);
    fuse_watcher_init(&s->watcher, s->opts.let_halt);
    rc = fuse_keeper_start(s);
    if (rc) {
        server_destroy(s);
        return rc;
    }
    rc = start_threads(s);
    if (!rc && s->opts.transport == FUSE_TRANSPORT_AUTO && fuse_rings_new(&s->rings, s))
        s->rings = NULL; /* /dev/fuse it is */
    if (!rc && s->rings) {
        pthread_mutex_lock(&s->lock);
        rc = fuse_device_grow_forgets(s);
        pthread_mutex_unlock(&s->lock);
    }
    if (!rc)
        rc = fuse_watcher_start(s);
    if (rc) {
        fuse_server_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void fuse_server_free(struct fuse_server *s)
{
    if (!s)
        return;
    stop_device_threads(s);
    fuse_watcher_stop(&s->watcher);
    fuse_rings_free(s->rings);
    fuse_keeper_stop(s);
    free_mounts(s);
    server_destroy(s);
}
