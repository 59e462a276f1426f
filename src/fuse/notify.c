/*
 * The keeper: a thread that tells the kernel what to forget, and its owner that a mount has gone.
 *
 * Invalidations wait for locks in the kernel that a process may hold while it waits for our answer;
 * so they are never sent from a thread that serves requests, nor by a caller that holds locks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "fuse/server_impl.h"
#include "util/err.h"
#include "util/hashmap.h"
#include "util/log.h"
#include "util/threads.h"

static int notify(struct fuse_mount *m, int code, const struct iovec *parts, int n)
{
    struct fuse_out_header head = {.len = sizeof head, .error = code};
    struct iovec iov[4] = {{&head, sizeof head}};

    for (int i = 0; i < n; i++) {
        iov[i + 1] = parts[i];
        head.len += (uint32_t)parts[i].iov_len;
    }
    return writev(m->fd, iov, n + 1) < 0 ? -errno : 0;
}

static uint64_t nodeid(const struct fuse_mount *m, uint64_t ino)
{
    return ino == m->conn.root_ino ? FUSE_ROOT_ID : ino;
}

/* A negative offset: the attributes only. */
static int send_inode(struct fuse_mount *m, uint64_t ino, int64_t offset)
{
    struct fuse_notify_inval_inode_out out = {.ino = nodeid(m, ino), .off = offset};
    struct iovec part = {&out, sizeof out};

    return notify(m, FUSE_NOTIFY_INVAL_INODE, &part, 1);
}

void fuse_forget_attr(struct fuse_conn *c, uint64_t ino)
{
    send_inode(container_of(c, struct fuse_mount, conn), ino, -1);
}

void fuse_forget_data(struct fuse_conn *c, uint64_t ino)
{
    send_inode(container_of(c, struct fuse_mount, conn), ino, 0);
}

static int send_entry(struct fuse_mount *m, uint64_t ino, const char *name)
{
    struct fuse_notify_inval_entry_out out = {
        .parent = nodeid(m, ino),
        .namelen = (uint32_t)strlen(name),
    };
    struct iovec parts[2] = {{&out, sizeof out}, {(void *)(uintptr_t)name, out.namelen + 1}};

    return notify(m, FUSE_NOTIFY_INVAL_ENTRY, parts, 2);
}

/* Kernels before 7.44 have no epoch; a remount that changes nothing drops unused names, which
 * includes all that say "does not exist". */
static int send_names(struct fuse_mount *m)
{
    int rc = -ENOSYS;

    if (m->conn.minor >= 44)
        rc = notify(m, FUSE_NOTIFY_INC_EPOCH, NULL, 0);
    if (rc && m->conn.privileged && !m->by_helper)
        rc = fuse_attach_refresh(m->target);
    return rc;
}

static void send_one(struct fuse_thread *t, const struct fuse_invalidation *i)
{
    struct fuse_mount *m = i->m;
    int rc = 0;

    fuse_thread_enter(t, m);
    if (!atomic_load(&m->closing)) {
        switch (i->kind) {
        case FUSE_INVALIDATE_INODE:
            rc = send_inode(m, i->ino, 0);
            break;
        case FUSE_INVALIDATE_ENTRY:
            rc = send_entry(m, i->ino, i->name);
            break;
        case FUSE_INVALIDATE_NAMES:
            rc = send_names(m);
            break;
        }
    }
    /* ENOENT: the kernel does not have it. */
    if (rc && rc != -ENOENT && rc != -ENODEV && rc != -ENOTDIR && rc != -ENOTCONN)
        log_warn("%s: the kernel did not take an invalidation: %s", m->source, strerror(-rc));
    fuse_thread_leave(t, m);
}

/* With server->lock held. */
static struct fuse_mount *find_gone(struct fuse_server *s)
{
    for (struct fuse_mount *m = s->mounts; m; m = m->next) {
        if (m->in_use && m->lost && m->ready && !m->unmounting && !m->reported)
            return m;
    }
    return NULL;
}

