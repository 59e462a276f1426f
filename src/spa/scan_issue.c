/*
 * Reading the blocks of a scan. They are collected, sorted by where their first copy is, and read by a few
 * threads. Where they lie close together the whole span is read ahead of them, from each device with one
 * request, gaps included: a head that passes a gap loses less than one that stops. So devices are read
 * from one end to the other, however the blocks came to lie where they are. Nothing is left under
 * way when a slice ends: the tree that a block belongs to is only safe in this sync.
 */
#include <errno.h>
#include <stdlib.h>

#include "pool/errors.h"
#include "pool/txg.h"
#include "spa/scan_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/rangeset.h"
#include "util/threads.h"
#include "vdev/vdev.h"

#define BATCH_BLOCKS  131072         /* the more, the less do heads go to and fro; but a txg that somebody */
#define BATCH_SECONDS 4              /* begins to wait for has to wait until they are read; */
#define BUSY_BYTES    (16ull << 20)  /* while others do wait, fewer are collected, */
#define IDLE_BYTES    (128ull << 20) /* and else at least so many */
#define BATCH_BYTES   (1ull << 30)
#define THREADS      64
#define PREREADERS   4
#define SPAN         (1ull << 20) /* bytes of a vdev at most, */
#define GAP          (64ull << 10) /* and without a block in between */
#define AHEAD        3 /* spans of one prereader; a device keeps a few more (vdev_preread) */

struct block {
    struct blkptr bp;
    struct bookmark bm;
    uint32_t span;
};

/* Blocks that lie together. */
struct span {
    uint64_t vdev, from, to;
    unsigned blocks;
    bool read; /* or there was no need to */
};

struct scan_batch {
    size_t n, nspans;
    uint64_t bytes;
    uint64_t rate; /* bytes per second, of the last one; 0: there was none */
    struct block block[BATCH_BLOCKS];
    struct span span[BATCH_BLOCKS];
};

/* What the threads of a flush share. */
struct flight {
    struct scan *s;
    pthread_mutex_t lock; /* guards what follows, and the scan's counters */
    pthread_cond_t changed;
    size_t next;     /* block */
    size_t at;       /* span of the last one that was taken */
    unsigned prereaders;
    int rc;
};

