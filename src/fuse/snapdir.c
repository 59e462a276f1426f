/*
 * .zfs/snapshot: the snapshots of a mounted file system, in the mount itself. Nodes of a snapshot
 * have a tag in the upper 16 bits of their number, which tells the snapshot; below it is the number
 * of the file. Snapshots are opened when somebody looks them up, and closed when the kernel has
 * forgotten all of their nodes and nobody has asked for a while.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "fuse/server_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"

#define NODE_ZFS      0xffffffffffffull
#define NODE_SNAPSHOT 0xfffffffffffdull
#define TAG_SHIFT     48
#define TAGS          65535u
#define NAME_SECONDS  1 /* how long a snapshot's name is believed */
#define IDLE_SECONDS  300
#define WAIT_SECONDS  2 /* for the kernel to forget what nobody uses */

struct fuse_snapshot {
    struct fuse_snapshot *next;
    uint64_t id;
    uint64_t tag;    /* in place */
    struct fs *fs;   /* NULL: taken away from its users */
    uint64_t nodes;  /* references that the kernel has */
    unsigned active; /* requests being served */
    time_t used;
    bool told; /* the kernel has been asked to forget it */
    char *name;
};

static time_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec;
}

void fuse_snapdir_init(struct fuse_snapdir *d)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, &attr);
    pthread_condattr_destroy(&attr);
    d->open = NULL;
}

/* ---- The table; with the lock held ---- */

static struct fuse_snapshot *by_tag(struct fuse_snapdir *d, uint64_t tag)
{
    struct fuse_snapshot *s = d->open;

    while (s && s->tag != tag)
        s = s->next;
    return s;
}

static struct fuse_snapshot *by_id(struct fuse_snapdir *d, uint64_t id)
{
    struct fuse_snapshot *s = d->open;

    while (s && (s->id != id || !s->fs))
        s = s->next;
    return s;
}

/* The same for a snapshot each time, unless another one has it. */
static uint64_t choose_tag(struct fuse_snapdir *d, uint64_t id)
{
    uint64_t n = id % TAGS;

    while (by_tag(d, (n + 1) << TAG_SHIFT))
        n = (n + 1) % TAGS;
    return (n + 1) << TAG_SHIFT;
}

static void drop(struct fuse_snapdir *d, struct fuse_snapshot *s)
{
    struct fuse_snapshot **p = &d->open;

    while (*p != s)
        p = &(*p)->next;
    *p = s->next;
    if (s->fs)
        d->ops->close(d->arg, s->fs);
    free(s->name);
    free(s);
}

static int open_snapshot(struct fuse_snapdir *d, uint64_t id, const char *name,
                         struct fuse_snapshot **out)
{
    struct fuse_snapshot *s = calloc(1, sizeof *s);
    int rc = s && (s->name = strdup(name)) ? 0 : -ENOMEM;

    if (!rc)
        rc = d->ops->open(d->arg, id, &s->fs);
    if (rc) {
        if (s)
            free(s->name);
        free(s);
        return rc;
    }
    s->id = id;
    s->tag = choose_tag(d, id);
    s->next = d->open;
    d->open = s;
    *out = s;
    return 0;
}

static void forget_nodes(struct fuse_snapdir *d, struct fuse_snapshot *s, uint64_t n)
{
    s->nodes -= MIN(n, s->nodes);
    if (s->nodes == 0 && !s->fs && s->active == 0)
        drop(d, s);
    pthread_cond_broadcast(&d->changed);
}

/* ---- Requests ---- */

int fuse_snapdir_enter(struct fuse_request *r)
{
    struct fuse_snapdir *d = &r->c->snapdir;
    uint64_t tag = r->in.nodeid >> TAG_SHIFT << TAG_SHIFT;
    struct fuse_snapshot *s;

    r->fs = r->c->fs;
    r->tag = 0;
    r->snapshot = NULL;
    if (!tag || r->in.opcode == FUSE_FORGET || r->in.opcode == FUSE_BATCH_FORGET)
        return 0;
    MUTEX_GUARD(&d->lock);
    s = by_tag(d, tag);
    if (!s || !s->fs)
        return -ESTALE;
    s->active++;
    s->used = now();
    r->fs = s->fs;
    r->tag = tag;
    r->snapshot = s;
    r->in.nodeid &= ~tag;
    return 0;
}

void fuse_snapdir_leave(struct fuse_request *r)
{
    struct fuse_snapdir *d = &r->c->snapdir;

    if (!r->snapshot)
        return;
    MUTEX_GUARD(&d->lock);
    r->snapshot->active--;
    pthread_cond_broadcast(&d->changed);
    r->snapshot = NULL;
}

void fuse_snapdir_given(const struct fuse_request *r)
{
    if (!r->snapshot)
        return;
    MUTEX_GUARD(&r->c->snapdir.lock);
    r->snapshot->nodes++;
}

