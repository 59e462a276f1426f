/* Making a dataset in a new directory (spec 04 9.1). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/deleg_impl.h"
#include "dsl/dsl_impl.h"
#include "dsl/props_impl.h"
#include "nvlist/nvlist.h"
#include "pool/pool.h"
#include "util/err.h"

#define ZAP_FOLD_UPPER 2 /* normflags of snapshot names */

int dsl_set_add(struct dsl *dsl, uint64_t *set, uint8_t type, uint64_t value, struct tx *tx)
{
    int rc = *set ? 0 : zap_create_simple(dsl->mos, type, 0, tx, set);

    return rc ? rc : zap_int_set(dsl->mos, *set, value, value, tx);
}

/* creation_txg of something new; 1 in a pool's first txg, as the reference has it. */
static uint64_t birth_txg(const struct tx *tx)
{
    return tx->txg <= TXG_INITIAL ? 1 : tx->txg;
}

static int new_words(struct dsl *dsl, uint64_t dir, struct tx *tx, uint64_t w[DS_WORDS])
{
    memset(w, 0, DS_WORDS * 8);
    w[DS_DIR] = dir;
    w[DS_CTIME] = dsl_now(dsl);
    w[DS_CTXG] = birth_txg(tx);
    w[DS_GUID] = dsl_random(dsl);
    do
        w[DS_FSID] = dsl_random(dsl) >> 8;
    while (w[DS_FSID] == 0);
    w[DS_FLAGS] = DS_FLAG_UNIQUE_ACCURATE;
    return zap_create_simple(dsl->mos, OT_DSL_SNAP_MAP, ZAP_FOLD_UPPER, tx, &w[DS_SNAPNAMES]);
}

/* What comes from the origin: for ordinary datasets $ORIGIN@$ORIGIN, which is empty. */
static int from_origin(struct dsl *dsl, struct dataset *origin, struct tx *tx, uint64_t w[DS_WORDS])
{
    struct dataset *head;
    int rc;

    if (!origin)
        return deadlist_create(dsl, tx, &w[DS_DEADLIST]);
    w[DS_PREV] = origin->object;
    w[DS_PREV_TXG] = origin->w[DS_CTXG];
    memcpy(&w[DS_REF], &origin->w[DS_REF], 3 * 8);
    memcpy(&w[DS_BP], &origin->w[DS_BP], BLKPTR_SIZE);
    w[DS_FLAGS] |= origin->w[DS_FLAGS] & (DS_FLAG_INCONSISTENT | DS_FLAG_CI);
    rc = ds_hold(dsl, origin->dir->w[DIR_HEAD], &head);
    if (rc != 0)
        return rc;
    rc = deadlist_clone(dsl, head->w[DS_DEADLIST], origin->w[DS_CTXG], tx, &w[DS_DEADLIST]);
    ds_rele(head);
    return rc;
}

static int link_origin(struct dataset *origin, uint64_t object, struct dir *d, struct tx *tx)
{
    struct dsl *dsl = d->dsl;
    int rc;

    origin->w[DS_CHILDREN]++;
    rc = dsl_set_add(dsl, &origin->w[DS_NEXT_CLONES], OT_NEXT_CLONES, object, tx);
    ds_dirty(origin);
    d->w[DIR_ORIGIN] = origin->object;
    if (origin != dsl->origin)
        d->origin_txg = origin->w[DS_CTXG];
    if (rc == 0)
        rc = dsl_set_add(dsl, &origin->dir->w[DIR_CLONES], OT_DSL_CLONES, object, tx);
    dir_dirty(origin->dir);
    return rc;
}

static int write_new(struct dsl *dsl, const uint64_t w[DS_WORDS], struct tx *tx, uint64_t *object)
{
    struct object_params params = {.type = OT_DSL_DATASET, .bonus_type = OT_DSL_DATASET,
                                   .bonus_len = DS_WORDS * 8};
    struct dnode *dn;
    int rc = object_create(dsl->mos, 0, &params, tx, &dn);

    if (rc != 0)
        return rc;
    *object = dnode_object(dn);
    rc = dnode_bonus_set(dn, w, DS_WORDS * 8, OT_DSL_DATASET, tx);
    dnode_rele(dn);
    return rc;
}

int ds_create(struct dsl *dsl, uint64_t dir, struct dataset *origin, struct tx *tx, uint64_t *object)
{
    CLEANUP_DIR struct dir *d = NULL;
    CLEANUP_DS struct dataset *ds = NULL;
    uint64_t w[DS_WORDS];
    int rc = dir_hold(dsl, dir, &d);

    if (rc == 0)
        rc = new_words(dsl, dir, tx, w);
    if (rc == 0)
        rc = from_origin(dsl, origin, tx, w);
    if (rc == 0)
        rc = write_new(dsl, w, tx, object);
    if (rc != 0)
        return rc;
    d->w[DIR_HEAD] = *object;
    dir_dirty(d);
    if (!origin)
        return 0;
    rc = link_origin(origin, *object, d, tx);
    if (rc == 0)
        rc = ds_hold(dsl, *object, &ds);
    return rc ? rc : ds_features_copy(origin, ds, tx);
}

/* ---- The empty object set ---- */

static uint64_t accounting_flags(const struct dsl *dsl)
{
    uint64_t flags = OBJSET_FLAG_USERACCOUNTING;

    if (feature_enabled(dsl, FEATURE_USEROBJ_ACCOUNTING))
        flags |= OBJSET_FLAG_USEROBJACCOUNTING;
    if (feature_enabled(dsl, FEATURE_PROJECT_QUOTA))
        flags |= OBJSET_FLAG_PROJECTQUOTA;
    return flags;
}

