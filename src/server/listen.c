/* The control socket: accepting, a thread per connection, dispatch. */
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/calls_impl.h"
#include "server/rundir_impl.h"
#include "server/server_impl.h"
#include "util/err.h"

#define CONNECTIONS_MAX 64
#define REAP_MS         1000
#define SEND_SECONDS    30 /* for the other end to take a reply */
#define IDLE_SECONDS    60 /* for it to ask something */

struct connection {
    struct server *s;
    int fd;
    uid_t uid;
    gid_t gid;
    uint32_t *groups;
    size_t ngroups;
    bool changed;
    struct calls calls;
};

int call_row(struct call *c, struct json_object *row)
{
    struct json_object *o = json_object_new_object();
    json_object_object_add(o, "row", row);
    return wire_queue(c->wire, o);
}

static const struct operation *find_operation(const char *name)
{
    const struct operation *tables[] = {pool_operations, device_operations, scan_operations,
                                        zfs_operations,  mount_operations,  key_operations};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct operation *op = tables[t]; op->name; op++)
            if (strcmp(op->name, name) == 0)
                return op;
    return NULL;
}

/* Shared or exclusive use of the pool around the operation; the pool may have gone meanwhile. The
 * admin lock comes second: an operation that runs beside others may take it for a while. */
static int run_locked(struct call *c, const struct operation *op)
{
    struct server *s = c->s;
    bool alone = !(op->flags & (OP_READ | OP_BESIDE));
    if (op->flags & OP_ENDS)
        pthread_rwlock_wrlock(&s->in_use);
    else
        pthread_rwlock_rdlock(&s->in_use);
    if (alone)
        pthread_mutex_lock(&s->admin);
    int rc = s->spa ? op->run(c) : err_set(ENOENT, "no such pool");
    if (alone)
        pthread_mutex_unlock(&s->admin);
    pthread_rwlock_unlock(&s->in_use);
    return rc;
}

static int run_operation(struct call *c, const char *name)
{
    const struct operation *op = find_operation(name);
    if (!op)
        return err_set(EINVAL, "the pool process knows no operation '%s'", name);
    if (op->flags & OP_READ)
        return run_locked(c, op);
    if (!c->trusted && !(op->flags & OP_DELEGATED))
        return err_set(EPERM, "permission denied");
    int rc = run_locked(c, op);
    if (op->flags & OP_BESIDE)
        return rc;
    *c->changed = op->flags & OP_RECORDS ? false : *c->changed || rc == 0;
    return rc;
}

static int send_result(struct call *c, int rc)
{
    struct json_object *reply = json_object_new_object();
    if (rc == 0) {
        json_object_object_add(reply, "ok", c->ok);
        return wire_send(c->wire, reply);
    }
    struct json_object *e = json_object_new_object();
    json_object_object_add(e, "errno", json_object_new_int(-rc));
    json_object_object_add(e, "text", json_object_new_string(err_text(rc)));
    json_object_object_add(reply, "error", e);
    json_object_put(c->ok);
    return wire_send(c->wire, reply);
}

static int answer(struct server *s, struct wire *w, struct connection *k, struct json_object *req)
{
    struct call c = {.s = s,
                     .wire = w,
                     .args = json_member(req, "args"),
                     .uid = k->uid,
                     .gid = k->gid,
                     .groups = k->groups,
                     .ngroups = k->ngroups,
                     .trusted = k->uid == 0 || k->uid == geteuid(),
                     .calls = &k->calls,
                     .started = clock_ns(),
                     .changed = &k->changed};
    c.ok = json_object_new_object();
    err_clear();
    s->answering++;
    int rc = send_result(&c, run_operation(&c, json_text(req, "op", "")));
    s->answering--;
    if (s->end != SERVER_SERVING)
        server_wake(s);
    return rc;
}

/* The groups of the process at the other end, its own one among them. Without memory only that. */
static void find_groups(struct connection *k)
{
    socklen_t n = 0;
    getsockopt(k->fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &n); /* says how many bytes it takes */
    k->groups = calloc(n / sizeof *k->groups + 1, sizeof *k->groups);
    if (!k->groups)
        return;
    if (n > 0 && getsockopt(k->fd, SOL_SOCKET, SO_PEERGROUPS, k->groups, &n) == 0)
        k->ngroups = n / sizeof *k->groups;
    k->groups[k->ngroups++] = k->gid;
}

