/* Private to the scan: its state, and what its files call in one another. */
#ifndef SPA_SCAN_IMPL_H
#define SPA_SCAN_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "pool/block.h"
#include "spa/scan.h"
#include "spa/spa_impl.h"

struct rangeset;
struct scan_batch;

#define SCAN_WORDS       24
#define SCAN_OBJSET_NONE UINT64_MAX /* of the bookmark: what it was in is done, or gone */

/* The words of the directory entry (05 18.2). */
enum {
    SCAN_FUNC,
    SCAN_STATE,
    SCAN_QUEUE,
    SCAN_MIN,
    SCAN_MAX,
    SCAN_CUR_MIN,
    SCAN_CUR_MAX,
    SCAN_START,
    SCAN_END,
    SCAN_TO_EXAMINE,
    SCAN_EXAMINED,
    SCAN_SKIPPED,
    SCAN_REPAIRED,
    SCAN_ERRORS,
    SCAN_DDT_CLASS_MAX,
    SCAN_DDT_CLASS,
    SCAN_BOOKMARK = 19,
    SCAN_FLAGS = 23
};
#define SCAN_FLAG_AGAIN                                                                            \
    1u /* the dataset of the bookmark is to be visited once more, for its own range */
#define SCAN_FLAG_PAUSED 2u
#define SCAN_DDT_DONE    3u

/* A dataset to visit, for blocks born after since. */
struct scan_entry {
    uint64_t dataset, since;
    bool saved; /* is in the MOS so */
};

struct scan {
    struct spa *spa;
    pthread_mutex_t lock; /* the next two */
    pthread_cond_t changed;
    struct spa_scan_stats shown; /* for those who ask; made from what follows */

    /* The sync thread's: */
    uint64_t w[SCAN_WORDS];
    uint64_t pass_start, pass_examined; /* time, and what had been examined then */
    uint64_t paused_at, paused_seconds;
    struct scan_entry *queue;
    size_t n, cap;
    uint64_t *forgotten; /* entries of the MOS to be deleted */
    size_t nforgotten, forgotten_cap;
    bool dirty;            /* w or the queue must be written */
    bool walked;           /* nothing is left to visit: ended by the next txg */
    struct rangeset *left; /* births of blocks that could not be resilvered */
    bool left_unknown;     /* there may be more of them */
    uint64_t slice_start, slice_ns, slice_least; /* monotonic; ns */
    uint64_t slice_end;                          /* of the last one */
    unsigned asked;                              /* level-0 blocks passed in this slice */
    int error;                                   /* -ENOMEM in a callback */
    struct scan_batch *batch;

    _Atomic bool requested; /* spa_resilver_request */
    _Atomic bool busy;      /* active, not paused: txgs follow one another */
    unsigned share;         /* percent of the sync thread's time while others wait for it */
    uint64_t blocks_max;    /* per txg; tests */
};

static inline bool scan_active(const struct scan *s)
{
    return s->w[SCAN_STATE] == SPA_SCAN_ACTIVE;
}
static inline bool scan_paused(const struct scan *s)
{
    return (s->w[SCAN_FLAGS] & SCAN_FLAG_PAUSED) != 0;
}
static inline bool scan_resilvers(const struct scan *s)
{
    return s->w[SCAN_FUNC] == SPA_SCAN_RESILVER;
}
uint64_t scan_clock(void); /* monotonic, ns */

/* scan_state.c */
int scan_load(struct scan *s);
int scan_save(struct scan *s, struct tx *tx);
int scan_enqueue(struct scan *s, uint64_t dataset, uint64_t since); /* -ENOMEM */
/* Takes one out. False: none is left. */
bool scan_dequeue(struct scan *s, struct scan_entry *out);
void scan_queue_clear(struct scan *s);
extern const struct lineage_ops scan_lineage_ops;

/* scan_walk.c: goes on for a slice of time. */
int scan_walk(struct scan *s);

/* scan_issue.c: blocks are collected, and read in the order of their places. */
int scan_issue(struct scan *s, const struct blkptr *bp, const struct bookmark *bm);
int scan_flush(struct scan *s);
/* A block is lost; below: and so is the way to those below it. */
void scan_failed(struct scan *s, const struct blkptr *bp, const struct bookmark *bm, bool below);
void scan_batch_free(struct scan_batch *b);

#endif
