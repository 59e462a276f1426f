/* The object set of a dataset: opening it, its type, and the properties it is written with. */
#include <errno.h>
#include <stdlib.h>

#include "codec/crypt.h"
#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "dsl/props_impl.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define OBJSET_TYPE_OFFSET 704 /* 03 5.1 */

static int check_readable(struct dataset *ds)
{
    if (ds->dead)
        return err_set(ENOENT, "dataset does not exist");
    if (bp_hole(ds_bp(ds)))
        return err_set(EINVAL, "the dataset has no contents yet");
    return 0;
}

static void cleanup_key(struct crypt_key **k)
{
    crypt_key_unref(*k);
}

static int open_set(struct dataset *ds, struct crypt_key *key, struct objset **out)
{
    struct objset_props props;

    prop_objset(ds->dir, &props);
    return objset_open_key(out, ds->dsl->pool, ds->object, ds_bp(ds), &props,
                           ds_is_snapshot(ds) ? NULL : &ds_objset_ops, ds, key);
}

int ds_objset_plain(struct dataset *ds, struct objset **out, struct objset **temporary)
{
    int rc = ds_objset(ds, out);

    *temporary = NULL;
    if (rc != -EACCES)
        return rc;
    rc = open_set(ds, NULL, temporary);
    *out = *temporary;
    return rc;
}

int ds_objset(struct dataset *ds, struct objset **out)
{
    struct crypt_key *key CLEANUP(cleanup_key) = NULL;
    struct objset *os = ds->os;
    int rc = 0;

    if (!os) {
        MUTEX_GUARD(&ds->open_lock);

        os = ds->os;
        if (!os) {
            rc = check_readable(ds);
            if (rc == 0)
                rc = keys_of_dir(ds->dir, &key);
            if (rc == 0)
                rc = open_set(ds, key, &os);
            if (rc == 0) {
                ds->os = os;
                ds->dir->type = (int)objset_type(os);
            }
        }
    }
    *out = os;
    return rc;
}

int dataset_objset(struct dataset *ds, struct objset **out)
{
    DSL_READ_GUARD(ds->dsl);

    return ds_objset(ds, out);
}

int dataset_objset_plain(struct dataset *ds, struct objset **out, struct objset **temporary)
{
    DSL_READ_GUARD(ds->dsl);

    return ds_objset_plain(ds, out, temporary);
}

/* Reads the type from the set's block, without opening the set. */
static enum objset_type read_type(struct dataset *ds)
{
    struct bookmark bm = {ds->object, 0, -1, 0};
    const struct blkptr *bp = ds_bp(ds);
    struct buf *block;
    uint64_t type = OBJSET_NONE;

    if (bp_hole(bp) || block_read(ds->dsl->pool, bp, &bm, &block) != 0)
        return OBJSET_NONE;
    if (block->size >= OBJSET_TYPE_OFFSET + 8)
        type = get_u64(block->data + OBJSET_TYPE_OFFSET, bp_big_endian(bp));
    buf_unref(block);
    return type <= OBJSET_OTHER ? (enum objset_type)type : OBJSET_NONE;
}

enum objset_type dataset_type(struct dataset *ds)
{
    DSL_READ_GUARD(ds->dsl);
    int type = ds->dir->type;

    if (type < 0) {
        type = ds->os ? (int)objset_type(ds->os) : (int)read_type(ds);
        if (type != OBJSET_NONE)
            ds->dir->type = type;
    }
    return (enum objset_type)type;
}

int dataset_walk(struct dataset *snap, uint64_t since, objset_walk_fn *fn, void *arg)
{
    struct blkptr bp;
    bool taken = dsl_read_lock(snap->dsl);

    bp = *ds_bp(snap);
    dsl_read_unlock(snap->dsl, taken);
    return bp_hole(&bp) ? 0 : objset_walk(snap->dsl->pool, snap->object, &bp, since, fn, arg);
}
