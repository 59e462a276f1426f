#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../support/test.h"
#include "pool/txg.h"

/* A sync function that can be held up, and that records what it was asked. */
struct sync_log {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool hold, inside;
    uint64_t txgs[64];
    unsigned count;
    int fail_with;
    struct txg_engine *engine;
};

static int record_sync(void *arg, uint64_t txg)
{
    struct sync_log *l = arg;
    int rc;

    pthread_mutex_lock(&l->lock);
    if (l->count < 64)
        l->txgs[l->count] = txg;
    l->count++;
    l->inside = true;
    pthread_cond_broadcast(&l->cond);
    while (l->hold)
        pthread_cond_wait(&l->cond, &l->lock);
    l->inside = false;
    rc = l->fail_with;
    pthread_mutex_unlock(&l->lock);
    assert_int_equal(txg_syncing_number(l->engine), txg);
    return rc;
}

static void set_hold(struct sync_log *l, bool hold)
{
    pthread_mutex_lock(&l->lock);
    l->hold = hold;
    pthread_cond_broadcast(&l->cond);
    pthread_mutex_unlock(&l->lock);
}

static void wait_inside(struct sync_log *l)
{
    pthread_mutex_lock(&l->lock);
    while (!l->inside)
        pthread_cond_wait(&l->cond, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

#define HOUR 3600000000000ull

static struct txg_engine *start(struct sync_log *l, uint64_t timeout, uint64_t dirty_max)
{
    struct txg_config c = {
        .timeout_ns = timeout, .dirty_max = dirty_max, .sync = record_sync, .arg = l};

    *l = (struct sync_log){.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    assert_int_equal(txg_engine_new(&l->engine, &c, TXG_INITIAL - 1), 0);
    assert_int_equal(txg_open_number(l->engine), TXG_INITIAL);
    assert_int_equal(txg_engine_start(l->engine), 0);
    return l->engine;
}

static void waits_for_the_open_txg(void **state)
{
    struct sync_log l;
    struct txg_engine *e = start(&l, HOUR, 0);
    struct txg_hold h;

    assert_int_equal(txg_hold_open(e, &h), 0);
    assert_int_equal(h.txg, 4);
    txg_dirty_add(e, h.txg, 100);
    txg_release(e, &h);
    assert_int_equal(txg_wait_synced(e, 0), 0);
    assert_int_equal(txg_synced_number(e), 4);
    assert_int_equal(txg_open_number(e), 5);
    assert_int_equal(l.count, 1);
    assert_int_equal(txg_wait_synced(e, 4), 0); /* long done */
    assert_int_equal(l.count, 1);
    assert_int_equal(txg_wait_synced(e, 7), 0); /* three more */
    assert_int_equal(l.count, 4);
    assert_int_equal(l.txgs[3], 7);
    txg_engine_free(e);
}

static void stop_syncs_what_is_dirty(void **state)
{
    struct sync_log l;
    struct txg_engine *e = start(&l, HOUR, 0);
    struct txg_hold h;

    txg_engine_stop(e);
    assert_int_equal(l.count, 0);
    assert_int_equal(txg_wait_synced(e, 0), 0);
    assert_int_equal(txg_engine_start(e), 0);
    assert_int_equal(txg_hold_open(e, &h), 0);
    txg_mark_dirty(e, h.txg);
    txg_release(e, &h);
    txg_engine_stop(e);
    assert_int_equal(l.count, 1);
    assert_int_equal(txg_synced_number(e), 4);
    assert_int_equal(txg_hold_open(e, &h), 0);
    txg_mark_dirty(e, h.txg);
    txg_release(e, &h);
    assert_int_equal(txg_wait_synced(e, 0), -EIO);
    txg_engine_free(e);
}

static void timeout_closes_only_dirty_txgs(void **state)
{
    struct sync_log l;
    struct txg_engine *e = start(&l, 1000000, 0); /* 1 ms */
    struct txg_hold h;

    set_hold(&l, true);
    assert_int_equal(txg_hold_open(e, &h), 0);
    txg_dirty_add(e, h.txg, 1);
    txg_release(e, &h);
    wait_inside(&l); /* nobody has asked for it */
    assert_int_equal(txg_open_number(e), h.txg + 1);
    set_hold(&l, false);
    assert_int_equal(txg_wait_synced(e, h.txg), 0);
    txg_engine_free(e);
    assert_int_equal(l.count, 1); /* and no other one, though many milliseconds may have gone */
}

static _Atomic unsigned wanted_left;

static bool wanted(void *arg)
{
    unsigned n = atomic_load(&wanted_left);

    if (n > 0)
        atomic_store(&wanted_left, n - 1);
    return n > 0;
}

static void wanted_txgs_come_by_themselves(void **state)
{
    struct sync_log l = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct txg_config c = {.timeout_ns = 1000, .sync = record_sync, .wanted = wanted, .arg = &l};

    atomic_store(&wanted_left, 2);
    assert_int_equal(txg_engine_new(&l.engine, &c, 99), 0);
    set_hold(&l, true);
    assert_int_equal(txg_engine_start(l.engine), 0);
    wait_inside(&l);
    set_hold(&l, false);
    assert_int_equal(txg_wait_synced(l.engine, 101), 0);
    txg_engine_free(l.engine);
    assert_int_equal(l.txgs[0], 100);
}

static void *release_later(void *arg)
{
    void **a = arg;
    struct txg_engine *e = a[0];
    struct txg_hold *h = a[1];

    while (txg_open_number(e) == h->txg) /* until somebody wants to close it */
        sched_yield();
    assert_int_equal(txg_syncing_number(e), 0);
    txg_release(e, h);
    return NULL;
}

static void waits_for_holders(void **state)
{
    struct sync_log l;
    struct txg_engine *e = start(&l, HOUR, 0);
    struct txg_hold h, later;
    void *arg[] = {e, &h};
    pthread_t thread;

    assert_int_equal(txg_hold_open(e, &h), 0);
    pthread_create(&thread, NULL, release_later, arg);
    assert_int_equal(txg_wait_synced(e, h.txg), 0);
    pthread_join(thread, NULL);
    assert_int_equal(txg_hold_open(e, &later), 0);
    assert_int_equal(later.txg, h.txg + 1);
    txg_release(e, &later);
    txg_engine_free(e);
}

static void failure_suspends(void **state)
{
    struct sync_log l;
    struct txg_engine *e = start(&l, HOUR, 0);
    struct txg_hold h;

    l.fail_with = -ENOSPC;
    assert_int_equal(txg_suspended(e), 0);
    assert_int_equal(txg_wait_synced(e, 0), -EIO);
    assert_int_equal(txg_suspended(e), -ENOSPC);
    assert_int_equal(txg_hold_open(e, &h), -EIO);
    assert_int_equal(txg_wait_synced(e, 0), -EIO);
    assert_int_equal(txg_synced_number(e), 3);
    txg_engine_free(e);
    assert_int_equal(l.count, 1);
}

static void advances(void **state)
{
    struct sync_log l;
    struct txg_config c = {.sync = record_sync, .arg = &l};
    struct txg_hold h;

    l = (struct sync_log){.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    assert_int_equal(txg_engine_new(&l.engine, &c, 10), 0);
    txg_engine_advance(l.engine, 5);
    assert_int_equal(txg_open_number(l.engine), 11);
    txg_engine_advance(l.engine, 50);
    assert_int_equal(txg_open_number(l.engine), 50);
    assert_int_equal(txg_engine_start(l.engine), 0);
    assert_int_equal(txg_hold_open(l.engine, &h), 0);
    assert_int_equal(h.txg, 50);
    txg_dirty_add(l.engine, 50, 1);
    txg_release(l.engine, &h);
    assert_int_equal(txg_wait_synced(l.engine, 50), 0);
    assert_int_equal(l.txgs[0], 50);
    txg_engine_free(l.engine);
}

/* ---- The throttle ---- */

static void much_dirty_data_closes(void **state)
{
    struct sync_log l;
    struct txg_engine *e = start(&l, HOUR, 1000000);
    struct txg_hold h;

    assert_int_equal(txg_hold_open(e, &h), 0);
    txg_dirty_add(e, h.txg, 199999);
    assert_int_equal(txg_open_number(e), h.txg);
    txg_dirty_add(e, h.txg, 1);
    while (txg_open_number(e) == h.txg) /* closed without being asked */
        sched_yield();
    txg_release(e, &h);
    assert_int_equal(txg_wait_synced(e, h.txg), 0);
    txg_engine_free(e);
}

/* However much may be dirty, 32 MB are enough to begin with. */
static void a_txg_stays_small(void **state)
{
    struct sync_log l;
    struct txg_engine *e = start(&l, HOUR, 4ull << 30);
    struct txg_hold h;

    assert_int_equal(txg_hold_open(e, &h), 0);
    txg_dirty_add(e, h.txg, (32 << 20) - 1);
    assert_int_equal(txg_open_number(e), h.txg);
    txg_dirty_add(e, h.txg, 1);
    while (txg_open_number(e) == h.txg)
        sched_yield();
    txg_release(e, &h);
    assert_int_equal(txg_wait_synced(e, h.txg), 0);
    txg_engine_free(e);
}

struct blocked {
    struct txg_engine *engine;
    _Atomic bool through;
    int rc;
};

static void *hold_blocked(void *arg)
{
    struct blocked *b = arg;
    struct txg_hold h;

    b->rc = txg_hold_open(b->engine, &h);
    atomic_store(&b->through, true);
    if (b->rc == 0)
        txg_release(b->engine, &h);
    return NULL;
}

static void full_blocks_until_written(void **state)
{
    struct sync_log l;
    struct txg_engine *e = start(&l, HOUR, 1000000);
    struct blocked b = {.engine = e};
    struct txg_hold h;
    pthread_t thread;

    set_hold(&l, true);
    assert_int_equal(txg_hold_open(e, &h), 0);
    txg_dirty_add(e, h.txg, 1000000);
    txg_release(e, &h);
    wait_inside(&l);
    pthread_create(&thread, NULL, hold_blocked, &b);
    for (int i = 0; i < 1000; i++) {
        sched_yield();
        assert_false(atomic_load(&b.through));
    }
    txg_dirty_done(e, h.txg, 900000); /* written, before the txg is durable */
    pthread_join(thread, NULL);
    assert_int_equal(b.rc, 0);
    set_hold(&l, false);
    assert_int_equal(txg_wait_synced(e, h.txg), 0);
    txg_engine_free(e);
}

static void failure_frees_the_blocked(void **state)
{
    struct sync_log l;
    struct txg_engine *e = start(&l, HOUR, 1000000);
    struct blocked b = {.engine = e};
    struct txg_hold h;
    pthread_t thread;

    set_hold(&l, true);
    l.fail_with = -EIO;
    assert_int_equal(txg_hold_open(e, &h), 0);
    txg_dirty_add(e, h.txg, 1000000);
    txg_release(e, &h);
    wait_inside(&l);
    pthread_create(&thread, NULL, hold_blocked, &b);
    set_hold(&l, false);
    pthread_join(thread, NULL);
    assert_int_equal(b.rc, -EIO);
    txg_engine_free(e);
}

/* Bytes that are forgotten do not block the pool for ever. */
static void forgotten_bytes_are_given_back(void **state)
{
    struct sync_log l;
    struct txg_engine *e = start(&l, HOUR, 1000000);
    struct txg_hold h;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(txg_hold_open(e, &h), 0);
        txg_dirty_add(e, h.txg, 1000000);
        txg_release(e, &h);
        assert_int_equal(txg_wait_synced(e, h.txg), 0);
    }
    txg_engine_free(e);
}

/* ---- Stress ---- */

enum { THREADS = 4, ROUNDS = 20000 };

struct stress {
    struct txg_engine *engine;
    _Atomic uint64_t started[TXG_SLOTS], finished[TXG_SLOTS];
    uint64_t last, total, plain[TXG_SLOTS]; /* plain: guarded by the txg protocol alone */
    pthread_mutex_t lock;
};

static int stress_sync(void *arg, uint64_t txg)
{
    struct stress *s = arg;
    uint64_t n = atomic_load(&s->started[txg & TXG_MASK]);

    assert_int_equal(txg, s->last + 1);
    s->last = txg;
    assert_int_equal(n, atomic_load(&s->finished[txg & TXG_MASK])); /* nobody is inside */
    s->total += s->plain[txg & TXG_MASK];
    s->plain[txg & TXG_MASK] = 0;
    atomic_store(&s->started[txg & TXG_MASK], 0);
    atomic_store(&s->finished[txg & TXG_MASK], 0);
    return 0;
}

static void *stress_thread(void *arg)
{
    struct stress *s = arg;

    for (int i = 0; i < ROUNDS; i++) {
        struct txg_hold h;
        assert_int_equal(txg_hold_open(s->engine, &h), 0);
        atomic_fetch_add(&s->started[h.txg & TXG_MASK], 1);
        assert_true(txg_syncing_number(s->engine) != h.txg);
        pthread_mutex_lock(&s->lock);
        s->plain[h.txg & TXG_MASK]++;
        pthread_mutex_unlock(&s->lock);
        txg_dirty_add(s->engine, h.txg, 100);
        atomic_fetch_add(&s->finished[h.txg & TXG_MASK], 1);
        txg_release(s->engine, &h);
        if (i % 1000 == 0)
            assert_int_equal(txg_wait_synced(s->engine, i % 3 ? h.txg : 0), 0);
    }
    return NULL;
}

static void stress(void **state)
{
    struct stress s = {.last = 9, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct txg_config c = {
        .timeout_ns = 100000, .dirty_max = 100000, .sync = stress_sync, .arg = &s};
    pthread_t thread[THREADS];

    assert_int_equal(txg_engine_new(&s.engine, &c, 9), 0);
    assert_int_equal(txg_engine_start(s.engine), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, stress_thread, &s);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    txg_engine_stop(s.engine);
    assert_int_equal(s.total, THREADS * ROUNDS);
    txg_engine_free(s.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_the_open_txg),
        cmocka_unit_test(stop_syncs_what_is_dirty),
        cmocka_unit_test(timeout_closes_only_dirty_txgs),
        cmocka_unit_test(wanted_txgs_come_by_themselves),
        cmocka_unit_test(waits_for_holders),
        cmocka_unit_test(failure_suspends),
        cmocka_unit_test(advances),
        cmocka_unit_test(much_dirty_data_closes),
        cmocka_unit_test(a_txg_stays_small),
        cmocka_unit_test(full_blocks_until_written),
        cmocka_unit_test(failure_frees_the_blocked),
        cmocka_unit_test(forgotten_bytes_are_given_back),
        cmocka_unit_test(stress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
