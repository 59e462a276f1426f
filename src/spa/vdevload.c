/*
 * What the MOS knows about vdevs beyond the configuration: where the blocks of removed ones are
 * now, to which allocation class one belongs, which txgs a device has missed; and the lists of
 * spares and cache devices.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/zap.h"
#include "pool/txg.h"
#include "spa/spa_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"
#include "util/rangeset.h"
#include "vdev/vdev.h"

#define BIAS_KEY      "org.zfsonlinux:allocation_bias"
#define MAPPING_ENTRY 24
#define DTL_MAX       (16u << 20) /* bytes */

static uint64_t stored_bytes(const struct dnode *dn)
{
    return (dnode_max_blkid(dn) + 1) * dnode_block_size(dn);
}

/* ---- Removed vdevs (02 15) ---- */

static int load_mapping(struct spa *spa, struct vdev *top)
{
    uint64_t head[4] = {0};
    CLEANUP_FREE unsigned char *entries = NULL;
    struct dnode *dn;
    size_t len;
    int rc = dnode_hold(spa->mos, vdev_mapping_object(top), &dn);
    if (rc != 0)
        return err_prefix(rc, "mapping of removed vdev %u", top->id);
    rc = dnode_bonus_get(dn, head, sizeof head, &len);
    rc = rc == -ERANGE ? 0 : rc;
    if (rc == 0 && (len < 24 || head[2] > stored_bytes(dn) / MAPPING_ENTRY))
        rc = err_set(EBADE, "it claims %llu entries", (unsigned long long)head[2]);
    if (rc == 0 && !(entries = malloc(head[2] * MAPPING_ENTRY + 1)))
        rc = -ENOMEM;
    if (rc == 0 && head[2] > 0)
        rc = dnode_read(dn, 0, entries, head[2] * MAPPING_ENTRY);
    dnode_rele(dn);
    if (rc == 0)
        rc = vdev_set_mapping(top, entries, head[2] * MAPPING_ENTRY);
    return err_prefix(rc, "mapping of removed vdev %u", top->id);
}

int spa_mappings_load(struct spa *spa)
{
    struct vdev *root = spa->pool.root;
    int rc = 0;
    for (unsigned i = 0; i < root->children && rc == 0; i++)
        if (vdev_is_indirect(root->child[i]) && vdev_mapping_object(root->child[i]) != 0)
            rc = load_mapping(spa, root->child[i]);
    return rc;
}

/* ---- Allocation classes (02 16) ---- */

int spa_class_read(struct spa *spa, uint64_t zap_top, enum vdev_class *class)
{
    char bias[32] = "";
    struct dnode *zap;
    size_t count;
    unsigned size;
    int rc = zap_top ? dnode_hold(spa->mos, zap_top, &zap) : -ENOENT;
    if (rc != 0)
        return rc == -ENOENT ? 0 : rc;
    rc = zap_length(zap, BIAS_KEY, &size, &count);
    if (rc == 0 && size == 1 && count < sizeof bias)
        rc = zap_lookup(zap, BIAS_KEY, 1, count, bias);
    dnode_rele(zap);
    if (strcmp(bias, "special") == 0)
        *class = VDEV_CLASS_SPECIAL;
    else if (strcmp(bias, "dedup") == 0)
        *class = VDEV_CLASS_DEDUP;
    return rc == -ENOENT ? 0 : rc;
}

/* ---- What devices have missed (01 21) ---- */

static int read_dtl(struct spa *spa, uint64_t object, struct rangeset *missing)
{
    uint64_t head[3] = {0};
    CLEANUP_FREE unsigned char *words = NULL;
    struct dnode *dn;
    size_t len;
    int rc = dnode_hold(spa->mos, object, &dn);
    if (rc != 0)
        return rc;
    rc = dnode_bonus_get(dn, head, sizeof head, &len);
    rc = rc == -ERANGE ? 0 : rc;
    if (rc == 0 && (len < sizeof head || head[1] > DTL_MAX || head[1] % 8 != 0))
        rc = -EBADE;
    if (rc == 0 && !(words = malloc(head[1] + 1)))
        rc = -ENOMEM;
    if (rc == 0)
        rc = dnode_read(dn, 0, words, head[1]);
    dnode_rele(dn);
    return rc ? rc : spacemap_apply(missing, 0, UINT64_MAX, 0, words, head[1], BYTES_HOST_BIG);
}

/* A list that cannot be read: the device may lack anything. */
static int load_dtl(struct vdev *leaf, void *arg)
{
    struct rangeset *missing = leaf->dtl_object ? rangeset_new() : NULL;
    if (leaf->dtl_object == 0)
        return 0;
    if (!missing)
        return -ENOMEM;
    struct spa *spa = arg;
    int rc = read_dtl(spa, leaf->dtl_object, missing);
    if (rc == -ENOMEM) {
        rangeset_free(missing);
        return rc;
    }
    if (rc != 0 || rangeset_count(missing) == 0) {
        rangeset_free(missing);
    } else {
        vdev_set_dtl(leaf, missing);
        /* The MOS was read before it was known what not to ask the device for. */
        __atomic_store_n(&leaf->stats.checksum_errors, 0, __ATOMIC_RELAXED);
    }
    if (rc == 0)
        return 0;
    log_warn("what %s has missed is not known: %s", leaf->path ? leaf->path : "a device", err_text(rc));
    vdev_missed(leaf, TXG_INITIAL, spa->ub.txg + 1);
    return 0;
}

int spa_vdevs_load(struct spa *spa)
{
    struct vdev *root = spa->pool.root;
    int rc = 0;
    for (unsigned i = 0; i < root->children && rc == 0; i++)
        rc = err_prefix(spa_class_read(spa, root->child[i]->zap_top, &root->child[i]->class),
                        "class of vdev %u", i);
    return rc ? rc : vdev_each_leaf(root, load_dtl, spa);
}
