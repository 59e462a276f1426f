/* Properties that are not stored in a property ZAP (spec 04 5.2, 8.5). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "dsl/keys.h"
#include "dsl/props_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define MASTER_NODE  1
#define ZVOL_DATA    1
#define ZVOL_PROPS   2

/* ---- From the dataset's words ---- */

static uint64_t ratio(uint64_t uncompressed, uint64_t compressed)
{
    if (compressed == 0)
        return 100;
    uint64_t r = (uint64_t)((unsigned __int128)uncompressed * 100 / compressed);

    return MAX(r, 100u);
}

static int written(struct dataset *ds, uint64_t *out)
{
    CLEANUP_DS struct dataset *prev = NULL;
    struct space dead;
    int rc;

    *out = ds->w[DS_REF];
    if (ds->w[DS_PREV] == 0)
        return 0;
    rc = ds_hold(ds->dsl, ds->w[DS_PREV], &prev);
    if (rc == 0)
        rc = deadlist_totals(ds->dsl, ds->w[DS_DEADLIST], &dead);
    if (rc == 0)
        *out = ds->w[DS_REF] - prev->w[DS_REF] + (uint64_t)dead.used;
    return rc;
}

static uint64_t user_refs(struct dataset *ds)
{
    uint64_t n;

    return ds_userrefs(ds, &n) == 0 ? n : 0;
}

static void dir_stats(struct dataset *ds, struct dataset_stats *s)
{
    const uint64_t *w = ds->dir->w, *b = &w[DIR_BREAKDOWN];

    s->used = w[DIR_USED];
    s->available = ds_available(ds);
    s->logical_used = w[DIR_UNCOMP];
    s->dir_compressed = w[DIR_COMP];
    s->used_by_snapshots = b[USED_SNAP];
    s->used_by_dataset = b[USED_HEAD];
    s->used_by_children = b[USED_CHILD] + b[USED_CHILD_RSRV];
    s->used_by_refreservation = b[USED_REFRSRV];
    s->quota = w[DIR_QUOTA];
    s->reservation = w[DIR_RESERVED];
    s->refquota = ds->dir->refquota;
    s->refreservation = ds->dir->refreservation;
}

static int origin_name(struct dataset *ds, char out[DATASET_NAME_MAX])
{
    CLEANUP_DS struct dataset *origin = NULL;
    int rc;

    out[0] = 0;
    if (ds->dir->origin_txg == 0 || ds_is_snapshot(ds))
        return 0;
    rc = ds_hold(ds->dsl, ds->dir->w[DIR_ORIGIN], &origin);
    if (rc == 0)
        ds_name(origin, out);
    return rc;
}

int dataset_stats(struct dataset *ds, struct dataset_stats *s)
{
    DSL_READ_GUARD(ds->dsl);
    const uint64_t *w = ds->w;
    int rc;

    memset(s, 0, sizeof *s);
    if (ds->dead)
        return err_set(ENOENT, "dataset does not exist");
    ds_name(ds, s->name);
    s->object = ds->object;
    s->guid = w[DS_GUID];
    s->fsid_guid = w[DS_FSID];
    s->creation_time = w[DS_CTIME];
    s->creation_txg = w[DS_CTXG];
    s->snapshot = ds_is_snapshot(ds);
    s->inconsistent = w[DS_FLAGS] & DS_FLAG_INCONSISTENT;
    s->type = dataset_type(ds);
    s->referenced = w[DS_REF];
    s->compressed = w[DS_COMP];
    s->uncompressed = w[DS_UNCOMP];
    s->unique = s->used = w[DS_UNIQUE];
    if (s->snapshot) {
        s->user_refs = user_refs(ds);
        s->num_clones = w[DS_CHILDREN] - 1;
    } else {
        dir_stats(ds, s);
    }
    rc = origin_name(ds, s->origin);
    return rc ? rc : written(ds, &s->written);
}

/* ---- One property ---- */

static int text(struct prop_value *out, const char *s)
{
    if (!s[0])
        return -ENOENT;
    out->string = strdup(s);
    return out->string ? 0 : -ENOMEM;
}

