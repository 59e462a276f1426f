/* What directories of datasets, datasets and snapshots refer to (spec 04 2, 3, 12, 14). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "tool/verify_mos_impl.h"
#include "util/bytes.h"
#include "util/err.h"

enum { DIR_HEAD = 1, DIR_CHILDREN = 4, DIR_PROPS = 10, DIR_PERMS = 11, DIR_CLONES = 18 };
enum { DS_NAMES = 4, DS_DEADLIST = 8, DS_CLONES = 32, DS_PROPS = 33, DS_HOLDS = 34 };
#define BOOKMARK_REDACTION 3
/* The reference allows 50 levels; older releases what fits into a name (spec 04 1). */
#define DEPTH_MAX (50 + 256)

static bool zapified(struct mos_refs *r, uint64_t object)
{
    struct dnode *dn;
    if (dnode_hold(r->v->mos, object, &dn) != 0)
        return false;
    bool is = dnode_type(dn) == OT_ZAP_METADATA;
    r->features[FEATURE_EXTENSIBLE_DATASET] += is;
    dnode_rele(dn);
    return is;
}

static void word(struct mos_refs *r, uint64_t object, unsigned i, const char *what)
{
    mos_meet(r, mos_bonus_word(r, object, i), what);
}

/* False if one more level would be too many, which is reported. */
static bool enter(struct mos_refs *r, uint64_t object)
{
    if (r->depth >= DEPTH_MAX) {
        mos_damaged(r, object, err_set(EBADE, "datasets are nested too deep"));
        return false;
    }
    r->depth++;
    return true;
}

/* ---- Datasets ---- */

static void bookmark(struct mos_refs *r, const struct zap_entry *e)
{
    uint64_t w[16] = {0};
    struct dnode *dn;
    if (e->size != 8 || e->count <= BOOKMARK_REDACTION || dnode_hold(r->v->mos, r->zap, &dn) != 0)
        return;
    if (zap_lookup(dn, e->name, 8, MIN(e->count, ARRAY_LEN(w)), w) == 0)
        mos_meet(r, w[BOOKMARK_REDACTION], "a bookmark");
    dnode_rele(dn);
}

static void dataset_key(struct mos_refs *r, const struct zap_entry *e)
{
    enum feature_id f = feature_by_guid(e->name);
    if (f != FEATURE_COUNT && feature_info(f)->flags & FEATURE_DATASET)
        r->features[f]++;
    if (strcmp(e->name, "com.delphix:remap_deadlist") == 0)
        mos_deadlist(r, e->first);
    if (strcmp(e->name, "com.delphix:bookmarks") == 0 && mos_meet(r, e->first, e->name)) {
        r->zap = e->first;
        r->features[FEATURE_BOOKMARKS]++;
        mos_each(r, e->first, bookmark);
    }
}

static void dataset(struct mos_refs *r, uint64_t object, const char *what);

static void snapshot(struct mos_refs *r, const struct zap_entry *e)
{
    dataset(r, e->first & ~(15ull << 60), "a list of snapshots");
}

static void dataset(struct mos_refs *r, uint64_t object, const char *what)
{
    if (!mos_meet(r, object, what) || !enter(r, object))
        return;
    uint64_t names = mos_bonus_word(r, object, DS_NAMES);
    mos_deadlist(r, mos_bonus_word(r, object, DS_DEADLIST));
    word(r, object, DS_CLONES, "a dataset (clones)");
    word(r, object, DS_PROPS, "a dataset (properties)");
    word(r, object, DS_HOLDS, "a dataset (holds)");
    if (zapified(r, object))
        mos_each(r, object, dataset_key);
    if (mos_meet(r, names, "a dataset (snapshots)"))
        mos_each(r, names, snapshot);
    r->depth--;
}

/* ---- Directories ---- */

/* Values are the tables of permissions. */
static void permissions(struct mos_refs *r, uint64_t object)
{
    if (mos_meet(r, object, "a directory (permissions)"))
        mos_each(r, object, mos_values);
}

static void dir_key(struct mos_refs *r, const struct zap_entry *e)
{
    if (strcmp(e->name, "com.datto:crypto_key_obj") == 0)
        mos_meet_shared(r, e->first, e->name);
    if (strcmp(e->name, "com.delphix:livelist") == 0)
        mos_deadlist(r, e->first);
}

static void child(struct mos_refs *r, const struct zap_entry *e)
{
    mos_dsl_dir(r, e->first);
}

void mos_dsl_dir(struct mos_refs *r, uint64_t object)
{
    if (!mos_meet(r, object, "a directory of datasets") || !enter(r, object))
        return;
    uint64_t children = mos_bonus_word(r, object, DIR_CHILDREN);
    uint64_t head = mos_bonus_word(r, object, DIR_HEAD);
    word(r, object, DIR_PROPS, "a directory (properties)");
    word(r, object, DIR_CLONES, "a directory (clones)");
    permissions(r, mos_bonus_word(r, object, DIR_PERMS));
    if (zapified(r, object))
        mos_each(r, object, dir_key);
    if (head)
        dataset(r, head, "a directory (head)");
    if (mos_meet(r, children, "a directory (children)"))
        mos_each(r, children, child);
    r->depth--;
}
