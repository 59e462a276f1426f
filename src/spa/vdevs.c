/*
 * Devices that go out of use and come back (docs/devices.md): offline, online, clear, reopen.
 *
 * A device is opened before the tree is locked, for that may take as long as a device likes; a task
 * then gives it to its leaf, in the sync thread, with the tree locked. In between the leaf may be
 * gone; so it is remembered by its guid.
 */
#include "spa/vdevs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/tx.h"
#include "nvlist/nvlist.h"
#include "pool/txg.h"
#include "spa/scan.h"
#include "spa/vdevs_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

/* ---- What they have in common ---- */

static bool in_list(struct spa *spa, unsigned kind, const char *key, const char *name)
{
    struct nvlist **list;
    size_t n;
    if (!spa->aux[kind] || nvlist_get_nvlist_array(spa->aux[kind], key, &list, &n) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(nvlist_string_or(list[i], "path", ""), name) == 0)
            return true;
    return false;
}

int spa_vdev_leaf(struct spa *spa, const char *name, struct vdev **leaf)
{
    *leaf = vdev_find(spa->pool.root, name);
    if (!*leaf && in_list(spa, SPA_AUX_SPARES, "spares", name))
        return err_set(EBUSY, "device is reserved as a hot spare");
    if (!*leaf || !(*leaf)->parent)
        return err_set(ENODEV, "no such device in pool");
    return (*leaf)->kind->leaf ? 0 : err_set(ENOTSUP, "operation not supported on this type of pool");
}

void spa_vdev_missed_until(struct vdev *leaf, uint64_t from, uint64_t txg)
{
    if (vdev_redundant(leaf))
        vdev_missed(leaf, from, txg + TXG_SLOTS - 1);
}

static int task(struct spa *spa, dsl_task_fn *check, dsl_task_fn *sync, void *arg)
{
    return dsl_task(spa->dsl, check, sync, arg, DSL_SPACE_NONE);
}

/* ---- Offline ---- */

struct offline {
    struct spa *spa;
    const char *name;
    bool for_now;
};

static int find_dispensable(struct spa *spa, const char *name, struct vdev **leaf)
{
    int rc = spa_vdev_leaf(spa, name, leaf);
    if (rc == 0 && vdev_readable(*leaf) && !vdev_dispensable(*leaf))
        rc = err_set(EBUSY, "no valid replicas");
    return rc;
}

static int offline_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct offline *o = arg;
    struct vdev *leaf, *root = o->spa->pool.root;
    unsigned slot = vdev_tree_enter(root);
    int rc = find_dispensable(o->spa, o->name, &leaf);
    vdev_tree_leave(root, slot);
    return rc;
}

static int offline_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct offline *o = arg;
    struct vdev *leaf, *root = o->spa->pool.root;
    int rc = spa_vdev_leaf(o->spa, o->name, &leaf);
    if (rc != 0)
        return rc;
    vdev_tree_lock(root);
    leaf->offline = !o->for_now;
    leaf->offline_for_now = o->for_now;
    vdev_put_away(leaf, VDEV_OFFLINE, NULL);
    vdev_tree_unlock(root);
    o->spa->config_dirty = true;
    return 0;
}

int spa_vdev_offline(struct spa *spa, const char *name, bool for_now)
{
    struct offline o = {spa, name, for_now};
    MUTEX_GUARD(&spa->devices);
    return task(spa, offline_check, offline_sync, &o);
}

/* ---- Coming back ---- */

struct target {
    uint64_t guid, least;
    char *path;
    bool in_use;                 /* it is open: to be looked at only */
    bool lost;                   /* ... and is not there any more */
    struct vdev_opened opened;
};

struct back {
    struct spa *spa;
    const char *name;            /* NULL: all */
    bool offline;                /* those that were taken out of use by hand too */
    bool clear;                  /* those with errors; and forget these */
    bool look;                   /* whether those in use are where they were */
    bool resilver;               /* somebody came back that lacks something */
    struct target *target;
    size_t n, room;
};

static bool wanted(const struct back *b, const struct vdev *leaf)
{
    if (!leaf->path)
        return false;
    switch (leaf->state) {
    case VDEV_HEALTHY:
    case VDEV_DEGRADED:
        return b->look && vdev_redundant(leaf);
    case VDEV_OFFLINE:
        return b->offline;
    case VDEV_FAULTED:
        return b->clear || b->offline;
    default:
        return leaf->state == VDEV_CANT_OPEN;
    }
}

/* In the tree. */
static int add_target(struct vdev *leaf, void *arg)
{
    struct back *b = arg;
    if (!wanted(b, leaf))
        return 0;
    if (b->n == b->room) {
        struct target *more = realloc(b->target, (b->room + 8) * sizeof *more);
        if (!more)
            return -ENOMEM;
        b->target = more;
        b->room += 8;
    }
    struct target t = {.guid = leaf->guid, .least = vdev_leaf_needs(leaf), .path = strdup(leaf->path),
                       .in_use = vdev_readable(leaf)};
    if (!t.path)
        return -ENOMEM;
    b->target[b->n++] = t;
    return 0;
}

