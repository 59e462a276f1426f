/* The pool's configuration list (spec 01 4, 5, 15): for labels and for the MOS. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dmu/dnode.h"
#include "dmu/tx.h"
#include "dmu/zap.h"
#include "nvlist/nvlist.h"
#include "spa/spa_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/vdev.h"

#define CONFIG_BLOCK 16384
#define CONFIG_MAX   (8u << 20)

static void free_nvlist(struct nvlist **l)
{
    nvlist_free(*l);
}

/* The host id that OpenZFS uses: /etc/hostid, four bytes in host order; 0 if there is none. */
uint32_t spa_host_id(void)
{
    FILE *f = fopen("/etc/hostid", "re");
    uint32_t id = 0;
    if (f) {
        if (fread(&id, sizeof id, 1, f) != 1)
            id = 0;
        fclose(f);
    }
    return id;
}

/* What label and MOS configuration have in common. */
static int config_head(struct spa *spa, uint64_t txg, struct nvlist *l)
{
    CLEANUP(free_nvlist) struct nvlist *features = NULL;
    /* A device that is only being labelled belongs to a pool without a MOS. */
    int rc = spa->dsl ? feature_label_list(spa->dsl, &features) : (features = nvlist_new()) ? 0 : -ENOMEM;
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&spa->lock);
    rc = nvlist_add_uint64(l, "version", spa->version) ||
         nvlist_add_string(l, "name", spa->pool.name) || nvlist_add_uint64(l, "state", spa->state) ||
         nvlist_add_uint64(l, "txg", txg) || nvlist_add_uint64(l, "pool_guid", spa->pool.guid) ||
         nvlist_add_uint64(l, "errata", spa->errata) ||
         (spa->comment[0] && nvlist_add_string(l, "comment", spa->comment)) ||
         (spa->compatibility[0] && nvlist_add_string(l, "compatibility", spa->compatibility)) ||
         (spa->hostid && nvlist_add_uint64(l, "hostid", spa->hostid)) ||
         nvlist_add_string(l, "hostname", spa->hostname) ||
         (spa->holes && nvlist_add_uint64_array(l, "hole_array", spa->hole_array, spa->holes)) ||
         nvlist_add_uint64(l, "vdev_children", spa->pool.root->children) ||
         nvlist_add_nvlist(l, "features_for_read", features);
    pthread_mutex_unlock(&spa->lock);
    return rc ? -ENOMEM : 0;
}

static int config_tree(const struct vdev *v, enum vdev_config_form form, struct nvlist *l)
{
    CLEANUP(free_nvlist) struct nvlist *tree = NULL;
    int rc = vdev_tree_config(v, form, &tree);
    if (rc != 0)
        return rc;
    return nvlist_add_nvlist(l, "vdev_tree", tree);
}

int spa_config_mos(struct spa *spa, uint64_t txg, struct nvlist **out)
{
    CLEANUP(free_nvlist) struct nvlist *l = nvlist_new();
    if (!l)
        return -ENOMEM;
    int rc = config_head(spa, txg, l);
    if (rc == 0 && spa->vdev_zaps)
        rc = nvlist_add_boolean(l, "com.delphix:has_per_vdev_zaps");
    if (rc == 0)
        rc = config_tree(spa->pool.root, VDEV_CONFIG_MOS, l);
    if (rc == 0)
        *out = STEAL(l);
    return rc;
}

int spa_config_label(struct spa *spa, struct vdev *leaf, uint64_t txg, struct nvlist **out)
{
    CLEANUP(free_nvlist) struct nvlist *l = nvlist_new();
    if (!l)
        return -ENOMEM;
    int rc = config_head(spa, txg, l);
    if (rc == 0)
        rc = nvlist_add_uint64(l, "top_guid", leaf->top->guid);
    if (rc == 0)
        rc = nvlist_add_uint64(l, "guid", leaf->guid);
    if (rc == 0 && leaf->is_spare)
        rc = nvlist_add_uint64(l, "is_spare", 1);
    if (rc == 0 && leaf->top == leaf && leaf->is_log)
        rc = nvlist_add_uint64(l, "is_log", 1);
    if (rc == 0)
        rc = config_tree(leaf->top, VDEV_CONFIG_LABEL, l);
    if (rc == 0)
        *out = STEAL(l);
    return rc;
}

