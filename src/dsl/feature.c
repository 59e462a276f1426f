/*
 * The features of a pool: which are enabled, and how often each is used. The tables in memory are the
 * truth while the pool is open; each change is written through to the ZAPs of the MOS (spec 01 17.1).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "nvlist/nvlist.h"
#include "util/err.h"

#define MOS_DIRECTORY 1

bool feature_enabled(const struct dsl *dsl, enum feature_id f)
{
    return dsl->feature[f].enabled;
}

uint64_t feature_refs(const struct dsl *dsl, enum feature_id f)
{
    return dsl->feature[f].refs;
}

uint64_t feature_enabled_txg(const struct dsl *dsl, enum feature_id f)
{
    return dsl->feature[f].txg;
}

bool feature_labels_dirty(struct dsl *dsl)
{
    return atomic_exchange(&dsl->labels_dirty, false);
}

static uint64_t home_zap(const struct dsl *dsl, enum feature_id f)
{
    return feature_info(f)->flags & FEATURE_READONLY_OK ? dsl->features_write : dsl->features_read;
}

/* ---- Reading ---- */

static int load_one(struct dsl *dsl, enum feature_id f)
{
    struct feature_state *s = &dsl->feature[f];
    uint64_t refs;
    int rc = zap_get_u64(dsl->mos, home_zap(dsl, f), feature_info(f)->guid, &refs);

    if (rc == -ENOENT)
        return 0;
    if (rc != 0)
        return err_prefix(rc, "feature %s", feature_info(f)->name);
    s->enabled = true;
    s->refs = refs;
    return 0;
}

static int load_txg(struct dsl *dsl, enum feature_id f)
{
    int rc = zap_get_u64(dsl->mos, dsl->feature_txgs, feature_info(f)->guid, &dsl->feature[f].txg);

    return rc == -ENOENT ? 0 : rc;
}

static int directory_object(struct dsl *dsl, const char *key, uint64_t *object)
{
    int rc = zap_get_u64(dsl->mos, MOS_DIRECTORY, key, object);

    if (rc == -ENOENT) {
        *object = 0;
        return 0;
    }
    return rc;
}

int feature_open(struct dsl *dsl)
{
    int rc = directory_object(dsl, "features_for_read", &dsl->features_read);

    if (rc == 0)
        rc = directory_object(dsl, "features_for_write", &dsl->features_write);
    if (rc == 0)
        rc = directory_object(dsl, "feature_descriptions", &dsl->feature_texts);
    if (rc == 0)
        rc = directory_object(dsl, "feature_enabled_txg", &dsl->feature_txgs);
    if (rc != 0 || !dsl->features_read || !dsl->features_write)
        return rc; /* a pool from before feature flags has none */
    for (int f = 0; f < FEATURE_COUNT && rc == 0; f++)
        rc = load_one(dsl, f);
    if (rc != 0)
        return rc;
    if (dsl->feature[FEATURE_ENABLED_TXG].refs == 0)
        return 0;
    if (!dsl->feature_txgs)
        return err_set(EIO, "the pool's directory lacks feature_enabled_txg");
    for (int f = 0; f < FEATURE_COUNT && rc == 0; f++)
        if (dsl->feature[f].enabled)
            rc = load_txg(dsl, f);
    return rc;
}

/* ---- Changing ---- */

int feature_create(struct dsl *dsl, struct tx *tx)
{
    const struct {
        const char *key;
        uint64_t *object;
    } rows[] = {{"features_for_read", &dsl->features_read},
                {"features_for_write", &dsl->features_write},
                {"feature_descriptions", &dsl->feature_texts}};
    int rc = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && rc == 0; i++) {
        rc = zap_create_simple(dsl->mos, OT_ZAP_METADATA, 0, tx, rows[i].object);
        if (rc == 0)
            rc = zap_add_u64(dsl->mos, MOS_DIRECTORY, rows[i].key, *rows[i].object, tx);
    }
    return rc;
}