static int find_targets(struct back *b, struct vdev **found)
{
    struct vdev *root = b->spa->pool.root;
    *found = b->name ? vdev_find(root, b->name) : root;
    if (!*found) { /* a spare has no errors to forget */
        int rc = spa_vdev_leaf(b->spa, b->name, found);
        return rc == -EBUSY && b->clear ? 0 : rc;
    }
    return vdev_each_leaf(*found, add_target, b);
}

/* Outside of the tree: this may take long. */
static int open_targets(struct back *b)
{
    int rc = 0;
    for (size_t i = 0; i < b->n && rc != -ENOMEM; i++) {
        struct target *t = &b->target[i];
        if (t->in_use)
            t->lost = !vdev_device_there(t->path, t->guid, b->spa->pool.guid);
        else
            rc = vdev_open_device(t->path, t->guid, b->spa->pool.guid, t->least, &t->opened);
    }
    return rc == -ENOMEM ? rc : 0;
}

static void free_targets(struct back *b)
{
    for (size_t i = 0; i < b->n; i++) {
        vdev_opened_close(&b->target[i].opened);
        free(b->target[i].path);
    }
    free(b->target);
}

/* With the tree locked. */
static int take_back(struct back *b, struct vdev *leaf, struct target *t, uint64_t txg)
{
    uint64_t first, last;
    int rc = vdev_bring_back(leaf, &t->opened);
    if (rc != 0)
        return rc;
    spa_vdev_missed_until(leaf, txg, txg);
    b->resilver |= vdev_dtl_bounds(leaf, &first, &last);
    return 0;
}

static int apply(struct back *b, struct target *t, uint64_t txg)
{
    struct vdev *leaf = vdev_find_guid(b->spa->pool.root, t->guid);
    if (!leaf || !leaf->kind->leaf || vdev_readable(leaf) != t->in_use)
        return 0; /* others were here meanwhile */
    if (t->opened.device)
        return take_back(b, leaf, t, txg);
    if (t->in_use && (!t->lost || !vdev_dispensable(leaf)))
        return 0;
    leaf->offline = leaf->offline_for_now = leaf->faulted = false;
    leaf->went_away |= t->in_use || leaf->state != VDEV_CANT_OPEN;
    vdev_put_away(leaf, VDEV_CANT_OPEN, t->in_use ? "cannot open" : t->opened.why);
    return 0;
}

static int back_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct back *b = arg;
    int rc = 0;
    vdev_tree_lock(b->spa->pool.root);
    for (size_t i = 0; i < b->n && rc == 0; i++)
        rc = apply(b, &b->target[i], tx->txg);
    vdev_tree_unlock(b->spa->pool.root);
    b->spa->config_dirty = true;
    return rc;
}

static void forget_errors(struct vdev *v)
{
    __atomic_store_n(&v->stats.read_errors, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&v->stats.write_errors, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&v->stats.checksum_errors, 0, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < v->children; i++)
        forget_errors(v->child[i]);
}

static int prepare(struct back *b)
{
    struct vdev *found, *root = b->spa->pool.root;
    unsigned slot = vdev_tree_enter(root);
    int rc = find_targets(b, &found);
    if (rc == 0 && b->clear && found)
        forget_errors(found);
    vdev_tree_leave(root, slot);
    return rc ? rc : open_targets(b);
}

/* Nothing that is to be written may depend on a pool that cannot be. */
static int check_alive(struct spa *spa)
{
    if (spa->readonly)
        return err_set(EROFS, "pool is read-only");
    return txg_suspended(spa->pool.txg) ? err_set(EIO, "the pool is suspended") : 0;
}

static int bring_back(struct back *b)
{
    int rc = check_alive(b->spa);
    if (rc == 0)
        rc = prepare(b);
    if (rc == 0 && b->n > 0)
        rc = task(b->spa, NULL, back_sync, b);
    free_targets(b);
    if (rc == 0 && b->resilver)
        spa_resilver_request(b->spa);
    return rc;
}

int spa_vdev_online(struct spa *spa, const char *name, enum vdev_state *state)
{
    struct back b = {.spa = spa, .name = name, .offline = true};
    struct vdev *v;
    MUTEX_GUARD(&spa->devices);
    int rc = bring_back(&b);
    if (rc != 0)
        return rc;
    unsigned slot = vdev_tree_enter(spa->pool.root);
    v = vdev_find(spa->pool.root, name);
    *state = v ? v->state : VDEV_CANT_OPEN;
    vdev_tree_leave(spa->pool.root, slot);
    return 0;
}

int spa_vdev_clear(struct spa *spa, const char *name)
{
    struct back b = {.spa = spa, .name = name, .clear = true};
    MUTEX_GUARD(&spa->devices);
    return bring_back(&b);
}

int spa_vdev_reopen(struct spa *spa)
{
    struct back b = {.spa = spa, .look = true};
    MUTEX_GUARD(&spa->devices);
    return bring_back(&b);
}
