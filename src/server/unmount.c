/* Unmounting. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/props.h"
#include "fuse/fuse.h"
#include "server/mounts_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"

/* Lock held. */
static int unmount_one(struct server *s, struct mount *m, bool force)
{
    int rc = fuse_mount_unmount(m->fuse, force);
    if (rc == -EBUSY)
        return err_set(EBUSY, "cannot unmount '%s': pool or dataset is busy", m->target);
    if (rc != 0)
        return rc;
    TAILQ_REMOVE(&s->mounts, m, link);
    mount_free(m);
    return 0;
}

/* Not mounted: why. */
static int not_mounted(struct server *s, const char *name)
{
    CLEANUP_FREE char *where = NULL;
    struct dataset *ds;
    int rc;
    if (name[0] == '/')
        return err_set(EINVAL, "not a ZFS filesystem");
    if ((rc = dataset_hold(spa_dsl(s->spa), name, &ds)) != 0)
        return rc;
    if (dataset_is_snapshot(ds) || dataset_type(ds) != OBJSET_ZPL)
        rc = err_set(ENOTSUP, "operation not applicable to datasets of this type");
    else
        rc = prop_mountpoint(ds, s->altroot, &where, NULL);
    dataset_rele(ds);
    if (rc == 0 && strcmp(where, "legacy") == 0)
        return err_set(EINVAL, "legacy mountpoint\nuse umount(8) to unmount this filesystem");
    return rc ? rc : err_set(EINVAL, "not currently mounted");
}

static bool is_below(const char *name, const char *top)
{
    size_t n = strlen(top);
    return strncmp(name, top, n) == 0 &&
           (name[n] == 0 || name[n] == '/' || name[n] == '@' || n == 1);
}

/* The newest mount whose dataset or mount point is below: what was mounted later may be inside of,
 * or on top of, what was mounted before. */
static struct mount *newest(struct server *s, const char *dataset, const char *path)
{
    struct mount *m;
    char own[DATASET_NAME_MAX];
    TAILQ_FOREACH_REVERSE(m, &s->mounts, mount_list, link)
    {
        dataset_name(m->ds, own);
        if ((!dataset && !path) || (dataset && is_below(own, dataset)) ||
            (path && is_below(m->target, path)))
            return m;
    }
    return NULL;
}

/* What has been unmounted, to be put back if a later one is busy. */
struct undone {
    char name[DATASET_NAME_MAX];
    char *target;
    enum temporary temporary[TEMPS];
    bool tidy; /* remove the folder if it stays unmounted */
};

struct undo {
    struct undone *done;
    size_t n;
};

