/*
 * Opening a pool (spec 01 11.2). Twice: first with the configuration assembled from labels, only to read
 * the trusted one from the MOS; then with that one, for good.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/compress.h"
#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/zap.h"
#include "nvlist/nvlist.h"
#include "pool/txg.h"
#include "spa/spa_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/uberblock.h"
#include "vdev/vdev.h"

#define OPEN_TRIES 3

static void free_nvlist(struct nvlist **l)
{
    nvlist_free(*l);
}

static void free_spa(struct spa **spa)
{
    if (*spa)
        spa_free(*spa);
}

static int open_mos(struct spa *spa, const struct objset_ops *ops)
{
    struct objset_props props = {.checksum = CHECKSUM_FLETCHER4, .compress = COMPRESS_ON, .copies = 3};
    struct blkptr root;
    memcpy(root.w, spa->ub.rootbp, sizeof root.w);
    int rc = objset_open(&spa->mos, &spa->pool, 0, &root, &props, ops, &spa->mos_space);
    return err_prefix(rc, "the pool's meta object set");
}

/* The pool's state as its checkpoint keeps it: an uberblock in the MOS of the present one (05 15). */
static int go_to_checkpoint(struct spa *spa, const struct objset_ops *ops)
{
    uint64_t w[27] = {0};
    struct dnode *dir;
    unsigned size;
    size_t count;
    int rc = dnode_hold(spa->mos, MOS_DIRECTORY, &dir);
    if (rc != 0)
        return rc;
    rc = zap_length(dir, "com.delphix:zpool_checkpoint", &size, &count);
    if (rc == 0 && (size != 8 || count < 21))
        rc = err_set(EBADE, "the checkpoint is damaged");
    if (rc == 0)
        rc = zap_lookup(dir, "com.delphix:zpool_checkpoint", 8, MIN(count, ARRAY_LEN(w)), w);
    dnode_rele(dir);
    if (rc == -ENOENT)
        return err_set(ENOENT, "the pool has no checkpoint");
    if (rc == 0 && (w[0] != UBERBLOCK_MAGIC || w[2] > spa->ub.txg))
        rc = err_set(EBADE, "the checkpoint is damaged");
    if (rc != 0)
        return rc;
    spa->ub = (struct uberblock){.version = w[1], .txg = w[2], .guid_sum = w[3], .timestamp = w[4],
                                 .software_version = w[21], .mmp_magic = w[22],
                                 .mmp_delay = w[23], .mmp_config = w[24],
                                 .checkpoint_txg = w[25], .raidz_reflow = w[26],
                                 .big = spa->ub.big};
    memcpy(spa->ub.rootbp, &w[5], sizeof spa->ub.rootbp);
    objset_close(spa->mos);
    spa->mos = NULL;
    return open_mos(spa, ops);
}

enum open_how { OPEN_READ, OPEN_WRITE, OPEN_INCOMPLETE /* read; devices may be missing */ };

static bool is_type(const struct vdev *v, const char *type)
{
    return strcmp(v->kind->type, type) == 0;
}

static bool is_pair(const struct vdev *v)
{
    return is_type(v, "replacing") || is_type(v, "spare");
}

/* A device, or several in the place of one: a replacement under way, perhaps of one that a spare stands
 * in for. */
static bool is_writable(const struct vdev *v)
{
    bool ok = v->kind->leaf || is_pair(v);
    for (unsigned i = 0; i < v->children && ok; i++)
        ok = is_writable(v->child[i]);
    return ok && !is_type(v, "dspare");
}

/* Vdevs that are read, but not yet written. */
static int check_kinds(const struct vdev *root)
{
    for (unsigned i = 0; i < root->children; i++) {
        const struct vdev *top = root->child[i];
        if (!top->kind->leaf && !is_type(top, "mirror") && !is_type(top, "raidz") && !is_pair(top))
            return err_set(EROFS, "its %s devices can only be read by this version", top->kind->type);
        if (vdev_is_expanding(top))
            return err_set(EROFS, "it has a raidz that is being expanded, which this version cannot "
                                  "continue");
        for (unsigned k = 0; k < top->children; k++)
            if (!is_writable(top->child[k]))
                return err_set(EROFS, "it has %s devices below a %s, which can only be read by this version",
                               top->child[k]->kind->type, top->kind->type);
    }
    return 0;
}

/* Others are told which devices were not there, as the reference does. */
static int note_absent(struct vdev *leaf, void *arg)
{
    leaf->not_present = leaf->state == VDEV_CANT_OPEN;
    return 0;
}

