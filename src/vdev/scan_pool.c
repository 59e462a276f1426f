/* One pool from the labels of its devices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "vdev/scan_impl.h"

enum { TOPS_MOST = 16384 }; /* a label could claim more than fits in memory */

/* Labels of the pool under assembly. A label whose txg was never committed is left out: it was
 * written just before a crash (01 8). */
struct labels {
    const struct candidates *c;
    uint64_t guid, max_txg;
    bool damaged; /* use those with wrong checksums: there are no others */
};

static bool counts(const struct labels *ls, const struct candidate *k, const struct label *l)
{
    bool ok = ls->damaged ? k->damaged && l == k->label : label_usable(l);
    return ok && l->txg <= ls->max_txg && nvlist_uint64_or(l->config, "pool_guid", 0) == ls->guid &&
           nvlist_exists(l->config, "vdev_tree");
}

/* The label with the highest txg. */
static const struct label *newest(const struct labels *ls)
{
    const struct label *best = NULL;
    for (size_t i = 0; i < ls->c->n; i++) {
        const struct candidate *k = &ls->c->item[i];
        for (unsigned j = 0; k->pool_guid == ls->guid && j < LABELS; j++) {
            const struct label *l = &k->set.label[j];
            if (l->config && counts(ls, k, l) && (!best || l->txg > best->txg))
                best = l;
        }
    }
    return best;
}

