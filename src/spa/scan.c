/*
 * Scrub and resilver: starting, pausing, ending (spec 05 18.2).
 *
 * In the sync of a txg there is first a slice of the walk, on the tree of the txg before, while
 * nothing of it can have been freed and given to others; then come the tasks, which may start or
 * end a scan or change datasets under it; then the state is written. A walk that came to its end is
 * ended by the next txg only: then all that it has written has been flushed, and a device that
 * failed in that is known.
 *
 * Which devices are whole after a resilver is decided by their sets of missed txgs alone. A device
 * that was away for a slice, or failed a write of it, has missed the txg of that slice, which is
 * younger than all that the resilver looks at: its set does not lie within the resilver's range,
 * and is left.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dmu/tx.h"
#include "dmu/zap.h"
#include "dsl/lineage.h"
#include "nvlist/nvlist.h"
#include "pool/errors.h"
#include "pool/txg.h"
#include "spa/scan_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"
#include "util/rangeset.h"
#include "vdev/vdev.h"

#define SHARE_USUAL 50
#define SHARE_ENV   "TARN_SCAN_SHARE"
#define BLOCKS_ENV  "TARN_SCAN_BLOCKS"
#define DDT_FULL_SCAN                                                                              \
    4 /* up to this first txg the dedup tables are walked down to class 1 (08 8.7) */

uint64_t scan_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now(struct scan *s)
{
    return s->spa->env.now_ns(&s->spa->env) / 1000000000;
}

/* ---- Numbers for those who ask ---- */

static void show(struct scan *s)
{
    MUTEX_GUARD(&s->lock);
    s->shown = (struct spa_scan_stats){.kind = (enum spa_scan_kind)s->w[SCAN_FUNC],
                                       .state = (enum spa_scan_state)s->w[SCAN_STATE],
                                       .start = s->w[SCAN_START],
                                       .end = s->w[SCAN_END],
                                       .pause = scan_paused(s) ? s->paused_at : 0,
                                       .paused_seconds = s->paused_seconds,
                                       .to_examine = s->w[SCAN_TO_EXAMINE],
                                       .examined = s->w[SCAN_EXAMINED],
                                       .skipped = s->w[SCAN_SKIPPED],
                                       .issued = s->w[SCAN_EXAMINED],
                                       .repaired = s->w[SCAN_REPAIRED],
                                       .errors = s->w[SCAN_ERRORS],
                                       .pass_start = s->pass_start,
                                       .pass_examined = s->w[SCAN_EXAMINED] - s->pass_examined,
                                       .pass_issued = s->w[SCAN_EXAMINED] - s->pass_examined};
    atomic_store(&s->busy, scan_active(s) && !scan_paused(s) && s->blocks_max == UINT64_MAX);
    pthread_cond_broadcast(&s->changed);
}

void spa_scan_stats(struct spa *spa, struct spa_scan_stats *out)
{
    *out = (struct spa_scan_stats){.kind = SPA_SCAN_NONE};
    if (!spa->scan)
        return;
    MUTEX_GUARD(&spa->scan->lock);
    *out = spa->scan->shown;
}

uint64_t spa_last_scrubbed(struct spa *spa)
{
    uint64_t txg;
    return zap_get_u64(spa->mos, MOS_DIRECTORY, "last_scrubbed_txg", &txg) == 0 ? txg : 0;
}

static bool goes_on(const struct spa_scan_stats *st, enum spa_scan_kind kind)
{
    return st->state == SPA_SCAN_ACTIVE && st->pause == 0 &&
           (kind == SPA_SCAN_NONE || st->kind == kind);
}

int spa_scan_wait(struct spa *spa, enum spa_scan_kind kind, unsigned seconds)
{
    struct scan *s = spa->scan;
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    MUTEX_GUARD(&s->lock);
    while (rc == 0 && (goes_on(&s->shown, kind) || atomic_load(&s->requested))) {
        if (txg_suspended(spa->pool.txg))
            return err_set(EIO, "the pool is suspended");
        if (seconds == 0)
            pthread_cond_wait(&s->changed, &s->lock);
        else
            rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    }
    return -rc;
}

/* ---- Life ---- */

static uint64_t number_from(const char *name, uint64_t usual)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return usual;
    uint64_t n = strtoull(text, &end, 10);
    return *end ? usual : n;
}