/* Opens the devices. *missing: what is missing, if it may be; the sentence is the caller's to free. */
static int open_tree(struct vdev *root, enum open_how how, uint64_t pool_guid, char **missing)
{
    int rc = how == OPEN_WRITE ? check_kinds(root) : 0;
    if (rc == 0)
        rc = vdev_tree_open(root, how == OPEN_WRITE ? VDEV_OPEN_WRITE : 0, pool_guid);
    if (rc == 0 && how == OPEN_WRITE)
        rc = vdev_each_leaf(root, note_absent, NULL);
    if (rc != -ENXIO || how != OPEN_INCOMPLETE)
        return rc;
    *missing = strdup(err_text(rc));
    return *missing ? 0 : -ENOMEM;
}

/* A spa with its devices open, the best uberblock chosen and the MOS open. */
static int open_devices(const struct spa_open_args *args, const struct nvlist *config,
                        enum open_how how, struct spa **out)
{
    static const struct objset_ops ops = {.born = dsl_mos_born, .killed = dsl_mos_killed};
    CLEANUP(free_spa) struct spa *spa = NULL;
    CLEANUP_FREE char *missing = NULL;
    struct nvlist *tree;
    struct vdev *root;
    struct env env;
    if (args->env)
        env = *args->env;
    else
        env_init_system(&env);
    if (!(spa = spa_new(&env)))
        return -ENOMEM;
    int rc = spa_config_adopt(spa, config);
    if (rc == 0 && (rc = nvlist_get_nvlist(config, "vdev_tree", &tree)) != 0)
        rc = err_set(EINVAL, "the pool configuration has no vdev tree");
    if (rc == 0)
        rc = vdev_tree_parse(&root, tree);
    if (rc != 0)
        return rc;
    rc = open_tree(root, how, spa->pool.guid, &missing);
    if (rc != 0) {
        vdev_tree_free(root);
        return rc;
    }
    uint64_t guid = spa->pool.guid;
    rc = pool_init(&spa->pool, args->new_name ? args->new_name : nvlist_string_or(config, "name", "?"),
                   root, &env);
    if (rc != 0)
        return rc;
    spa->pool.guid = guid;
    if (args->cache_limit)
        spa->pool.cache_limit = MIN(spa->pool.cache_limit, args->cache_limit);
    rc = spa_choose_uberblock(spa, args->max_txg);
    if (rc == 0) {
        vdev_set_reflow(root, uberblock_reflow_offset(&spa->ub), uberblock_reflow_state(&spa->ub));
        rc = open_mos(spa, &ops);
    }
    if (rc == 0 && args->checkpoint)
        rc = go_to_checkpoint(spa, &ops);
    if (rc == 0)
        *out = STEAL(spa);
    else if (missing) /* that is why */
        rc = err_set(ENXIO, "%s", missing);
    return rc;
}

/* ---- Device paths: the scan's are newer than the MOS's ---- */

static const char *scanned_path(const struct nvlist *tree, uint64_t guid)
{
    struct nvlist **child;
    size_t n;
    if (nvlist_uint64_or(tree, "guid", 0) == guid && nvlist_exists(tree, "path"))
        return nvlist_string_or(tree, "path", NULL);
    if (nvlist_get_nvlist_array(tree, "children", &child, &n) != 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *path = scanned_path(child[i], guid);
        if (path)
            return path;
    }
    return NULL;
}

/* Replaces the paths in the list tree (by rebuilding children arrays). */
static int adopt_paths(struct nvlist *tree, const struct nvlist *scanned)
{
    struct nvlist **child;
    size_t n;
    int rc = 0;
    if (nvlist_get_nvlist_array(tree, "children", &child, &n) == 0) {
        for (size_t i = 0; i < n && rc == 0; i++)
            rc = adopt_paths(child[i], scanned);
        return rc;
    }
    const char *path = scanned_path(scanned, nvlist_uint64_or(tree, "guid", 0));
    return path ? nvlist_add_string(tree, "path", path) : 0;
}

