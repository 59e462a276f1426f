/*
 * The txg engine.
 *
 * Holds are counted per processor, so that operations on different cores share nothing but the
 * number of the open txg, which changes every few seconds. A holder counts itself in the txg it
 * believes open and then looks again: if the number has changed, it takes its count back and tries
 * the new one. Whoever closes a txg changes the number first and then waits until all counts of the
 * old one are zero. Both sides write before they read, in one order for all threads, so either the
 * holder sees the new number or the closer sees the count. After the number has changed a count can
 * only rise for a moment, by a holder that is about to take it back.
 *
 * One thread closes, waits and syncs in turn. While it syncs T the open txg is T + 1, and it stays
 * open until T is durable: there are never more than two versions of dirty data.
 */
#include "pool/txg.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/threads.h"

#define TIMEOUT_NS     5000000000ull
#define DIRTY_CEILING  (4ull << 30)
#define SYNC_PERCENT   20 /* of dirty_max, but at most: */
#define SYNC_BYTES     (32ull << 20) /* ... dirty: the open txg is closed */
#define DELAY_PERCENT  60 /* of dirty_max: holders are delayed */
#define DELAY_SCALE_NS 500000u
#define DELAY_MAX_NS   100000000u
#define SLOTS_MAX      64

struct txg_counts {
    _Alignas(64) _Atomic uint64_t held[TXG_SLOTS];
};

struct txg_engine {
    struct txg_config config;
    unsigned slots;
    struct txg_counts *counts;

    _Atomic uint64_t open, synced, syncing;
    _Atomic uint64_t quiesced; /* nobody holds this txg or an older one */
    _Atomic int error;         /* what sync returned, when that was not 0 */
    _Atomic uint64_t total;    /* dirty bytes */
    _Atomic uint64_t dirty[TXG_SLOTS];
    _Atomic bool marked[TXG_SLOTS];
    _Atomic bool kicked;        /* the thread was told that much is dirty */
    _Atomic unsigned throttled; /* holders waiting until less is dirty */
    _Atomic bool throttle;      /* there is a thread that makes dirty data clean */

    pthread_mutex_t lock;   /* guards what follows */
    pthread_cond_t work;    /* for the thread: a reason to close may have come up */
    pthread_cond_t idle;    /* for the thread: a count of the closed txg has dropped */
    pthread_cond_t changed; /* synced, quiesced, error, running or total has changed */
    uint64_t wanted;        /* somebody waits for this txg */
    uint64_t opened_at;     /* when the open txg became open, monotonic ns */
    uint64_t last_delay;    /* when the last delayed holder goes on */
    bool running, stopping;
    pthread_t thread;
};

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

static uint64_t default_dirty_max(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t memory = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 1ull << 30;

    return MIN(memory / 10, DIRTY_CEILING);
}

static int init_locks(struct txg_engine *e)
{
    pthread_condattr_t attr;

    if (pthread_condattr_init(&attr) != 0)
        return -ENOMEM;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->work, &attr);
    pthread_cond_init(&e->idle, &attr);
    pthread_cond_init(&e->changed, &attr);
    pthread_condattr_destroy(&attr);
    return 0;
}

int txg_engine_new(struct txg_engine **out, const struct txg_config *config, uint64_t last_synced)
{
    struct txg_engine *e CLEANUP_FREE = calloc(1, sizeof *e);
    void *counts CLEANUP_FREE = NULL;
    int rc;

    if (!e)
        return -ENOMEM;
    e->config = *config;
    if (e->config.timeout_ns == 0)
        e->config.timeout_ns = TIMEOUT_NS;
    if (e->config.dirty_max == 0)
        e->config.dirty_max = default_dirty_max();
    e->slots = MIN(thread_cpu_count(), (unsigned)SLOTS_MAX);
    if (posix_memalign(&counts, _Alignof(struct txg_counts), e->slots * sizeof *e->counts) != 0)
        return -ENOMEM;
    memset(counts, 0, e->slots * sizeof *e->counts);
    rc = init_locks(e);
    if (rc)
        return rc;
    e->counts = STEAL(counts);
    atomic_store(&e->open, last_synced + 1);
    atomic_store(&e->synced, last_synced);
    atomic_store(&e->quiesced, last_synced);
    *out = STEAL(e);
    return 0;
}

