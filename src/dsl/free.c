/*
 * Background freeing (spec 04 9.7): blocks of destroyed snapshots on free_bpobj, object sets of destroyed
 * datasets in the bptree, livelists of destroyed clones. Their space is charged to $FREE until it is
 * really free. A part is done in each txg; what is left survives an export.
 */
#include <errno.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "util/err.h"
#include "util/log.h"

#define FREE_TIME_NS    500000000ull /* per txg */

bool freeing_stop(void *arg)
{
    struct freeing *f = arg;
    struct env *env = &f->dsl->pool->env;

    if (f->deadline == UINT64_MAX)
        return false;
    if (f->blocks >= f->dsl->free_limit)
        return true;
    return f->blocks % 64 == 0 && env->mono_ns(env) >= f->deadline;
}

int freeing_block(void *arg, const struct blkptr *bp, bool freed)
{
    struct freeing *f = arg;
    struct space s;

    space_of_bp(f->dsl->pool, bp, &s);
    space_add(&f->sum, &s, 1);
    f->blocks++;
    return block_free(f->dsl->pool, f->tx->txg, NULL, bp);
}

static void charge(struct freeing *f)
{
    struct space minus = {0};

    space_add(&minus, &f->sum, -1);
    dir_use(f->dsl->free_dir, USED_HEAD, &minus);
    f->sum = (struct space){0};
}

static int run(struct freeing *f)
{
    struct dsl *dsl = f->dsl;
    int rc = bpobj_consume(dsl, dsl->free_bpobj, freeing_block, freeing_stop, f, f->tx);

    charge(f);
    if (rc == 0 && dsl->bptree != 0 && !freeing_stop(f))
        rc = bptree_run(f);
    charge(f);
    if (rc == 0 && dsl->deleted_clones != 0 && !freeing_stop(f))
        rc = livelists_run(f);
    charge(f);
    return rc;
}

/* When all lists are empty $FREE must be zero; a difference can only come from before. */
static void settle(struct dsl *dsl)
{
    struct dir *d = dsl->free_dir;
    struct space rest = {-(int64_t)d->w[DIR_USED], -(int64_t)d->w[DIR_COMP], -(int64_t)d->w[DIR_UNCOMP]};

    if (rest.used == 0 && rest.comp == 0 && rest.uncomp == 0)
        return;
    log_warn("pool %s: $FREE was off by %lld bytes", dsl->pool->name, (long long)-rest.used);
    dir_use(d, USED_HEAD, &rest);
}

int dsl_sync_free(struct dsl *dsl, struct tx *tx, bool all, bool *more)
{
    struct env *env = &dsl->pool->env;
    struct freeing f = {.dsl = dsl, .tx = tx, .deadline = UINT64_MAX};
    bool empty;
    int rc, flushed;

    *more = false;
    if (!dsl->free_pending || dsl->free_stuck)
        return 0;
    if (!all)
        f.deadline = env->mono_ns(env) + FREE_TIME_NS;
    dsl_write_lock(dsl);
    rc = run(&f);
    if (rc == 0)
        rc = bpobj_empty(dsl, dsl->free_bpobj, &empty);
    if (rc == 0 && empty && !dsl->bptree && !dsl->deleted_clones) {
        settle(dsl);
        dsl->free_pending = false;
    }
    *more = dsl->free_pending && !dsl->free_stuck;
    flushed = dsl_flush(dsl, tx);
    dsl_write_unlock(dsl);
    return rc ? rc : flushed;
}

uint64_t dsl_freeing(const struct dsl *dsl)
{
    return dsl->free_stuck || !dsl->free_dir ? 0 : dsl->free_dir->used;
}
