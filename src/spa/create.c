/* Creating a pool (spec 01 23, 10). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/compress.h"
#include "dmu/dnode.h"
#include "dmu/tx.h"
#include "dmu/zap.h"
#include "dsl/props.h"
#include "nvlist/nvlist.h"
#include "pool/txg.h"
#include "spa/vdevs.h"
#include "spa/vdevs_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/vdev.h"

#define BPLIST_BLOCK  16384
#define CONFIG_BLOCK  16384
#define BPOBJ_HEADER  48

/* ---- What is in a new MOS besides the DSL ---- */

static int create_objects(struct spa *spa, struct tx *tx)
{
    static const unsigned char zero[BPOBJ_HEADER];
    struct object_params config = {.type = OT_PACKED_NVLIST, .bonus_type = OT_PACKED_NVLIST_SIZE,
                                   .bonus_len = 8, .block_size = CONFIG_BLOCK};
    struct object_params list = {.type = OT_BPOBJ, .bonus_type = OT_BPOBJ_HDR, .bonus_len = BPOBJ_HEADER,
                                 .block_size = BPLIST_BLOCK, .compress = COMPRESS_OFF};
    struct dnode *dn;
    int rc = object_create(spa->mos, 0, &config, tx, &dn);
    if (rc != 0)
        return rc;
    spa->config_object = dnode_object(dn);
    dnode_rele(dn);
    rc = object_create(spa->mos, 0, &list, tx, &dn);
    if (rc != 0)
        return rc;
    spa->sync_bplist = dnode_object(dn);
    rc = dnode_bonus_set(dn, zero, sizeof zero, OT_BPOBJ_HDR, tx);
    dnode_rele(dn);
    return rc;
}

static int fill_directory(struct spa *spa, struct tx *tx)
{
    struct dnode *dir;
    int rc = dnode_hold(spa->mos, MOS_DIRECTORY, &dir);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < sizeof spa->pool.salt; i += 8)
        memcpy(spa->pool.salt + i, &(uint64_t){spa->env.random(&spa->env)}, 8);
    spa->pool.has_salt = true;
    const uint64_t version = SPA_VERSION, one = 1;
    const struct {
        const char *name;
        const uint64_t *value;
    } rows[] = {{"config", &spa->config_object},
                {"sync_bplist", &spa->sync_bplist},
                {"creation_version", &version},
                {"deflate", &one}};
    for (size_t i = 0; i < ARRAY_LEN(rows) && rc == 0; i++)
        rc = zap_add(dir, rows[i].name, 8, 1, rows[i].value, tx);
    if (rc == 0)
        rc = zap_add(dir, "org.illumos:checksum_salt", 1, sizeof spa->pool.salt, spa->pool.salt, tx);
    dnode_rele(dir);
    return rc;
}

static int set_pool_props(struct spa *spa, struct tx *tx)
{
    const struct nvlist *props = spa->create_args->pool_props;
    int rc = 0;
    for (const struct nvpair *p = props ? nvlist_first(props) : NULL; p && rc == 0;
         p = nvlist_after(props, p))
        rc = spa_props_write(spa, nvpair_name(p), nvpair_string(p, 0), tx);
    return rc;
}

static void choose_features(const struct spa_create_args *args, bool on[FEATURE_COUNT])
{
    for (unsigned f = 0; f < FEATURE_COUNT; f++) {
        bool by_default = !args->no_features && (feature_info(f)->flags & FEATURE_DEFAULT);
        on[f] = args->feature[f] == SPA_FEATURE_ON ||
                (args->feature[f] == SPA_FEATURE_DEFAULT && by_default);
    }
}

static void first_events(struct spa *spa, const bool features[FEATURE_COUNT], struct tx *tx)
{
    char text[80];
    spa_history_version(spa, "create", tx);
    for (unsigned f = 0; f < FEATURE_COUNT; f++) {
        snprintf(text, sizeof text, "feature@%s=enabled", feature_info(f)->name);
        if (features[f])
            spa_history_event(spa, "set", NULL, 0, text, tx);
    }
}

/* Pass 1 of the first txg. */
int spa_create_mos(struct spa *spa, struct tx *tx)
{
    struct object_params dir = {.type = OT_OBJECT_DIRECTORY};
    bool features[FEATURE_COUNT];
    struct dnode *dn;
    int rc = object_create(spa->mos, MOS_DIRECTORY, &dir, tx, &dn);
    if (rc != 0)
        return rc;
    rc = zap_format(dn, 0, tx);
    dnode_rele(dn);
    choose_features(spa->create_args, features);
    if (rc == 0)
        rc = dsl_create(&spa->dsl, &spa->pool, spa->mos, features, spa->create_args->uid,
                        spa->create_args->gid, tx);
    if (rc != 0)
        return rc;
    dsl_set_mos_space(spa->dsl, &spa->mos_space);
    spa_load_features(spa);
    rc = create_objects(spa, tx);
    if (rc == 0)
        rc = fill_directory(spa, tx);
    if (rc == 0)
        rc = spa_vdev_zaps_create(spa, tx);
    if (rc == 0)
        rc = spa_history_create(spa, tx);
    if (rc == 0)
        first_events(spa, features, tx);
    if (rc == 0)
        rc = set_pool_props(spa, tx);
    if (rc == 0)
        rc = dsl_sync_again(spa->dsl, tx); /* the root dataset's blocks */
    return rc;
}

