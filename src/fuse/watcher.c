/*
 * The watcher: a thread that looks at the server every two milliseconds while there are requests,
 * and sleeps when there are none.
 *
 * It finds handlers that take long (fuse_rings_look), and it keeps the processors awake: a file
 * operation is a hop from a program to us and back, and a processor that halts between two of them
 * takes longer to wake, in a virtual machine many times longer, than the operation itself. While
 * requests come one close behind the other, no idle processor may sleep more deeply than LATENCY_US
 * says; a hundredth of a second after the last of them all may. The kernel takes the demand back by
 * itself when the process ends, however it does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fuse/server_impl.h"
#include "util/log.h"
#include "util/threads.h"

#define TICK_NS     2000000 /* a handler is slow after one to two */
#define QUIET_TICKS 50      /* without a request, until it sleeps */
#define MANY        8       /* requests in a tick that are worth staying awake for */
#define FEW_TICKS   5       /* with fewer, until the processors may halt again */
/* What waking up may take. On a real machine shallow sleep stays allowed, which costs little of
 * either power or time; a virtual one has nothing between staying awake and halting. */
#define LATENCY_US 2

#define LATENCY_DEVICE "/dev/cpu_dma_latency"
#define IDLE_DRIVER    "/sys/devices/system/cpu/cpuidle/current_driver"

static int32_t wanted_latency(void)
{
    char name[32] = "";
    int fd = open(IDLE_DRIVER, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, name, sizeof name - 1);

    if (fd >= 0)
        close(fd);
    return n > 0 && !strncmp(name, "haltpoll", 8) ? 0 : LATENCY_US;
}

static void stay_awake(struct fuse_watcher *w)
{
    int32_t us = wanted_latency();

    w->awake_fd = open(LATENCY_DEVICE, O_WRONLY | O_CLOEXEC);
    if (w->awake_fd >= 0 && write(w->awake_fd, &us, sizeof us) == sizeof us)
        return;
    /* Only root may, and not every kernel can: slower, not wrong. */
    log_info("processors may halt between requests: " LATENCY_DEVICE ": %m");
    w->let_halt = true;
    if (w->awake_fd >= 0)
        close(w->awake_fd);
    w->awake_fd = -1;
}

static void may_halt(struct fuse_watcher *w)
{
    if (w->awake_fd >= 0)
        close(w->awake_fd);
    w->awake_fd = -1;
}

static void mind_processors(struct fuse_watcher *w, uint64_t requests)
{
    if (w->let_halt)
        return;
    if (requests >= MANY) {
        w->few_ticks = 0;
        if (w->awake_fd < 0)
            stay_awake(w);
    } else if (w->awake_fd >= 0 && ++w->few_ticks >= FEW_TICKS) {
        may_halt(w);
    }
}

/* True if a request has begun since the last look. */
static bool look(struct fuse_server *s)
{
    struct fuse_watcher *w = &s->watcher;
    uint64_t served = 0, fresh;

    for (unsigned i = 0; i < FUSE_COUNT_STRIPES; i++)
        served += atomic_load(&s->served[i].count);
    fresh = served - w->seen;
    w->seen = served;
    if (s->rings)
        fuse_rings_look(s->rings);
    mind_processors(w, fresh);
    return fresh > 0;
}

static void tick(struct fuse_watcher *w)
{
    struct timespec t = {.tv_nsec = TICK_NS};

    pthread_mutex_unlock(&w->lock);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    pthread_mutex_lock(&w->lock);
}

static void *watcher_main(void *arg)
{
    struct fuse_server *s = arg;
    struct fuse_watcher *w = &s->watcher;
    unsigned quiet = 0;

    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        tick(w);
        quiet = look(s) ? 0 : quiet + 1;
        if (quiet < QUIET_TICKS)
            continue;
        /* A thread counts its request and then looks whether we sleep; we the other way round. */
        atomic_store(&w->asleep, true);
        if (look(s))
            atomic_store(&w->asleep, false);
        while (atomic_load(&w->asleep) && !w->stop)
            pthread_cond_wait(&w->changed, &w->lock);
        quiet = 0;
    }
    pthread_mutex_unlock(&w->lock);
    may_halt(w);
    return NULL;
}

void fuse_watcher_request(struct fuse_server *s, unsigned stripe)
{
    struct fuse_watcher *w = &s->watcher;

    atomic_fetch_add(&s->served[stripe].count, 1);
    if (!atomic_load(&w->asleep))
        return;
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->asleep, false);
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

int fuse_watcher_start(struct fuse_server *s)
{
    struct fuse_watcher *w = &s->watcher;
    int rc = thread_start(&w->id, "fuse-watch", watcher_main, s);

    w->running = !rc;
    return rc;
}

void fuse_watcher_init(struct fuse_watcher *w, bool let_halt)
{
    w->let_halt = let_halt;
    w->awake_fd = -1;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
}

void fuse_watcher_stop(struct fuse_watcher *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->running)
        pthread_join(w->id, NULL);
    w->running = false;
}

void fuse_watcher_destroy(struct fuse_watcher *w)
{
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}