/* With server->lock held; releases it meanwhile. False if there was nothing to do. */
static bool keeper_step(struct fuse_server *s, struct fuse_thread *t)
{
    struct fuse_invalidation *i = s->inval_first;
    struct fuse_mount *m;

    if (i) {
        s->inval_first = i->next;
        if (!s->inval_first)
            s->inval_last = &s->inval_first;
        s->inval_sending = i->serial;
        atomic_store(&t->serving, i->m); /* before it can be recycled */
        pthread_mutex_unlock(&s->lock);
        send_one(t, i);
        pthread_mutex_lock(&s->lock);
        s->inval_sending = 0;
        pthread_cond_broadcast(&s->changed);
        free(i);
        return true;
    }
    m = find_gone(s);
    if (!m)
        return false;
    m->reported = m->reporting = true;
    pthread_mutex_unlock(&s->lock);
    fuse_mount_report_gone(m);
    pthread_mutex_lock(&s->lock);
    m->reporting = false;
    pthread_cond_broadcast(&s->changed);
    return true;
}

static void *keeper_main(void *arg)
{
    struct fuse_server *s = arg;
    struct fuse_thread self = {.server = s, .epfd = -1, .notifies = true};

    pthread_mutex_lock(&s->lock);
    fuse_thread_add(s, &self);
    for (;;) {
        if (keeper_step(s, &self))
            continue;
        if (s->keeper_stop)
            break;
        pthread_cond_wait(&s->keeper_work, &s->lock);
    }
    fuse_thread_remove(s, &self);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int fuse_keeper_start(struct fuse_server *s)
{
    int rc = thread_start(&s->keeper, "fuse-keeper", keeper_main, s);

    return rc ? err_set(-rc, "cannot start a FUSE thread: %s", strerror(-rc)) : 0;
}

void fuse_keeper_stop(struct fuse_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->keeper_stop = true;
    pthread_cond_signal(&s->keeper_work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->keeper, NULL);
}

void fuse_keeper_drop(struct fuse_mount *m)
{
    struct fuse_server *s = m->server;
    struct fuse_invalidation **p = &s->inval_first, *i;

    while ((i = *p)) {
        if (i->m != m) {
            p = &i->next;
            continue;
        }
        *p = i->next;
        free(i);
    }
    s->inval_last = p;
    pthread_cond_broadcast(&s->changed);
}

static void enqueue(struct fuse_mount *m, int kind, uint64_t ino, const char *name)
{
    struct fuse_server *s = m->server;
    size_t len = name ? strlen(name) + 1 : 0;
    struct fuse_invalidation *i = calloc(1, sizeof *i + len);

    if (!i) {
        log_error("%s: no memory to tell the kernel what changed; it may show old names or data",
                  m->source);
        return;
    }
    i->m = m;
    i->kind = kind;
    i->ino = ino;
    if (name)
        memcpy(i->name, name, len);
    pthread_mutex_lock(&s->lock);
    if (m->in_use && !m->lost && !m->released) {
        i->serial = ++s->inval_asked;
        *s->inval_last = i;
        s->inval_last = &i->next;
        pthread_cond_signal(&s->keeper_work);
        i = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    free(i);
}

void fuse_mount_invalidate(struct fuse_mount *m, uint64_t ino, const char *name)
{
    enqueue(m, name ? FUSE_INVALIDATE_ENTRY : FUSE_INVALIDATE_INODE, ino, name);
}

void fuse_mount_invalidate_names(struct fuse_mount *m)
{
    enqueue(m, FUSE_INVALIDATE_NAMES, 0, NULL);
}

void fuse_mount_invalidate_wait(struct fuse_mount *m)
{
    struct fuse_server *s = m->server;
    uint64_t upto;

    pthread_mutex_lock(&s->lock);
    upto = s->inval_asked;
    while ((s->inval_first && s->inval_first->serial <= upto) ||
           (s->inval_sending && s->inval_sending <= upto))
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}
