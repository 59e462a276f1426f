/*
 * Writing one transaction group (spec 05 10).
 *
 * Datasets first, once; then the MOS, which describes its own space: writing its blocks allocates and
 * frees, and recording that changes MOS blocks again. So the MOS is written in passes. A block that was
 * born in this txg is overwritten in place when the new contents fit, which allocates nothing; each pass
 * therefore allocates less than the one before, and a pass that neither allocates nor frees is the last.
 * From pass NO_COMPRESS_PASS on nothing is compressed, so that sizes stop changing at all. The device
 * writes of all passes are held back in a batch and only the final contents go out.
 *
 * Within a pass the order is: what tasks and datasets do, the configuration, the space maps (with all that
 * was allocated and freed up to here), the $MOS counters, then the MOS blocks themselves.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "dmu/tx.h"
#include "pool/block.h"
#include "pool/txg.h"
#include "spa/vdevs_impl.h"
#include "util/err.h"
#include "util/log.h"
#include "vdev/vdev.h"

#define NO_COMPRESS_PASS 8
#define PASSES_MAX       64

static int first_pass(struct spa *spa, struct tx *tx)
{
    bool more = false, walked = spa_scan_walked(spa);
    int rc;
    if (spa->creating)
        return spa_create_mos(spa, tx);
    spa_scan_slice(spa, tx);
    rc = spa_logmap_flush(spa, tx);
    if (rc == 0)
        rc = spa_bplist_drain(spa, tx);
    if (rc == 0)
        rc = dsl_sync(spa->dsl, tx);
    if (rc == 0)
        rc = dsl_sync_free(spa->dsl, tx, false, &more);
    if (rc == 0)
        rc = spa_scan_sync(spa, tx, walked);
    if (rc == 0)
        rc = spa_upkeep_sync(spa, tx);
    return rc;
}

/* Is this txg going to be an uberblock? The others leave no trace that a device could miss. */
static bool will_commit(struct spa *spa, struct tx *tx, unsigned pass)
{
    return pass > 1 || objset_dirty(spa->mos, tx->txg) || alloc_dirty(&spa->pool, tx->txg) || spa->config_dirty ||
           spa->empty_txgs;
}

/* One pass; *changed says whether the MOS was written. *labels gathers the need for new labels. */
static int one_pass(struct spa *spa, struct tx *tx, unsigned pass, struct blkptr *root, bool *labels,
                    bool *changed)
{
    bool any = false;
    int rc = pass == 1 ? first_pass(spa, tx) : dsl_sync_again(spa->dsl, tx);
    if (rc == 0 && will_commit(spa, tx, pass))
        rc = spa_dtl_sync(spa, tx);
    if (rc == 0 && feature_labels_dirty(spa->dsl))
        spa->config_dirty = true;
    if (rc == 0 && atomic_exchange(&spa->config_dirty, false)) {
        *labels = true;
        rc = spa_config_write(spa, tx);
    }
    if (rc == 0)
        rc = spa_spacemap_sync(spa, tx, pass, &any);
    if (rc == 0)
        rc = dsl_sync_mos_delta(spa->dsl, tx);
    if (rc != 0)
        return rc;
    *changed = objset_dirty(spa->mos, tx->txg);
    return *changed ? objset_sync(spa->mos, tx, root) : 0;
}

/* What the passes of a txg have come to. */
struct write_state {
    struct blkptr root;
    bool labels; /* must be written */
    bool dirty;  /* the MOS was written */
};

/* pass: the next one. */
static int converge(struct spa *spa, struct tx *tx, unsigned *pass, struct write_state *w)
{
    bool changed = true;
    int rc = 0;
    for (unsigned n = 1; changed && rc == 0; n++, ++*pass) {
        if (n > PASSES_MAX)
            return err_set(EIO, "txg %llu of pool %s does not converge", (unsigned long long)tx->txg,
                           spa->pool.name);
        spa->pool.no_compress = *pass >= NO_COMPRESS_PASS;
        rc = one_pass(spa, tx, *pass, &w->root, &w->labels, &changed);
        w->dirty |= changed;
        spa->mos_passes = *pass;
    }
    spa->pool.no_compress = false;
    return rc;
}

/* Brings the MOS to rest, and all blocks of the txg to the devices, for good. */
static int write_round(struct spa *spa, struct tx *tx, unsigned *pass, struct write_state *w)
{
    int rc = converge(spa, tx, pass, w);
    if (rc == 0)
        rc = block_batch_submit(&spa->pool, spa->pool.batch);
    int io = block_wait(&spa->pool);
    if (rc == 0)
        rc = io;
    if (rc == 0 && (w->dirty || w->labels || spa->empty_txgs))
        rc = vdev_flush(spa->pool.root);
    return rc;
}

/* A device that fails while it is written to has missed something, which the MOS must say; that is
 * found out only when everything is written, the MOS too. So a few blocks of it are written once
 * more, until no other device fails. */
static int write_txg(struct spa *spa, struct tx *tx)
{
    struct write_state w = {.labels = false};
    unsigned pass = 1;
    memcpy(w.root.w, spa->ub.rootbp, sizeof w.root.w);
    bool more = false;
    int rc = write_round(spa, tx, &pass, &w);
    while (rc == 0 && (rc = spa_dtl_judge(spa, tx, &more)) == 0 && more && w.dirty)
        rc = write_round(spa, tx, &pass, &w);
    if (rc == 0 && (w.dirty || w.labels || spa->empty_txgs))
        rc = spa_commit(spa, tx->txg, &w.root, w.labels);
    return rc;
}

/* The txg engine's sync function. */
int spa_sync(void *arg, uint64_t txg)
{
    struct spa *spa = arg;
    struct tx tx;
    tx_begin_syncing(&tx, &spa->pool, txg);
    struct block_batch *batch = NULL;
    int rc = block_batch_new(&batch);
    if (rc == 0) {
        block_set_batch(&spa->pool, batch);
        rc = write_txg(spa, &tx);
        block_set_batch(&spa->pool, NULL); /* no reader may look into it any more */
        block_batch_free(batch);
    }
    if (rc == 0) {
        spa_vdevs_committed(spa);
        alloc_sync_done(&spa->pool, txg);
        if (spa->dsl)
            dsl_sync_done(spa->dsl, txg);
        return 0;
    }
    log_error("pool %s: txg %llu could not be written: %s", spa->pool.name, (unsigned long long)txg,
              err_text(rc));
    if (spa->dsl)
        dsl_sync_failed(spa->dsl, txg, rc);
    return rc;
}

bool spa_sync_wanted(void *arg)
{
    struct spa *spa = arg;
    return spa->config_dirty || spa->empty_txgs || spa_upkeep_wanted(spa) ||
           dsl_sync_wanted(spa->dsl, txg_open_number(spa->pool.txg));
}
