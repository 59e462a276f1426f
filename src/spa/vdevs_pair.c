/*
 * Devices that join others, and leave them (spec 01 24): attach, replace, detach.
 *
 * A new device gets labels of txg 0, which belong to no pool yet, and in one txg its place in the
 * tree; it lacks everything then (its set of missed txgs says so), and gets what is written from
 * now on. A device that leaves keeps its labels until the txg in which it left is the pool. So a
 * crash leaves the tree before or after.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/tx.h"
#include "pool/txg.h"
#include "spa/scan.h"
#include "spa/vdevs_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

#define OLD "/old" /* behind the path of a device whose successor has the same */

static bool is_type(const struct vdev *v, const char *type)
{
    return strcmp(v->kind->type, type) == 0;
}

/* ---- Attach and replace ---- */

struct attachment {
    struct spa *spa;
    const struct spa_attach_args *args;
    uint64_t old_guid, pair_guid;
    uint64_t least;              /* bytes that the new one needs */
    unsigned ashift;             /* of the vdev */
    struct vdev *fresh;          /* NULL when it is in the tree */
};

static void free_tree(struct vdev **v)
{
    if (*v)
        vdev_tree_free(*v);
}

static int check_place(const struct vdev *old, bool replace)
{
    const struct vdev *parent = old->parent;
    if (is_type(parent, "replacing") || is_type(parent, "spare"))
        return err_set(EALREADY, "already in replacing/spare config; wait for completion or use "
                                 "'zpool detach'");
    if (is_type(parent, "mirror") || old->top == old || (replace && is_type(parent, "raidz")))
        return 0;
    return err_set(ENOTSUP, "can only attach to mirrors and top-level disks");
}

/* In the tree: the device that is there. */
static int find_old(struct attachment *a, struct vdev **old)
{
    int rc = spa_vdev_leaf(a->spa, a->args->name, old);
    if (rc == -ENOTSUP && a->args->replace)
        return err_set(EALREADY, "already in replacing/spare config; wait for completion or use "
                                 "'zpool detach'");
    if (rc == -ENOTSUP)
        return err_set(ENOTSUP, "can only attach to mirrors and top-level disks");
    if (rc == -EBUSY)
        return err_set(ENODEV, "no such device in pool");
    return rc ? rc : check_place(*old, a->args->replace);
}

static int look(struct attachment *a)
{
    struct vdev *old, *root = a->spa->pool.root;
    unsigned slot = vdev_tree_enter(root);
    int rc = find_old(a, &old);
    if (rc == 0) {
        a->old_guid = old->guid;
        a->least = vdev_leaf_needs(old);
        a->ashift = old->top->ashift;
    }
    vdev_tree_leave(root, slot);
    return rc;
}

static int open_new(struct attachment *a)
{
    const struct spa_attach_args *args = a->args;
    int rc = args->ashift != 0 && args->ashift != a->ashift
                 ? err_set(EDOM, "new device has a different optimal sector size; use the option "
                                 "'-o ashift=%u' to override the optimal size", a->ashift)
                 : 0;
    if (rc == 0)
        rc = args->force ? vdev_leaf_new_forced(&a->fresh, args->path, a->ashift, &a->spa->env)
                         : vdev_leaf_new(&a->fresh, args->path, a->ashift, &a->spa->env);
    if (rc == -EINVAL)
        return err_set(EDOM, "new device has larger sectors than the vdev (ashift %u)", a->ashift);
    if (rc == -EOVERFLOW || (rc == 0 && a->fresh->kind->asize(a->fresh) < a->least))
        return err_set(EOVERFLOW, "device is too small");
    return rc;
}

static int attach_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct attachment *a = arg;
    struct vdev *root = a->spa->pool.root;
    unsigned slot = vdev_tree_enter(root);
    struct vdev *old = vdev_find_guid(root, a->old_guid);
    int rc = old && old->kind->leaf ? check_place(old, a->args->replace)
                                    : err_set(ENODEV, "no such device in pool");
    vdev_tree_leave(root, slot);
    return rc;
}

