/*
 * Which txgs devices have missed, in the MOS (spec 01 21, 05 18.1): a space map per leaf, whose offsets are
 * txgs, written anew whenever the set has changed. It must be there in the same uberblock as the blocks
 * that the device does not have: a device that comes back would be trusted too much otherwise.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/tx.h"
#include "pool/alloc.h"
#include "pool/txg.h"
#include "spa/spa_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"
#include "util/rangeset.h"
#include "vdev/change.h"
#include "vdev/vdev.h"

#define DTL_BLOCK       4096
#define HEADER_V0       24
#define HEADER_WITH_HISTOGRAM 320

static void free_set(struct rangeset **set)
{
    if (*set)
        rangeset_free(*set);
}

struct dtl_sync {
    struct spa *spa;
    struct tx *tx;
};

static int create(struct spa *spa, struct vdev *leaf, struct tx *tx)
{
    bool histogram = feature_enabled(spa->dsl, FEATURE_SPACEMAP_HISTOGRAM);
    struct object_params p = {.type = OT_SPACE_MAP,
                              .bonus_type = OT_SPACE_MAP_HEADER,
                              .bonus_len = histogram ? HEADER_WITH_HISTOGRAM : HEADER_V0,
                              .block_size = DTL_BLOCK};
    struct dnode *dn;
    int rc = object_create(spa->mos, 0, &p, tx, &dn);
    if (rc != 0)
        return rc;
    leaf->dtl_object = dnode_object(dn);
    dnode_rele(dn);
    spa->config_dirty = true;
    return histogram ? feature_change(spa->dsl, FEATURE_SPACEMAP_HISTOGRAM, 1, tx) : 0;
}

static int write_set(struct spa *spa, struct vdev *leaf, const struct rangeset *set, struct tx *tx)
{
    CLEANUP_FREE unsigned char *words = NULL;
    uint64_t n = 0;
    struct dnode *dn;
    bool v2 = feature_refs(spa->dsl, FEATURE_SPACEMAP_V2) > 0;
    int rc = spacemap_encode(set, false, 0, 0, tx->txg, 1, v2, DTL_BLOCK, 0, &words, &n);
    if (rc == 0)
        rc = dnode_hold(spa->mos, leaf->dtl_object, &dn);
    if (rc != 0)
        return rc;
    const uint64_t header[] = {leaf->dtl_object, n, rangeset_total(set)};
    rc = dnode_free_range(dn, 0, UINT64_MAX, tx);
    if (rc == 0 && n > 0)
        rc = dnode_write(dn, 0, words, n, tx);
    if (rc == 0)
        rc = dnode_bonus_patch(dn, 0, header, sizeof header, tx);
    dnode_rele(dn);
    return rc;
}

static int sync_leaf(struct vdev *leaf, void *arg)
{
    struct dtl_sync *s = arg;
    if (!vdev_redundant(leaf))
        return 0;
    if (!vdev_readable(leaf))
        vdev_missed(leaf, s->tx->txg, s->tx->txg + 1);
    if (!vdev_dtl_changed(leaf))
        return 0;
    CLEANUP(free_set) struct rangeset *set = rangeset_new();
    int rc = set ? vdev_dtl_copy(leaf, set) : -ENOMEM;
    if (rc == 0 && leaf->dtl_object == 0 && rangeset_count(set) > 0)
        rc = create(s->spa, leaf, s->tx);
    if (rc == 0 && leaf->dtl_object != 0)
        rc = write_set(s->spa, leaf, set, s->tx);
    return err_prefix(rc, "what %s has missed", leaf->path ? leaf->path : "a device");
}

int spa_dtl_sync(struct spa *spa, struct tx *tx)
{
    struct dtl_sync s = {spa, tx};
    return vdev_each_leaf(spa->pool.root, sync_leaf, &s);
}

int spa_dtl_free(struct spa *spa, struct vdev *leaf, struct tx *tx)
{
    uint64_t object = leaf->dtl_object, word;
    struct dnode *dn;
    size_t len;
    leaf->dtl_object = 0;
    if (object == 0)
        return 0;
    int rc = dnode_hold(spa->mos, object, &dn);
    if (rc != 0)
        return err_prefix(rc, "what a device has missed");
    rc = dnode_bonus_get(dn, &word, sizeof word, &len);
    rc = rc == -ERANGE ? 0 : rc;
    if (rc == 0 && len >= HEADER_WITH_HISTOGRAM)
        rc = feature_change(spa->dsl, FEATURE_SPACEMAP_HISTOGRAM, -1, tx);
    if (rc == 0)
        rc = object_free(dn, tx);
    dnode_rele(dn);
    return rc;
}

/* A device that could not take what it should have is put out of use, if it can be done without: the
 * next txgs would only wait for it again. */
static int judge_leaf(struct vdev *leaf, void *arg)
{
    struct dtl_sync *s = arg;
    if (!vdev_take_failed(leaf) || !vdev_redundant(leaf))
        return 0;
    /* A failed flush does not tell what was lost: perhaps also log blocks of the txgs that are open. */
    vdev_missed(leaf, s->tx->txg, s->tx->txg + TXG_SLOTS - 1);
    if (!vdev_readable(leaf) || !vdev_dispensable(leaf))
        return 0;
    log_error("pool %s: %s is put out of use: it does not take what is written to it", s->spa->pool.name,
              leaf->path);
    vdev_tree_lock(s->spa->pool.root);
    vdev_put_away(leaf, VDEV_FAULTED, "too many errors");
    vdev_tree_unlock(s->spa->pool.root);
    return 0;
}

static int is_changed(struct vdev *leaf, void *arg)
{
    return vdev_redundant(leaf) && vdev_dtl_changed(leaf);
}

/* What all sides of a vdev may lack must not become the pool: a device that failed had what the others, which
 * are being resilvered or have just joined, do not have. */
static int check_whole(struct spa *spa)
{
    struct vdev *root = spa->pool.root;
    for (unsigned i = 0; i < root->children; i++)
        if (!root->child[i]->kind->leaf && vdev_readable(root->child[i]) && !vdev_is_whole(root->child[i]))
            return err_set(EIO, "a device of vdev %u has failed that others cannot do without", i);
    return 0;
}

int spa_dtl_judge(struct spa *spa, struct tx *tx, bool *more)
{
    struct dtl_sync s = {spa, tx};
    vdev_each_leaf(spa->pool.root, judge_leaf, &s);
    *more = vdev_each_leaf(spa->pool.root, is_changed, NULL) != 0;
    return *more ? check_whole(spa) : 0;
}