void fuse_snapdir_forget(struct fuse_conn *c, uint64_t node, uint64_t n)
{
    uint64_t tag = node >> TAG_SHIFT << TAG_SHIFT;
    struct fuse_snapshot *s;

    if (node == NODE_ZFS || node == NODE_SNAPSHOT)
        return;
    if (!tag) {
        fs_forget(c->fs, node, n);
        return;
    }
    MUTEX_GUARD(&c->snapdir.lock);
    s = by_tag(&c->snapdir, tag);
    if (s && s->fs)
        fs_forget(s->fs, node & ~tag, n);
    if (s)
        forget_nodes(&c->snapdir, s, n);
}

bool fuse_snapdir_is_foreign(const struct fuse_request *r, uint64_t node)
{
    return node >> TAG_SHIFT << TAG_SHIFT != r->tag || node == NODE_ZFS || node == NODE_SNAPSHOT;
}

/* ---- The two directories that are nowhere on disk ---- */

bool fuse_snapdir_is_ours(const struct fuse_request *r)
{
    return r->c->snapdir.ops && (r->in.nodeid == NODE_ZFS || r->in.nodeid == NODE_SNAPSHOT);
}

static int attr_of(struct fuse_request *r, uint64_t node, struct fs_attr *a)
{
    int rc = fs_getattr(r->c->fs, FS_ROOT_INO, a);

    *a = (struct fs_attr){.ino = node,
                          .gen = 1,
                          .mode = S_IFDIR | 0555,
                          .nlink = 2,
                          .size = 2,
                          .blksize = 512,
                          .atime = a->ctime,
                          .mtime = a->ctime,
                          .ctime = a->ctime,
                          .crtime = a->crtime};
    return rc;
}

static bool is_root(const struct fuse_request *r)
{
    return !r->tag && (r->in.nodeid == FUSE_ROOT_ID || r->in.nodeid == r->c->root_ino);
}

bool fuse_snapdir_named(const struct fuse_request *r)
{
    return r->c->snapdir.ops && r->c->snapdir.mode != FUSE_SNAPDIR_DISABLED && is_root(r) &&
           !strcmp(r->name, ".zfs");
}

int fuse_snapdir_lookup_zfs(struct fuse_request *r)
{
    struct fs_attr a;
    int rc = attr_of(r, NODE_ZFS, &a);

    if (!rc)
        fuse_reply_entry(r, &a);
    return rc;
}

/* A name is believed for a moment only: snapshots come and go without the kernel. */
static int lookup_snapshot(struct fuse_request *r)
{
    struct fuse_snapdir *d = &r->c->snapdir;
    struct fuse_entry_out *o = (struct fuse_entry_out *)r->out;
    struct fuse_snapshot *s;
    struct fs_attr a;
    uint64_t id;
    int rc = d->ops->find(d->arg, r->name, &id);

    if (rc)
        return rc;
    pthread_mutex_lock(&d->lock);
    s = by_id(d, id);
    rc = s ? 0 : open_snapshot(d, id, r->name, &s);
    if (!rc) {
        s->active++;
        s->used = now();
        s->told = false;
        r->snapshot = s;
        r->tag = s->tag;
    }
    pthread_mutex_unlock(&d->lock);
    if (!rc)
        rc = fs_getattr(s->fs, FS_ROOT_INO, &a);
    if (rc)
        return rc;
    fuse_reply_entry(r, &a);
    o->entry_valid = NAME_SECONDS;
    return 0;
}

static int lookup(struct fuse_request *r)
{
    struct fs_attr a;
    int rc;

    if (r->in.nodeid == NODE_SNAPSHOT && strcmp(r->name, ".") && strcmp(r->name, ".."))
        return lookup_snapshot(r);
    if (strcmp(r->name, "snapshot"))
        return -ENOENT;
    rc = attr_of(r, NODE_SNAPSHOT, &a);
    if (!rc)
        fuse_reply_entry(r, &a);
    return rc;
}

struct listing {
    struct fuse_request *r;
    fs_emit_fn *emit;
    void *arg;
    uint64_t cookie;
    bool more;
};

static bool list_one(struct listing *l, const char *name, uint64_t ino, uint64_t next)
{
    if (l->more && l->cookie < next)
        l->more = l->emit(l->arg, name, strlen(name), ino, 4, next, NULL);
    return l->more;
}

/* Snapshots are listed by age; the cookie of one is its txg, which no other has. */
static bool list_snapshot(void *arg, const char *name, uint64_t id, uint64_t txg)
{
    struct listing *l = arg;
    uint64_t tag = (id % TAGS + 1) << TAG_SHIFT;

    return list_one(l, name, tag | l->r->c->root_ino, txg + 2);
}

