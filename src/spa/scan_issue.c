/*
 * Reading the blocks of a scan. They are collected, sorted by where their first copy is, and read
 * by a few threads, so that a disk has several requests to choose from and its head goes one way.
 * Nothing is left under way when a slice ends: the tree that a block belongs to is only safe in
 * this sync.
 */
#include <errno.h>
#include <stdlib.h>

#include "pool/errors.h"
#include "spa/scan_impl.h"
#include "util/bytes.h"
#include "util/err.h"
#include "util/rangeset.h"
#include "util/threads.h"

#define BATCH_BLOCKS 8192
#define BATCH_BYTES  (32ull << 20)
#define THREADS      16

struct block {
    struct blkptr bp;
    struct bookmark bm;
};

struct scan_batch {
    size_t n;
    uint64_t bytes;
    struct block block[BATCH_BLOCKS];
};

struct reader {
    struct scan *s;
    _Atomic size_t *next;
    pthread_mutex_t *lock; /* of the scan's counters */
    pthread_t thread;
    int rc;
};

static uint64_t size_of(const struct blkptr *bp)
{
    uint64_t sum = 0;
    for (int i = 0; i < bp_copies(bp); i++)
        sum += dva_asize(bp, i);
    return sum;
}

void scan_failed(struct scan *s, const struct blkptr *bp, const struct bookmark *bm, bool below)
{
    s->w[SCAN_ERRORS]++;
    pool_errors_note(&s->spa->pool, bm);
    if (!s->left || !scan_resilvers(s))
        return;
    uint64_t birth = bp ? MAX(bp_birth(bp), bp_phys_birth(bp)) : s->w[SCAN_MAX];
    /* What is below a block is not younger. */
    if (rangeset_add(s->left, below ? 0 : birth, birth + 1) != 0)
        s->left_unknown = true;
}

static int read_one(struct reader *r, const struct block *b)
{
    struct scan *s = r->s;
    uint64_t given = 0;
    struct block_scrub how = {.resilver = scan_resilvers(s), .given = &given};
    err_clear();
    int rc = block_scrub(&s->spa->pool, &b->bp, &b->bm, &how);
    pthread_mutex_lock(r->lock);
    s->w[SCAN_REPAIRED] += given;
    if (rc != 0 && rc != -ENOMEM)
        scan_failed(s, &b->bp, &b->bm, false);
    pthread_mutex_unlock(r->lock);
    return rc == -ENOMEM ? rc : 0;
}

static void *reader_main(void *arg)
{
    struct reader *r = arg;
    struct scan_batch *b = r->s->batch;
    size_t i;
    while ((i = atomic_fetch_add(r->next, 1)) < b->n) {
        int rc = read_one(r, &b->block[i]);
        r->rc = rc ? rc : r->rc;
    }
    return NULL;
}

static int by_place(const void *a, const void *b)
{
    const struct blkptr *x = &((const struct block *)a)->bp, *y = &((const struct block *)b)->bp;
    uint64_t v = dva_vdev(x, 0), w = dva_vdev(y, 0);
    if (v == w) {
        v = dva_offset(x, 0);
        w = dva_offset(y, 0);
    }
    return v < w ? -1 : v > w;
}

int scan_flush(struct scan *s)
{
    struct scan_batch *b = s->batch;
    struct reader r[THREADS];
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    _Atomic size_t next = 0;
    unsigned started = 0, wish = b ? (unsigned)MIN(b->n, (size_t)THREADS) : 0;
    int rc = 0;
    if (wish == 0)
        return 0;
    qsort(b->block, b->n, sizeof *b->block, by_place);
    for (unsigned i = 0; i < wish; i++)
        r[i] = (struct reader){.s = s, .next = &next, .lock = &lock};
    while (started + 1 < wish &&
           thread_start(&r[started].thread, "scan", reader_main, &r[started]) == 0)
        started++;
    reader_main(&r[wish - 1]);
    for (unsigned i = 0; i < started; i++)
        pthread_join(r[i].thread, NULL);
    for (unsigned i = 0; i < wish; i++)
        rc = r[i].rc ? r[i].rc : rc;
    b->n = 0;
    b->bytes = 0;
    return rc;
}

int scan_issue(struct scan *s, const struct blkptr *bp, const struct bookmark *bm)
{
    struct scan_batch *b = s->batch;
    uint64_t size = size_of(bp);
    s->w[SCAN_EXAMINED] += size;
    if (scan_resilvers(s) && !block_needs_resilver(&s->spa->pool, bp))
        return 0;
    if (!b && !(b = s->batch = calloc(1, sizeof *b)))
        return -ENOMEM;
    b->block[b->n++] = (struct block){*bp, *bm};
    b->bytes += size;
    return b->n == BATCH_BLOCKS || b->bytes >= BATCH_BYTES ? scan_flush(s) : 0;
}

void scan_batch_free(struct scan_batch *b)
{
    free(b);
}