/* Names of the clones of a snapshot, with commas between. */
static int clones(struct dataset *snap, struct prop_value *out)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc;

    if (snap->w[DS_NEXT_CLONES] == 0)
        return -ENOENT;
    rc = dnode_hold(snap->dsl->mos, snap->w[DS_NEXT_CLONES], &zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        CLEANUP_DS struct dataset *clone = NULL;
        char name[DATASET_NAME_MAX], *old = out->string;

        rc = ds_hold(snap->dsl, e.first, &clone);
        if (rc != 0)
            break;
        dir_name(clone->dir, name);
        if (asprintf(&out->string, "%s%s%s", old ? old : "", old ? "," : "", name) < 0)
            out->string = NULL;
        free(old);
        if (!out->string) {
            rc = -ENOMEM;
            break;
        }
    }
    dnode_rele(zap);
    return rc == -ENOENT && out->string ? 0 : rc;
}

static int snapshots_changed(struct dataset *ds, uint64_t *n)
{
    uint64_t when[2];
    int rc = -ENOENT;

    if (dnode_type(ds->dir->dn) == OT_ZAP_METADATA)
        rc = zap_lookup(ds->dir->dn, KEY_SNAPSHOTS_CHANGED, 8, 2, when);
    if (rc == 0)
        *n = when[0];
    return rc;
}

static int count(struct dataset *ds, const char *key, struct prop_value *out)
{
    int rc = dir_zap_get(ds->dir, key, &out->number);

    out->source = rc == 0 ? SOURCE_LOCAL : SOURCE_DEFAULT; /* as the reference shows it */
    if (rc == -ENOENT) {
        out->number = PROP_NONE_MAX;
        rc = 0;
    }
    return rc;
}

/* Values that live inside the object set. */
static int from_objset(struct dataset *ds, uint64_t object, const char *key, uint64_t otherwise, uint64_t *n)
{
    struct objset *os, *temporary CLEANUP(cleanup_objset) = NULL;
    int rc = ds_objset_plain(ds, &os, &temporary);

    if (rc == 0)
        rc = zap_get_u64(os, object, key, n);
    if (rc == -ENOENT) {
        *n = otherwise;
        rc = 0;
    }
    return rc;
}

static int volblocksize(struct dataset *ds, struct prop_value *out)
{
    struct objset *os, *temporary CLEANUP(cleanup_objset) = NULL;
    struct dnode *dn;
    int rc = ds_objset_plain(ds, &os, &temporary);

    if (rc == 0)
        rc = dnode_hold(os, ZVOL_DATA, &dn);
    if (rc != 0)
        return rc;
    out->number = dnode_block_size(dn);
    out->source = out->number == 16384 ? SOURCE_DEFAULT : SOURCE_NONE;
    dnode_rele(dn);
    return 0;
}

static int compute_words(struct dataset *ds, const char *name, struct prop_value *out)
{
    const uint64_t *w = ds->w, *d = ds->dir->w, *b = &d[DIR_BREAKDOWN];
    bool snap = ds_is_snapshot(ds);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {{"creation", w[DS_CTIME]},
                {"used", snap ? w[DS_UNIQUE] : d[DIR_USED]},
                {"referenced", w[DS_REF]},
                {"compressratio", snap ? ratio(w[DS_UNCOMP], w[DS_COMP])
                                       : ratio(d[DIR_UNCOMP], d[DIR_COMP])},
                {"refcompressratio", ratio(w[DS_UNCOMP], w[DS_COMP])},
                {"createtxg", w[DS_CTXG]},
                {"guid", w[DS_GUID]},
                {"objsetid", ds->object},
                {"usedbysnapshots", b[USED_SNAP]},
                {"usedbydataset", b[USED_HEAD]},
                {"usedbychildren", b[USED_CHILD] + b[USED_CHILD_RSRV]},
                {"usedbyrefreservation", b[USED_REFRSRV]},
                {"logicalused", d[DIR_UNCOMP]},
                {"logicalreferenced", w[DS_UNCOMP]},
                {"defer_destroy", (w[DS_FLAGS] & DS_FLAG_DEFER_DESTROY) != 0}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(name, rows[i].name) == 0) {
            out->number = rows[i].value;
            return 0;
        }
    }
    return -ENODATA;
}

