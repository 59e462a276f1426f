/* The DSL of a new pool (spec 04 4), all in its first txg. */
#include <errno.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/err.h"

#define MOS_DIRECTORY 1
#define ORIGIN_NAME   "$ORIGIN"

static int make_dirs(struct dsl *dsl, struct tx *tx)
{
    uint64_t object;
    int rc = dir_create(dsl, NULL, "", tx, &object);

    if (rc == 0)
        rc = zap_add_u64(dsl->mos, MOS_DIRECTORY, "root_dataset", object, tx);
    if (rc == 0)
        rc = dir_hold(dsl, object, &dsl->root);
    if (rc == 0)
        rc = dir_create(dsl, dsl->root, "$MOS", tx, &object);
    if (rc == 0)
        rc = dir_hold(dsl, object, &dsl->mos_dir);
    if (rc == 0)
        rc = dir_create(dsl, dsl->root, "$FREE", tx, &object);
    if (rc == 0)
        rc = dir_hold(dsl, object, &dsl->free_dir);
    if (rc == 0)
        rc = bpobj_create(dsl, 0, tx, &dsl->free_bpobj);
    if (rc == 0)
        rc = zap_add_u64(dsl->mos, MOS_DIRECTORY, "free_bpobj", dsl->free_bpobj, tx);
    return rc;
}

/* An empty dataset and its snapshot, which claims to be of txg 1. */
static int make_origin(struct dsl *dsl, struct tx *tx)
{
    CLEANUP_DS struct dataset *head = NULL;
    uint64_t dir, object;
    int rc = dir_create(dsl, dsl->root, ORIGIN_NAME, tx, &dir);

    if (rc == 0)
        rc = ds_create(dsl, dir, NULL, tx, &object);
    if (rc == 0)
        rc = ds_hold(dsl, object, &head);
    if (rc == 0)
        rc = ds_snapshot(head, ORIGIN_NAME, tx);
    if (rc == 0)
        rc = ds_hold_snapshot(head, ORIGIN_NAME, &dsl->origin);
    if (rc != 0)
        return rc;
    dsl->origin->w[DS_CTXG] = head->w[DS_PREV_TXG] = 1;
    ds_dirty(dsl->origin);
    ds_dirty(head);
    return 0;
}

static int make_features(struct dsl *dsl, const bool *features, struct tx *tx)
{
    int rc = feature_create(dsl, tx);

    for (int f = 0; f < FEATURE_COUNT && rc == 0; f++)
        if (features[f])
            rc = feature_enable(dsl, f, tx);
    return rc;
}

static int make_root(struct dsl *dsl, uint32_t uid, uint32_t gid, struct tx *tx)
{
    CLEANUP_DS struct dataset *ds = NULL;
    uint64_t object;
    int rc = ds_create(dsl, dsl->root->object, dsl->origin, tx, &object);

    if (rc == 0)
        rc = ds_hold(dsl, object, &ds);
    return rc ? rc : ds_make_objset(ds, uid, gid, tx);
}

int dsl_create(struct dsl **out, struct pool *pool, struct objset *mos, const bool *features,
               uint32_t uid, uint32_t gid, struct tx *tx)
{
    struct dsl *dsl;
    int rc, flushed;

    if (!dsl_format)
        return err_set(ENOTSUP, "this program cannot make file systems");
    rc = dsl_new(&dsl, pool, mos);
    if (rc != 0)
        return rc;
    dsl_write_lock(dsl);
    rc = make_dirs(dsl, tx);
    if (rc == 0)
        rc = make_origin(dsl, tx);
    if (rc == 0)
        rc = make_features(dsl, features, tx);
    if (rc == 0)
        rc = make_root(dsl, uid, gid, tx);
    flushed = dsl_flush(dsl, tx);
    dsl_write_unlock(dsl);
    if (rc == 0)
        rc = flushed;
    if (rc != 0) {
        dsl_close(dsl);
        return rc;
    }
    *out = dsl;
    return 0;
}
