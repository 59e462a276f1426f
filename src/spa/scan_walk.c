/*
 * The walk (spec 05 18.2): the MOS, then all datasets in the order of their lineage, each for the
 * blocks born since the one above it. It goes on at the bookmark, or with the next dataset of the
 * queue.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/scanwalk.h"
#include "dsl/lineage.h"
#include "pool/txg.h"
#include "spa/scan_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define SLICE_NS     1000000000ull /* while nobody waits for the txg */
#define LEAST_NS     10000000ull
#define LEAST_BLOCKS 32 /* else the way back to the bookmark would be all that is done */
#define LOOK_BLOCKS  16 /* the clock is asked this often */

static int on_block(void *arg, const struct blkptr *bp, const struct bookmark *bm)
{
    return scan_issue(arg, bp, bm);
}

static void on_bad(void *arg, const struct blkptr *bp, const struct bookmark *bm, int rc)
{
    scan_failed(arg, bp, bm, true);
}

/* What has been collected must be read in the slice, too: it is, now and then, so that the time is
 * known. */
static bool is_over(struct scan *s)
{
    uint64_t passed = scan_clock() - s->slice_start;
    if (passed < s->slice_least)
        return false;
    return passed >= SLICE_NS || txg_is_awaited(s->spa->pool.txg);
}

static bool on_pause(void *arg)
{
    struct scan *s = arg;
    if (s->blocks_max != UINT64_MAX)
        return s->asked++ >= s->blocks_max;
    return ++s->asked > LEAST_BLOCKS && s->asked % LOOK_BLOCKS == 0 && is_over(s);
}

static int walk_set(struct scan *s, uint64_t id, const struct blkptr *root,
                    const struct bookmark *from)
{
    struct bookmark at;
    struct scanwalk w = {.pool = &s->spa->pool,
                         .id = id,
                         .root = *root,
                         .min = s->w[SCAN_CUR_MIN],
                         .max = s->w[SCAN_CUR_MAX],
                         .from = from,
                         .block = on_block,
                         .bad = on_bad,
                         .pause = on_pause,
                         .arg = s};
    int rc = w.min < w.max ? scanwalk_run(&w, &at) : 0;
    if (rc == -EAGAIN) {
        s->w[SCAN_BOOKMARK] = id;
        s->w[SCAN_BOOKMARK + 1] = at.object;
        s->w[SCAN_BOOKMARK + 2] = (uint64_t)at.level;
        s->w[SCAN_BOOKMARK + 3] = at.blkid;
    }
    return rc;
}

/* Nothing is left of what the bookmark is in. */
static void set_done(struct scan *s)
{
    memset(&s->w[SCAN_BOOKMARK], 0, 4 * sizeof s->w[0]);
    s->w[SCAN_BOOKMARK] = SCAN_OBJSET_NONE;
}

static bool bookmark(const struct scan *s, struct bookmark *out)
{
    const uint64_t *w = &s->w[SCAN_BOOKMARK];
    *out = (struct bookmark){w[0], w[1], (int64_t)w[2], w[3]};
    return out->object != 0 || out->level != 0 || out->blkid != 0;
}

static int walk_mos(struct scan *s)
{
    struct bookmark from;
    struct blkptr root;
    bool resumed = bookmark(s, &from);
    memcpy(root.w, s->spa->ub.rootbp, sizeof root.w);
    s->w[SCAN_CUR_MIN] = s->w[SCAN_MIN];
    s->w[SCAN_CUR_MAX] = s->w[SCAN_MAX];
    int rc = walk_set(s, 0, &root, resumed ? &from : NULL);
    if (rc == 0)
        rc = scan_enqueue(s, lineage_top(s->spa->dsl), 0);
    if (rc == 0)
        set_done(s);
    return rc;
}

static int enqueue_below(struct scan *s, const struct lineage *l, const uint64_t *below, size_t n)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = scan_enqueue(s, below[i], l->created_txg);
    return rc;
}

static int walk_dataset(struct scan *s, uint64_t dataset, bool resumed, const struct bookmark *from,
                        uint64_t since)
{
    CLEANUP_FREE uint64_t *below = NULL;
    struct lineage l;
    size_t n;
    int rc = lineage_read(s->spa->dsl, dataset, &l, &below, &n);
    if (rc == -ENOMEM)
        return rc;
    if (rc != 0) { /* damage: what follows from it is not found, either */
        struct bookmark lost = {0, dataset, 0, 0};
        scan_failed(s, NULL, &lost, true);
        set_done(s);
        return 0;
    }
    if (!resumed) {
        s->w[SCAN_CUR_MIN] = MAX(s->w[SCAN_MIN], since);
        s->w[SCAN_CUR_MAX] = l.snapshot ? MIN(s->w[SCAN_MAX], l.created_txg) : s->w[SCAN_MAX];
    }
    rc = walk_set(s, dataset, &l.root, from);
    if (rc != 0)
        return rc;
    if (s->w[SCAN_FLAGS] & SCAN_FLAG_AGAIN) {
        s->w[SCAN_FLAGS] &= ~(uint64_t)SCAN_FLAG_AGAIN;
        rc = scan_enqueue(s, dataset, s->w[SCAN_CUR_MAX]);
    } else {
        rc = enqueue_below(s, &l, below, n);
    }
    if (rc == 0)
        set_done(s);
    return rc;
}

/* The dataset of the bookmark. */
static int walk_on(struct scan *s)
{
    struct bookmark from;
    bool inside = bookmark(s, &from);
    if (from.objset == 0)
        return walk_mos(s);
    return from.objset == SCAN_OBJSET_NONE
               ? 0
               : walk_dataset(s, from.objset, true, inside ? &from : NULL, 0);
}

/* Time for this slice, when others wait: as much as the rest of the last txg took, at a share of
 * half. */
static void begin_slice(struct scan *s)
{
    uint64_t now = scan_clock(), rest = s->slice_end ? now - s->slice_end : 0;
    uint64_t least = rest * s->share / (s->share < 100 ? 100 - s->share : 1);
    s->slice_start = now;
    s->slice_least = MIN(MAX(least, LEAST_NS), SLICE_NS);
    s->asked = 0;
    s->error = 0;
}

int scan_walk(struct scan *s)
{
    struct scan_entry e;
    begin_slice(s);
    s->dirty = true;
    int rc = walk_on(s);
    /* Between two datasets, too, it may be time to stop. */
    while (rc == 0 && !(on_pause(s) && s->n > 0) && scan_dequeue(s, &e)) {
        s->w[SCAN_BOOKMARK] = e.dataset;
        rc = walk_dataset(s, e.dataset, false, NULL, e.since);
    }
    int flushed = scan_flush(s);
    s->slice_end = scan_clock();
    s->walked = rc == 0 && s->n == 0 && s->w[SCAN_BOOKMARK] == SCAN_OBJSET_NONE;
    rc = rc == -EAGAIN ? 0 : rc;
    rc = rc ? rc : flushed;
    return rc ? rc : s->error;
}
