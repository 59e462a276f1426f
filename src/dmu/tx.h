/*
 * Transactions. An open-context tx holds the open txg from tx_begin to tx_end; what it changes becomes
 * durable with that txg, all or nothing. A syncing-context tx belongs to the sync thread and stands for
 * the txg being written; the MOS is changed only there (and while a pool is created).
 * Space and quota checks are made by the layer above (dsl/space.h) before tx_begin.
 */
#ifndef DMU_TX_H
#define DMU_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/txg.h"

struct pool;

struct tx {
    struct pool *pool;
    uint64_t txg;
    bool syncing;
    struct txg_hold hold;
    void *space;          /* dsl's reservation, given back by it */
};

int tx_begin(struct tx *tx, struct pool *pool);           /* 0 or -EIO (pool suspended) */
void tx_end(struct tx *tx);
void tx_begin_syncing(struct tx *tx, struct pool *pool, uint64_t txg);

#endif