int fuse_snapdir_readdir(struct fuse_request *r, uint64_t cookie, fs_emit_fn *emit, void *arg)
{
    struct fuse_snapdir *d = &r->c->snapdir;
    struct listing l = {r, emit, arg, cookie, true};
    bool top = r->in.nodeid == NODE_ZFS;

    if (!list_one(&l, ".", r->in.nodeid, 1) ||
        !list_one(&l, "..", top ? r->c->root_ino : NODE_ZFS, 2))
        return 0;
    if (!top)
        return d->ops->list(d->arg, list_snapshot, &l);
    list_one(&l, "snapshot", NODE_SNAPSHOT, 3);
    return 0;
}

bool fuse_snapdir_listed(const struct fuse_request *r, uint64_t *ino)
{
    *ino = NODE_ZFS;
    return r->c->snapdir.ops && r->c->snapdir.mode == FUSE_SNAPDIR_VISIBLE && is_root(r);
}

/* Everything else that may come for one of them. */
int fuse_snapdir_run(struct fuse_request *r)
{
    struct fs_attr a;
    int rc;

    switch (r->in.opcode) {
    case FUSE_LOOKUP:
        return lookup(r);
    case FUSE_GETATTR:
    case FUSE_STATX:
        rc = attr_of(r, r->in.nodeid, &a);
        if (!rc)
            fuse_reply_attr(r, &a);
        return rc;
    case FUSE_OPENDIR:
        return fuse_op_open(r);
    case FUSE_READDIR:
        return fuse_op_readdir(r);
    case FUSE_READDIRPLUS:
        return fuse_op_readdirplus(r);
    case FUSE_STATFS:
        return fuse_op_statfs(r);
    case FUSE_RELEASEDIR:
    case FUSE_FSYNCDIR:
        return 0;
    case FUSE_GETXATTR:
        return -ENODATA;
    case FUSE_LISTXATTR:
    case FUSE_IOCTL:
        return r->in.opcode == FUSE_IOCTL ? -ENOTTY : -EOPNOTSUPP;
    default:
        return -EROFS;
    }
}

/* ---- Closing ---- */

static bool unused(const struct fuse_snapshot *s)
{
    return s->nodes == 0 && s->active == 0;
}

/* With the lock held. Waits for the kernel to forget a snapshot, which it has been asked to. */
static bool wait_unused(struct fuse_snapdir *d, uint64_t id)
{
    struct fuse_snapshot *s;
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_SECONDS;
    while ((s = by_id(d, id)) && !unused(s) && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&d->changed, &d->lock, &until);
    return !s || unused(s);
}

int fuse_mount_release_snapshot(struct fuse_mount *m, uint64_t id, bool force)
{
    struct fuse_snapdir *d = &m->conn.snapdir;
    struct fuse_snapshot *s;
    int rc = 0;

    pthread_mutex_lock(&d->lock);
    s = by_id(d, id);
    if (s && !unused(s)) {
        CLEANUP_FREE char *name = strdup(s->name);

        pthread_mutex_unlock(&d->lock);
        if (name)
            fuse_mount_invalidate(m, NODE_SNAPSHOT, name);
        fuse_mount_invalidate_wait(m);
        pthread_mutex_lock(&d->lock);
        rc = wait_unused(d, id) ? 0 : -EBUSY;
        s = by_id(d, id);
    }
    if (rc && force && s) {
        while (s->active > 0)
            pthread_cond_wait(&d->changed, &d->lock);
        d->ops->close(d->arg, STEAL(s->fs));
        rc = 0;
    } else if (!rc && s) {
        drop(d, s);
    }
    pthread_mutex_unlock(&d->lock);
    return rc;
}

void fuse_mount_idle_snapshots(struct fuse_mount *m)
{
    struct fuse_snapdir *d = &m->conn.snapdir;
    time_t before = now() - IDLE_SECONDS;

    MUTEX_GUARD(&d->lock);
    for (struct fuse_snapshot *s = d->open, *next; s; s = next) {
        next = s->next;
        if (s->used > before || s->active > 0 || !s->fs)
            continue;
        if (s->nodes == 0) {
            drop(d, s);
        } else if (!s->told) {
            fuse_mount_invalidate(m, NODE_SNAPSHOT, s->name);
            s->told = true;
        }
    }
}

void fuse_mount_snapshots_changed(struct fuse_mount *m)
{
    if (m->conn.snapdir.ops)
        fuse_mount_invalidate(m, NODE_SNAPSHOT, NULL);
}

void fuse_mount_set_snapdir(struct fuse_mount *m, int mode)
{
    m->conn.snapdir.mode = mode;
    fuse_mount_invalidate(m, m->conn.root_ino, NULL);
    fuse_mount_invalidate(m, m->conn.root_ino, ".zfs");
}

void fuse_snapdir_close(struct fuse_snapdir *d)
{
    MUTEX_GUARD(&d->lock);

    while (d->open)
        drop(d, d->open);
}
