/*
 * Where the space of every block is counted (spec 04 6.5, 8.3).
 *
 * While the object set of a dataset is written, worker threads report each block that enters its tree
 * (born) and each that leaves it (killed). They only add to counters and put pointers that a snapshot
 * still needs on a list. When the set has been written, ds_acct_flush() moves the sums into the dataset,
 * its directory and all above it, the deadlist and the bookmarks. Because every rule is a sum, or the
 * difference of a maximum before and after, doing it once for all blocks gives what block by block would.
 */
#include <errno.h>
#include <stdlib.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "dsl/dsl_impl.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "util/cleanup.h"
#include "util/err.h"

void space_of_bp(const struct pool *pool, const struct blkptr *bp, struct space *out)
{
    out->used = bp_embedded(bp) || bp_hole(bp) ? 0 : (int64_t)block_dsize(pool, bp);
    out->comp = (int64_t)bp_count_psize(bp);
    out->uncomp = (int64_t)bp_count_lsize(bp);
}

static void add(_Atomic int64_t *to, int64_t n)
{
    if (n)
        atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

/* ---- From the worker threads ---- */

/* The per-dataset features that a block needs (03 9.4). */
static uint64_t block_uses(const struct blkptr *bp)
{
    static const enum feature_id by_checksum[CHECKSUM_COUNT] = {
        [CHECKSUM_SHA512] = FEATURE_SHA512, [CHECKSUM_SKEIN] = FEATURE_SKEIN,
        [CHECKSUM_EDONR] = FEATURE_EDONR, [CHECKSUM_BLAKE3] = FEATURE_BLAKE3};
    uint64_t uses = 0;

    if (bp_embedded(bp))
        return bp_compress(bp) == COMPRESS_ZSTD ? 1ull << FEATURE_ZSTD_COMPRESS : 0;
    if (bp_lsize(bp) > BLOCK_OLD_MAX)
        uses |= 1ull << FEATURE_LARGE_BLOCKS;
    if (bp_compress(bp) == COMPRESS_ZSTD)
        uses |= 1ull << FEATURE_ZSTD_COMPRESS;
    if (bp_checksum(bp) < CHECKSUM_COUNT && by_checksum[bp_checksum(bp)])
        uses |= 1ull << by_checksum[bp_checksum(bp)];
    return uses;
}

static void born(void *arg, const struct blkptr *bp, struct tx *tx)
{
    struct dataset *ds = arg;
    struct space s;
    uint64_t uses;

    if (bp_hole(bp) || bp_redacted(bp))
        return;
    space_of_bp(ds->dsl->pool, bp, &s);
    add(&ds->born_used, s.used);
    add(&ds->born_comp, s.comp);
    add(&ds->born_uncomp, s.uncomp);
    uses = block_uses(bp) & ~atomic_load_explicit(&ds->uses, memory_order_relaxed);
    if (uses)
        atomic_fetch_or(&ds->uses, uses);
}

static void note_error(struct dataset *ds, int rc)
{
    int none = 0;

    atomic_compare_exchange_strong(&ds->sync_error, &none, rc);
}

static int push_dead(struct dataset *ds, const struct blkptr *bp)
{
    MUTEX_GUARD(&ds->dead_lock);

    if (ds->ndead == ds->dead_cap) {
        size_t cap = ds->dead_cap ? 2 * ds->dead_cap : 64;
        struct blkptr *grown = realloc(ds->dead_bps, cap * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        ds->dead_bps = grown;
        ds->dead_cap = cap;
    }
    ds->dead_bps[ds->ndead++] = *bp;
    return 0;
}

static void killed_seen_by_snapshot(struct dataset *ds, const struct blkptr *bp, const struct space *s)
{
    uint64_t birth = bp_alloc_birth(bp);
    int rc = push_dead(ds, bp);

    if (rc != 0)
        note_error(ds, rc);
    add(&ds->dead_used, s->used);
    add(&ds->dead_comp, s->comp);
    add(&ds->dead_uncomp, s->uncomp);
    if (birth > ds->dir->origin_txg)
        add(&ds->snap_used, s->used);
    if (birth > ds->prev_prev_txg)
        add(&ds->prev_unique, s->used);
}

static void killed(void *arg, const struct blkptr *bp, struct tx *tx)
{
    struct dataset *ds = arg;
    uint64_t birth = bp_alloc_birth(bp);
    struct space s;
    int rc;

    if (bp_hole(bp) || bp_redacted(bp))
        return;
    space_of_bp(ds->dsl->pool, bp, &s);
    for (size_t i = 0; i < ds->nfbn; i++) {
        struct fbn *f = &ds->fbn[i];

        if (f->txg < ds->w[DS_PREV_TXG] || f->txg < birth)
            continue;
        add(&f->used, s.used);
        add(&f->comp, s.comp);
        add(&f->uncomp, s.uncomp);
    }
    if (birth <= ds->w[DS_PREV_TXG]) {
        killed_seen_by_snapshot(ds, bp, &s);
        return;
    }
    rc = block_free(ds->dsl->pool, tx->txg, NULL, bp);
    if (rc != 0)
        note_error(ds, rc);
    add(&ds->freed_used, s.used);
    add(&ds->freed_comp, s.comp);
    add(&ds->freed_uncomp, s.uncomp);
}

/* The set got its first change of the txg: it must be written, and stay in memory until then. */
static void dirty(void *arg, struct tx *tx)
{
    struct dataset *ds = arg;
    struct dsl *dsl = ds->dsl;
    unsigned slot = tx->txg & TXG_MASK;
    bool added = false;

    ds_ref(ds);
    pthread_mutex_lock(&dsl->sync_lock);
    if (!ds->on_sync[slot]) {
        ds->on_sync[slot] = added = true;
        ds->next_sync[slot] = dsl->sync_list[slot];
        dsl->sync_list[slot] = ds;
    }
    pthread_mutex_unlock(&dsl->sync_lock);
    if (!added)
        ds_rele(ds);
}

const struct objset_ops ds_objset_ops = {.born = born, .killed = killed, .dirty = dirty};

/* ---- From the sync thread ---- */

void ds_acct_reset(struct dataset *ds)
{
    bookmarks_free_fbn(ds->fbn, ds->nfbn);
    ds->fbn = NULL;
    ds->nfbn = 0;
    ds->acct_ready = false;
}

int ds_acct_prepare(struct dataset *ds)
{
    struct dataset *prev;
    int rc;

    if (ds->acct_ready)
        return 0;
    ds->prev_prev_txg = UINT64_MAX;
    if (ds->w[DS_PREV] != 0) {
        rc = ds_hold(ds->dsl, ds->w[DS_PREV], &prev);
        if (rc != 0)
            return rc;
        if (prev->w[DS_NEXT] == ds->object)
            ds->prev_prev_txg = prev->w[DS_PREV_TXG];
        ds_rele(prev);
    }
    rc = bookmarks_load_fbn(ds, &ds->fbn, &ds->nfbn);
    if (rc == 0)
        ds->acct_ready = true;
    return rc;
}

static int64_t take(_Atomic int64_t *n)
{
    return atomic_exchange_explicit(n, 0, memory_order_relaxed);
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int flush_prev_unique(struct dataset *ds)
{
    CLEANUP_DS struct dataset *prev = NULL;
    int64_t n = take(&ds->prev_unique);
    int rc;

    if (n == 0)
        return 0;
    rc = ds_hold(ds->dsl, ds->w[DS_PREV], &prev);
    if (rc != 0)
        return rc;
    prev->w[DS_UNIQUE] += (uint64_t)n;
    ds_dirty(prev);
    return 0;
}

static void flush_sums(struct dataset *ds)
{
    int64_t r = (int64_t)ds->dir->refreservation, unique = (int64_t)ds->w[DS_UNIQUE];
    int64_t used = take(&ds->born_used) - take(&ds->freed_used);
    int64_t comp = take(&ds->born_comp) - take(&ds->freed_comp);
    int64_t uncomp = take(&ds->born_uncomp) - take(&ds->freed_uncomp);
    int64_t delta = r ? max(unique + used, r) - max(unique, r) : used;

    ds->w[DS_REF] += (uint64_t)(used - take(&ds->dead_used));
    ds->w[DS_COMP] += (uint64_t)(comp - take(&ds->dead_comp));
    ds->w[DS_UNCOMP] += (uint64_t)(uncomp - take(&ds->dead_uncomp));
    ds->w[DS_UNIQUE] += (uint64_t)used;
    ds_dirty(ds);
    dir_move(ds->dir, delta, comp, uncomp, used, USED_REFRSRV, USED_HEAD);
    dir_transfer(ds->dir, take(&ds->snap_used), USED_HEAD, USED_SNAP);
}

static int flush_features(struct dataset *ds, struct tx *tx)
{
    uint64_t uses = ds->uses;
    int rc = 0;

    if (ds->os && objset_uses(ds->os) & OBJSET_USES_LARGE_DNODE)
        uses |= 1ull << FEATURE_LARGE_DNODE;
    uses &= ~ds_features(ds);
    for (int f = 0; f < FEATURE_COUNT && rc == 0; f++)
        if (uses & 1ull << f)
            rc = ds_feature_activate(ds, f, tx);
    return rc;
}

int ds_acct_flush(struct dataset *ds, struct tx *tx)
{
    int rc = atomic_exchange(&ds->sync_error, 0);

    if (rc == 0)
        rc = dir_drop_livelist(ds->dir, tx);
    if (rc == 0)
        rc = deadlist_insert(ds->dsl, ds->w[DS_DEADLIST], ds->dead_bps, ds->ndead, tx);
    if (ds->dead_cap > 4096) {
        free(ds->dead_bps);
        ds->dead_bps = NULL;
        ds->dead_cap = 0;
    }
    ds->ndead = 0;
    if (rc == 0)
        rc = flush_prev_unique(ds);
    if (rc != 0)
        return rc;
    flush_sums(ds);
    rc = bookmarks_write_fbn(ds, tx);
    return rc ? rc : flush_features(ds, tx);
}

/* ---- The MOS ---- */

void dsl_mos_born(void *arg, const struct blkptr *bp, struct tx *tx)
{
    struct dsl_mos_space *m = arg;
    struct space s;

    space_of_bp(tx->pool, bp, &s);
    add(&m->used, s.used);
    add(&m->compressed, s.comp);
    add(&m->uncompressed, s.uncomp);
}

void dsl_mos_killed(void *arg, const struct blkptr *bp, struct tx *tx)
{
    struct dsl_mos_space *m = arg;
    struct space s;

    space_of_bp(tx->pool, bp, &s);
    add(&m->used, -s.used);
    add(&m->compressed, -s.comp);
    add(&m->uncompressed, -s.uncomp);
    /* A damaged pointer's space is refused, and stays lost. For want of memory no space may be. */
    if (block_free(tx->pool, tx->txg, tx->pool->batch, bp) == -ENOMEM)
        atomic_store(&m->unfreed, true);
}