static bool in_holes(const struct nvlist *config, uint64_t id)
{
    const uint64_t *holes;
    size_t n;
    if (nvlist_get_uint64_array(config, "hole_array", &holes, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (holes[i] == id)
            return true;
    return false;
}

/* A label that may tell what is in a slot of the root. */
static void offer(const struct label **top, uint64_t n, const struct label *l)
{
    struct nvlist *tree;
    uint64_t id;
    if (nvlist_exists(l->config, "top_guid") && nvlist_get_nvlist(l->config, "vdev_tree", &tree) == 0 &&
        nvlist_get_uint64(tree, "id", &id) == 0 && id < n && (!top[id] || l->txg > top[id]->txg))
        top[id] = l;
}

/* Chooses for each slot of the root the newest label of a vdev there. What is there can change, when a disk
 * becomes a mirror: all labels of a device are asked, as the newest may be of a txg that never was. */
static void choose_tops(const struct labels *ls, const struct label **top, uint64_t n)
{
    for (size_t i = 0; i < ls->c->n; i++) {
        const struct candidate *k = &ls->c->item[i];
        for (unsigned j = 0; k->pool_guid == ls->guid && j < LABELS; j++)
            if (k->set.label[j].config && counts(ls, k, &k->set.label[j]))
                offer(top, n, &k->set.label[j]);
    }
}

/* The child for a slot of which no label was found. */
static int placeholder(const char *type, uint64_t id, struct nvlist **out)
{
    struct nvlist *l CLEANUP_NVLIST = nvlist_new();
    int rc = l ? nvlist_add_string(l, "type", type) : -ENOMEM;
    rc = rc ? rc : nvlist_add_uint64(l, "id", id);
    rc = rc ? rc : nvlist_add_uint64(l, "guid", 0);
    if (rc == 0 && strcmp(type, "hole") == 0)
        rc = nvlist_add_uint64(l, "is_hole", 1);
    if (rc == 0)
        *out = STEAL(l);
    return rc;
}

/* A removed vdev has no device, and so no label tells of it: in a pool that has had one, a slot
 * without labels is not held against it here. The pool's own configuration will tell. */
static bool may_be_removed(const struct label *config)
{
    struct nvlist *features;
    return nvlist_get_nvlist(config->config, "features_for_read", &features) == 0 &&
           nvlist_exists(features, "com.delphix:device_removal");
}

static int root_child(const struct label *config, const struct label *top, uint64_t id,
                      struct nvlist **out)
{
    struct nvlist *tree;
    if (in_holes(config->config, id))
        return placeholder("hole", id, out);
    if (!top || nvlist_get_nvlist(top->config, "vdev_tree", &tree))
        return placeholder("missing", id, out);
    *out = nvlist_dup(tree);
    return *out ? 0 : -ENOMEM;
}

struct children {
    struct nvlist **child;
    size_t n;
};

static void free_children(struct children *c)
{
    for (size_t i = 0; i < c->n; i++)
        nvlist_free(c->child[i]);
    free(c->child);
}

/* Fills in the children: paths, and what is missing. */
static int make_children(struct scan_pool *pool, const struct labels *ls,
                         const struct label *config, struct children *out)
{
    const struct label **top CLEANUP_FREE = calloc(out->n, sizeof *top);
    if (!top)
        return -ENOMEM;
    choose_tops(ls, top, out->n);
    for (size_t i = 0; i < out->n; i++) {
        struct tree_count count = {0};
        int rc = root_child(config, top[i], i, &out->child[i]);
        rc = rc ? rc : scan_tree_paths(out->child[i], ls->c, ls->guid, &count);
        if (rc)
            return rc;
        pool->missing_leaves += count.missing_leaves;
        if (!count.ok && (top[i] || !may_be_removed(config)))
            pool->missing_tops++;
    }
    pool->status = pool->missing_tops     ? SCAN_MISSING
                   : pool->missing_leaves ? SCAN_DEGRADED
                                          : SCAN_ONLINE;
    return 0;
}

/* config with the root of all top-level vdevs instead of the tree of one. */
static int make_config(struct scan_pool *pool, const struct labels *ls,
                       const struct label *newest_label)
{
    static const char *const of_the_device[] = {"guid",   "top_guid",   "is_spare",
                                                "is_log", "create_txg", "vdev_tree"};
    uint64_t n = nvlist_uint64_or(newest_label->config, "vdev_children", 0);
    struct nvlist *tree = NULL;
    nvlist_get_nvlist(newest_label->config, "vdev_tree", &tree);
    if (n == 0 && tree) /* very old pools do not tell */
        n = nvlist_uint64_or(tree, "id", 0) + 1;
    if (n == 0 || n > TOPS_MOST)
        return -EINVAL;
    struct children children CLEANUP(free_children) = {calloc(n, sizeof(struct nvlist *)), n};
    if (!children.child) {
        children.n = 0;
        return -ENOMEM;
    }
    struct nvlist *root CLEANUP_NVLIST = nvlist_new();
    struct nvlist *config CLEANUP_NVLIST = nvlist_dup(newest_label->config);
    int rc = root && config ? make_children(pool, ls, newest_label, &children) : -ENOMEM;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(of_the_device); i++)
        nvlist_remove(config, of_the_device[i]); /* may be absent */
    rc = rc ? rc : nvlist_add_string(root, "type", "root");
    rc = rc ? rc : nvlist_add_uint64(root, "id", 0);
    rc = rc ? rc : nvlist_add_uint64(root, "guid", pool->guid);
    rc = rc ? rc : nvlist_add_nvlist_array(root, "children", children.child, n);
    rc = rc ? rc : nvlist_add_nvlist(config, "vdev_tree", root);
    if (rc == 0)
        pool->config = STEAL(config);
    return rc;
}

static bool version_known(uint64_t version)
{
    return (version >= 1 && version <= 28) || version == 5000;
}

int scan_assemble(struct scan_pool *pool, struct candidates *c, uint64_t pool_guid)
{
    struct labels ls = {.c = c, .guid = pool_guid};
    const char *hostname;
    for (size_t i = 0; i < c->n; i++)
        if (c->item[i].pool_guid == pool_guid)
            pool->txg = MAX(pool->txg, c->item[i].ub_txg);
    ls.max_txg = pool->txg ? pool->txg : UINT64_MAX;
    const struct label *l = newest(&ls);
    if (!l) { /* labels without an uberblock as new, or all damaged: show what there is */
        ls.max_txg = UINT64_MAX;
        l = newest(&ls);
        ls.damaged = l == NULL;
        l = l ? l : newest(&ls);
    }
    if (!l)
        return -EINVAL; /* cannot be: a label of this pool has brought us here */
    pool->name = strdup(nvlist_string_or(l->config, "name", ""));
    pool->state = l->state;
    pool->version = nvlist_uint64_or(l->config, "version", 0);
    pool->hostid = nvlist_uint64_or(l->config, "hostid", 0);
    hostname = nvlist_string_or(l->config, "hostname", NULL);
    pool->hostname = hostname ? strdup(hostname) : NULL;
    if (!pool->name || (hostname && !pool->hostname))
        return -ENOMEM;
    int rc = make_config(pool, &ls, l);
    if (rc == -ENOMEM)
        return rc;
    if (rc || !pool->name[0] || ls.damaged || !pool->txg || l->txg > pool->txg)
        pool->status = SCAN_CORRUPT;
    else if (!version_known(pool->version))
        pool->status = SCAN_VERSION;
    return 0;
}