/* Its blocks are written in the next pass of this txg. */
int ds_make_objset(struct dataset *ds, uint32_t uid, uint32_t gid, struct tx *tx)
{
    struct dsl *dsl = ds->dsl;
    uint64_t flags = accounting_flags(dsl);
    struct objset_props props;
    struct objset *os;
    int rc;

    prop_objset(ds->dir, &props);
    rc = objset_create(&os, dsl->pool, ds->object, OBJSET_ZPL, flags, &props, &ds_objset_ops, ds, tx);
    if (rc != 0)
        return rc;
    ds->os = os;
    ds->dir->type = OBJSET_ZPL;
    rc = dsl_format(os, uid, gid, flags & OBJSET_FLAG_PROJECTQUOTA, tx);
    if (rc == 0 && (flags & OBJSET_FLAG_USEROBJACCOUNTING))
        rc = ds_feature_activate(ds, FEATURE_USEROBJ_ACCOUNTING, tx);
    if (rc == 0 && (flags & OBJSET_FLAG_PROJECTQUOTA))
        rc = ds_feature_activate(ds, FEATURE_PROJECT_QUOTA, tx);
    return rc;
}

/* ---- zfs create ---- */

struct create {
    const char *name;
    const struct nvlist *props;
    uint32_t uid, gid;
};

/* Holds the parent's head and points last at the final component. */
int ds_hold_parent(struct dsl *dsl, const char *name, struct dataset **parent, const char **last)
{
    char path[DATASET_NAME_MAX];
    const char *slash = strrchr(name, '/');
    int rc;

    snprintf(path, sizeof path, "%.*s", (int)strcspn(name, "/"), name);
    if (strcmp(path, dsl->pool->name) != 0)
        return err_set(ENOENT, "no such pool '%s'", path);
    if (!slash)
        return err_set(EEXIST, "dataset already exists");
    snprintf(path, sizeof path, "%.*s", (int)(slash - name), name);
    *last = slash + 1;
    rc = ds_hold_name(dsl, path, parent);
    return rc == -ENOENT ? err_set(ENOENT, "parent does not exist") : rc;
}

int ds_new_name_check(const char *name)
{
    int rc;

    if (strchr(name, '@'))
        return err_set(EINVAL, "snapshot delimiter '@' is not expected here");
    rc = dataset_name_check(name);
    if (rc == 0 && strpbrk(name, "%$"))
        rc = err_set(EINVAL, "invalid character %c in name", *strpbrk(name, "%$"));
    return rc;
}

/* May a dataset of this name be made in parent? */
int ds_create_check(struct dataset *parent, const char *last, uint32_t uid)
{
    struct dsl *dsl = parent->dsl;
    uint64_t object;
    int rc = zap_get_u64(dsl->mos, parent->dir->w[DIR_CHILDREN], last, &object);
    if (rc != -ENOENT)
        return rc ? rc : err_set(EEXIST, "dataset already exists");
    if (ds_is_snapshot(parent) || dataset_type(parent) != OBJSET_ZPL)
        return err_set(EINVAL, "parent is not a filesystem");
    if (dir_zap_get(parent->dir, KEY_CRYPTO, &object) == 0)
        return err_set(ENOTSUP, "the parent is encrypted, and this version cannot make encrypted datasets");
    return uid == 0 ? 0 : limits_check(parent->dir, NULL, 1, 0); /* root may change it anyway */
}

static int create_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct create *c = arg;
    CLEANUP_DS struct dataset *parent = NULL;
    const char *last;
    int rc = ds_hold_parent(dsl, c->name, &parent, &last);

    if (rc == 0 && !dsl_format)
        rc = err_set(ENOTSUP, "this program cannot make file systems");
    if (rc == 0)
        rc = ds_create_check(parent, last, c->uid);
    return rc || !c->props ? rc : prop_apply_check(dsl, NULL, c->props);
}

int ds_create_counts(struct dir *d, struct tx *tx)
{
    struct dsl *dsl = d->dsl;
    const uint64_t zero = 0;
    int rc;

    if (feature_refs(dsl, FEATURE_FILESYSTEM_LIMITS) == 0)
        return 0;
    rc = zapify(dsl, d->dn, tx);
    if (rc == 0)
        rc = zap_add(d->dn, KEY_FS_COUNT, 8, 1, &zero, tx);
    return rc ? rc : zap_add(d->dn, KEY_SNAP_COUNT, 8, 1, &zero, tx);
}

static int create_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct create *c = arg;
    CLEANUP_DS struct dataset *parent = NULL, *ds = NULL;
    const char *last;
    uint64_t dir, object;
    int rc = ds_hold_parent(dsl, c->name, &parent, &last);

    if (rc == 0)
        rc = dir_create(dsl, parent->dir, last, tx, &dir);
    if (rc == 0)
        rc = ds_create(dsl, dir, dsl->origin, tx, &object);
    if (rc == 0)
        rc = ds_hold(dsl, object, &ds);
    if (rc == 0)
        dsl_event(dsl, "create", ds, tx, " ");
    if (rc == 0)
        rc = ds_create_counts(ds->dir, tx);
    if (rc == 0 && c->props)
        rc = prop_apply(ds, c->props, tx);
    if (rc == 0)
        rc = ds_make_objset(ds, c->uid, c->gid, tx);
    if (rc == 0)
        rc = deleg_give_maker(ds->dir, c->uid, tx);
    return rc;
}

int dataset_create(struct dsl *dsl, const char *name, const struct nvlist *props, uint32_t uid,
                   uint32_t gid)
{
    struct create c = {name, props, uid, gid};
    int rc = ds_new_name_check(name);

    return rc ? rc : dsl_task_blocks(dsl, create_check, create_sync, &c, DSL_SPACE_NORMAL, 8);
}