/* ---- The whole ---- */

static void free_tree(struct vdev **root)
{
    if (*root)
        vdev_tree_free(*root);
}

static int build_tree(const struct spa_create_args *args, struct env *env, struct vdev **out)
{
    CLEANUP(free_tree) struct vdev *root = NULL;
    uint64_t guid;
    do
        guid = env->random(env);
    while (guid == 0);
    const struct spa_add_args vdevs = {.paths = args->paths,
                                       .npaths = args->npaths,
                                       .groups = args->groups,
                                       .ngroups = args->ngroups,
                                       .ashift = args->ashift,
                                       .force = args->force};
    int rc = vdev_root_new(&root, guid);
    if (rc == 0)
        rc = spa_new_tops(&vdevs, TXG_INITIAL, env, root);
    if (rc == 0) {
        root->create_txg = TXG_INITIAL;
        *out = STEAL(root);
    }
    return rc;
}

static int check_args(const struct spa_create_args *args)
{
    int rc = pool_name_check(args->name);
    if (rc != 0)
        return rc;
    struct nvlist *encoded = NULL;
    if (args->fs_props && (rc = prop_encode(args->fs_props, &encoded)) != 0)
        return rc;
    nvlist_free(encoded);
    for (const struct nvpair *p = args->pool_props ? nvlist_first(args->pool_props) : NULL; p;
         p = nvlist_after(args->pool_props, p))
        if ((rc = spa_props_check(NULL, nvpair_name(p), nvpair_string(p, 0))) != 0)
            return rc;
    return 0;
}

/* Writes txg-0 labels, then the first txg, in this thread. */
static int write_first_txg(struct spa *spa, const struct spa_create_args *args)
{
    struct tx tx;
    struct vdev *root = spa->pool.root;
    static const struct objset_ops ops = {.born = dsl_mos_born, .killed = dsl_mos_killed};
    struct objset_props props = {.checksum = CHECKSUM_FLETCHER4, .compress = COMPRESS_ON, .copies = 3};
    int rc = alloc_init(&spa->pool, spa_spacemap_load, spa);
    for (unsigned i = 0; i < root->children && rc == 0; i++)
        rc = alloc_add_vdev(&spa->pool, root->child[i]);
    if (rc != 0)
        return rc;
    tx_begin_syncing(&tx, &spa->pool, TXG_INITIAL);
    rc = objset_create(&spa->mos, &spa->pool, 0, OBJSET_META, 0, &props, &ops, &spa->mos_space, &tx);
    if (rc != 0)
        return rc;
    spa->creating = true;
    spa->create_args = args;
    spa->config_dirty = true;
    rc = spa_sync(spa, TXG_INITIAL);
    spa->creating = false;
    spa->create_args = NULL;
    return rc;
}

static void free_spa(struct spa **spa)
{
    if (*spa)
        spa_free(*spa);
}

/* A property was refused that could be checked only in the pool itself. */
static int take_back(struct spa *spa, int rc)
{
    char why[512];
    snprintf(why, sizeof why, "%s", err_text(rc));
    (void)spa_close(spa, SPA_END_DESTROY);
    return err_set(-rc, "%s", why);
}

int spa_create(const struct spa_create_args *args, bool dry_run, struct nvlist **config, struct spa **out)
{
    struct env env;
    CLEANUP(free_tree) struct vdev *root = NULL;
    CLEANUP(free_spa) struct spa *spa = NULL;
    if (args->env)
        env = *args->env;
    else
        env_init_system(&env);
    int rc = check_args(args);
    if (rc == 0)
        rc = build_tree(args, &env, &root);
    if (rc == 0 && config)
        rc = vdev_tree_config(root, VDEV_CONFIG_MOS, config);
    if (rc != 0 || dry_run)
        return rc;
    spa = spa_new(&env);
    if (!spa)
        return -ENOMEM;
    spa->version = SPA_VERSION;
    rc = pool_init(&spa->pool, args->name, STEAL(root), &env);
    if (rc != 0)
        return rc;
    spa->pool.guid = spa->pool.root->guid;
    spa->pool.writable = spa->pool.deflate = spa->pool.root->may_mend = true;
    rc = spa_label_new(spa, spa->pool.root);
    if (rc == 0)
        rc = write_first_txg(spa, args);
    if (rc == 0)
        rc = spa_start(spa, TXG_INITIAL);
    if (rc == 0 && args->fs_props && nvlist_first(args->fs_props) &&
        (rc = prop_set(spa->dsl, args->name, args->fs_props)) != 0)
        return take_back(STEAL(spa), rc);
    if (rc == 0 && args->command)
        rc = spa_history_command(spa, args->command, args->uid);
    if (rc == 0)
        *out = STEAL(spa);
    return rc;
}
