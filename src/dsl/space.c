/*
 * How much room there is (spec 04 8.4, 05 8.3), and who may still write.
 *
 * Every open transaction reserves its worst case in its directory and all above, per txg; a syncing txg
 * gives its reservations back once the exact numbers are in. What is reserved can be far more than what
 * will be dirty (a thousand creations dirty the same blocks), so the limit is checked against the lesser
 * of the sum of reservations and a multiple of what is dirty in memory now.
 */
#include <errno.h>
#include <stddef.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "pool/alloc.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define SLOP_SHIFT     5
#define SLOP_MIN       (128ull << 20)
#define SLOP_MAX       (128ull << 30)
#define RESERVE_FACTOR 3          /* of the bytes asked for: copies, parity beyond deflation, indirects */
#define RESERVE_MIN    (64u << 10)
#define TASK_BLOCK     (3 * 16384) /* what a block of the MOS is taken to cost */
#define WAITS_MAX      20          /* txgs to wait for space that is coming back */

void space_refresh(struct dsl *dsl)
{
    struct alloc_space s;
    struct space bplist = {0};

    alloc_space(dsl->pool, &s);
    if (dsl->sync_bplist != 0)
        bpobj_space(dsl, dsl->sync_bplist, &bplist);
    dsl->dspace = s.dspace;
    dsl->deferred = s.deferred;
    dsl->bplist_bytes = bplist.used > 0 ? (uint64_t)bplist.used : 0;
    dsl->space_known = true;
}

static uint64_t slop_space(uint64_t rdspace)
{
    uint64_t slop = MIN(rdspace >> SLOP_SHIFT, SLOP_MAX);

    return MAX(slop, MIN(rdspace / 2, SLOP_MIN));
}

/* The pool's size for the purposes of datasets. No dedup or special class can be there on a pool
 * that is written; on others the figures are as close as can be had. */
uint64_t space_adjusted(struct dsl *dsl, enum dsl_space_policy policy)
{
    static const unsigned divide[] = {1, 2, 4, 0};
    uint64_t size, keep;

    if (!dsl->space_known)
        space_refresh(dsl);
    keep = divide[policy] ? slop_space(dsl->dspace) / divide[policy] : 0;
    keep += dsl->bplist_bytes + dsl->pool->checkpoint_bytes;
    size = dsl->dspace;
    return size > keep ? size - keep : 0;
}

uint64_t dir_available(struct dir *d)
{
    uint64_t parent = d->parent ? dir_available(d->parent) : UINT64_MAX;
    uint64_t quota = d->quota ? d->quota : UINT64_MAX, used = d->used, reserved = d->reserved;

    if (!d->parent)
        quota = MIN(quota, space_adjusted(d->dsl, DSL_SPACE_NORMAL));
    if (reserved > used && parent != UINT64_MAX)
        parent += reserved - used;
    return used > quota ? 0 : MIN(parent, quota - used);
}

uint64_t ds_available(struct dataset *head)
{
    struct dir *d = head->dir;
    uint64_t avail = dir_available(d), unique = head->w[DS_UNIQUE], ref = head->w[DS_REF];

    if (d->refreservation > unique)
        avail += d->refreservation - unique;
    if (d->refquota != 0)
        avail = MIN(avail, d->refquota > ref ? d->refquota - ref : 0);
    return avail;
}

int space_check_task(struct dsl *dsl, enum dsl_space_policy policy, unsigned blocks)
{
    uint64_t limit = space_adjusted(dsl, policy), deferred = dsl->deferred;
    uint64_t need = 3 * (uint64_t)blocks * TASK_BLOCK;

    if (policy == DSL_SPACE_NONE)
        return 0;
    limit = limit > deferred ? limit - deferred : 0;
    if (dsl->root->used + need > limit)
        return err_set(ENOSPC, "out of space");
    return 0;
}

void dataset_space(struct dataset *ds, uint64_t *referenced, uint64_t *available, uint64_t *objects)
{
    DSL_READ_GUARD(ds->dsl);

    *referenced = ds->w[DS_REF];
    *available = ds_is_snapshot(ds) ? 0 : ds_available(ds);
    *objects = ds->os ? objset_object_count(ds->os) : bp_fill(ds_bp(ds));
}

/* ---- Admission ---- */

enum verdict { ADMIT, WAIT, WAIT_FOR_FREES, NO_QUOTA, NO_SPACE };

static int64_t in_flight(const struct dir *d)
{
    int64_t sum = 0;

    for (int i = 0; i < TXG_SLOTS; i++)
        sum += atomic_load_explicit(&d->inflight[i], memory_order_relaxed);
    return sum > 0 ? sum : 0;
}

/* The root: the pool's size counts, exactly; what is deferred is not to be had yet. */
static enum verdict check_root(struct dir *root, enum dataset_tx_kind kind, int64_t flight, int64_t want)
{
    struct dsl *dsl = root->dsl;
    uint64_t size = space_adjusted(dsl, kind == DATASET_TX_FREE ? DSL_SPACE_RESERVED : DSL_SPACE_NORMAL);
    uint64_t deferred = dsl->deferred, limit = size > deferred ? size - deferred : 0;
    uint64_t used = root->used;

