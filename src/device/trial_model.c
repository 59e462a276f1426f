/*
 * A disk that takes its time. Requests wait in a queue; each channel takes one, finds out when the disk would have
 * done it, does it then, and takes the next. Time goes by requests: the next begins when the one
 * before ended for the disk, not when its thread woke up.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "device/trial_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/threads.h"

#define CHANNELS_MAX 16
#define PASS_MAX     (1u << 20) /* bytes that pass below the head while it waits for what follows */

struct trial_queue {
    struct device *below;
    uint64_t size;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work;
    struct device_io *head, **tail;
    struct trial_model model; /* of the last request */
    uint64_t random;
    uint64_t at;        /* where the head is, bytes */
    uint64_t link_free; /* when the wire, or the head, can begin with the next one */
    bool stop;
    unsigned threads;
    pthread_t thread[CHANNELS_MAX];
};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double random_part(struct trial_queue *q)
{
    q->random = q->random * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(q->random >> 11) / (double)(1ull << 53);
}

static double root(double x)
{
    double r = x > 0 ? 1 : 0;
    for (int i = 0; i < 40 && x > 0; i++)
        r = (r + x / r) / 2;
    return r;
}

static uint64_t distance(const struct trial_queue *q, const struct device_io *io)
{
    return io->offset > q->at ? io->offset - q->at : q->at - io->offset;
}

/* Until the head is there. */
static uint64_t seek(struct trial_queue *q, const struct device_io *io)
{
    const struct trial_model *m = &q->model;
    uint64_t far = distance(q, io), rate = m->rate[io->op == DEVICE_WRITE];
    if (m->seek_max == 0 || io->op == DEVICE_DISCARD)
        return 0;
    if (io->op == DEVICE_FLUSH)
        return m->turn;
    if (io->offset >= q->at && far <= PASS_MAX)
        return rate ? (uint64_t)((double)far * 1e9 / (double)rate) : 0;
    return m->seek_min + (uint64_t)((double)(m->seek_max - m->seek_min) * root((double)far / (double)q->size)) +
           (uint64_t)((double)m->turn * random_part(q));
}

/* When the disk has done it. */
static uint64_t finish_time(struct trial_queue *q, const struct device_io *io)
{
    const struct trial_model *m = &q->model;
    bool write = io->op == DEVICE_WRITE, moves = write || io->op == DEVICE_READ;
    uint64_t begin = MAX(now(), q->link_free);
    begin += seek(q, io);
    if (moves && m->rate[write])
        begin += (uint64_t)((double)io->size * 1e9 / (double)m->rate[write]);
    if (moves)
        q->at = io->offset + io->size;
    uint64_t latency = moves ? m->latency[write] : 0;
    q->link_free = m->channels > 1 ? begin : begin + latency;
    return begin + latency;
}

static void sleep_until(uint64_t when)
{
    struct timespec t = {(time_t)(when / 1000000000), (long)(when % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

/* The oldest, or where seeks cost the nearest. Flushes wait for what came before them. */
static struct device_io *take(struct trial_queue *q)
{
    struct device_io **best = &q->head;
    for (struct device_io **at = &q->head; *at && q->model.seek_max; at = &(*at)->next) {
        if ((*at)->op == DEVICE_FLUSH)
            break;
        if (distance(q, *at) < distance(q, *best))
            best = at;
    }
    struct device_io *io = *best;
    *best = io->next;
    if (!*best)
        q->tail = best;
    return io;
}

static int perform(struct device *below, const struct device_io *io)
{
    switch (io->op) {
    case DEVICE_READ:
        return device_read(below, io->offset, io->data, io->size);
    case DEVICE_WRITE:
        return device_write(below, io->offset, io->data, io->size);
    case DEVICE_FLUSH:
        return device_flush(below);
    case DEVICE_DISCARD:
        return device_discard(below, io->offset, io->size);
    }
    return 0;
}

static void *channel(void *arg)
{
    struct trial_queue *q = arg;
    prctl(PR_SET_TIMERSLACK, 1);
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (!q->head && !q->stop)
            pthread_cond_wait(&q->work, &q->lock);
        if (!q->head)
            break;
        struct device_io *io = take(q);
        uint64_t when = finish_time(q, io);
        pthread_mutex_unlock(&q->lock);
        sleep_until(when);
        io->done(io, perform(q->below, io));
        pthread_mutex_lock(&q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

struct trial_queue *trial_queue_new(struct device *below, uint64_t seed)
{
    struct trial_queue *q = calloc(1, sizeof *q);
    struct device_info info;
    if (!q)
        return NULL;
    device_info(below, &info);
    q->below = below;
    q->size = MAX(info.size, 1u);
    q->random = seed;
    q->tail = &q->head;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    return q;
}

void trial_queue_free(struct trial_queue *q)
{
    if (!q)
        return;
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_cond_broadcast(&q->work);
    pthread_mutex_unlock(&q->lock);
    for (unsigned i = 0; i < q->threads; i++)
        pthread_join(q->thread[i], NULL);
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

/* With the lock: as many as the model has, as they are needed. False: there is none at all. */
static bool have_channels(struct trial_queue *q)
{
    unsigned want = MIN(MAX(q->model.channels, 1u), (unsigned)CHANNELS_MAX);
    while (q->threads < want && thread_start(&q->thread[q->threads], "trial", channel, q) == 0)
        q->threads++;
    return q->threads > 0;
}

void trial_queue_submit(struct trial_queue *q, const struct trial_model *model, struct device_io *io)
{
    pthread_mutex_lock(&q->lock);
    q->model = *model;
    bool queued = have_channels(q);
    if (queued) {
        io->next = NULL;
        *q->tail = io;
        q->tail = &io->next;
        pthread_cond_signal(&q->work);
    }
    pthread_mutex_unlock(&q->lock);
    if (!queued)
        io->done(io, perform(q->below, io));
}
