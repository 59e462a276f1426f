/*
 * Making a txg the pool (spec 01 8): labels and uberblock, in an order in which a crash at any point leaves
 * either the old or the new state. Every step is flushed before the next.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "nvlist/nvlist.h"
#include "pool/txg.h"
#include "spa/vdevs_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"
#include "vdev/label.h"
#include "vdev/vdev.h"

static void free_nvlist(struct nvlist **l)
{
    nvlist_free(*l);
}

/* ---- Labels ---- */

struct labels {
    struct spa *spa;
    uint64_t txg;
    enum label_pair pair;
    unsigned done;   /* leaves written */
    int first_error;
};

static int write_labels(struct vdev *leaf, void *arg)
{
    struct labels *l = arg;
    CLEANUP(free_nvlist) struct nvlist *config = NULL;
    CLEANUP_FREE unsigned char *packed = NULL;
    size_t n;
    if (!leaf->device || !vdev_readable(leaf))
        return 0;
    int rc = spa_config_label(l->spa, leaf, l->txg, &config);
    if (rc == 0)
        rc = nvlist_pack_xdr(config, &packed, &n);
    if (rc != 0)
        return rc; /* no memory: nothing of the commit has happened yet for this pair */
    rc = label_write_pair(leaf->device, leaf->psize, l->pair, packed, n);
    if (rc == 0)
        l->done++;
    else
        vdev_set_failed(leaf); /* the next txg will do without it */
    if (rc != 0 && l->first_error == 0)
        l->first_error = err_prefix(rc, "label of %s", leaf->path);
    return rc == -ENAMETOOLONG ? rc : 0;
}

/* One pair of labels on all leaves; every top-level vdev needs at least one. */
static int write_label_pair(struct spa *spa, uint64_t txg, enum label_pair pair)
{
    struct vdev *root = spa->pool.root;
    for (unsigned i = 0; i < root->children; i++) {
        struct labels l = {.spa = spa, .txg = txg, .pair = pair};
        int rc = vdev_each_leaf(root->child[i], write_labels, &l);
        if (rc == 0 && l.done == 0 && l.first_error != 0)
            rc = l.first_error;
        if (rc != 0)
            return rc;
    }
    return vdev_flush(root);
}

/* ---- Uberblock ---- */

struct ring {
    const struct uberblock *ub;
    unsigned done;
    int first_error;
};

static int write_uberblock(struct vdev *leaf, void *arg)
{
    struct ring *r = arg;
    if (!leaf->device || !vdev_readable(leaf) || leaf->top->metaslab_array == 0)
        return 0;
    int rc = uberblock_write(leaf->device, leaf->psize, leaf->top->ashift, r->ub, false);
    if (rc == 0)
        r->done++;
    else
        vdev_set_failed(leaf);
    if (rc != 0 && r->first_error == 0)
        r->first_error = err_prefix(rc, "uberblock on %s", leaf->path);
    return 0;
}

static int write_uberblocks(struct spa *spa, const struct uberblock *ub)
{
    struct ring r = {.ub = ub};
    int rc = vdev_each_leaf(spa->pool.root, write_uberblock, &r);
    if (rc == 0 && r.done == 0)
        rc = r.first_error ? r.first_error : err_set(ENXIO, "no device took the uberblock");
    return rc ? rc : vdev_flush(spa->pool.root);
}

static void next_uberblock(struct spa *spa, uint64_t txg, const struct blkptr *root, struct uberblock *ub)
{
    *ub = spa->ub;
    ub->version = spa->version;
    ub->txg = txg;
    ub->guid_sum = vdev_guid_sum(spa->pool.root);
    ub->timestamp = spa->env.now_ns(&spa->env) / 1000000000;
    memcpy(ub->rootbp, root->w, sizeof ub->rootbp);
    ub->software_version = SPA_VERSION;
    ub->mmp_magic = UBERBLOCK_MMP_MAGIC;
    ub->mmp_delay = ub->mmp_config = ub->checkpoint_txg = 0;
    ub->big = false;
}

