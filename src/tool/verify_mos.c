/*
 * Every object of the MOS must be referenced by something known, and once (spec 01 27, 04 16): an
 * object that nothing refers to is never freed, one that two refer to is freed twice. This follows
 * all references from the object directory and the configuration.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/zap.h"
#include "nvlist/nvlist.h"
#include "spa/spa.h"
#include "tool/verify_mos_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

struct met {
    struct hashmap_node node;
    uint64_t object;
};

static struct met *find(const struct mos_refs *r, uint64_t object)
{
    struct hashmap_node *n = hashmap_first(&r->met, hash_u64(object));
    for (; n; n = hashmap_next(n)) {
        struct met *m = container_of(n, struct met, node);
        if (m->object == object)
            return m;
    }
    return NULL;
}

static bool exists(struct verify *v, uint64_t object)
{
    struct dnode *dn;
    int rc = dnode_hold(v->mos, object, &dn);
    if (rc == 0)
        dnode_rele(dn);
    return rc != -ENOENT && rc != -EINVAL; /* a damaged one has been reported */
}

static void wrong(struct mos_refs *r, const char *what, uint64_t object, const char *how)
{
    if (r->v->mos_refs++ < VERIFY_REPORT_MAX)
        verify_found(r->v, "mos_reference", "%s refers to MOS object %llu, %s", what,
                     (unsigned long long)object, how);
}

static bool meet(struct mos_refs *r, uint64_t object, const char *what, bool shared)
{
    if (object == 0 || r->rc)
        return false;
    if (find(r, object)) {
        if (!shared)
            wrong(r, what, object, "which something else refers to as well");
        return false;
    }
    if (!exists(r->v, object)) {
        wrong(r, what, object, "which does not exist");
        return false;
    }
    struct met *m = malloc(sizeof *m);
    if (!m) {
        r->rc = -ENOMEM;
        return false;
    }
    m->object = object;
    hashmap_insert(&r->met, &m->node, hash_u64(object));
    return true;
}

bool mos_meet(struct mos_refs *r, uint64_t object, const char *what)
{
    return meet(r, object, what, false);
}

bool mos_meet_shared(struct mos_refs *r, uint64_t object, const char *what)
{
    return meet(r, object, what, true);
}

bool mos_meet_perhaps(struct mos_refs *r, uint64_t object, const char *what)
{
    return exists(r->v, object) && meet(r, object, what, true);
}

void mos_damaged(struct mos_refs *r, uint64_t object, int rc)
{
    if (rc == -ENOMEM)
        r->rc = rc;
    if (rc == 0 || rc == -ENOMEM)
        return;
    r->incomplete = true;
    verify_unreadable(r->v, err_prefix(rc, "MOS object %llu", (unsigned long long)object));
}

static int each(struct verify *v, struct dnode *zap, const struct zap_entry *e, uint64_t arg)
{
    struct mos_entries *x = (struct mos_entries *)(uintptr_t)arg;
    return x->fn(x->r, e), x->r->rc;
}

void mos_each(struct mos_refs *r, uint64_t zap, mos_entry_fn *fn)
{
    struct mos_entries x = {r, fn};
    mos_damaged(r, zap, verify_each_entry(r->v, zap, each, (uint64_t)(uintptr_t)&x));
}

void mos_values(struct mos_refs *r, const struct zap_entry *e)
{
    if (e->size == 8 && e->count == 1 && !e->key_words)
        mos_meet(r, e->first, e->name);
}

static int on_list(void *arg, uint64_t object)
{
    struct mos_refs *r = arg;
    bool first = mos_meet_shared(r, object, "a list of blocks");
    return r->rc ? r->rc : first ? 0 : VERIFY_SKIP;
}

void mos_list(struct mos_refs *r, uint64_t object)
{
    struct list_visit visit = {.object = on_list, .arg = r};
    mos_damaged(r, object, verify_list(r->v, object, &visit));
}

void mos_deadlist(struct mos_refs *r, uint64_t object)
{
    struct list_visit visit = {.object = on_list, .arg = r};
    if (object)
        mos_damaged(r, object, verify_deadlist(r->v, object, &visit));
}

uint64_t mos_bonus_word(struct mos_refs *r, uint64_t object, unsigned word)
{
    uint64_t w[40];
    if (word >= ARRAY_LEN(w) || verify_hold(r->v, object, w, ARRAY_LEN(w), word + 1, NULL) != 0)
        return 0;
    return w[word];
}

