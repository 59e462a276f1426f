/*
 * The DSL's part of writing a txg (spec 04 7): dirty datasets first, then their counters, then the tasks,
 * which see all data of the txg on disk. Data is written without dsl->lock; everything after with it.
 */
#include <errno.h>
#include <stdlib.h>

#include "dsl/dsl_impl.h"
#include "pool/pool.h"
#include "util/cleanup.h"
#include "util/err.h"

static struct dataset *take_list(struct dsl *dsl, uint64_t txg)
{
    unsigned slot = txg & TXG_MASK;
    struct dataset *list;
    MUTEX_GUARD(&dsl->sync_lock);

    list = dsl->sync_list[slot];
    dsl->sync_list[slot] = NULL;
    for (struct dataset *ds = list; ds; ds = ds->next_sync[slot])
        ds->on_sync[slot] = false;
    return list;
}

/* Reads what counting will need, before any block is reported. */
static int prepare_all(struct dsl *dsl, struct dataset *list, unsigned slot)
{
    DSL_READ_GUARD(dsl);
    int rc = 0;

    for (struct dataset *ds = list; ds && rc == 0; ds = ds->next_sync[slot])
        if (!ds->dead)
            rc = ds_acct_prepare(ds);
    return rc;
}

static int write_one(struct dataset *ds, struct tx *tx, struct blkptr *root)
{
    char name[DATASET_NAME_MAX];
    int rc = objset_sync(ds->os, tx, root);

    if (rc == 0)
        return 0;
    dataset_name(ds, name);
    return err_prefix(rc, "cannot write dataset %s", name);
}

static int account_one(struct dataset *ds, const struct blkptr *root, struct tx *tx)
{
    int rc;

    for (int i = 0; i < 16; i++)
        ds->w[DS_BP + i] = root->w[i];
    ds_dirty(ds);
    rc = ds_acct_flush(ds, tx);
    return rc;
}

/* Writes the datasets of the list. With the lock held already (locked) the tasks have made them. */
static int write_list(struct dsl *dsl, struct dataset *list, struct tx *tx)
{
    unsigned slot = tx->txg & TXG_MASK;
    int rc = prepare_all(dsl, list, slot);

    for (struct dataset *ds = list, *next; ds; ds = next) {
        struct blkptr root = *ds_bp(ds);

        next = ds->next_sync[slot];
        if (rc == 0 && !ds->dead && objset_dirty(ds->os, tx->txg)) {
            rc = write_one(ds, tx, &root);
            if (rc == 0) {
                dsl_write_lock(dsl);
                rc = account_one(ds, &root, tx);
                dsl_write_unlock(dsl);
            }
        }
        ds_rele(ds);
    }
    return rc;
}

int dsl_sync(struct dsl *dsl, struct tx *tx)
{
    int rc, flushed;

    if (dsl->pool->txg)
        dsl->syncing_bytes = txg_dirty_bytes(dsl->pool->txg);
    rc = write_list(dsl, take_list(dsl, tx->txg), tx);
    if (rc != 0)
        return rc;
    dsl_write_lock(dsl);
    space_txg_written(dsl, tx->txg);
    rc = dsl_run_tasks(dsl, tx);
    flushed = dsl_flush(dsl, tx);
    dsl_write_unlock(dsl);
    return rc ? rc : flushed;
}

int dsl_sync_again(struct dsl *dsl, struct tx *tx)
{
    struct dataset *list = take_list(dsl, tx->txg);
    int rc, flushed;

    if (!list)
        return 0;
    rc = write_list(dsl, list, tx);
    dsl_write_lock(dsl);
    flushed = dsl_flush(dsl, tx);
    dsl_write_unlock(dsl);
    return rc ? rc : flushed;
}

int dsl_sync_mos_delta(struct dsl *dsl, struct tx *tx)
{
    struct space s;
    int rc;

    if (!dsl->mos_space)
        return 0;
    if (atomic_exchange(&dsl->mos_space->unfreed, false))
        return -ENOMEM;
    s.used = atomic_exchange(&dsl->mos_space->used, 0);
    s.comp = atomic_exchange(&dsl->mos_space->compressed, 0);
    s.uncomp = atomic_exchange(&dsl->mos_space->uncompressed, 0);
    if (s.used == 0 && s.comp == 0 && s.uncomp == 0)
        return 0;
    dsl_write_lock(dsl);
    dir_use(dsl->mos_dir, USED_HEAD, &s);
    rc = dsl_flush(dsl, tx);
    dsl_write_unlock(dsl);
    return rc;
}

bool dsl_sync_wanted(struct dsl *dsl, uint64_t txg)
{
    MUTEX_GUARD(&dsl->sync_lock);

    return dsl->tasks[txg & TXG_MASK] != NULL || (dsl->free_pending && !dsl->free_stuck) ||
           dsl->waiting_for_space > 0;
}

void dsl_sync_done(struct dsl *dsl, uint64_t txg)
{
    space_refresh(dsl);
}

/* Nobody will run what is queued; those who wait find out from the txg engine. */
void dsl_sync_failed(struct dsl *dsl, uint64_t txg, int rc)
{
    MUTEX_GUARD(&dsl->sync_lock);

    pthread_cond_broadcast(&dsl->task_done);
}