static struct scan *scan_new(struct spa *spa)
{
    struct scan *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;
    if (!s)
        return NULL;
    s->spa = spa;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    s->share = (unsigned)MIN(MAX(number_from(SHARE_ENV, SHARE_USUAL), 1u), 100u);
    s->blocks_max = number_from(BLOCKS_ENV, UINT64_MAX);
    return s;
}

void spa_scan_free(struct spa *spa)
{
    struct scan *s = STEAL(spa->scan);
    if (!s)
        return;
    scan_queue_clear(s);
    scan_batch_free(s->batch);
    if (s->left)
        rangeset_free(s->left);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* A new pass of counting: it was started, or taken up by this process. */
static void begin_pass(struct scan *s)
{
    s->pass_start = now(s);
    s->pass_examined = s->w[SCAN_EXAMINED];
    s->paused_at = scan_paused(s) ? s->pass_start : 0;
    s->paused_seconds = 0;
    s->walked = false;
    if (s->left)
        rangeset_clear(s->left);
    else
        s->left = rangeset_new();
    s->left_unknown = !s->left || s->w[SCAN_ERRORS] > 0;
}

int spa_scan_open(struct spa *spa)
{
    if (spa->scan)
        return 0;
    struct scan *s = scan_new(spa);
    if (!s)
        return -ENOMEM;
    int rc = scan_load(s);
    spa->scan = s;
    if (rc == 0)
        begin_pass(s);
    show(s);
    return rc;
}

void spa_scan_start_watching(struct spa *spa)
{
    lineage_watch(spa->dsl, &scan_lineage_ops, spa->scan);
    if (!spa->readonly)
        spa_resilver_request(spa);
}

/* ---- What devices lack ---- */

struct lack {
    uint64_t first, last;
    bool any;
};

/* A leaf that could be given what it lacks. */
static bool lacks(struct vdev *leaf, uint64_t *first, uint64_t *last)
{
    return vdev_redundant(leaf) && vdev_readable(leaf) && vdev_dtl_bounds(leaf, first, last);
}

static int add_lack(struct vdev *leaf, void *arg)
{
    struct lack *l = arg;
    uint64_t first, last;
    if (!lacks(leaf, &first, &last))
        return 0;
    l->first = l->any ? MIN(l->first, first) : first;
    l->last = l->any ? MAX(l->last, last) : last;
    l->any = true;
    return 0;
}

static struct lack what_lacks(struct spa *spa)
{
    struct lack l = {.any = false};
    vdev_each_leaf(spa->pool.root, add_lack, &l);
    return l;
}

void spa_resilver_request(struct spa *spa)
{
    if (spa->scan)
        atomic_store(&spa->scan->requested, true);
}

/* Does its set lie within the range of this resilver? What is younger was missed since. */
static bool is_covered(const struct scan *s, struct vdev *leaf)
{
    uint64_t first, last;
    return lacks(leaf, &first, &last) && first > s->w[SCAN_MIN] && last <= s->w[SCAN_MAX];
}

bool spa_scan_resilvering(struct spa *spa, struct vdev *leaf)
{
    struct spa_scan_stats st;
    uint64_t first, last;
    spa_scan_stats(spa, &st);
    return st.kind == SPA_SCAN_RESILVER && st.state == SPA_SCAN_ACTIVE &&
           lacks(leaf, &first, &last);
}

static void forget_resilver(struct spa *spa, struct vdev *leaf)
{
    static const char *const keys[] = {"resilver_txg", "com.datto:resilver_defer"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (leaf->other && nvlist_remove(leaf->other, keys[i]) == 0)
            spa->config_dirty = true;
}

/* Takes all out of its set that was looked at, but for what was lost. Without memory for that, the
 * set says too much, and the next import has it resilvered again. */
static int catch_up(struct vdev *leaf, void *arg)
{
    const struct scan *s = arg;
    uint64_t pos = 0, first, last;
    struct range r;
    if (s->left_unknown || !is_covered(s, leaf))
        return 0;
    while (rangeset_next(s->left, pos, &r)) {
        if (r.start > pos)
            (void)vdev_caught_up(leaf, pos, r.start);
        pos = r.end;
    }
    if (pos <= s->w[SCAN_MAX])
        (void)vdev_caught_up(leaf, pos, s->w[SCAN_MAX] + 1);
    if (!vdev_dtl_bounds(leaf, &first, &last))
        forget_resilver(s->spa, leaf);
    return 0;
}

/* ---- Starting and ending, in a txg's sync ---- */

static void event(struct scan *s, const char *what, const char *text, struct tx *tx)
{
    spa_history_event(s->spa, what, NULL, 0, text, tx);
}

static void begin(struct scan *s, enum spa_scan_kind kind, uint64_t min, uint64_t max,
                  struct tx *tx)
{
    struct spa_stats st;
    char text[100];
    uint64_t queue = s->w[SCAN_QUEUE];
    spa_stats(s->spa, &st);
    memset(s->w, 0, sizeof s->w);
    s->w[SCAN_FUNC] = kind;
    s->w[SCAN_STATE] = SPA_SCAN_ACTIVE;
    s->w[SCAN_QUEUE] = queue;
    s->w[SCAN_MIN] = min;
    s->w[SCAN_MAX] = max;
    s->w[SCAN_START] = now(s);
    s->w[SCAN_TO_EXAMINE] = st.alloc;
    s->w[SCAN_DDT_CLASS_MAX] = min <= DDT_FULL_SCAN;
    s->w[SCAN_DDT_CLASS] = SCAN_DDT_DONE; /* pools with dedup tables are not written */
    begin_pass(s);
    pool_errors_scan_begin(&s->spa->pool);
    s->dirty = true;
    snprintf(text, sizeof text, "func=%d mintxg=%" PRIu64 " maxtxg=%" PRIu64, (int)kind, min, max);
    event(s, "scan setup", text, tx);
}

static int end(struct scan *s, enum spa_scan_state state, const char *what, struct tx *tx)
{
    char text[40];
    if (scan_paused(s))
        s->paused_seconds += now(s) - s->paused_at;
    s->w[SCAN_STATE] = state;
    s->w[SCAN_END] = now(s);
    s->w[SCAN_FLAGS] = 0;
    memset(&s->w[SCAN_BOOKMARK], 0, 4 * sizeof s->w[0]);
    s->w[SCAN_BOOKMARK] = SCAN_OBJSET_NONE;
    s->walked = false;
    s->dirty = true;
    snprintf(text, sizeof text, "errors=%" PRIu64, s->w[SCAN_ERRORS]);
    event(s, what, text, tx);
    return scan_save(s, tx); /* the queue goes with it */
}

static int finish(struct scan *s, struct tx *tx)
{
    bool resilver = scan_resilvers(s);
    /* What a checkpoint keeps is not in the tree that was walked. */
    if (resilver && feature_refs(s->spa->dsl, FEATURE_ZPOOL_CHECKPOINT) == 0)
        vdev_each_leaf(s->spa->pool.root, catch_up, s);
    pool_errors_scan_end(&s->spa->pool, !resilver);
    int rc = end(s, SPA_SCAN_FINISHED, "scan done", tx);
    if (rc == 0 && !resilver)
        rc = zap_set_u64(s->spa->mos, MOS_DIRECTORY, "last_scrubbed_txg", s->w[SCAN_MAX], tx);
    if (rc == 0 && resilver)
        rc = spa_vdev_resilver_done(s->spa, tx);
    return rc;
}

static int start_resilver(struct scan *s, const struct lack *l, struct tx *tx)
{
    int rc = scan_active(s) ? end(s, SPA_SCAN_CANCELED, "scan aborted, restarting", tx) : 0;
    /* To the end of the sets, which is not in them: at the end of a scan that it continues, the reference
     * takes only what lies before the scan's last txg out of them. */
    if (rc == 0)
        begin(s, SPA_SCAN_RESILVER, l->first > 0 ? l->first - 1 : 0, l->last + 1, tx);
    return rc;
}

static int answer_request(struct scan *s, struct tx *tx)
{
    struct lack l = what_lacks(s->spa);
    if (!l.any || (scan_active(s) && scan_resilvers(s) && l.first > s->w[SCAN_MIN] &&
                   l.last <= s->w[SCAN_MAX]))
        return 0;
    return start_resilver(s, &l, tx);
}

/* There was no memory for something: what was collected is lost, so all is looked at once more. */
static int start_over(struct scan *s, struct tx *tx)
{
    enum spa_scan_kind kind = (enum spa_scan_kind)s->w[SCAN_FUNC];
    uint64_t min = s->w[SCAN_MIN], max = s->w[SCAN_MAX];
    int rc = end(s, SPA_SCAN_CANCELED, "scan aborted, restarting", tx);
    if (rc == 0)
        begin(s, kind, min, max, tx);
    s->error = 0;
    return rc;
}

void spa_scan_slice(struct spa *spa, const struct tx *tx)
{
    struct scan *s = spa->scan;
    if (!s || !scan_active(s) || scan_paused(s) || s->walked || s->blocks_max == 0)
        return;
    /* The tree must have all blocks of the range: what a device that has just come lacks is of txgs
     * that were open then, too. */
    if (scan_resilvers(s) && s->w[SCAN_MAX] >= tx->txg)
        return;
    vdev_forget_ahead(spa->pool.root); /* it is the devices that are to be looked at */
    s->error = scan_walk(s);
    show(s);
}

int spa_scan_sync(struct spa *spa, struct tx *tx, bool walked)
{
    struct scan *s = spa->scan;
    int rc = 0;
    if (!s)
        return 0;
    if (s->error && scan_active(s))
        rc = start_over(s, tx);
    else if (walked && s->walked && scan_active(s))
        rc = finish(s, tx);
    if (rc == 0 && atomic_exchange(&s->requested, false))
        rc = answer_request(s, tx);
    if (rc == 0 && s->dirty)
        rc = scan_save(s, tx);
    show(s);
    return err_prefix(rc, "the state of a scrub or resilver");
}

bool spa_scan_walked(const struct spa *spa)
{
    return spa->scan && spa->scan->walked;
}

bool spa_scan_busy(void *arg)
{
    struct spa *spa = arg;
    return spa->scan && (atomic_load(&spa->scan->busy) || atomic_load(&spa->scan->requested));
}

/* ---- Commands: tasks ---- */

struct command {
    struct scan *s;
    enum spa_scan_kind kind;
    bool pause;
};

static int check_scrub(const struct scan *s)
{
    if (!scan_active(s))
        return 0;
    if (scan_resilvers(s))
        return err_set(EBUSY, "currently resilvering");
    return scan_paused(s)
               ? 0
               : err_set(EALREADY, "currently scrubbing; use 'zpool scrub -s' to cancel scrub");
}

static void set_paused(struct scan *s, bool pause)
{
    if (pause) {
        s->w[SCAN_FLAGS] |= SCAN_FLAG_PAUSED;
        s->paused_at = now(s);
    } else {
        s->w[SCAN_FLAGS] &= ~(uint64_t)SCAN_FLAG_PAUSED;
        s->paused_seconds += now(s) - s->paused_at;
    }
    s->dirty = true;
}

/* What cannot be is refused in the sync thread, which alone knows the state. */
static int start_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct command *c = arg;
    return tx && c->kind == SPA_SCAN_SCRUB ? check_scrub(c->s) : 0;
}

static int start_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct command *c = arg;
    struct scan *s = c->s;
    struct lack l = what_lacks(s->spa);
    if (c->kind == SPA_SCAN_RESILVER)
        return l.any ? start_resilver(s, &l, tx) : 0;
    if (scan_active(s))
        set_paused(s, false);
    else if (l.any)
        return start_resilver(s, &l, tx);
    else
        begin(s, SPA_SCAN_SCRUB, 0, tx->txg, tx);
    return 0;
}