int feature_change(struct dsl *dsl, enum feature_id f, int64_t delta, struct tx *tx)
{
    struct feature_state *s = &dsl->feature[f];
    uint64_t old = s->refs;

    if (delta == 0)
        return 0;
    if (!s->enabled)
        return err_set(ENOTSUP, "feature %s is not enabled", feature_info(f)->name);
    if (delta < 0 && old < (uint64_t)-delta)
        return err_set(EBADE, "the count of feature %s would become negative", feature_info(f)->name);
    s->refs = old + (uint64_t)delta;
    if ((feature_info(f)->flags & FEATURE_MOS) && (old == 0 || s->refs == 0))
        dsl->labels_dirty = true;
    return zap_set_u64(dsl->mos, home_zap(dsl, f), feature_info(f)->guid, s->refs, tx);
}

static int write_text(struct dsl *dsl, const struct feature_info *i, struct tx *tx)
{
    struct dnode *zap;
    int rc = dnode_hold(dsl->mos, dsl->feature_texts, &zap);

    if (rc != 0)
        return rc;
    rc = zap_update(zap, i->guid, 1, strlen(i->text) + 1, i->text, tx);
    dnode_rele(zap);
    return rc;
}

/* Entries are kept for what is enabled at the same time as or after enabled_txg itself; without an entry
 * for hole_birth, or with a count of 0, OpenZFS panics. */
static int write_txg(struct dsl *dsl, enum feature_id f, struct tx *tx)
{
    int rc;

    if (!dsl->feature[FEATURE_ENABLED_TXG].enabled)
        return 0;
    if (!dsl->feature_txgs) {
        rc = zap_create_simple(dsl->mos, OT_ZAP_METADATA, 0, tx, &dsl->feature_txgs);
        if (rc == 0)
            rc = zap_set_u64(dsl->mos, MOS_DIRECTORY, "feature_enabled_txg", dsl->feature_txgs, tx);
        if (rc != 0)
            return rc;
    }
    dsl->feature[f].txg = tx->txg;
    rc = zap_set_u64(dsl->mos, dsl->feature_txgs, feature_info(f)->guid, tx->txg, tx);
    return rc ? rc : feature_change(dsl, FEATURE_ENABLED_TXG, 1, tx);
}

int feature_enable(struct dsl *dsl, enum feature_id f, struct tx *tx)
{
    const struct feature_info *i = feature_info(f);
    struct feature_state *s = &dsl->feature[f];
    int rc = 0;

    if (s->enabled)
        return 0;
    if (!dsl->features_read)
        return err_set(ENOTSUP, "the pool's version has no feature flags");
    for (const enum feature_id *d = i->depends; d && *d != FEATURE_COUNT && rc == 0; d++)
        rc = feature_enable(dsl, *d, tx);
    if (rc == 0)
        rc = write_text(dsl, i, tx);
    if (rc != 0)
        return rc;
    s->enabled = true;
    s->refs = 0;
    rc = zap_set_u64(dsl->mos, home_zap(dsl, f), i->guid, 0, tx);
    if (rc == 0 && (i->flags & FEATURE_ACTIVATE))
        rc = feature_change(dsl, f, 1, tx);
    return rc ? rc : write_txg(dsl, f, tx);
}

/* ---- Labels ---- */

int feature_label_list(const struct dsl *dsl, struct nvlist **out)
{
    struct nvlist *list = nvlist_new();
    int rc = list ? 0 : -ENOMEM;

    for (int f = 0; f < FEATURE_COUNT && rc == 0; f++)
        if ((feature_info(f)->flags & FEATURE_MOS) && dsl->feature[f].refs > 0)
            rc = nvlist_add_boolean(list, feature_info(f)->guid);
    if (rc != 0) {
        nvlist_free(list);
        return rc;
    }
    *out = list;
    return 0;
}

int feature_check_label(const struct nvlist *features)
{
    for (const struct nvpair *p = features ? nvlist_first(features) : NULL; p;
         p = nvlist_after(features, p)) {
        enum feature_id f = feature_by_guid(nvpair_name(p));

        if (f == FEATURE_COUNT)
            return err_set(ENOTSUP,
                           "This pool uses the following feature(s) not supported by this system:\n\t%s\n"
                           "To read it takes a version that knows it; the system that last wrote "
                           "it has one.",
                           nvpair_name(p));
        if (!(feature_info(f)->flags & FEATURE_CAN_READ))
            return err_set(ENOTSUP, "the pool uses feature %s (%s), which this version cannot read",
                           feature_info(f)->name, feature_info(f)->guid);
    }
    return 0;
}

