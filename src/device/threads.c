/* The engine for kernels and containers without io_uring: up to MOST threads per device, started
 * when a request finds none idle. */
#include <errno.h>
#include <stdlib.h>

#include "device/queue_impl.h"
#include "util/threads.h"

enum { MOST = 8 };

struct threads {
    pthread_cond_t work;
    unsigned count, idle; /* under the queue's lock */
    pthread_t thread[MOST];
};

static void *threads_main(void *arg)
{
    struct queue *q = arg;
    struct threads *t = q->state;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        struct device_io *io = queue_take(q);
        if (io) {
            if (q->head && !q->leaving)
                engine_threads.wake(q); /* one wakes the next while there is work */
            pthread_mutex_unlock(&q->lock);
            queue_finish(q, io, queue_perform(q, io));
            pthread_mutex_lock(&q->lock);
        } else if (q->stop) {
            break;
        } else {
            t->idle++;
            pthread_cond_wait(&t->work, &q->lock);
            t->idle--;
        }
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* With the queue's lock held. The new thread waits for it before it looks at anything. */
static int threads_add(struct queue *q, struct threads *t)
{
    int rc = thread_start(&t->thread[t->count], "tarn-device", threads_main, q);
    if (rc == 0)
        t->count++;
    return rc;
}

static int threads_start(struct queue *q)
{
    struct threads *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    if (pthread_cond_init(&t->work, NULL)) {
        free(t);
        return -ENOMEM;
    }
    q->state = t;
    int rc = threads_add(q, t);
    if (rc) {
        q->state = NULL;
        pthread_cond_destroy(&t->work);
        free(t);
    }
    return rc;
}

static void threads_wake(struct queue *q)
{
    struct threads *t = q->state;
    if (q->stop)
        pthread_cond_broadcast(&t->work);
    else if (t->idle)
        pthread_cond_signal(&t->work);
    else if (t->count < MOST)
        threads_add(q, t); /* if not, the others will come to it */
}

static void threads_join(struct queue *q)
{
    struct threads *t = q->state;
    for (unsigned i = 0; i < t->count; i++)
        pthread_join(t->thread[i], NULL);
    pthread_cond_destroy(&t->work);
    free(t);
    q->state = NULL;
}

const struct engine engine_threads = {
    .name = "threads",
    .start = threads_start,
    .wake = threads_wake,
    .join = threads_join,
};