static int run(struct spa *spa, dsl_task_fn *check, dsl_task_fn *sync, struct command *c)
{
    if (spa->readonly)
        return err_set(EROFS, "pool is read-only");
    c->s = spa->scan;
    return dsl_task(spa->dsl, check, sync, c, DSL_SPACE_NONE);
}

int spa_scan_start(struct spa *spa, enum spa_scan_kind kind)
{
    struct command c = {.kind = kind};
    if (lineage_top(spa->dsl) == 0)
        return err_set(ENOTSUP, "the pool's version is too old for this version's scrub");
    return run(spa, start_check, start_sync, &c);
}

static int pause_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct command *c = arg;
    if (!tx)
        return 0;
    if (scan_active(c->s) && scan_resilvers(c->s))
        return err_set(EBUSY, "currently resilvering");
    if (!scan_active(c->s))
        return err_set(ENOENT, "there is no active scrub");
    return c->pause && scan_paused(c->s)
               ? err_set(EALREADY, "scrub is paused; use 'zpool scrub' to resume scrub")
               : 0;
}

static int pause_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct command *c = arg;
    if (c->pause != scan_paused(c->s))
        set_paused(c->s, c->pause);
    return 0;
}

int spa_scan_pause(struct spa *spa, bool pause)
{
    struct command c = {.pause = pause};
    return run(spa, pause_check, pause_sync, &c);
}

static int stop_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct command *c = arg;
    return end(c->s, SPA_SCAN_CANCELED, "scan cancelled", tx);
}

int spa_scan_stop(struct spa *spa)
{
    struct command c = {.pause = false};
    return run(spa, pause_check, stop_sync, &c);
}