/* The successor has the same path: the old device is somewhere else now. */
static int rename_old(struct vdev *old, const char *path)
{
    char *other;
    if (!old->path || strcmp(old->path, path) != 0)
        return 0;
    if (asprintf(&other, "%s" OLD, path) < 0)
        return -ENOMEM;
    free(old->path);
    old->path = other;
    return 0;
}

/* With the tree locked. */
static int join(struct attachment *a, struct vdev *old, struct vdev *fresh, uint64_t txg)
{
    int rc = a->args->replace ? rename_old(old, fresh->path) : 0;
    if (rc == 0)
        rc = vdev_join(&old, fresh, a->args->replace ? "replacing" : "mirror", a->pair_guid);
    if (rc != 0)
        return rc;
    a->fresh = NULL;
    fresh->resilver_txg = txg;
    spa_vdev_missed_until(fresh, TXG_INITIAL, txg);
    return 0;
}

static void note_attach(struct attachment *a, const struct vdev *old, struct tx *tx)
{
    char text[8400];
    snprintf(text, sizeof text, a->args->replace ? "replace vdev=%s for vdev=%s"
                                                 : "attach vdev=%s to vdev=%s",
             a->fresh->path, old->path ? old->path : "?");
    spa_history_event(a->spa, "vdev attach", NULL, 0, text, tx);
}

static int attach_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct attachment *a = arg;
    struct vdev *fresh = a->fresh, *old = vdev_find_guid(a->spa->pool.root, a->old_guid);
    fresh->create_txg = old->create_txg;
    note_attach(a, old, tx);
    int rc = spa_vdev_zaps_add(a->spa, fresh, tx);
    if (rc != 0)
        return rc;
    vdev_tree_lock(a->spa->pool.root);
    rc = join(a, old, fresh, tx->txg);
    vdev_tree_unlock(a->spa->pool.root);
    a->spa->config_dirty = true;
    return rc;
}

int spa_vdev_attach(struct spa *spa, const struct spa_attach_args *args)
{
    struct attachment a = {.spa = spa, .args = args};
    MUTEX_GUARD(&spa->devices);
    if (spa->readonly)
        return err_set(EROFS, "pool is read-only");
    do
        a.pair_guid = spa->env.random(&spa->env);
    while (a.pair_guid == 0);
    int rc = look(&a);
    if (rc == 0)
        rc = open_new(&a);
    if (rc == 0)
        rc = spa_label_new(spa, a.fresh);
    if (rc == 0)
        rc = dsl_task(spa->dsl, attach_check, attach_sync, &a, DSL_SPACE_NONE);
    free_tree(&a.fresh);
    if (rc == 0)
        spa_resilver_request(spa);
    return rc;
}

/* ---- Detach ---- */

struct detachment {
    struct spa *spa;
    const char *name;
};

static int find_leaving(struct spa *spa, const char *name, struct vdev **leaf)
{
    int rc = spa_vdev_leaf(spa, name, leaf);
    if (rc == 0 && is_type((*leaf)->parent, "spare"))
        return err_set(ENOTSUP, "a hot spare is in use there, which this version cannot end");
    if (rc == -ENOTSUP ||
        (rc == 0 && !is_type((*leaf)->parent, "mirror") && !is_type((*leaf)->parent, "replacing")))
        return err_set(ENOTSUP, "only applicable to mirror and replacing vdevs");
    if (rc == 0 && !vdev_dispensable(*leaf))
        rc = err_set(EBUSY, "no valid replicas");
    return rc;
}

static int detach_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct detachment *d = arg;
    struct vdev *leaf, *root = d->spa->pool.root;
    unsigned slot = vdev_tree_enter(root);
    int rc = find_leaving(d->spa, d->name, &leaf);
    vdev_tree_leave(root, slot);
    return rc;
}