static int trusted_config(const struct spa_open_args *args, struct nvlist **out, uint64_t *txg)
{
    CLEANUP(free_spa) struct spa *spa = NULL;
    CLEANUP(free_nvlist) struct nvlist *config = NULL;
    struct nvlist *tree, *scanned;
    /* A vdev without labels may have been removed: only the MOS knows. */
    int rc = open_devices(args, args->config, OPEN_INCOMPLETE, &spa);
    if (rc == 0)
        rc = spa_config_read(spa->mos, &config, NULL);
    if (rc != 0)
        return rc;
    if (nvlist_get_nvlist(config, "vdev_tree", &tree) != 0 ||
        nvlist_get_nvlist(args->config, "vdev_tree", &scanned) != 0)
        return err_set(EBADE, "the pool configuration has no vdev tree");
    rc = adopt_paths(tree, scanned);
    *txg = spa->ub.txg;
    if (rc == 0)
        *out = STEAL(config);
    return rc;
}

/* Adds the classes of top-level vdevs, which only their ZAPs tell. */
static int add_classes(struct spa *spa, struct nvlist *config)
{
    static const char *const names[] = {"normal", "log", "special", "dedup"};
    struct nvlist *tree, **child;
    size_t n;
    int rc = nvlist_get_nvlist(config, "vdev_tree", &tree);
    if (rc != 0 || nvlist_get_nvlist_array(tree, "children", &child, &n) != 0)
        return rc;
    for (size_t i = 0; i < n && rc == 0; i++) {
        bool log = nvlist_uint64_or(child[i], "is_log", 0) != 0;
        enum vdev_class class = log ? VDEV_CLASS_LOG : VDEV_CLASS_NORMAL;
        rc = spa_class_read(spa, nvlist_uint64_or(child[i], "com.delphix:vdev_zap_top", 0), &class);
        rc = rc ? rc : nvlist_add_string(child[i], SPA_KEY_CLASS, names[class]);
    }
    return rc;
}

int spa_peek(const struct nvlist *config, struct nvlist **out)
{
    struct spa_open_args args = {.config = config, .readonly = true};
    CLEANUP(free_spa) struct spa *spa = NULL;
    CLEANUP(free_nvlist) struct nvlist *l = NULL;
    int rc = open_devices(&args, config, OPEN_INCOMPLETE, &spa);
    if (rc == 0)
        rc = spa_config_read(spa->mos, &l, NULL);
    if (rc == 0)
        spa_aux_load(spa, config);
    if (rc == 0)
        rc = spa_aux_config(spa, l);
    if (rc == 0)
        rc = add_classes(spa, l);
    if (rc == 0)
        *out = STEAL(l);
    return rc;
}

/* ---- What the MOS directory names ---- */

static int directory_object(struct spa *spa, const char *name, bool required, uint64_t *object)
{
    int rc = zap_get_u64(spa->mos, MOS_DIRECTORY, name, object);
    if (rc == -ENOENT && !required) {
        *object = 0;
        return 0;
    }
    return err_prefix(rc, "MOS directory entry %s", name);
}

static int read_salt(struct spa *spa)
{
    struct dnode *dir;
    int rc = dnode_hold(spa->mos, MOS_DIRECTORY, &dir);
    if (rc != 0)
        return rc;
    rc = zap_lookup(dir, "org.illumos:checksum_salt", 1, sizeof spa->pool.salt, spa->pool.salt);
    dnode_rele(dir);
    spa->pool.has_salt = rc == 0;
    return rc == -ENOENT ? 0 : rc;
}

static int read_directory(struct spa *spa)
{
    uint64_t deflate = 0;
    int rc = directory_object(spa, "config", true, &spa->config_object);
    if (rc == 0)
        rc = directory_object(spa, "sync_bplist", true, &spa->sync_bplist);
    if (rc == 0)
        rc = directory_object(spa, "history", false, &spa->history);
    if (rc == 0)
        rc = directory_object(spa, "pool_props", false, &spa->pool_props);
    if (rc == 0)
        rc = directory_object(spa, "com.delphix:vdev_zap_map", false, &spa->vdev_zap_map);
    if (rc == 0)
        rc = directory_object(spa, "deflate", false, &deflate);
    spa->pool.deflate = deflate != 0;
    return rc ? rc : read_salt(spa);
}

/* ---- May this pool be written? ---- */

static int check_host(struct spa *spa, const struct spa_open_args *args, const struct nvlist *config)
{
    uint64_t hostid = nvlist_uint64_or(config, "hostid", 0);
    uint64_t state = nvlist_uint64_or(config, "state", POOL_STATE_ACTIVE);
    if (args->force || state == POOL_STATE_EXPORTED || hostid == spa->hostid)
        return 0;
    return err_set(EEXIST, "pool was previously in use from another system.\nLast accessed by %s "
                   "(hostid=%llx)\nThe pool can be imported, use 'zpool import -f' to import the pool.",
                   nvlist_string_or(config, "hostname", "<unknown>"), (unsigned long long)hostid);
}