static int undo_add(struct undo *u, const struct mount *m)
{
    struct undone *more = realloc(u->done, (u->n + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    u->done = more;
    struct undone *d = &u->done[u->n];
    if (!(d->target = strdup(m->target)))
        return -ENOMEM;
    dataset_name(m->ds, d->name);
    memcpy(d->temporary, m->temporary, sizeof d->temporary);
    d->tidy = false;
    u->n++;
    return 0;
}

static void undo_end(struct undo *u, struct server *s, bool put_back)
{
    for (size_t i = 0; i < u->n && !put_back; i++) /* those inside others first */
        if (u->done[i].tidy)
            rmdir(u->done[i].target);
    for (size_t i = u->n; i-- > 0;) {
        int rc = put_back
                     ? mounts_restore(s, u->done[i].name, u->done[i].target, u->done[i].temporary)
                     : 0;
        if (rc != 0)
            log_warn("%s cannot be mounted again: %s", u->done[i].name, err_text(rc));
        free(u->done[i].target);
    }
    free(u->done);
}

/* Was the place chosen by us (by default or from above)? Then it may go with the mount. */
static bool place_is_ours(struct server *s, const struct mount *m)
{
    CLEANUP_FREE char *path = NULL;
    struct prop_value raw = {0};
    int rc = prop_mountpoint(m->ds, s->altroot, &path, &raw);
    prop_value_clear(&raw);
    return rc == 0 && (raw.source == SOURCE_DEFAULT || raw.source == SOURCE_INHERITED);
}

/* Lock held. All or nothing; with tidy, empty mount points of ours are removed as well. */
static int unmount_newest_first(struct server *s, const char *dataset, const char *path, bool force,
                                bool tidy)
{
    struct undo undo = {0};
    struct mount *m;
    char why[1024] = "";
    int rc = 0;
    while (rc == 0 && (m = newest(s, dataset, path)) != NULL) {
        rc = undo_add(&undo, m);
        if (rc != 0)
            break;
        undo.done[undo.n - 1].tidy = tidy && place_is_ours(s, m);
        if ((rc = unmount_one(s, m, force)) != 0)
            free(undo.done[--undo.n].target);
    }
    if (rc != 0)
        snprintf(why, sizeof why, "%s", err_text(rc));
    undo_end(&undo, s, rc != 0);
    return rc ? err_set(-rc, "%s", why) : 0;
}

int mounts_unmount(struct server *s, const char *name_or_target, bool force)
{
    pthread_mutex_lock(&s->lock);
    struct mount *m = mounts_find(s, name_or_target);
    CLEANUP_FREE char *path = m ? strdup(m->target) : NULL;
    char name[DATASET_NAME_MAX];
    if (m)
        dataset_name(m->ds, name);
    int rc = !m ? 1 : path ? unmount_newest_first(s, name, path, force, false) : -ENOMEM;
    pthread_mutex_unlock(&s->lock);
    return rc == 1 ? not_mounted(s, name_or_target) : rc;
}

int mounts_again(struct server *s, struct mount *m)
{
    struct undo undo = {0};
    int rc = undo_add(&undo, m);
    if (rc == 0)
        rc = unmount_one(s, m, false);
    char why[512];
    snprintf(why, sizeof why, "%s", err_text(rc));
    undo_end(&undo, s, rc == 0);
    return rc ? err_set(-rc, "%s", why) : 0;
}

int mounts_unmount_one(struct server *s, const char *name, bool force)
{
    pthread_mutex_lock(&s->lock);
    struct mount *m = mounts_find(s, name);
    int rc = m ? unmount_one(s, m, force) : 0;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int mounts_unmount_below(struct server *s, const char *name, bool force, bool tidy)
{
    pthread_mutex_lock(&s->lock);
    int rc = unmount_newest_first(s, name, NULL, force, tidy);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int mounts_unmount_all(struct server *s, bool force)
{
    CLEANUP_FREE char *text = NULL;
    struct mount *m, *before;
    pthread_mutex_lock(&s->lock);
    for (m = TAILQ_LAST(&s->mounts, mount_list); m; m = before) {
        before = TAILQ_PREV(m, mount_list, link);
        int rc = unmount_one(s, m, force);
        if (rc != 0)
            warning_add(&text, "%s", err_text(rc));
    }
    pthread_mutex_unlock(&s->lock);
    return text ? err_set(EBUSY, "%s", text) : 0;
}

void mounts_settle(struct server *s, struct mount *m)
{
    if (!m || fuse_mount_attached(m->fuse) || fuse_mount_unmount(m->fuse, false) != 0)
        return;
    TAILQ_REMOVE(&s->mounts, m, link);
    mount_free(m);
}

void mounts_reap(struct server *s)
{
    struct mount *m, *next;
    if (pthread_mutex_trylock(&s->lock) != 0)
        return; /* next time: somebody is mounting */
    for (m = TAILQ_FIRST(&s->mounts); m; m = next) {
        next = TAILQ_NEXT(m, link);
        if (m->gone) {
            TAILQ_REMOVE(&s->mounts, m, link);
            mount_free(m);
        } else {
            fuse_mount_idle_snapshots(m->fuse);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

struct undo *mounts_lift(struct server *s, const char *target)
{
    struct undo *u = calloc(1, sizeof *u);
    struct mount *m, *before;
    for (m = u ? TAILQ_LAST(&s->mounts, mount_list) : NULL; m; m = before) {
        before = TAILQ_PREV(m, mount_list, link);
        if (strcmp(m->target, target) == 0 || !is_below(m->target, target) || undo_add(u, m) != 0)
            continue;
        if (unmount_one(s, m, false) != 0) /* in use: it stays, below the new one */
            free(u->done[--u->n].target);
    }
    return u;
}

void mounts_put_back(struct server *s, struct undo *u)
{
    if (u)
        undo_end(u, s, true);
    free(u);
}
