/*
 * What setting a property does (spec 04 5.1, 5.3): the stored keys, and for some the books of the
 * directory. The checks come first and change nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "dsl/props_impl.h"
#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/err.h"

/* ---- Checks ---- */

static int not_supported(const struct prop_info *p)
{
    return err_set(ENOTSUP, "property '%s' is not supported yet", p->name);
}

static int needs_upgrade(void)
{
    return err_set(ENOTSUP, "pool and or dataset must be upgraded to set this property or value");
}

static bool is_limit(const char *name)
{
    return strcmp(name, "filesystem_limit") == 0 || strcmp(name, "snapshot_limit") == 0;
}

/* Values that need a feature of the pool. */
static int check_feature(struct dsl *dsl, const struct prop_info *p, uint64_t n)
{
    const struct checksum_info *c;
    enum feature_id f = FEATURE_COUNT;

    if (strcmp(p->name, "compression") == 0 && (n & 0x7f) == COMPRESS_ZSTD)
        f = FEATURE_ZSTD_COMPRESS;
    else if (strcmp(p->name, "compression") == 0 && n == COMPRESS_LZ4)
        f = FEATURE_LZ4_COMPRESS;
    else if (strcmp(p->name, "recordsize") == 0 && n > BLOCK_OLD_MAX)
        f = FEATURE_LARGE_BLOCKS;
    else if (strcmp(p->name, "dnodesize") == 0 && n != 0)
        f = FEATURE_LARGE_DNODE;
    else if (is_limit(p->name) && n != PROP_NONE_MAX)
        f = FEATURE_FILESYSTEM_LIMITS;
    else if (strcmp(p->name, "checksum") == 0) {
        c = checksum_info((unsigned)n);
        if (n > CHECKSUM_OFF && (!c || !c->compute))
            return err_set(ENOTSUP, "this checksum is not supported yet");
        if (c && c->feature)
            f = feature_by_guid(c->feature);
    }
    return f == FEATURE_COUNT || feature_enabled(dsl, f) ? 0 : needs_upgrade();
}

static int check_native(struct dsl *dsl, struct dataset *ds, const struct prop_info *p, uint64_t n,
                        const char *string)
{
    bool is_default = p->kind == PROP_STRING ? strcmp(string, p->string) == 0 : n == p->number;
    unsigned kind = PROP_FILESYSTEM;

    if (ds)
        kind = ds_is_snapshot(ds) ? PROP_SNAPSHOT
                                  : dataset_type(ds) == OBJSET_ZVOL ? PROP_VOLUME : PROP_FILESYSTEM;
    if (kind == PROP_SNAPSHOT)
        return err_set(EINVAL, "this property can not be modified for snapshots");
    if (!(p->flags & kind))
        return err_set(EINVAL, "'%s' does not apply to datasets of this type", p->name);
    if (!(p->flags & (PROP_SUPPORTED | PROP_KEPT)))
        return is_default ? 0 : not_supported(p);
    if (strcmp(p->name, "acltype") == 0 && n == 2)
        return err_set(ENOTSUP, "property 'acltype' is not supported yet with the value 'nfsv4'");
    return check_feature(dsl, p, n);
}

static uint64_t max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static int too_small(void)
{
    return err_set(ENOSPC, "size is less than current used or reserved space");
}

static int too_big(void)
{
    return err_set(ENOSPC, "size is greater than available space");
}

static int check_reservation(struct dir *d, uint64_t n)
{
    uint64_t used = d->w[DIR_USED], after = max64(used, n), before = max64(used, d->w[DIR_RESERVED]);
    uint64_t avail = d->parent ? dir_available(d->parent) : space_adjusted(d->dsl, DSL_SPACE_NORMAL) - used;

    if (after <= before)
        return 0;
    if (after - before > avail || (d->w[DIR_QUOTA] && n > d->w[DIR_QUOTA]))
        return too_big();
    return 0;
}

static int check_refreservation(struct dataset *ds, uint64_t n)
{
    uint64_t unique = ds->w[DS_UNIQUE], after = max64(unique, n);
    uint64_t before = max64(unique, ds->dir->refreservation);

    if (after <= before)
        return 0;
    if (after - before > dir_available(ds->dir) || (ds->dir->refquota && n > ds->dir->refquota))
        return too_big();
    return 0;
}

/* Limits on the dataset's size, against what it has now. */
static int check_size(struct dataset *ds, const char *name, uint64_t n)
{
    struct dir *d = ds->dir;

    if (strcmp(name, "quota") == 0 && n != 0)
        return n < d->w[DIR_RESERVED] || n < d->w[DIR_USED] ? too_small() : 0;
    if (strcmp(name, "refquota") == 0 && n != 0)
        return n < ds->w[DS_REF] || n < d->refreservation ? too_small() : 0;
    if (strcmp(name, "reservation") == 0)
        return check_reservation(d, n);
    if (strcmp(name, "refreservation") == 0)
        return check_refreservation(ds, n);
    return 0;
}