void server_serve(struct server *s, int fd, uid_t uid, gid_t gid)
{
    struct connection k = {.s = s, .fd = fd, .uid = uid, .gid = gid};
    struct json_object *req;
    struct wire w;
    wire_init(&w, fd);
    find_groups(&k);
    while (wire_receive(&w, &req) == 0) {
        int rc = answer(s, &w, &k, req);
        json_object_put(req);
        if (rc != 0)
            break;
    }
    wire_destroy(&w);
    pthread_rwlock_rdlock(&s->in_use);
    calls_write(s, &k.calls, NULL, uid);
    pthread_rwlock_unlock(&s->in_use);
    free(k.groups);
}

static void *serve_connection(void *arg)
{
    struct connection k = *(struct connection *)arg;
    free(arg);
    server_serve(k.s, k.fd, k.uid, k.gid);
    k.s->connections--;
    return NULL;
}

static int start_thread(struct connection *k)
{
    pthread_attr_t attr;
    pthread_t t;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int rc = pthread_create(&t, &attr, serve_connection, k);
    pthread_attr_destroy(&attr);
    return rc;
}

/* False when nobody is waiting. */
static bool accept_one(struct server *s)
{
    struct ucred cred;
    struct timeval send_limit = {.tv_sec = SEND_SECONDS}, idle_limit = {.tv_sec = IDLE_SECONDS};
    socklen_t n = sizeof cred;
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return false;
    struct connection *k = calloc(1, sizeof *k);
    if (!k || s->connections >= CONNECTIONS_MAX ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) != 0) {
        free(k);
        close(fd);
        return true;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send_limit, sizeof send_limit);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &idle_limit, sizeof idle_limit);
    *k = (struct connection){.s = s, .fd = fd, .uid = cred.uid, .gid = cred.gid};
    s->connections++;
    if (start_thread(k) != 0) {
        close(fd);
        free(k);
        s->connections--;
    }
    return true;
}

/* Also from a signal handler. */
void server_wake(struct server *s)
{
    if (write(s->wake[1], "", 1) < 0)
        return; /* the pipe is full: the main loop will wake up anyway */
}

/* Until the pool is closed or a signal asks to end, and what was asked before has been answered. */
void server_loop(struct server *s)
{
    while (s->end == SERVER_SERVING || s->answering > 0) {
        struct pollfd p[2] = {{.fd = s->listener, .events = POLLIN},
                              {.fd = s->wake[0], .events = POLLIN}};
        char drain[64];
        if (poll(p, 2, REAP_MS) < 0 && errno != EINTR)
            break;
        while (read(s->wake[0], drain, sizeof drain) > 0)
            ;
        while ((p[0].revents & POLLIN) && accept_one(s))
            ;
        mounts_reap(s);
    }
}

int server_listen(struct server *s)
{
    char dir[RUNDIR_MAX];
    int rc = rundir_own(dir, 1);
    if (rc == 0)
        rc = rundir_path(dir, spa_name(s->spa), "sock", s->socket_path, sizeof s->socket_path);
    if (rc != 0)
        return rc;
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listener < 0)
        return -errno;
    rc = rundir_bind(s->listener, dir, s->socket_path);
    if (rc == 0 && listen(s->listener, 128) != 0)
        rc = err_set(errno, "%s: %s", s->socket_path, strerror(errno));
    s->visible = rc == 0;
    return rc;
}

/* Nobody finds the pool any more, and its name is free; the main loop still owns the listener. */
void server_hide(struct server *s)
{
    if (atomic_exchange(&s->visible, false))
        unlink(s->socket_path);
    if (s->log >= 0)
        flock(s->log, LOCK_UN);
}

void server_unlisten(struct server *s)
{
    server_hide(s);
    if (s->listener >= 0)
        close(s->listener);
    s->listener = -1;
}