/* ---- May it be opened? ---- */

/* What the pool itself says about a feature; "" if nothing. */
static void description(const struct dsl *dsl, const char *guid, char *out, size_t cap)
{
    struct dnode *zap;
    unsigned size;
    size_t count;

    memset(out, 0, cap);
    if (dsl->feature_texts == 0 || dnode_hold(dsl->mos, dsl->feature_texts, &zap) != 0)
        return;
    if (zap_length(zap, guid, &size, &count) == 0 && size == 1 && count < cap &&
        zap_lookup(zap, guid, 1, count, out) != 0)
        out[0] = 0;
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    dnode_rele(zap);
}

/* The active features of one ZAP that the table does not have: a line for each. */
static int list_unknown(const struct dsl *dsl, uint64_t object, char *out, size_t cap)
{
    char text[256];
    struct dnode *zap;
    struct zap_cursor c;
    struct zap_entry e;
    size_t used = 0;
    int rc = dnode_hold(dsl->mos, object, &zap);

    out[0] = 0;
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0 && used < cap) {
        if (e.first == 0 || feature_by_guid(e.name) != FEATURE_COUNT)
            continue;
        description(dsl, e.name, text, sizeof text);
        used += (size_t)snprintf(out + used, cap - used, text[0] ? "\n\t%s (%s)" : "\n\t%s", e.name,
                                 text);
    }
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

static int check_unknown(const struct dsl *dsl, uint64_t object, bool reading)
{
    char list[1500];
    int rc = list_unknown(dsl, object, list, sizeof list);

    if (rc != 0 || list[0] == 0)
        return rc;
    if (!reading)
        return err_set(EROFS,
                       "the pool uses feature(s) unknown to this version, which are only required "
                       "for writing to it:%s",
                       list);
    return err_set(ENOTSUP,
                   "This pool uses the following feature(s) not supported by this system:%s\n"
                   "To read it takes a version that knows them; the system that last wrote it has one.",
                   list);
}

static int check_one(const struct dsl *dsl, enum feature_id f, bool write)
{
    const struct feature_info *i = feature_info(f);

    if (dsl->feature[f].refs == 0)
        return 0;
    if (!(i->flags & FEATURE_CAN_READ))
        return err_set(ENOTSUP, "the pool uses feature %s (%s), which this version cannot read", i->name,
                       i->guid);
    if (write && !(i->flags & FEATURE_CAN_WRITE))
        return err_set(EROFS, "the pool uses feature %s (%s), which this version can only read", i->name,
                       i->guid);
    return 0;
}

/* Deduplication needs no feature: its tables are found by name (01 14). */
static int check_dedup(const struct dsl *dsl)
{
    struct dnode *zap;
    struct zap_cursor c;
    struct zap_entry e;
    int rc = dnode_hold(dsl->mos, MOS_DIRECTORY, &zap);

    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        if (strncmp(e.name, "DDT-", 4) != 0 || strcmp(e.name, "DDT-statistics") == 0)
            continue;
        rc = err_set(EROFS, "the pool has deduplicated blocks, which this version can only read");
        break;
    }
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

int feature_check(const struct dsl *dsl, bool write)
{
    int rc = 0;

    if (!dsl->features_read || !dsl->features_write)
        return 0;
    rc = check_unknown(dsl, dsl->features_read, true);
    for (int f = 0; f < FEATURE_COUNT && rc == 0; f++)
        rc = check_one(dsl, f, false);
    if (rc != 0 || !write)
        return rc;
    rc = check_unknown(dsl, dsl->features_write, false);
    for (int f = 0; f < FEATURE_COUNT && rc == 0; f++)
        rc = check_one(dsl, f, true);
    return rc ? rc : check_dedup(dsl);
}