int prop_apply_check(struct dsl *dsl, struct dataset *ds, const struct nvlist *encoded)
{
    int rc = 0;

    for (const struct nvpair *v = nvlist_first(encoded); v && rc == 0; v = nvlist_after(encoded, v)) {
        const struct prop_info *p = prop_info(nvpair_name(v));
        bool is_string = nvpair_type(v) == NV_STRING;
        uint64_t n = is_string ? 0 : nvpair_uint64(v, 0);

        if (!p && !is_string)
            return err_set(EINVAL, "invalid property '%s'", nvpair_name(v));
        if (!p)
            continue;
        if (is_string != (p->kind == PROP_STRING))
            return err_set(EINVAL, "property '%s' has a value of the wrong kind", p->name);
        rc = check_native(dsl, ds, p, n, is_string ? nvpair_string(v, 0) : NULL);
        if (rc == 0 && ds && !ds_is_snapshot(ds))
            rc = check_size(ds, p->name, n);
    }
    return rc;
}

/* ---- Stored keys ---- */

static int drop_key(struct dnode *zap, const char *name, const char *suffix, struct tx *tx)
{
    char key[ZAP_NAME_MAX];
    int rc;

    snprintf(key, sizeof key, "%s%s", name, suffix);
    rc = zap_remove(zap, key, tx);
    return rc == -ENOENT ? 0 : rc;
}

/* Values that software before them would misread stand beside the default (04 5.1). */
static bool is_new_value(const struct prop_info *p, uint64_t n)
{
    return (strcmp(p->name, "redundant_metadata") == 0 && n >= 2) ||
           (strcmp(p->name, "snapdir") == 0 && n >= 2);
}

static int put_number(struct dnode *zap, const struct prop_info *p, uint64_t n, struct tx *tx)
{
    char key[ZAP_NAME_MAX];
    int rc;

    if (!is_new_value(p, n)) {
        rc = zap_update(zap, p->name, 8, 1, &n, tx);
        return rc ? rc : drop_key(zap, p->name, "$iuv", tx);
    }
    snprintf(key, sizeof key, "%s$iuv", p->name);
    rc = zap_update(zap, p->name, 8, 1, &p->number, tx);
    return rc ? rc : zap_update(zap, key, 8, 1, &n, tx);
}

static int props_zap(struct dataset *ds, struct tx *tx, struct dnode **zap)
{
    struct dsl *dsl = ds->dsl;
    uint64_t *object = ds_is_snapshot(ds) ? &ds->w[DS_PROPS] : &ds->dir->w[DIR_PROPS];
    int rc = 0;

    if (*object == 0) {
        rc = zap_create_simple(dsl->mos, OT_DSL_PROPS, 0, tx, object);
        ds_dirty(ds);
    }
    return rc ? rc : dnode_hold(dsl->mos, *object, zap);
}

static int put(struct dataset *ds, const struct nvpair *v, struct tx *tx)
{
    const struct prop_info *p = prop_info(nvpair_name(v));
    struct dnode *zap;
    int rc = props_zap(ds, tx, &zap);

    if (rc != 0)
        return rc;
    rc = drop_key(zap, nvpair_name(v), "$inherit", tx);
    if (rc == 0 && nvpair_type(v) == NV_STRING)
        rc = zap_update(zap, nvpair_name(v), 1, strlen(nvpair_string(v, 0)) + 1, nvpair_string(v, 0), tx);
    else if (rc == 0)
        rc = put_number(zap, p, nvpair_uint64(v, 0), tx);
    dnode_rele(zap);
    return rc;
}

/* ---- Effects ---- */

static void set_reservation(struct dir *d, uint64_t n)
{
    uint64_t used = d->w[DIR_USED];
    struct space s = {.used = (int64_t)(max64(used, n) - max64(used, d->w[DIR_RESERVED]))};

    d->w[DIR_RESERVED] = n;
    dir_dirty(d);
    if (d->parent)
        dir_use(d->parent, USED_CHILD_RSRV, &s);
}

static void set_refreservation(struct dataset *ds, uint64_t n)
{
    int64_t unique = (int64_t)ds->w[DS_UNIQUE], old = (int64_t)ds->dir->refreservation;
    int64_t after = (int64_t)n > unique ? (int64_t)n - unique : 0;
    int64_t before = old > unique ? old - unique : 0;
    struct space s = {.used = after - before};

    dir_use(ds->dir, USED_REFRSRV, &s);
    ds->dir->refreservation = n;
}