void txg_engine_free(struct txg_engine *e)
{
    if (!e)
        return;
    txg_engine_stop(e);
    pthread_cond_destroy(&e->changed);
    pthread_cond_destroy(&e->idle);
    pthread_cond_destroy(&e->work);
    pthread_mutex_destroy(&e->lock);
    free(e->counts);
    free(e);
}

void txg_engine_advance(struct txg_engine *e, uint64_t txg)
{
    if (atomic_load(&e->open) >= txg)
        return;
    atomic_store(&e->synced, txg - 1);
    atomic_store(&e->quiesced, txg - 1);
    atomic_store(&e->open, txg);
}

/* ---- Holds ---- */

static uint64_t holders(const struct txg_engine *e, uint64_t txg)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < e->slots; i++)
        sum += atomic_load(&e->counts[i].held[txg & TXG_MASK]);
    return sum;
}

static void drop(struct txg_engine *e, uint64_t txg, unsigned slot)
{
    atomic_fetch_sub(&e->counts[slot].held[txg & TXG_MASK], 1);
    if (atomic_load(&e->open) == txg)
        return;
    pthread_mutex_lock(&e->lock);
    pthread_cond_signal(&e->idle);
    pthread_mutex_unlock(&e->lock);
}

/* How long a new operation has to wait for what is dirty now; ~0 until less is. */
static uint64_t delay_of(const struct txg_engine *e, uint64_t dirty)
{
    uint64_t max = e->config.dirty_max, from = max / 100 * DELAY_PERCENT;

    if (dirty >= max)
        return ~0ull;
    if (dirty <= from)
        return 0;
    return (uint64_t)MIN((unsigned __int128)DELAY_SCALE_NS * (dirty - from) / (max - dirty),
                         (unsigned __int128)DELAY_MAX_NS);
}

/* Sleeps as long as the write throttle says, one after the other. */
static void throttle(struct txg_engine *e)
{
    uint64_t start = now_ns(), delay, until;
    struct timespec ts;

    MUTEX_GUARD(&e->lock);
    atomic_fetch_add(&e->throttled, 1);
    while ((delay = delay_of(e, atomic_load(&e->total))) == ~0ull && !atomic_load(&e->error) &&
           e->running) {
        pthread_cond_signal(&e->work);
        pthread_cond_wait(&e->changed, &e->lock);
    }
    if (delay != 0 && delay != ~0ull) {
        until = MAX(start, e->last_delay) + delay;
        e->last_delay = until;
        ts = timespec_of(until);
        while (now_ns() < until && !atomic_load(&e->error) && e->running)
            pthread_cond_timedwait(&e->changed, &e->lock, &ts);
    }
    atomic_fetch_sub(&e->throttled, 1);
}

/* The holders of the txg before are finishing what they do. If operations of the new txg ran beside
 * them, one that changes an object first and one of the old txg that changes it afterwards could
 * not be told apart in memory. */
static void wait_quiesced(struct txg_engine *e, uint64_t txg)
{
    MUTEX_GUARD(&e->lock);
    while (atomic_load(&e->quiesced) < txg)
        pthread_cond_wait(&e->changed, &e->lock);
}