/* A replacement by a device with the same path is given up: the old one has the path again. */
static void rename_back(struct vdev *parent, const struct vdev *leaving)
{
    size_t n = leaving->path ? strlen(leaving->path) : 0;
    for (unsigned i = 0; i < parent->children && is_type(parent, "replacing"); i++) {
        char *path = parent->child[i]->path;
        if (path && n > 0 && strncmp(path, leaving->path, n) == 0 && strcmp(path + n, OLD) == 0)
            path[n] = '\0';
    }
}

/* The device is made one of no pool when this txg is the pool. */
static int remember(struct spa *spa, struct vdev *leaf)
{
    struct vdev **more = realloc(spa->parted, (spa->nparted + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    spa->parted = more;
    more[spa->nparted++] = leaf;
    return 0;
}

/* Takes a leaf out of the pool, in the sync of a txg. */
static int part(struct spa *spa, struct vdev *leaf, struct tx *tx)
{
    char text[4200];
    struct vdev *heir;
    snprintf(text, sizeof text, "vdev=%s", leaf->path ? leaf->path : "?");
    spa_history_event(spa, "detach", NULL, 0, text, tx);
    int rc = spa_dtl_free(spa, leaf, tx);
    if (rc == 0)
        rc = spa_vdev_zap_free(spa, leaf, tx);
    if (rc == 0)
        rc = remember(spa, leaf);
    if (rc != 0)
        return rc;
    vdev_tree_lock(spa->pool.root);
    rename_back(leaf->parent, leaf);
    rc = vdev_part(leaf, &heir);
    vdev_tree_unlock(spa->pool.root);
    if (rc != 0)
        spa->nparted--; /* it is in the tree still */
    spa->config_dirty = true;
    return rc;
}

static int detach_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct detachment *d = arg;
    struct vdev *leaf;
    int rc = find_leaving(d->spa, d->name, &leaf);
    return rc ? rc : part(d->spa, leaf, tx);
}

int spa_vdev_detach(struct spa *spa, const char *name)
{
    struct detachment d = {spa, name};
    MUTEX_GUARD(&spa->devices);
    return dsl_task(spa->dsl, detach_check, detach_sync, &d, DSL_SPACE_NONE);
}

void spa_vdevs_committed(struct spa *spa)
{
    for (size_t i = 0; i < spa->nparted; i++) {
        spa_label_wipe(spa, spa->parted[i]);
        vdev_tree_free(spa->parted[i]);
    }
    free(spa->parted);
    spa->parted = NULL;
    spa->nparted = 0;
    for (unsigned i = 0; i < spa->pool.root->children; i++)
        __atomic_store_n(&spa->pool.root->child[i]->joining, false, __ATOMIC_RELEASE);
}

/* ---- When a resilver has ended ---- */

static bool has_everything(struct vdev *leaf)
{
    uint64_t first, last;
    return vdev_readable(leaf) && !leaf->dtl_lost && !vdev_dtl_bounds(leaf, &first, &last);
}

static int note_whole(struct vdev *leaf, void *arg)
{
    struct spa *spa = arg;
    if (leaf->resilver_txg == 0 || !has_everything(leaf))
        return 0;
    leaf->resilver_txg = 0;
    spa->config_dirty = true;
    return 0;
}

/* A device whose successor has everything. */
static int find_replaced(struct vdev *leaf, void *arg)
{
    const struct vdev *parent = leaf->parent;
    if (!is_type(parent, "replacing") || leaf->id + 1 == parent->children)
        return 0;
    struct vdev *successor = parent->child[parent->children - 1];
    if (!successor->kind->leaf || !has_everything(successor) || !vdev_dispensable(leaf))
        return 0;
    *(struct vdev **)arg = leaf;
    return 1;
}

int spa_vdev_resilver_done(struct spa *spa, struct tx *tx)
{
    struct vdev *leaf;
    int rc = 0;
    vdev_each_leaf(spa->pool.root, note_whole, spa);
    while (rc == 0 && vdev_each_leaf(spa->pool.root, find_replaced, &leaf) != 0)
        rc = part(spa, leaf, tx);
    return rc;
}