/* Writes the MOS copy: whole 16 KiB blocks, the exact length in the bonus (01 15). */
int spa_config_write(struct spa *spa, struct tx *tx)
{
    CLEANUP(free_nvlist) struct nvlist *l = NULL;
    CLEANUP_FREE unsigned char *packed = NULL;
    size_t n = 0;
    int rc = spa_config_mos(spa, tx->txg, &l);
    if (rc == 0)
        rc = nvlist_pack_xdr(l, &packed, &n);
    if (rc != 0)
        return rc;
    size_t padded = P2_ROUND_UP(n, (size_t)CONFIG_BLOCK);
    CLEANUP_FREE unsigned char *blocks = calloc(1, padded);
    if (!blocks)
        return -ENOMEM;
    memcpy(blocks, packed, n);
    struct dnode *dn;
    rc = dnode_hold(spa->mos, spa->config_object, &dn);
    if (rc != 0)
        return err_prefix(rc, "pool configuration object");
    unsigned char len[8];
    memcpy(len, &(uint64_t){n}, sizeof len); /* host order, as every bonus */
    rc = dnode_write(dn, 0, blocks, padded, tx);
    if (rc == 0)
        rc = dnode_bonus_set(dn, len, sizeof len, OT_PACKED_NVLIST_SIZE, tx);
    dnode_rele(dn);
    return rc;
}

int spa_packed_read(struct objset *mos, uint64_t object, const char *what, struct nvlist **out)
{
    struct dnode *dn;
    int rc = dnode_hold(mos, object, &dn);
    if (rc != 0)
        return err_prefix(rc, "%s object", what);
    uint64_t n = 0;
    size_t len;
    CLEANUP_FREE unsigned char *packed = NULL;
    rc = dnode_bonus_get(dn, &n, sizeof n, &len);
    if (rc == 0 && (len != sizeof n || n == 0 || n > CONFIG_MAX))
        rc = err_set(EBADE, "the %s has the impossible length %llu", what, (unsigned long long)n);
    if (rc == 0 && !(packed = malloc(n)))
        rc = -ENOMEM;
    if (rc == 0)
        rc = dnode_read(dn, 0, packed, n);
    if (rc == 0 && (rc = nvlist_unpack_xdr(packed, n, out, NULL)) != 0)
        rc = err_set(EBADE, "the %s cannot be decoded", what);
    dnode_rele(dn);
    return rc;
}

int spa_config_read(struct objset *mos, struct nvlist **out, uint64_t *object)
{
    uint64_t number;
    int rc = zap_get_u64(mos, MOS_DIRECTORY, "config", &number);
    if (rc != 0)
        return err_prefix(rc, "pool configuration object");
    rc = spa_packed_read(mos, number, "pool configuration", out);
    if (rc == 0 && object)
        *object = number;
    return rc;
}

/* Takes over the pool-level facts of a configuration (from the MOS or assembled from labels). */
int spa_config_adopt(struct spa *spa, const struct nvlist *config)
{
    const uint64_t *holes;
    size_t n;
    spa->version = nvlist_uint64_or(config, "version", 0);
    spa->pool.guid = nvlist_uint64_or(config, "pool_guid", 0);
    spa->errata = nvlist_uint64_or(config, "errata", 0);
    spa->vdev_zaps = nvlist_exists(config, "com.delphix:has_per_vdev_zaps");
    snprintf(spa->comment, sizeof spa->comment, "%s", nvlist_string_or(config, "comment", ""));
    snprintf(spa->compatibility, sizeof spa->compatibility, "%s",
             nvlist_string_or(config, "compatibility", ""));
    if (spa->version == 0 || spa->pool.guid == 0)
        return err_set(EINVAL, "the pool configuration has no version or no pool guid");
    if (nvlist_get_uint64_array(config, "hole_array", &holes, &n) == 0 && n > 0) {
        spa->hole_array = calloc(n, sizeof *holes);
        if (!spa->hole_array)
            return -ENOMEM;
        memcpy(spa->hole_array, holes, n * sizeof *holes);
        spa->holes = n;
    }
    return 0;
}
