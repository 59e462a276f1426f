/*
 * The snapshots of a mounted file system, for .zfs/snapshot. They are opened from threads of the
 * FUSE server, which must not take server.lock; what is open is known to the mount alone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "dsl/props.h"
#include "fs/fs.h"
#include "fuse/fuse.h"
#include "server/mounts_impl.h"
#include "server/server_impl.h"
#include "util/err.h"

static int hold(struct mount *m, const char *name, struct dataset **out)
{
    char full[2 * DATASET_NAME_MAX];
    dataset_name(m->ds, full);
    size_t n = strlen(full);
    if (n + strlen(name) + 2 > DATASET_NAME_MAX)
        return -ENOENT;
    snprintf(full + n, sizeof full - n, "@%s", name);
    if (dataset_name_check(full) != 0)
        return -ENOENT;
    return dataset_hold(dataset_dsl(m->ds), full, out);
}

static int find(void *arg, const char *name, uint64_t *id)
{
    struct dataset_stats stats;
    struct dataset *ds;
    int rc = hold(arg, name, &ds);
    if (rc != 0)
        return rc;
    rc = dataset_stats(ds, &stats);
    *id = stats.object;
    dataset_rele(ds);
    return rc;
}

static int open_fs(struct mount *m, struct dataset *ds, struct fs **fs)
{
    struct fs_options o = {.readonly = true};
    int rc = dataset_own(ds, m);
    if (rc != 0)
        return rc;
    o.xattr = (int)prop_get_number(m->ds, "xattr");
    o.acltype = (int)prop_get_number(m->ds, "acltype");
    rc = fs_open(fs, ds, &o);
    if (rc != 0)
        dataset_disown(ds, m);
    return rc;
}

static int open_snapshot(void *arg, uint64_t id, struct fs **fs)
{
    struct mount *m = arg;
    struct dataset *ds;
    int rc = dataset_hold_object(dataset_dsl(m->ds), id, &ds);
    if (rc != 0)
        return rc;
    rc = open_fs(m, ds, fs);
    if (rc != 0)
        dataset_rele(ds);
    return rc;
}

static void close_snapshot(void *arg, struct fs *fs)
{
    struct dataset *ds = fs_dataset(fs);
    fs_close(fs);
    dataset_disown(ds, arg);
    dataset_rele(ds);
}

struct listing {
    bool (*fn)(void *arg, const char *name, uint64_t id, uint64_t txg);
    void *arg;
};

static int list_one(void *arg, struct dataset *ds)
{
    struct listing *l = arg;
    struct dataset_stats stats;
    char *at;
    int rc = dataset_is_snapshot(ds) ? dataset_stats(ds, &stats) : 1;
    if (rc != 0)
        return rc < 0 ? rc : 0;
    at = strchr(stats.name, '@');
    return !at || at[1] == '%' || l->fn(l->arg, at + 1, stats.object, stats.creation_txg) ? 0 : 1;
}

static int list(void *arg, bool (*fn)(void *arg, const char *name, uint64_t id, uint64_t txg),
                void *fn_arg)
{
    struct mount *m = arg;
    struct listing l = {fn, fn_arg};
    char name[DATASET_NAME_MAX];
    dataset_name(m->ds, name);
    int rc = dataset_each(dataset_dsl(m->ds), name, 0, true, list_one, &l);
    return rc < 0 ? rc : 0;
}

const struct fuse_snapshots mount_snapshots = {find, open_snapshot, close_snapshot, list};

/* ---- Changes ---- */

int mounts_release_snapshot(struct server *s, const char *name, bool force)
{
    char head[DATASET_NAME_MAX];
    uint64_t id;
    int rc = 0;
    snprintf(head, sizeof head, "%.*s", (int)strcspn(name, "@"), name);
    pthread_mutex_lock(&s->lock);
    struct mount *m = mounts_find(s, head);
    if (m && find(m, strchr(name, '@') + 1, &id) == 0)
        rc = fuse_mount_release_snapshot(m->fuse, id, force);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void mounts_snapshots_changed(struct server *s)
{
    struct mount *m;
    pthread_mutex_lock(&s->lock);
    TAILQ_FOREACH (m, &s->mounts, link) {
        fuse_mount_snapshots_changed(m->fuse);
        fuse_mount_invalidate_wait(m->fuse);
    }
    pthread_mutex_unlock(&s->lock);
}