static int effect(struct dataset *ds, const char *name, uint64_t n, struct tx *tx)
{
    struct dir *d = ds->dir;

    if (ds_is_snapshot(ds))
        return 0;
    if (strcmp(name, "quota") == 0) {
        d->w[DIR_QUOTA] = n;
        dir_dirty(d);
    } else if (strcmp(name, "reservation") == 0) {
        set_reservation(d, n);
    } else if (strcmp(name, "refquota") == 0) {
        d->refquota = n;
    } else if (strcmp(name, "refreservation") == 0) {
        set_refreservation(ds, n);
    } else if (strcmp(name, "compression") == 0 && (n & 0x7f) == COMPRESS_ZSTD) {
        return ds_feature_activate(ds, FEATURE_ZSTD_COMPRESS, tx);
    } else if (is_limit(name) && n != PROP_NONE_MAX) {
        return limits_activate(d, tx);
    }
    return 0;
}

int prop_apply(struct dataset *ds, const struct nvlist *encoded, struct tx *tx)
{
    int rc = 0;

    for (const struct nvpair *v = nvlist_first(encoded); v && rc == 0; v = nvlist_after(encoded, v)) {
        const char *name = nvpair_name(v);

        rc = put(ds, v, tx);
        if (nvpair_type(v) == NV_STRING) {
            dsl_event(ds->dsl, "set", ds, tx, "%s=%s", name, nvpair_string(v, 0));
        } else if (rc == 0) {
            rc = effect(ds, name, nvpair_uint64(v, 0), tx);
            dsl_event(ds->dsl, "set", ds, tx, "%s=%llu", name,
                      (unsigned long long)nvpair_uint64(v, 0));
        }
    }
    return rc;
}

/* ---- Inheriting ---- */

/* Is it noted anywhere up from here that properties were received? Then inheriting must be noted too. */
static bool has_received(struct dataset *ds)
{
    for (struct dir *d = ds->dir; d; d = d->parent) {
        uint64_t n;

        if (zap_get_u64(ds->dsl->mos, d->w[DIR_PROPS], "$hasrecvd", &n) == 0)
            return true;
    }
    return false;
}

static int clear_keys(struct dataset *ds, struct dnode *zap, const char *name, bool received, struct tx *tx)
{
    const uint64_t zero = 0;
    char key[ZAP_NAME_MAX];
    int rc = drop_key(zap, name, "", tx);

    if (rc == 0)
        rc = drop_key(zap, name, "$iuv", tx);
    if (rc != 0)
        return rc;
    if (received)
        return drop_key(zap, name, "$inherit", tx);
    if (!has_received(ds))
        return 0;
    snprintf(key, sizeof key, "%s$inherit", name);
    return zap_update(zap, key, 8, 1, &zero, tx);
}

/* A snapshot's ZAP goes when it is empty. */
static int drop_if_empty(struct dataset *ds, struct dnode *zap, struct tx *tx)
{
    uint64_t n;
    int rc = zap_count(zap, &n);

    if (rc != 0 || n > 0 || !ds_is_snapshot(ds))
        return rc;
    rc = object_free(zap, tx);
    ds->w[DS_PROPS] = 0;
    ds_dirty(ds);
    return rc;
}

/* With what holds now. */
static void inherit_event(struct dataset *ds, const char *name, struct tx *tx)
{
    const struct prop_info *p = prop_info(name);
    struct prop_value v = {0};

    if (p && prop_get(ds, name, &v) == 0 && p->kind != PROP_STRING)
        dsl_event(ds->dsl, "inherit", ds, tx, "%s=%llu", name, (unsigned long long)v.number);
    else
        dsl_event(ds->dsl, "inherit", ds, tx, "%s=%s", name, p && v.string ? v.string : "");
    prop_value_clear(&v);
}

int prop_clear(struct dataset *ds, const char *name, bool received, struct tx *tx)
{
    struct dnode *zap;
    int rc;

    if (ds_is_snapshot(ds) && ds->w[DS_PROPS] == 0)
        return 0;
    rc = props_zap(ds, tx, &zap);
    if (rc != 0)
        return rc;
    rc = clear_keys(ds, zap, name, received, tx);
    if (rc == 0)
        rc = drop_if_empty(ds, zap, tx);
    dnode_rele(zap);
    if (rc == 0 && prop_info(name))
        rc = effect(ds, name, prop_dir_number(ds->dir, name), tx);
    if (rc == 0)
        inherit_event(ds, name, tx);
    return rc;
}
