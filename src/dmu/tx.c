#include "dmu/tx.h"

#include "pool/pool.h"

int tx_begin(struct tx *tx, struct pool *pool)
{
    int rc;

    *tx = (struct tx){.pool = pool};
    rc = txg_hold_open(pool->txg, &tx->hold);
    tx->txg = tx->hold.txg;
    return rc;
}

void tx_end(struct tx *tx)
{
    if (!tx->syncing)
        txg_release(tx->pool->txg, &tx->hold);
}

void tx_begin_syncing(struct tx *tx, struct pool *pool, uint64_t txg)
{
    *tx = (struct tx){.pool = pool, .txg = txg, .syncing = true};
}
