/*
 * The DSL: the tree of named datasets in the MOS, their properties, and where every block's space is
 * counted (spec 04). One struct dsl per open pool.
 *
 * All changes of the MOS happen in the sync thread: an administrative operation is a task (check and
 * sync function) that the caller hands to dsl_task() and that runs in the txg open at that time, after
 * the datasets of that txg have been written (04 7). Reading functions may be called from any thread;
 * a rwlock inside keeps them apart from tasks.
 */
#ifndef DSL_DSL_H
#define DSL_DSL_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/blkptr.h"

struct dataset;
struct dsl;
struct objset;
struct pool;
struct tx;

/* Opens the DSL of a pool whose MOS is open: root dir, $MOS, $FREE, $ORIGIN, free_bpobj, features.
 * Errors as 04 1.2: -EIO/-EBADE/-ENOENT with a sentence that names what is missing. */
int dsl_open(struct dsl **out, struct pool *pool, struct objset *mos);
/* Creates all of it in a new MOS (04 4; spec 10): object directory must exist. The root dataset gets an
 * empty objset through the registered format function, its root directory owned by uid and gid.
 * features: by feature table index, enabled. Its blocks are written by the dsl_sync_again() of the same
 * txg. */
int dsl_create(struct dsl **out, struct pool *pool, struct objset *mos, const bool *features,
               uint32_t uid, uint32_t gid, struct tx *tx);
/* Once the txg engine of a writable pool runs: releases temporary holds and destroys datasets that are
 * inconsistent and cannot be resumed (04 1.2). */
int dsl_start(struct dsl *dsl);
void dsl_close(struct dsl *dsl); /* every dataset must have been released */

struct pool *dsl_pool(const struct dsl *dsl);
struct objset *dsl_mos(const struct dsl *dsl);
/* Bytes in $FREE: still to be freed in the background; 0 if what is left cannot be freed for damage. */
uint64_t dsl_freeing(const struct dsl *dsl);

/* born/killed accounting of the MOS: given to objset_open of the MOS as its ops, arg = a struct
 * dsl_mos_space that exists before the dsl does. Deltas collect until dsl_sync_mos_delta; killed also
 * frees the block (through pool->batch). */
struct dsl_mos_space {
    _Atomic int64_t used, compressed, uncompressed;
    _Atomic bool unfreed; /* there was no memory to note a freed block */
};
void dsl_mos_born(void *arg, const struct blkptr *bp, struct tx *tx);
void dsl_mos_killed(void *arg, const struct blkptr *bp, struct tx *tx);
void dsl_set_mos_space(struct dsl *dsl, struct dsl_mos_space *space);

/* ---- Syncing (called by spa in the sync thread, in this order) ---- */

/* Pass 1: writes the dirty datasets of tx's txg, updates their bonuses, deadlists and dirs, then runs the
 * tasks queued for the txg. */
int dsl_sync(struct dsl *dsl, struct tx *tx);
/* Pass 2 and later: datasets that tasks created. */
int dsl_sync_again(struct dsl *dsl, struct tx *tx);
/* Background freeing (free_bpobj, bptree_obj, deleted livelists; 04 9.7): once per txg; limited by time
 * unless all. *more says whether something is left. */
int dsl_sync_free(struct dsl *dsl, struct tx *tx, bool all, bool *more);
/* Moves the collected MOS deltas to the $MOS dir and its parents (dirties the MOS if not zero). */
int dsl_sync_mos_delta(struct dsl *dsl, struct tx *tx);
/* Anything to do in this txg though no block is dirty (queued tasks, background frees)? */
bool dsl_sync_wanted(struct dsl *dsl, uint64_t txg);
void dsl_sync_done(struct dsl *dsl, uint64_t txg); /* the txg is durable: wakes waiting tasks */
void dsl_sync_failed(struct dsl *dsl, uint64_t txg, int rc);

/* ---- Tasks ---- */

/* Runs check (may be NULL; in the caller for early refusal, and again in the sync thread) and sync (in
 * the sync thread) and waits until the txg is durable. space: which slop policy the operation may eat into (04 8.4).
 * Result: check's or sync's error, with its sentence. -EAGAIN from check in the sync thread means: try
 * again in a later txg. An error of sync fails the txg, as what it has changed cannot be taken back: all
 * that can be refused must be refused by check. */
enum dsl_space_policy { DSL_SPACE_NORMAL, DSL_SPACE_RESERVED, DSL_SPACE_EXTRA, DSL_SPACE_NONE };
typedef int dsl_task_fn(struct dsl *dsl, void *arg, struct tx *tx); /* check: tx is NULL in the caller */
int dsl_task(struct dsl *dsl, dsl_task_fn *check, dsl_task_fn *sync, void *arg,
             enum dsl_space_policy policy);

/* A history sink: called for each internal event ("create", "destroy", "set", ...) in syncing context;
 * spa writes it to the history object. */
typedef void dsl_event_fn(void *arg, const char *event, const char *dsname, uint64_t dsobj,
                          const char *text, struct tx *tx);
void dsl_on_event(struct dsl *dsl, dsl_event_fn *fn, void *arg);

/* The function that fills a new ZPL objset (fs/format.h); registered once per process by the program, as
 * the file layer is above this one. */
typedef int dsl_format_fn(struct objset *os, uint32_t uid, uint32_t gid, bool with_projid, struct tx *tx);
void dsl_register_format(dsl_format_fn *fn);

#endif
