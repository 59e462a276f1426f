/*
 * New top-level vdevs of a live pool (spec 01 24).
 *
 * The devices get labels of txg 0 first, which belong to no pool yet. Then one txg makes them a
 * part of it: the configuration, their metaslab arrays (of zeros: nothing is allocated), the labels
 * of all devices, as the number of vdevs is in each, and the sum of guids in the uberblock. Until
 * that is the pool, nothing is allocated on them: a crash leaves the old pool or the new one,
 * whole.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/tx.h"
#include "pool/txg.h"
#include "spa/vdevs_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct addition {
    struct spa *spa;
    struct vdev *fresh; /* a root for the new ones, until they are in the tree */
};

static void free_tree(struct vdev **v)
{
    if (*v)
        vdev_tree_free(*v);
}

static void set_create_txg(struct vdev *v, uint64_t txg)
{
    v->create_txg = txg;
    for (unsigned i = 0; i < v->children; i++)
        set_create_txg(v->child[i], txg);
}

/* The ids that they are going to have. */
static void number(struct addition *a)
{
    unsigned first = vdev_tops(a->spa->pool.root);
    for (unsigned i = 0; i < a->fresh->children; i++)
        a->fresh->child[i]->id = first + i;
}

static int join(struct addition *a, struct vdev *top, struct tx *tx)
{
    __atomic_store_n(&top->joining, true, __ATOMIC_RELEASE);
    set_create_txg(top, tx->txg);
    int rc = alloc_add_vdev(&a->spa->pool, top);
    if (rc == 0)
        rc = spa_vdev_zaps_add(a->spa, top, tx);
    if (rc != 0)
        return rc;
    vdev_tree_lock(a->spa->pool.root); /* states of vdevs above change, which others look at */
    rc = vdev_append_top(a->spa->pool.root, top);
    vdev_tree_unlock(a->spa->pool.root);
    return rc;
}

static int add_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct addition *a = arg;
    struct vdev *fresh = a->fresh;
    int rc = 0;
    for (unsigned i = 0; i < fresh->children && rc == 0; i++) {
        rc = join(a, fresh->child[i], tx);
        if (rc != 0 && i > 0) { /* what is in the tree already is not ours any more */
            memmove(fresh->child, fresh->child + i, (fresh->children - i) * sizeof *fresh->child);
            fresh->children -= i;
            return rc;
        }
    }
    if (rc == 0)
        fresh->children = 0;
    a->spa->config_dirty = true;
    return rc;
}

int spa_vdev_add(struct spa *spa, const struct spa_add_args *args, bool dry_run)
{
    CLEANUP(free_tree) struct vdev *fresh = NULL;
    struct spa_add_args with = *args;
    char ashift[32], source[16];
    MUTEX_GUARD(&spa->devices);
    if (spa->readonly)
        return err_set(EROFS, "pool is read-only");
    if (with.ashift == 0 &&
        spa_prop_get(spa, "ashift", true, ashift, sizeof ashift, source) == 0)
        with.ashift = (unsigned)strtoul(ashift, NULL, 10);
    int rc = vdev_root_new(&fresh, spa->pool.guid);
    if (rc == 0)
        rc = spa_new_tops(&with, 0, &spa->env, fresh);
    if (rc != 0 || dry_run)
        return rc;
    struct addition a = {spa, fresh};
    number(&a);
    rc = spa_label_new(spa, fresh);
    if (rc == 0)
        rc = dsl_task(spa->dsl, NULL, add_sync, &a, DSL_SPACE_NONE);
    return rc;
}