struct worker {
    struct flight *f;
    unsigned number;
    pthread_t thread;
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

static int read_one(struct flight *f, const struct block *b)
{
    struct scan *s = f->s;
    uint64_t given = 0;
    struct block_scrub how = {.resilver = scan_resilvers(s), .given = &given};
    err_clear();
    int rc = block_scrub(&s->spa->pool, &b->bp, &b->bm, &how);
    pthread_mutex_lock(&f->lock);
    s->w[SCAN_REPAIRED] += given;
    if (rc != 0 && rc != -ENOMEM)
        scan_failed(s, &b->bp, &b->bm, false);
    pthread_mutex_unlock(&f->lock);
    return rc == -ENOMEM ? rc : 0;
}

/* The next block, when its span has been read. NULL: there is none. */
static const struct block *take_block(struct flight *f)
{
    struct scan_batch *b = f->s->batch;
    MUTEX_GUARD(&f->lock);
    if (f->next == b->n)
        return NULL;
    const struct block *block = &b->block[f->next++];
    if (block->span != f->at) {
        f->at = block->span;
        pthread_cond_broadcast(&f->changed);
    }
    while (!b->span[block->span].read)
        pthread_cond_wait(&f->changed, &f->lock);
    return block;
}

static void *reader_main(void *arg)
{
    struct flight *f = ((struct worker *)arg)->f;
    const struct block *b;
    while ((b = take_block(f)) != NULL) {
        int rc = read_one(f, b);
        if (rc != 0) {
            MUTEX_GUARD(&f->lock);
            f->rc = rc;
        }
    }
    return NULL;
}

/* Each prereader has its own top-level vdevs: they are read side by side, each from its beginning to its end. */
static void *preread_main(void *arg)
{
    struct worker *w = arg;
    struct flight *f = w->f;
    struct scan_batch *b = f->s->batch;
    for (size_t i = 0; i < b->nspans; i++) {
        struct span *span = &b->span[i];
        if (span->vdev % f->prereaders != w->number)
            continue;
        pthread_mutex_lock(&f->lock);
        while (i > f->at + (size_t)AHEAD * f->prereaders)
            pthread_cond_wait(&f->changed, &f->lock);
        pthread_mutex_unlock(&f->lock);
        struct vdev *top = vdev_lookup_top(f->s->spa->pool.root, span->vdev);
        if (span->blocks > 1 && top)
            vdev_preread(top, span->from, span->to - span->from);
        pthread_mutex_lock(&f->lock);
        span->read = true;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

/* By offset, and only then by vdev: all vdevs are busy. */
static int by_place(const void *a, const void *b)
{
    const struct blkptr *x = &((const struct block *)a)->bp, *y = &((const struct block *)b)->bp;
    uint64_t v = dva_offset(x, 0) / SPAN, w = dva_offset(y, 0) / SPAN;
    if (v == w) {
        v = dva_vdev(x, 0);
        w = dva_vdev(y, 0);
    }
    if (v == w) {
        v = dva_offset(x, 0);
        w = dva_offset(y, 0);
    }
    return v < w ? -1 : v > w;
}

static void make_spans(struct scan_batch *b)
{
    struct span *span = NULL;
    b->nspans = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct blkptr *bp = &b->block[i].bp;
        uint64_t vdev = dva_vdev(bp, 0), from = dva_offset(bp, 0), to = from + dva_asize(bp, 0);
        if (!span || span->vdev != vdev || from > span->to + GAP || to > span->from + SPAN) {
            span = &b->span[b->nspans++];
            *span = (struct span){.vdev = vdev, .from = from, .to = to};
        }
        span->to = MAX(span->to, to);
        span->blocks++;
        b->block[i].span = (uint32_t)(b->nspans - 1);
    }
}

/* Starts so many of them, and tells how many that were. */
static unsigned start(struct worker *w, unsigned n, struct flight *f, const char *name, void *(*fn)(void *))
{
    unsigned started = 0;
    for (; started < n; started++) {
        w[started] = (struct worker){.f = f, .number = started};
        if (thread_start(&w[started].thread, name, fn, &w[started]) != 0)
            break;
    }
    return started;
}

static void join(struct worker *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        pthread_join(w[i].thread, NULL);
}

int scan_flush(struct scan *s)
{
    struct scan_batch *b = s->batch;
    struct worker preread[PREREADERS], reader[THREADS];
    struct flight f = {.s = s, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    uint64_t began = scan_clock();
    if (!b || b->n == 0)
        return 0;
    qsort(b->block, b->n, sizeof *b->block, by_place);
    make_spans(b);
    f.prereaders = MIN((unsigned)PREREADERS, vdev_tops(s->spa->pool.root));
    pthread_mutex_lock(&f.lock); /* their number is known to all of them */
    unsigned n = start(preread, f.prereaders, &f, "scan-ahead", preread_main);
    if (n < f.prereaders) /* without threads nothing is read ahead */
        for (size_t i = 0; i < b->nspans; i++)
            b->span[i].read |= b->span[i].vdev % f.prereaders >= n;
    pthread_mutex_unlock(&f.lock);
    unsigned readers = start(reader, (unsigned)MIN(b->n - 1, (size_t)THREADS - 1), &f, "scan", reader_main);
    reader_main(&(struct worker){.f = &f});
    join(reader, readers);
    join(preread, n);
    b->rate = (uint64_t)((double)b->bytes * 1e9 / (double)MAX(scan_clock() - began, 1u));
    b->n = 0;
    b->bytes = 0;
    return f.rc;
}

static uint64_t batch_bytes(const struct scan *s, const struct scan_batch *b)
{
    if (txg_is_awaited(s->spa->pool.txg))
        return BUSY_BYTES;
    return MAX(IDLE_BYTES, MIN(b->rate * BATCH_SECONDS, BATCH_BYTES));
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
    b->block[b->n++] = (struct block){*bp, *bm, 0};
    b->bytes += size;
    return b->n == BATCH_BLOCKS || b->bytes >= batch_bytes(s, b) ? scan_flush(s) : 0;
}

void scan_batch_free(struct scan_batch *b)
{
    free(b);
}
