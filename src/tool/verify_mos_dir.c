/* What the object directory of the MOS refers to (spec 01 14). */
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "tool/verify_mos_impl.h"
#include "util/bytes.h"

#define BRT_PREFIX "com.fudosecurity:brt:vdev:"
#define DDT_PREFIX "DDT-"

static void root_dataset(struct mos_refs *r, const struct zap_entry *e)
{
    mos_dsl_dir(r, e->first);
}

static void list(struct mos_refs *r, const struct zap_entry *e)
{
    mos_list(r, e->first);
}

static void one(struct mos_refs *r, const struct zap_entry *e)
{
    mos_meet_shared(r, e->first, e->name);
}

/* With head_errlog a log has a ZAP for each dataset. */
static void error_log(struct mos_refs *r, const struct zap_entry *e)
{
    if (mos_meet(r, e->first, e->name))
        mos_each(r, e->first, mos_values);
}

static void vdev_zap_value(struct mos_refs *r, const struct zap_entry *e)
{
    static const char *const objects[] = {"com.delphix:ms_unflushed_phys_txgs",
                                          "com.delphix:pool_checkpoint_sm",
                                          "com.delphix:indirect_obsolete_sm"};
    for (size_t i = 0; i < ARRAY_LEN(objects); i++)
        if (strcmp(e->name, objects[i]) == 0)
            mos_values(r, e);
}

static void vdev_zap(struct mos_refs *r, const struct zap_entry *e)
{
    if (e->size == 8 && mos_meet(r, e->first, "the map of vdev ZAPs"))
        mos_each(r, e->first, vdev_zap_value);
}

static void vdev_zaps(struct mos_refs *r, const struct zap_entry *e)
{
    if (mos_meet(r, e->first, e->name))
        mos_each(r, e->first, vdev_zap);
}

static void zap_of_objects(struct mos_refs *r, const struct zap_entry *e)
{
    if (mos_meet(r, e->first, e->name))
        mos_each(r, e->first, mos_values);
}

static void deleted_clone(struct mos_refs *r, const struct zap_entry *e)
{
    mos_deadlist(r, e->first);
}

static void deleted_clones(struct mos_refs *r, const struct zap_entry *e)
{
    if (mos_meet(r, e->first, e->name))
        mos_each(r, e->first, deleted_clone);
}

static void dedup_object(struct mos_refs *r, const struct zap_entry *e)
{
    if (strncmp(e->name, DDT_PREFIX, strlen(DDT_PREFIX)) == 0)
        mos_values(r, e);
}

/* A table, the statistics, or (DDT-sha256) a folder of tables and logs. */
static void dedup(struct mos_refs *r, const struct zap_entry *e)
{
    bool folder = !strstr(e->name, "-zap-") && strcmp(e->name, "DDT-statistics") != 0;
    if (mos_meet(r, e->first, e->name) && folder)
        mos_each(r, e->first, dedup_object);
}

static void clones(struct mos_refs *r, const struct zap_entry *e)
{
    if (mos_meet(r, e->first, e->name))
        mos_meet(r, mos_bonus_word(r, e->first, 0), e->name);
}

static void object(struct mos_refs *r, const struct zap_entry *e)
{
    mos_meet(r, e->first, e->name);
}

static void nothing(struct mos_refs *r, const struct zap_entry *e)
{
}

static const struct {
    const char *key; /* ending in '*': a prefix */
    mos_entry_fn *fn;
} entries[] = {
    {"root_dataset", root_dataset},
    {"sync_bplist", list},
    {"free_bpobj", list},
    {"com.delphix:obsolete_bpobj", list},
    {"empty_bpobj", one},
    {"errlog_last", error_log},
    {"errlog_scrub", error_log},
    {"com.delphix:vdev_zap_map", vdev_zaps},
    {"com.delphix:log_spacemap_zap", zap_of_objects},
    {"com.delphix:deleted_clones", deleted_clones},
    {DDT_PREFIX "*", dedup},
    {BRT_PREFIX "*", clones},
    {"config", object},
    {"history", object},
    {"pool_props", object},
    {"spares", object},
    {"l2cache", object},
    {"features_for_read", object},
    {"features_for_write", object},
    {"feature_descriptions", object},
    {"feature_enabled_txg", object},
    {"bptree_obj", object},
    {"tmp_userrefs", object},
    {"deflate", nothing},
    {"creation_version", nothing},
    {"last_scrubbed_txg", nothing},
};

static bool is(const char *key, const char *name)
{
    size_t n = strlen(key);
    return key[n - 1] == '*' ? strncmp(key, name, n - 1) == 0 : strcmp(key, name) == 0;
}

static void words(struct mos_refs *r, const char *key, unsigned from, unsigned n)
{
    uint64_t w[27] = {0};
    struct dnode *dn;
    if (dnode_hold(r->v->mos, MOS_DIRECTORY, &dn) != 0)
        return;
    if (zap_lookup(dn, key, 8, ARRAY_LEN(w), w) == 0)
        for (unsigned i = 0; i < n; i++)
            mos_meet(r, w[from + i], key);
    dnode_rele(dn);
}

static void entry(struct mos_refs *r, const struct zap_entry *e)
{
    if (e->size != 8 || e->count != 1)
        return; /* numbers and texts */
    for (size_t i = 0; i < ARRAY_LEN(entries); i++)
        if (is(entries[i].key, e->name)) {
            entries[i].fn(r, e);
            return;
        }
    mos_meet_perhaps(r, e->first, e->name); /* of a newer writer; it may be a number */
}

void mos_directory(struct mos_refs *r)
{
    mos_each(r, MOS_DIRECTORY, entry);
    words(r, "scan", 2, 1); /* its queue */
    words(r, "com.delphix:condensing_indirect", 1, 2);
}
