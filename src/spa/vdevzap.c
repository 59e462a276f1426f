/* Per-vdev ZAPs (spec 01 20) of a new pool: one for each leaf and each top-level vdev, and the map that
 * lists them all. */
#include <errno.h>

#include "dmu/dnode.h"
#include "dmu/tx.h"
#include "dmu/zap.h"
#include "spa/spa_impl.h"
#include "util/err.h"
#include "vdev/vdev.h"

static int one(struct spa *spa, uint64_t *object, struct tx *tx)
{
    int rc = zap_create_simple(spa->mos, OT_ZAP_METADATA, 0, tx, object);
    return rc ? rc : zap_int_set(spa->mos, spa->vdev_zap_map, *object, *object, tx);
}

int spa_vdev_zaps_add(struct spa *spa, struct vdev *v, struct tx *tx)
{
    int rc = 0;
    if (!spa->vdev_zaps)
        return 0;
    if (v->top == v && v->parent) /* a leaf that joins others has no parent yet */
        rc = one(spa, &v->zap_top, tx);
    if (rc == 0 && v->kind->leaf)
        rc = one(spa, &v->zap_leaf, tx);
    for (unsigned i = 0; i < v->children && rc == 0; i++)
        rc = spa_vdev_zaps_add(spa, v->child[i], tx);
    return rc;
}

int spa_vdev_zap_free(struct spa *spa, struct vdev *leaf, struct tx *tx)
{
    struct dnode *zap;
    uint64_t object = leaf->zap_leaf;
    leaf->zap_leaf = 0;
    if (object == 0)
        return 0;
    int rc = zap_int_del(spa->mos, spa->vdev_zap_map, object, tx);
    if (rc == 0)
        rc = dnode_hold(spa->mos, object, &zap);
    if (rc != 0)
        return err_prefix(rc, "ZAP of a device");
    rc = object_free(zap, tx);
    dnode_rele(zap);
    return rc;
}

struct creating {
    struct spa *spa;
    struct tx *tx;
};

static int leaf_zap(struct vdev *leaf, void *arg)
{
    struct creating *c = arg;
    return one(c->spa, &leaf->zap_leaf, c->tx);
}

int spa_vdev_zaps_create(struct spa *spa, struct tx *tx)
{
    struct vdev *root = spa->pool.root;
    struct creating c = {spa, tx};
    int rc = zap_create_simple(spa->mos, OT_ZAP_METADATA, 0, tx, &spa->vdev_zap_map);
    if (rc == 0)
        rc = zap_add_u64(spa->mos, MOS_DIRECTORY, "com.delphix:vdev_zap_map", spa->vdev_zap_map, tx);
    for (unsigned i = 0; i < root->children && rc == 0; i++)
        rc = one(spa, &root->child[i]->zap_top, tx);
    if (rc == 0)
        rc = vdev_each_leaf(root, leaf_zap, &c);
    if (rc == 0)
        spa->vdev_zaps = true;
    return rc;
}