    if (used >= limit) {
        if (used < size || dsl->free_dir->used > 0)
            return WAIT_FOR_FREES;
        return NO_SPACE;
    }
    if (kind != DATASET_TX_FREE && flight > 0 && used + (uint64_t)(flight + want) > limit)
        return WAIT;
    return ADMIT;
}

static enum verdict check_quota(const struct dir *d, int64_t flight)
{
    uint64_t quota = d->quota, used = d->used;

    if (quota == 0)
        return ADMIT;
    if (used >= quota)
        return NO_QUOTA;
    return used + (uint64_t)flight >= quota + quota / 32 ? WAIT : ADMIT;
}

/* How much of n more in d reaches its parent, given the reservation. */
static int64_t reaches_parent(const struct dir *d, int64_t n)
{
    int64_t room = (int64_t)d->reserved - (int64_t)d->used;

    return room <= 0 ? n : n > room ? n - room : 0;
}

/* refquota counts what the head references; a transaction may overshoot it once. */
static enum verdict check_refquota(struct dataset *ds, int64_t flight)
{
    uint64_t refquota = ds->dir->refquota, ref;

    if (refquota == 0)
        return ADMIT;
    ref = __atomic_load_n(&ds->w[DS_REF], __ATOMIC_RELAXED);
    if (ref >= refquota)
        return NO_QUOTA;
    return ref + (uint64_t)flight >= refquota + refquota / 32 ? WAIT : ADMIT;
}

static enum verdict check(struct dataset *ds, enum dataset_tx_kind kind, int64_t want)
{
    struct dsl *dsl = ds->dsl;
    int64_t dirty = RESERVE_FACTOR * (int64_t)(txg_dirty_bytes(dsl->pool->txg) + dsl->syncing_bytes);
    enum verdict v = ADMIT;

    if (kind == DATASET_TX_MUST)
        return ADMIT;
    if (kind == DATASET_TX_WRITE)
        v = check_refquota(ds, MIN(in_flight(ds->dir), dirty));
    for (struct dir *d = ds->dir; d && v == ADMIT && want > 0; d = d->parent) {
        int64_t flight = MIN(in_flight(d), dirty);

        if (kind == DATASET_TX_WRITE)
            v = check_quota(d, flight);
        if (v == ADMIT && !d->parent)
            v = check_root(d, kind, flight, want);
        want = reaches_parent(d, want);
    }
    return v;
}

static void reserve(struct dataset *ds, uint64_t txg, int64_t n)
{
    for (struct dir *d = ds->dir; d; d = d->parent)
        atomic_fetch_add_explicit(&d->inflight[txg & TXG_MASK], n, memory_order_relaxed);
}

/* Waits for a txg to be written, counting it as wanted although it may be empty. */
static int wait_for_txg(struct dsl *dsl)
{
    int rc;

    atomic_fetch_add(&dsl->waiting_for_space, 1);
    rc = txg_wait_synced(dsl->pool->txg, 0);
    atomic_fetch_sub(&dsl->waiting_for_space, 1);
    return rc;
}

static int refuse(enum verdict v)
{
    if (v == NO_QUOTA)
        return err_set(EDQUOT, "the quota is used up");
    return err_set(ENOSPC, "out of space");
}

int dataset_tx_begin(struct dataset *ds, enum dataset_tx_kind kind, uint64_t bytes, struct tx *tx)
{
    struct dsl *dsl = ds->dsl;
    int64_t want = (int64_t)MIN(bytes, UINT64_MAX >> 8) * RESERVE_FACTOR + RESERVE_MIN;

    if (!dsl->pool->writable && !dsl->pool->in_memory)
        return err_set(EROFS, "the pool is read-only");
    for (unsigned waits = 0;; waits++) {
        enum verdict v;
        int rc = tx_begin(tx, dsl->pool);

        if (rc != 0)
            return rc;
        v = check(ds, kind, want);
        if (v == ADMIT) {
            reserve(ds, tx->txg, want);
            tx->space = ds;
            return 0;
        }
        tx_end(tx);
        if (v == NO_QUOTA || v == NO_SPACE || (v == WAIT_FOR_FREES && waits >= WAITS_MAX))
            return refuse(v);
        rc = wait_for_txg(dsl);
        if (rc != 0)
            return rc;
    }
}

void dataset_tx_end(struct tx *tx)
{
    tx_end(tx);
}

/* ---- The txg has been written ---- */

void space_txg_written(struct dsl *dsl, uint64_t txg)
{
    MUTEX_GUARD(&dsl->cache_lock);

    dsl->syncing_bytes = 0;
    for (size_t i = 0; i <= dsl->dirs.mask; i++) {
        for (struct hashmap_node *n = dsl->dirs.slots[i]; n; n = n->next) {
            struct dir *d = container_of(n, struct dir, node);

            atomic_store_explicit(&d->inflight[txg & TXG_MASK], 0, memory_order_relaxed);
        }
    }
}