static int compute_zpl(struct dataset *ds, const char *name, struct prop_value *out)
{
    static const char *const quotas[] = {"defaultuserquota", "defaultgroupquota", "defaultprojectquota",
                                         "defaultuserobjquota", "defaultgroupobjquota",
                                         "defaultprojectobjquota", "utf8only", "normalization",
                                         "casesensitivity"};

    if (strcmp(name, "version") == 0)
        return from_objset(ds, MASTER_NODE, "VERSION", 0, &out->number);
    for (size_t i = 0; i < ARRAY_LEN(quotas); i++)
        if (strcmp(name, quotas[i]) == 0)
            return from_objset(ds, MASTER_NODE, name, 0, &out->number);
    return -ENODATA;
}

/* What encrypted datasets have; others have the defaults. */
static int encryption(struct dataset *ds, const char *name, struct prop_value *out)
{
    static const char *const names[] = {"encryption", "keyformat", "pbkdf2iters", "keystatus",
                                        "encryptionroot"};
    struct keys_info info;
    size_t i = 0;
    int rc;

    while (i < ARRAY_LEN(names) && strcmp(name, names[i]) != 0)
        i++;
    if (i == ARRAY_LEN(names))
        return -ENODATA;
    rc = keys_info(ds, &info);
    if (rc != 0)
        return rc;
    if (!info.encrypted || (i == 2 && info.iters == 0))
        return -ENODATA;
    if (i == 4)
        return text(out, info.root);
    out->number = (const uint64_t[]){info.suite, info.format, info.iters, info.loaded ? 2 : 1}[i];
    return 0;
}

static int compute_rest(struct dataset *ds, const char *name, struct prop_value *out)
{
    char origin[DATASET_NAME_MAX];
    int rc;

    if (strcmp(name, "type") == 0) {
        out->number = ds_is_snapshot(ds) ? 2 : dataset_type(ds) == OBJSET_ZVOL ? 4 : 1;
        return 0;
    }
    if (strcmp(name, "available") == 0) {
        out->number = ds_available(ds);
        return 0;
    }
    if (strcmp(name, "origin") == 0) {
        rc = origin_name(ds, origin);
        return rc ? rc : text(out, origin);
    }
    if (strcmp(name, "clones") == 0)
        return clones(ds, out);
    if (strcmp(name, "written") == 0)
        return written(ds, &out->number);
    if (strcmp(name, "userrefs") == 0) {
        out->number = user_refs(ds);
        return 0;
    }
    if (strcmp(name, "snapshots_changed") == 0)
        return snapshots_changed(ds, &out->number);
    if (strcmp(name, "filesystem_count") == 0)
        return count(ds, KEY_FS_COUNT, out);
    if (strcmp(name, "snapshot_count") == 0)
        return count(ds, KEY_SNAP_COUNT, out);
    if (strcmp(name, "volsize") == 0) {
        out->source = SOURCE_LOCAL;
        return from_objset(ds, ZVOL_PROPS, "size", 0, &out->number);
    }
    if (strcmp(name, "volblocksize") == 0)
        return volblocksize(ds, out);
    return encryption(ds, name, out);
}

/* -ENODATA: the property is stored like others. */
int prop_compute(struct dataset *ds, const struct prop_info *p, struct prop_value *out)
{
    int rc;

    out->source = SOURCE_NONE;
    rc = compute_words(ds, p->name, out);
    if (rc == -ENODATA)
        rc = compute_zpl(ds, p->name, out);
    if (rc == -ENODATA)
        rc = compute_rest(ds, p->name, out);
    if (rc == -ENODATA && (p->flags & PROP_READONLY))
        rc = -ENOENT; /* known to the layers above, or not there */
    return rc;
}