/* ---- The configuration ---- */

static void space_maps(struct mos_refs *r, uint64_t array)
{
    struct dnode *dn;
    uint64_t object;
    if (!mos_meet(r, array, "the configuration") || dnode_hold(r->v->mos, array, &dn) != 0)
        return;
    uint64_t size = (dnode_max_blkid(dn) + 1) * dnode_block_size(dn);
    for (uint64_t at = 0; at < size && r->rc == 0; at += sizeof object) {
        int rc = dnode_read(dn, at, &object, sizeof object);
        mos_damaged(r, array, rc);
        if (rc)
            break;
        mos_meet(r, object, "a list of metaslabs");
    }
    dnode_rele(dn);
}

static void vdev_refs(struct mos_refs *r, const struct nvlist *config)
{
    static const char *const keys[] = {"DTL", "com.delphix:indirect_object",
                                       "com.delphix:indirect_births"};
    struct nvlist **child;
    size_t n;
    space_maps(r, nvlist_uint64_or(config, "metaslab_array", 0));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        mos_meet(r, nvlist_uint64_or(config, keys[i], 0), keys[i]);
    uint64_t mapping = nvlist_uint64_or(config, "com.delphix:indirect_object", 0);
    if (mapping)
        mos_meet(r, mos_bonus_word(r, mapping, 3), "a mapping");
    if (nvlist_get_nvlist_array(config, "children", &child, &n) == 0)
        for (size_t i = 0; i < n; i++)
            vdev_refs(r, child[i]);
}

static void free_nvlist(struct nvlist **l)
{
    nvlist_free(*l);
}

static void config_refs(struct mos_refs *r)
{
    CLEANUP(free_nvlist) struct nvlist *config = NULL;
    struct nvlist *tree;
    int rc = spa_config_read(r->v->mos, &config, NULL);
    if (rc == 0)
        rc = nvlist_get_nvlist(config, "vdev_tree", &tree);
    if (rc == 0)
        vdev_refs(r, tree);
    else if (rc == -ENOMEM)
        r->rc = rc;
    r->incomplete |= rc != 0;
}

/* ---- What is left ---- */

static void report_unreferenced(struct mos_refs *r)
{
    struct verify *v = r->v;
    uint64_t object = 0;
    while (objset_next_object(v->mos, &object) == 0) {
        struct dnode *dn;
        if (find(r, object) || dnode_hold(v->mos, object, &dn) != 0)
            continue;
        unsigned type = dnode_type(dn);
        dnode_rele(dn);
        if (v->mos_refs++ < VERIFY_REPORT_MAX)
            verify_found(v, "mos_leak", "MOS object %llu (%s) leaked: nothing refers to it",
                         (unsigned long long)object,
                         type == OT_ZAP_METADATA ? "zap" : verify_type_name(type));
    }
}

/* The features that datasets and their directories make active (04 3.3, 14). */
static void report_features(struct mos_refs *r)
{
    const struct dsl *dsl = spa_dsl(r->v->spa);
    for (enum feature_id f = 0; f < FEATURE_COUNT; f++) {
        const struct feature_info *info = feature_info(f);
        bool counted = info->flags & FEATURE_DATASET || f == FEATURE_BOOKMARKS ||
                       f == FEATURE_EXTENSIBLE_DATASET;
        if (counted && feature_refs(dsl, f) != r->features[f])
            verify_found(r->v, "feature_refcount", "feature %s is counted %llu times, but used %llu times",
                         info->name, (unsigned long long)feature_refs(dsl, f),
                         (unsigned long long)r->features[f]);
    }
}

int verify_mos(struct verify *v)
{
    struct mos_refs r = {.v = v};
    if (hashmap_init(&r.met, 1024) != 0)
        return -ENOMEM;
    mos_meet(&r, MOS_DIRECTORY, "the pool");
    mos_directory(&r);
    config_refs(&r);
    if (r.rc == 0 && !r.incomplete) {
        report_unreferenced(&r);
        report_features(&r);
    }
    for (size_t i = 0; i <= r.met.mask; i++)
        for (struct hashmap_node *n = r.met.slots[i], *next; n; n = next) {
            next = n->next;
            free(container_of(n, struct met, node));
        }
    hashmap_destroy(&r.met);
    return r.rc;
}
