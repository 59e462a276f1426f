/* A mount's life: made, served, ended by us or by others, recycled. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "fuse/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"

#define INIT_SECONDS  20 /* for the kernel to say INIT */
#define ABORT_SECONDS 5  /* for an abort to take effect */

static void on_invalidate(void *arg, uint64_t ino, const char *name)
{
    fuse_mount_invalidate(arg, ino, name);
}

/* With server->lock held. The keeper only talks to the kernel, perhaps for long. */
static bool served(const struct fuse_mount *m, bool keeper)
{
    for (struct fuse_thread *t = m->server->threads; t; t = t->next) {
        if (atomic_load(&t->serving) == m && (keeper || !t->notifies))
            return true;
    }
    return false;
}

void fuse_mount_drain(struct fuse_mount *m)
{
    struct fuse_server *s = m->server;

    atomic_store(&m->closing, true);
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->changed);
    while (served(m, true) || m->waiting > 0)
        pthread_cond_wait(&s->changed, &s->lock);
    fuse_keeper_drop(m);
    pthread_mutex_unlock(&s->lock);
}

void fuse_mount_pause(struct fuse_mount *m)
{
    struct fuse_server *s = m->server;

    atomic_store(&m->paused, true);
    pthread_mutex_lock(&s->lock);
    while (served(m, false))
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void fuse_mount_continue(struct fuse_mount *m)
{
    pthread_mutex_lock(&m->server->lock);
    atomic_store(&m->paused, false);
    pthread_cond_broadcast(&m->server->changed);
    pthread_mutex_unlock(&m->server->lock);
}

void fuse_mount_flush(struct fuse_mount *m)
{
    int fd CLEANUP_CLOSE = open(m->target, O_RDONLY | O_CLOEXEC | O_DIRECTORY);

    if (fd >= 0)
        syncfs(fd);
}

void fuse_mount_answered_init(struct fuse_mount *m, int rc)
{
    struct fuse_server *s = m->server;

    if (!rc && m->conn.uring) {
        int arc = fuse_rings_attach(s->rings, m);

        if (arc)
            log_warn("%s: FUSE over io_uring does not work here: %s", m->source, strerror(-arc));
    }
    pthread_mutex_lock(&s->lock);
    if (m->ring_entries)
        fuse_device_only_forgets(s, m);
    if (!rc)
        m->ready = true;
    else
        m->lost = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void fuse_mount_lost(struct fuse_mount *m)
{
    struct fuse_server *s = m->server;

    pthread_mutex_lock(&s->lock);
    if (m->in_use && !m->lost) {
        m->lost = true;
        fuse_device_unwatch(s, m);
        pthread_cond_broadcast(&s->changed);
        pthread_cond_signal(&s->keeper_work);
    }
    pthread_mutex_unlock(&s->lock);
}

void fuse_mount_report_gone(struct fuse_mount *m)
{
    char *left = NULL;

    fuse_mount_drain(m);
    fs_on_invalidate(m->conn.fs, NULL, NULL);
    fuse_snapdir_close(&m->conn.snapdir);
    /* An aborted connection leaves a dead mount behind. After umount(8) what looks like it may be
     * the next mount already. */
    if (fuse_attach_find(m->dev, m->source, &left) > 0 && fuse_attach_is_dead(left))
        fuse_detach(left, m->by_helper, true);
    free(left);
    if (m->gone)
        m->gone(m->gone_arg, m);
}

void fuse_mount_try_recycle(struct fuse_mount *m)
{
    if (!m->in_use || !m->released || !m->lost || m->ring_entries || m->reporting || m->waiting ||
        served(m, true))
        return;
    fuse_device_unwatch(m->server, m);
    fuse_keeper_drop(m);
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
    free(m->source);
    free(m->target);
    m->source = m->target = NULL;
    m->in_use = false;
}

static struct fuse_mount *mount_get(struct fuse_server *s)
{
    struct fuse_mount *m;

    pthread_mutex_lock(&s->lock);
    for (m = s->mounts; m; m = m->next)
        fuse_mount_try_recycle(m);
    for (m = s->mounts; m && m->in_use; m = m->next)
        ;
    if (!m) {
        m = calloc(1, sizeof *m);
        if (m) {
            m->next = s->mounts;
            m->fd = -1;
            s->mounts = m;
        }
    }
    if (m) {
        memset(&m->conn, 0, sizeof m->conn);
        memset(m->counts, 0, sizeof m->counts);
        m->server = s;
        m->watched = m->ready = m->lost = m->unmounting = m->reported = m->reporting = m->released =
            false;
        m->dev = 0;
        m->in_use = true;
        atomic_store(&m->closing, false);
    }
    pthread_mutex_unlock(&s->lock);
    return m;
}

/* Waits until INIT has been answered or the connection is lost. */
static int wait_ready(struct fuse_mount *m)
{
    struct fuse_server *s = m->server;
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += INIT_SECONDS;
    pthread_mutex_lock(&s->lock);
    while (!m->ready && !m->lost && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    rc = m->ready && !m->lost ? 0 : m->lost ? -ENOTCONN : -ETIMEDOUT;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static bool is_lost(struct fuse_mount *m, int seconds)
{
    struct fuse_server *s = m->server;
    struct timespec until;
    bool lost;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    pthread_mutex_lock(&s->lock);
    while (!m->lost && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    lost = m->lost;
    pthread_mutex_unlock(&s->lock);
    return lost;
}

/* Ends the connection by closing its descriptor. Entries in rings hold it open: then the requests
 * that still come are refused until the kernel ends it. */
static void hang_up(struct fuse_mount *m)
{
    struct fuse_server *s = m->server;

    fuse_mount_drain(m);
    pthread_mutex_lock(&s->lock);
    if (!m->lost && m->ring_entries == 0) {
        fuse_device_unwatch(s, m);
        close(m->fd);
        m->fd = -1;
        m->lost = true;
    }
    pthread_mutex_unlock(&s->lock);
}

/* Ends the connection of a mount that is no longer in our mount table. */
static void end_connection(struct fuse_mount *m)
{
    struct pollfd p = {.fd = m->fd};

    /* The kernel has ended it when umount(2) returns, unless somebody still holds the mount: open
     * files of a detached one, or another mount namespace. */
    poll(&p, 1, 0);
    if ((p.revents & POLLERR) || fuse_attach_abort(m->dev))
        is_lost(m, ABORT_SECONDS);
    else
        hang_up(m);
}

static void forget_mount(struct fuse_mount *m)
{
    pthread_mutex_lock(&m->server->lock);
    m->unmounting = true;
    pthread_mutex_unlock(&m->server->lock);
    fuse_mount_drain(m);
    fuse_mount_free(m);
}

static void abandon(struct fuse_mount *m)
{
    pthread_mutex_lock(&m->server->lock);
    m->unmounting = true;
    pthread_mutex_unlock(&m->server->lock);
    fuse_detach(m->target, m->by_helper, true);
    end_connection(m);
    forget_mount(m);
}

/* What large requests have touched of a ring's entries stays in memory; with many mounts that would
 * be much. */
static unsigned ring_payload(struct fuse_server *s)
{
    unsigned n = 0;

    pthread_mutex_lock(&s->lock);
    for (struct fuse_mount *m = s->mounts; m; m = m->next)
        n += m->ring_entries > 0;
    pthread_mutex_unlock(&s->lock);
    return n < 32 ? FUSE_PAYLOAD_MAX : FUSE_PAYLOAD_MAX / 2;
}

static int conn_setup(struct fuse_mount *m, struct fs *fs, const struct fuse_mount_options *o)
{
    struct fs_attr root;
    int rc = fs_getattr(fs, FS_ROOT_INO, &root);

    if (rc)
        return err_prefix(rc, "%s: cannot read the root directory", o->source);
    m->conn = (struct fuse_conn){
        .fs = fs,
        .root_ino = root.ino,
        .posix_acl = o->posix_acl,
        .check_open = o->check_open,
        .offer_uring = m->server->rings != NULL,
        .ring_payload = ring_payload(m->server),
        .privileged = geteuid() == 0,
        .max_read = o->max_read,
        .forget_attr = fuse_forget_attr,
        .forget_data = fuse_forget_data,
        .before_wait = fuse_ring_before_wait,
        .snapdir = {.ops = o->snapshots, .arg = o->arg, .mode = o->snapdir},
    };
    fuse_snapdir_init(&m->conn.snapdir);
    m->gone = o->gone;
    m->gone_arg = o->arg;
    m->source = strdup(o->source);
    m->target = strdup(o->target);
    return m->source && m->target ? 0 : err_set(ENOMEM, "no memory to mount %s", o->source);
}

static int start_serving(struct fuse_mount *m)
{
    struct statx st;
    int rc;

    pthread_mutex_lock(&m->server->lock);
    rc = fuse_device_watch(m->server, m);
    pthread_mutex_unlock(&m->server->lock);
    if (!rc)
        rc = wait_ready(m);
    if (rc)
        return err_set(-rc, "%s: the kernel's FUSE does not answer: %s", m->source, strerror(-rc));
    /* Makes no request: a process that is killed while it waits for itself never ends. */
    if (statx(AT_FDCWD, m->target, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &st))
        return err_set(errno, "%s: cannot enter the new mount: %m", m->target);
    m->dev = makedev(st.stx_dev_major, st.stx_dev_minor);
    fuse_attach_tune(m->dev);
    return 0;
}

int fuse_mount_new(struct fuse_mount **out, struct fuse_server *s, struct fs *fs,
                   const struct fuse_mount_options *opts)
{
    struct fuse_attach a = {.opts = opts, .fd = -1};
    struct fuse_mount *m = mount_get(s);
    int rc;

    if (!m)
        return err_set(ENOMEM, "no memory to mount %s", opts->source);
    rc = conn_setup(m, fs, opts);
    if (!rc)
        rc = fuse_attach(&a);
    if (rc) {
        pthread_mutex_lock(&s->lock);
        m->lost = true;
        pthread_mutex_unlock(&s->lock);
        forget_mount(m);
        return rc;
    }
    m->fd = a.fd;
    m->by_helper = a.by_helper;
    rc = start_serving(m);
    if (rc) {
        abandon(m);
        return rc;
    }
    fs_on_invalidate(fs, on_invalidate, m);
    *out = m;
    return 0;
}

int fuse_mount_remount(struct fuse_mount *m, const struct fuse_mount_options *opts)
{
    CLEANUP_FREE char *place = NULL;
    int n = fuse_attach_find(m->dev, m->source, &place); /* its directory may have been renamed */

    return fuse_attach_change(n > 0 ? place : m->target, opts);
}

/* Takes the mount out of the mount table. The directory it is on may have been renamed. */
static int take_down(struct fuse_mount *m, bool force)
{
    CLEANUP_FREE char *place = NULL;
    int n = fuse_attach_find(m->dev, m->source, &place), rc;

    if (n == 0)
        return 0;
    if (n > 1 && !force)
        return err_set(EBUSY, "cannot unmount '%s': it is mounted in another place as well",
                       m->target);
    rc = fuse_detach(n > 0 ? place : m->target, m->by_helper, false);
    if (rc == -EBUSY && force) {
        int fd CLEANUP_CLOSE = open(n > 0 ? place : m->target, O_RDONLY | O_CLOEXEC);

        if (fd >= 0)
            syncfs(fd); /* what mmap(2) left dirty */
        rc = fuse_detach(n > 0 ? place : m->target, m->by_helper, true);
    }
    if (!rc && n > 1)
        return take_down(m, force);
    return rc;
}

bool fuse_mount_attached(const struct fuse_mount *m)
{
    CLEANUP_FREE char *place = NULL;

    return fuse_attach_find(m->dev, m->source, &place) != 0;
}

int fuse_mount_unmount(struct fuse_mount *m, bool force)
{
    struct fuse_server *s = m->server;
    bool lost;
    int rc = 0;

    pthread_mutex_lock(&s->lock);
    m->unmounting = true;
    lost = m->lost;
    pthread_mutex_unlock(&s->lock);
    if (!lost)
        rc = take_down(m, force);
    if (rc) {
        pthread_mutex_lock(&s->lock);
        m->unmounting = false;
        pthread_cond_signal(&s->keeper_work); /* it may have been lost meanwhile */
        pthread_mutex_unlock(&s->lock);
        return rc;
    }
    if (!lost)
        end_connection(m);
    fuse_mount_drain(m);
    pthread_mutex_lock(&s->lock);
    while (m->reporting) /* gone() is running: the caller may free what it is about */
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    fs_on_invalidate(m->conn.fs, NULL, NULL);
    fuse_snapdir_close(&m->conn.snapdir);
    return 0;
}

void fuse_mount_free(struct fuse_mount *m)
{
    struct fuse_server *s;

    if (!m)
        return;
    s = m->server;
    pthread_mutex_lock(&s->lock);
    m->released = true;
    fuse_mount_try_recycle(m);
    pthread_mutex_unlock(&s->lock);
}

const char *fuse_mount_target(const struct fuse_mount *m)
{
    return m->target;
}

const char *fuse_mount_source(const struct fuse_mount *m)
{
    return m->source;
}

bool fuse_mount_uses_uring(const struct fuse_mount *m)
{
    return m->conn.uring;
}

bool fuse_mount_knows_epochs(const struct fuse_mount *m)
{
    return m->conn.minor >= 44;
}

uint64_t fuse_mount_request_count(const struct fuse_mount *m, unsigned opcode)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < FUSE_COUNT_STRIPES && opcode < FUSE_OPCODE_LIMIT; i++)
        n += atomic_load_explicit(&m->counts[i][opcode], memory_order_relaxed);
    return n;
}