/* Devices that lack something stand in for those that are absent only as far as they have it. What can
 * be read then must not be changed: the others may come back. */
static int check_whole(const struct spa *spa)
{
    const struct vdev *root = spa->pool.root;
    for (unsigned i = 0; i < root->children; i++) {
        struct vdev *top = root->child[i];
        if (!top->kind->leaf && !vdev_is_whole(top))
            return err_set(EROFS, "devices of vdev %u are missing, and others have missed writes and were "
                                  "not resilvered: parts of the data may be unreadable", top->id);
    }
    return 0;
}

static int check_writable(struct spa *spa)
{
    int rc = feature_check(spa->dsl, true);
    if (rc == 0)
        rc = check_whole(spa);
    if (rc == 0 && spa->version != SPA_VERSION)
        rc = err_set(EROFS, "pool version %llu has no feature flags; this version can only read such pools",
                     (unsigned long long)spa->version);
    if (rc == 0 && spa->ub.mmp_delay != 0)
        rc = err_set(EROFS, "the pool has multihost protection on, which this version cannot keep up");
    if (rc == 0)
        rc = spa_scan_open(spa);
    if (rc == 0)
        rc = spa_check_intent_logs(spa);
    return rc;
}

/* ---- The whole ---- */

static int load(struct spa *spa, const struct spa_open_args *args, const struct nvlist *config)
{
    int rc = spa_mappings_load(spa);
    if (rc == 0)
        rc = read_directory(spa);
    if (rc == 0)
        rc = spa_vdevs_load(spa);
    if (rc == 0)
        rc = dsl_open(&spa->dsl, &spa->pool, spa->mos);
    if (rc != 0)
        return rc;
    spa_aux_load(spa, args->config);
    dsl_set_mos_space(spa->dsl, &spa->mos_space);
    rc = feature_check(spa->dsl, false);
    if (rc != 0)
        return rc;
    spa_load_features(spa);
    if (vdev_guid_sum(spa->pool.root) != spa->ub.guid_sum)
        return err_set(ENXIO, "one or more devices are missing: the sum of device guids does not match");
    rc = spa_spacemap_open(spa);
    if (rc == 0)
        rc = spa_logmap_open(spa);
    if (rc == 0 && !args->readonly)
        rc = check_host(spa, args, config);
    if (rc == 0 && !args->readonly)
        rc = check_writable(spa);
    return rc;
}

static int open_trusted(const struct spa_open_args *args, const struct nvlist *config, uint64_t txg,
                        struct spa **out)
{
    CLEANUP(free_spa) struct spa *spa = NULL;
    int rc = open_devices(args, config, args->readonly ? OPEN_READ : OPEN_WRITE, &spa);
    if (rc != 0)
        return rc;
    if (spa->ub.txg != txg && args->max_txg == 0)
        return -EAGAIN; /* another process wrote in between */
    spa->readonly = args->readonly;
    rc = load(spa, args, config);
    if (rc != 0)
        return rc;
    spa->pool.writable = spa->pool.root->may_mend = !args->readonly;
    spa->config_dirty = !args->readonly;
    rc = spa_start(spa, spa->ub.txg);
    spa->pool.in_memory = args->readonly && args->in_memory;
    if (rc == 0)
        *out = STEAL(spa);
    return rc;
}

int spa_open(const struct spa_open_args *args, struct spa **out)
{
    int rc = -EAGAIN;
    if (args->new_name && (rc = pool_name_check(args->new_name)) != 0)
        return rc;
    if (args->checkpoint && !args->readonly)
        return err_set(ENOTSUP, "going back to the checkpoint is only supported read-only");
    if (args->max_txg != 0 && !args->readonly)
        return err_set(ENOTSUP, "going back to an older txg is only supported read-only");
    for (int i = 0; i < OPEN_TRIES; i++) {
        CLEANUP(free_nvlist) struct nvlist *config = NULL;
        uint64_t txg = 0;
        rc = trusted_config(args, &config, &txg);
        if (rc == 0)
            rc = open_trusted(args, config, txg, out);
        if (rc != -EAGAIN)
            return rc;
    }
    return err_set(EBUSY, "the pool keeps changing: another process has it open");
}