/* Everything of the txg has been written and flushed; after this it is the pool. */
int spa_commit(struct spa *spa, uint64_t txg, const struct blkptr *root, bool labels)
{
    struct uberblock ub;
    next_uberblock(spa, txg, root, &ub);
    int rc = labels ? write_label_pair(spa, txg, LABEL_PAIR_FIRST) : 0;
    if (rc == 0)
        rc = write_uberblocks(spa, &ub);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&spa->lock);
    spa->ub = ub; /* the commit has happened */
    pthread_mutex_unlock(&spa->lock);
    return labels ? write_label_pair(spa, txg, LABEL_PAIR_SECOND) : 0;
}

/* ---- New devices ---- */

static int init_labels(struct spa *spa, struct vdev *leaf, uint64_t create_txg)
{
    CLEANUP(free_nvlist) struct nvlist *config = NULL;
    CLEANUP_FREE unsigned char *packed = NULL;
    size_t n;
    int rc = spa_config_label(spa, leaf, 0, &config);
    if (rc == 0)
        rc = nvlist_add_uint64(config, "create_txg", create_txg);
    if (rc == 0)
        rc = nvlist_pack_xdr(config, &packed, &n);
    if (rc == 0)
        rc = label_init(leaf->device, leaf->psize, packed, n);
    return err_prefix(rc, "%s", leaf->path);
}

static int init_leaf(struct vdev *leaf, void *arg)
{
    return init_labels(arg, leaf, TXG_INITIAL);
}

static int flush_leaf(struct vdev *leaf, void *arg)
{
    return err_prefix(device_flush(leaf->device), "%s", leaf->path);
}

int spa_label_new(struct spa *spa, struct vdev *v)
{
    int rc = vdev_each_leaf(v, init_leaf, spa);
    return rc ? rc : vdev_each_leaf(v, flush_leaf, NULL);
}

void spa_label_wipe(struct spa *spa, struct vdev *leaf)
{
    int rc = leaf->device ? init_labels(spa, leaf, 0) : 0;
    if (rc == 0 && leaf->device)
        rc = flush_leaf(leaf, NULL);
    if (rc != 0)
        log_warn("pool %s: the labels of %s, which has left the pool, could not be removed: %s",
                 spa->pool.name, leaf->path, err_text(rc));
}

/* ---- Opening ---- */

struct choice {
    struct uberblock best;
    struct vdev *leaf; /* that has it */
    uint64_t max_txg;
};

static int look_at_leaf(struct vdev *leaf, void *arg)
{
    struct choice *c = arg;
    struct uberblock ub;
    if (!leaf->device || uberblock_best(leaf->device, leaf->psize, c->max_txg, &ub) != 0)
        return 0;
    if (!c->leaf || uberblock_compare(&ub, &c->best) > 0) {
        c->best = ub;
        c->leaf = leaf;
    }
    return 0;
}

/* The features without which the MOS cannot be read are in the label beside the uberblock. */
static int check_features(const struct choice *c)
{
    struct label_set set;
    struct nvlist *features;
    int rc = label_read(c->leaf->device, &set);
    if (rc != 0)
        return err_prefix(rc, "labels of %s", c->leaf->path);
    const struct label *l = label_best(&set, c->best.txg);
    if (l && nvlist_get_nvlist(l->config, "features_for_read", &features) == 0)
        rc = feature_check_label(features);
    label_set_free(&set);
    return rc;
}

int spa_choose_uberblock(struct spa *spa, uint64_t max_txg)
{
    struct choice c = {.max_txg = max_txg ? max_txg : UINT64_MAX};
    vdev_each_leaf(spa->pool.root, look_at_leaf, &c);
    if (!c.leaf)
        return err_set(ENXIO, "no valid uberblock was found");
    spa->ub = c.best;
    return check_features(&c);
}
