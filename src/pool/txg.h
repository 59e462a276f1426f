/*
 * Transaction groups (spec 05 9): open -> quiescing -> syncing. An operation holds the open txg while
 * it changes memory; a sync thread closes the open txg (every few seconds, when much is dirty, or when
 * somebody waits), waits until its holders have let go, and has it written. One txg is open and at
 * most one older one is being written, so data has at most two versions in memory besides the one on
 * disk; arrays by txg have TXG_SLOTS entries, indexed txg & TXG_MASK.
 *
 * A new hold waits until the older txg has no holders left: all changes of T are made before the first
 * of T + 1. So a thread must not take a second hold while it has one.
 *
 * Lock order: holding a txg is the outermost "lock". Take the txg hold first, then locks; never wait
 * for a txg while holding a lock that an operation with a txg hold may need.
 */
#ifndef POOL_TXG_H
#define POOL_TXG_H

#include <stdbool.h>
#include <stdint.h>

#define TXG_SLOTS   4
#define TXG_MASK    3
#define TXG_INITIAL 4

struct txg_engine;

struct txg_hold {
    uint64_t txg;
    unsigned slot; /* which of the per-CPU counters was taken */
};

struct txg_config {
    uint64_t timeout_ns;     /* how long a txg stays open; 0 = 5 s */
    uint64_t dirty_max;      /* bytes; 0 = a tenth of memory, at most 4 GiB */
    /* Writes everything of txg and makes it durable; in the sync thread. A non-zero result suspends
     * the engine: from then on holds and waits fail with -EIO. */
    int (*sync)(void *arg, uint64_t txg);
    /* In the sync thread: is there anything to write though nothing is dirty? May be NULL. */
    bool (*wanted)(void *arg);
    /* Any thread: is there work that goes on from txg to txg, so that they are to follow one another? May
     * be NULL. */
    bool (*busy)(void *arg);
    void *arg;
};

/* last_synced: txg of the uberblock the pool was opened with (or TXG_INITIAL - 1 for a new pool); the
 * first open txg is last_synced + 1. Starts no thread. */
int txg_engine_new(struct txg_engine **out, const struct txg_config *config, uint64_t last_synced);
int txg_engine_start(struct txg_engine *e);
/* Syncs what is dirty, stops the thread. After that txg_wait_synced runs nothing any more. */
void txg_engine_stop(struct txg_engine *e);
void txg_engine_free(struct txg_engine *e);

/* Holds the open txg; sleeps for the write throttle if much is dirty. -EIO if suspended. */
int txg_hold_open(struct txg_engine *e, struct txg_hold *h);
void txg_release(struct txg_engine *e, struct txg_hold *h);

/* Dirty data is counted when it is dirtied and given back when written. */
void txg_dirty_add(struct txg_engine *e, uint64_t txg, int64_t bytes);
void txg_dirty_done(struct txg_engine *e, uint64_t txg, int64_t bytes);
uint64_t txg_dirty_bytes(const struct txg_engine *e); /* counted and not yet given back, all txgs */
/* Does somebody wait for the txg in sync or a later one, or is so much dirty that it should not take long? */
bool txg_is_awaited(struct txg_engine *e);
/* Marks txg as having something to sync though no bytes were counted (a sync task). */
void txg_mark_dirty(struct txg_engine *e, uint64_t txg);

/* Waits until txg (0: the one that is open now) is durable, hurrying it along. 0 or -EIO. */
int txg_wait_synced(struct txg_engine *e, uint64_t txg);
uint64_t txg_open_number(const struct txg_engine *e);
uint64_t txg_synced_number(const struct txg_engine *e);
uint64_t txg_syncing_number(const struct txg_engine *e); /* 0 if none */
int txg_suspended(const struct txg_engine *e);           /* 0 or the errno that stopped it */

/* Jumps: the next open txg becomes at least txg (after claiming a log). Only before start. */
void txg_engine_advance(struct txg_engine *e, uint64_t txg);

#endif