int txg_hold_open(struct txg_engine *e, struct txg_hold *h)
{
    int cpu = sched_getcpu();

    if (atomic_load(&e->throttle) && delay_of(e, atomic_load(&e->total)) != 0)
        throttle(e);
    h->slot = (unsigned)(cpu < 0 ? 0 : cpu) % e->slots;
    for (;;) {
        if (atomic_load(&e->error))
            return err_set(EIO, "the pool is suspended");
        h->txg = atomic_load(&e->open);
        atomic_fetch_add(&e->counts[h->slot].held[h->txg & TXG_MASK], 1);
        if (atomic_load(&e->open) == h->txg)
            break;
        drop(e, h->txg, h->slot);
    }
    if (atomic_load(&e->quiesced) + 1 < h->txg)
        wait_quiesced(e, h->txg - 1);
    return 0;
}

void txg_release(struct txg_engine *e, struct txg_hold *h)
{
    drop(e, h->txg, h->slot);
}

/* ---- Dirty data ---- */

/* So much is dirty that the open txg is closed, if the thread has nothing else to do: while it writes,
 * more comes together for the next. The sooner data is clean the sooner its memory can be used again,
 * and the less is left to write when somebody asks for a sync. */
static bool much_is_dirty(const struct txg_engine *e, uint64_t total)
{
    return total >= MIN(e->config.dirty_max / 100 * SYNC_PERCENT, SYNC_BYTES);
}

void txg_dirty_add(struct txg_engine *e, uint64_t txg, int64_t bytes)
{
    uint64_t total = atomic_fetch_add(&e->total, (uint64_t)bytes) + (uint64_t)bytes;

    atomic_fetch_add(&e->dirty[txg & TXG_MASK], (uint64_t)bytes);
    /* The first to cross the line wakes the thread; it lowers the flag before it looks. */
    if (much_is_dirty(e, total) && !atomic_exchange(&e->kicked, true)) {
        pthread_mutex_lock(&e->lock);
        pthread_cond_signal(&e->work);
        pthread_mutex_unlock(&e->lock);
    }
}

