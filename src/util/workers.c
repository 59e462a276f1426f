/*
 * One lock guards the queue of jobs and the list of parallel loops. A loop lives on its caller's
 * stack: the caller takes indices itself, workers that have nothing to do join in, and the caller
 * leaves when the indices are used up and no worker is inside any more. So a loop allocates
 * nothing, cannot fail, and never waits for a worker to become free.
 */
#include "util/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"
#include "util/err.h"
#include "util/threads.h"

struct job {
    void (*fn)(void *arg);
    void *arg;
};

struct loop {
    int (*fn)(void *arg, size_t i);
    void *arg;
    size_t n;
    _Atomic size_t next;     /* next index to call */
    struct loop *after;      /* workers.lock, as all below */
    bool listed;             /* workers may still join */
    unsigned joined;         /* workers inside */
    pthread_cond_t finished; /* joined became 0 */
    size_t failed;           /* lowest index with an error; n: none */
    int rc;
    char *text; /* the sentence of rc; NULL: none */
};

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a job or loop came, or stop */
    struct job *jobs;    /* ring of capacity slots; lock, as all below */
    size_t capacity, head, queued;
    struct loop *loops;
    unsigned idle; /* threads waiting for wake */
    bool stop;
    unsigned count;
    pthread_t threads[];
};

static void note_failure(struct workers *w, struct loop *l, size_t i, int rc)
{
    MUTEX_GUARD(&w->lock);
    if (i >= l->failed)
        return;
    l->failed = i;
    l->rc = rc;
    free(l->text);
    l->text = rc < 0 ? strdup(err_text(rc)) : NULL;
}

static void run_indices(struct workers *w, struct loop *l)
{
    size_t i;

    while ((i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed)) < l->n) {
        int rc = l->fn(l->arg, i);
        if (rc != 0)
            note_failure(w, l, i, rc);
    }
}

/* With the lock held: no more workers join the loop. */
static void unlist(struct workers *w, struct loop *l)
{
    struct loop **p = &w->loops;

    if (!l->listed)
        return;
    while (*p != l)
        p = &(*p)->after;
    *p = l->after;
    l->listed = false;
}

/* With the lock held, which is released meanwhile. */
static void join_loop(struct workers *w, struct loop *l)
{
    l->joined++;
    pthread_mutex_unlock(&w->lock);
    run_indices(w, l);
    pthread_mutex_lock(&w->lock);
    unlist(w, l);
    if (--l->joined == 0)
        pthread_cond_signal(&l->finished);
}

static struct job take_job(struct workers *w)
{
    struct job j = w->jobs[w->head];

    w->head = (w->head + 1) % w->capacity;
    w->queued--;
    return j;
}

static _Thread_local bool inside;

bool workers_inside(void)
{
    return inside;
}

static void *worker_main(void *arg)
{
    struct workers *w = arg;

    inside = true;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        if (w->loops) { /* first, because somebody waits for it */
            join_loop(w, w->loops);
        } else if (w->queued > 0) {
            struct job j = take_job(w);
            pthread_mutex_unlock(&w->lock);
            j.fn(j.arg);
            pthread_mutex_lock(&w->lock);
        } else if (w->stop) {
            break;
        } else {
            w->idle++;
            pthread_cond_wait(&w->wake, &w->lock);
            w->idle--;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int workers_new(struct workers **out, unsigned threads)
{
    unsigned n = threads ? threads : thread_cpu_count();
    struct workers *w = calloc(1, sizeof *w + n * sizeof w->threads[0]);
    int rc;

    if (!w)
        return -ENOMEM;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    for (unsigned i = 0; i < n; i++) {
        rc = thread_start(&w->threads[i], "tarn-worker", worker_main, w);
        if (rc < 0) {
            workers_free(w);
            return err_set(-rc, "cannot start a worker thread: %s", strerror(-rc));
        }
        w->count = i + 1;
    }
    *out = w;
    return 0;
}

void workers_free(struct workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->count; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w->jobs);
    free(w);
}

unsigned workers_count(const struct workers *w)
{
    return w->count;
}

static int grow_queue(struct workers *w)
{
    size_t bigger = w->capacity ? w->capacity * 2 : 64;
    struct job *jobs = calloc(bigger, sizeof *jobs);

    if (!jobs)
        return -ENOMEM;
    for (size_t i = 0; i < w->queued; i++)
        jobs[i] = w->jobs[(w->head + i) % w->capacity];
    free(w->jobs);
    w->jobs = jobs;
    w->capacity = bigger;
    w->head = 0;
    return 0;
}

int workers_submit(struct workers *w, void (*fn)(void *arg), void *arg)
{
    MUTEX_GUARD(&w->lock);
    if (w->queued == w->capacity && grow_queue(w) < 0)
        return -ENOMEM;
    w->jobs[(w->head + w->queued++) % w->capacity] = (struct job){fn, arg};
    if (w->idle > 0)
        pthread_cond_signal(&w->wake);
    return 0;
}

static int each_alone(size_t n, int (*fn)(void *arg, size_t i), void *arg)
{
    CLEANUP_FREE char *text = NULL;
    int first = 0;

    for (size_t i = 0; i < n; i++) {
        int rc = fn(arg, i);
        if (rc == 0 || first != 0)
            continue;
        first = rc;
        text = rc < 0 ? strdup(err_text(rc)) : NULL; /* later calls may set another */
    }
    return text ? err_set(-first, "%s", text) : first;
}

static void publish(struct workers *w, struct loop *l)
{
    unsigned wanted = l->n - 1 < w->count ? (unsigned)(l->n - 1) : w->count;

    MUTEX_GUARD(&w->lock);
    l->after = w->loops;
    w->loops = l;
    l->listed = true;
    for (unsigned i = 0; i < wanted && i < w->idle; i++)
        pthread_cond_signal(&w->wake);
}

int workers_each(struct workers *w, size_t n, int (*fn)(void *arg, size_t i), void *arg)
{
    struct loop l = {.fn = fn, .arg = arg, .n = n, .failed = n};

    if (!w || n < 2)
        return each_alone(n, fn, arg);
    pthread_cond_init(&l.finished, NULL);
    publish(w, &l);
    run_indices(w, &l);
    pthread_mutex_lock(&w->lock);
    unlist(w, &l);
    while (l.joined > 0)
        pthread_cond_wait(&l.finished, &w->lock);
    pthread_mutex_unlock(&w->lock);
    pthread_cond_destroy(&l.finished);
    if (l.text) {
        err_set(-l.rc, "%s", l.text);
        free(l.text);
    }
    return l.rc;
}
