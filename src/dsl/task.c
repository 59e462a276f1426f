/* Administrative operations in the sync thread (spec 05 12). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/dsl_impl.h"
#include "pool/pool.h"
#include "util/cleanup.h"
#include "util/err.h"

#define TASK_BLOCKS 5  /* blocks of the MOS that an ordinary operation changes */
#define RETRIES_MAX 100

struct task {
    struct task *next;
    dsl_task_fn *check, *sync;
    void *arg;
    enum dsl_space_policy policy;
    unsigned blocks;
    bool queued, done; /* dsl->sync_lock */
    int rc;
    char text[ERR_TEXT_MAX]; /* the sentence of rc, from the sync thread */
};

static void set_result(struct task *t, int rc)
{
    t->rc = rc;
    if (rc != 0)
        snprintf(t->text, sizeof t->text, "%s", err_text(rc));
}

/* ---- In the sync thread ---- */

static int run(struct dsl *dsl, struct task *t, struct tx *tx)
{
    int rc = space_check_task(dsl, t->policy, t->blocks);

    err_clear();
    if (rc == 0 && t->check)
        rc = t->check(dsl, t->arg, tx);
    if (rc != 0) {
        set_result(t, rc);
        return 0; /* refused: nothing has been changed */
    }
    rc = t->sync(dsl, t->arg, tx);
    if (rc == 0)
        rc = dsl->error;
    set_result(t, rc);
    return rc;
}

static struct task *take_all(struct dsl *dsl, uint64_t txg)
{
    struct task *list, *in_order = NULL;

    pthread_mutex_lock(&dsl->sync_lock);
    list = dsl->tasks[txg & TXG_MASK];
    dsl->tasks[txg & TXG_MASK] = NULL;
    for (struct task *t = list; t; t = t->next)
        t->queued = false;
    pthread_mutex_unlock(&dsl->sync_lock);
    while (list) {
        struct task *next = list->next;

        list->next = in_order;
        in_order = list;
        list = next;
    }
    return in_order;
}

/* The callers are told when the txg is durable, or has failed: they look at t->done themselves. */
int dsl_run_tasks(struct dsl *dsl, struct tx *tx)
{
    int rc = 0;

    for (struct task *t = take_all(dsl, tx->txg), *next; t; t = next) {
        next = t->next;
        if (rc == 0)
            rc = run(dsl, t, tx);
        else
            set_result(t, rc);
        pthread_mutex_lock(&dsl->sync_lock);
        t->done = true;
        pthread_cond_broadcast(&dsl->task_done);
        pthread_mutex_unlock(&dsl->sync_lock);
    }
    return rc;
}

/* ---- In the caller ---- */

static int enqueue(struct dsl *dsl, struct task *t, uint64_t *txg)
{
    struct txg_hold hold;
    int rc = txg_hold_open(dsl->pool->txg, &hold);

    if (rc != 0)
        return rc;
    *txg = hold.txg;
    pthread_mutex_lock(&dsl->sync_lock);
    t->queued = true;
    t->next = dsl->tasks[hold.txg & TXG_MASK];
    dsl->tasks[hold.txg & TXG_MASK] = t;
    pthread_mutex_unlock(&dsl->sync_lock);
    txg_mark_dirty(dsl->pool->txg, hold.txg);
    txg_release(dsl->pool->txg, &hold);
    return 0;
}

/* The txg never came: takes the task back, or waits until the sync thread has let go of it. */
static void withdraw(struct dsl *dsl, struct task *t, uint64_t txg)
{
    MUTEX_GUARD(&dsl->sync_lock);

    if (t->queued) {
        struct task **p = &dsl->tasks[txg & TXG_MASK];

        while (*p && *p != t)
            p = &(*p)->next;
        if (*p)
            *p = t->next;
        return;
    }
    while (!t->done)
        pthread_cond_wait(&dsl->task_done, &dsl->sync_lock);
}

static int check_here(struct dsl *dsl, struct task *t)
{
    DSL_READ_GUARD(dsl);
    int rc = space_check_task(dsl, t->policy, t->blocks);

    return rc || !t->check ? rc : t->check(dsl, t->arg, NULL);
}

static int once(struct dsl *dsl, struct task *t)
{
    uint64_t txg;
    int rc = check_here(dsl, t);

    if (rc == 0)
        rc = enqueue(dsl, t, &txg);
    if (rc != 0)
        return rc;
    rc = txg_wait_synced(dsl->pool->txg, txg);
    if (rc != 0)
        withdraw(dsl, t, txg);
    else if (t->rc != 0 && t->rc != -EAGAIN)
        return err_set(-t->rc, "%s", t->text);
    return rc ? rc : t->rc;
}

int dsl_task_blocks(struct dsl *dsl, dsl_task_fn *check, dsl_task_fn *sync, void *arg,
                    enum dsl_space_policy policy, unsigned blocks)
{
    int rc = -EAGAIN;

    if (!dsl->pool->writable)
        return err_set(EROFS, "pool is read-only");
    for (int i = 0; i < RETRIES_MAX && rc == -EAGAIN; i++) {
        struct task t = {.check = check, .sync = sync, .arg = arg, .policy = policy, .blocks = blocks};

        rc = once(dsl, &t);
    }
    return rc == -EAGAIN ? err_set(EBUSY, "dataset is busy") : rc;
}

int dsl_task(struct dsl *dsl, dsl_task_fn *check, dsl_task_fn *sync, void *arg,
             enum dsl_space_policy policy)
{
    return dsl_task_blocks(dsl, check, sync, arg, policy, TASK_BLOCKS);
}