void txg_dirty_done(struct txg_engine *e, uint64_t txg, int64_t bytes)
{
    atomic_fetch_sub(&e->dirty[txg & TXG_MASK], (uint64_t)bytes);
    atomic_fetch_sub(&e->total, (uint64_t)bytes);
    if (atomic_load(&e->throttled) == 0)
        return;
    pthread_mutex_lock(&e->lock);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

uint64_t txg_dirty_bytes(const struct txg_engine *e)
{
    return atomic_load_explicit(&e->total, memory_order_relaxed);
}

bool txg_is_awaited(struct txg_engine *e)
{
    MUTEX_GUARD(&e->lock);

    return e->wanted > atomic_load(&e->synced) || e->stopping ||
           much_is_dirty(e, atomic_load(&e->total));
}

void txg_mark_dirty(struct txg_engine *e, uint64_t txg)
{
    atomic_store(&e->marked[txg & TXG_MASK], true);
}

/* ---- The thread ---- */

static bool is_dirty(const struct txg_engine *e, uint64_t txg)
{
    return atomic_load(&e->dirty[txg & TXG_MASK]) != 0 || atomic_load(&e->marked[txg & TXG_MASK]);
}

/* With the lock held, dropped for the question. */
static bool something_wanted(struct txg_engine *e)
{
    bool yes;

    if (!e->config.wanted)
        return false;
    pthread_mutex_unlock(&e->lock);
    yes = e->config.wanted(e->config.arg);
    pthread_mutex_lock(&e->lock);
    return yes;
}

/* With the lock held: is it time to close the open txg? */
static bool should_close(struct txg_engine *e)
{
    uint64_t open = atomic_load(&e->open);

    atomic_store(&e->kicked, false);
    if (e->wanted >= open)
        return true;
    if (is_dirty(e, open) && (e->stopping || much_is_dirty(e, atomic_load(&e->total))))
        return true;
    if (e->stopping)
        return false;
    if (e->config.busy && e->config.busy(e->config.arg))
        return true;
    if (now_ns() < e->opened_at + e->config.timeout_ns)
        return false;
    if (is_dirty(e, open) || something_wanted(e))
        return true;
    e->opened_at = now_ns(); /* nothing to do: a new term begins */
    return false;
}

/* With the lock held: no operation can change anything in txg any more when it returns. */
static void quiesce(struct txg_engine *e, uint64_t txg)
{
    atomic_store(&e->open, txg + 1);
    e->opened_at = now_ns();
    while (holders(e, txg) != 0)
        pthread_cond_wait(&e->idle, &e->lock);
    atomic_store(&e->quiesced, txg);
    pthread_cond_broadcast(&e->changed);
}

/* With the lock held, dropped meanwhile. */
static void sync_txg(struct txg_engine *e, uint64_t txg)
{
    uint64_t rest;
    int rc;

    atomic_store(&e->syncing, txg);
    pthread_mutex_unlock(&e->lock);
    rc = e->config.sync(e->config.arg, txg);
    pthread_mutex_lock(&e->lock);
    atomic_store(&e->syncing, 0);
    if (rc) {
        atomic_store(&e->error, rc);
    } else {
        /* Bytes that were counted and not given back would throttle forever. */
        rest = atomic_exchange(&e->dirty[txg & TXG_MASK], 0);
        atomic_fetch_sub(&e->total, rest);
        atomic_store(&e->marked[txg & TXG_MASK], false);
        atomic_store(&e->synced, txg);
    }
    pthread_cond_broadcast(&e->changed);
}

static void *engine_main(void *arg)
{
    struct txg_engine *e = arg;

    pthread_mutex_lock(&e->lock);
    while (!atomic_load(&e->error)) {
        if (should_close(e)) {
            uint64_t txg = atomic_load(&e->open);
            quiesce(e, txg);
            sync_txg(e, txg);
        } else if (e->stopping) {
            /* Being asked what is wanted drops the lock: the stop may have come only then. */
            if (!is_dirty(e, atomic_load(&e->open)))
                break;
        } else {
            struct timespec ts = timespec_of(e->opened_at + e->config.timeout_ns);
            pthread_cond_timedwait(&e->work, &e->lock, &ts);
        }
    }
    e->running = false;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

int txg_engine_start(struct txg_engine *e)
{
    int rc;

    e->opened_at = now_ns();
    e->stopping = false;
    e->running = true;
    atomic_store(&e->throttle, true);
    rc = thread_start(&e->thread, "txg", engine_main, e);
    if (rc) {
        e->running = false;
        atomic_store(&e->throttle, false);
    }
    return rc;
}

void txg_engine_stop(struct txg_engine *e)
{
    if (!atomic_load(&e->throttle))
        return;
    pthread_mutex_lock(&e->lock);
    e->stopping = true;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    atomic_store(&e->throttle, false);
}

/* ---- Waiting and asking ---- */

int txg_wait_synced(struct txg_engine *e, uint64_t txg)
{
    MUTEX_GUARD(&e->lock);
    if (txg == 0)
        txg = atomic_load(&e->open);
    while (atomic_load(&e->synced) < txg) {
        if (atomic_load(&e->error))
            return err_set(EIO, "the pool is suspended");
        if (!e->running) /* then nothing more is written; was there anything? */
            return is_dirty(e, atomic_load(&e->open)) ? err_set(EIO, "the pool is closed") : 0;
        e->wanted = MAX(e->wanted, txg);
        pthread_cond_signal(&e->work);
        pthread_cond_wait(&e->changed, &e->lock);
    }
    return 0;
}

uint64_t txg_open_number(const struct txg_engine *e)
{
    return atomic_load(&e->open);
}

uint64_t txg_synced_number(const struct txg_engine *e)
{
    return atomic_load(&e->synced);
}

uint64_t txg_syncing_number(const struct txg_engine *e)
{
    return atomic_load(&e->syncing);
}

int txg_suspended(const struct txg_engine *e)
{
    return atomic_load(&e->error);
}
