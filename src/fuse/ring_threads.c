/* The rings' threads: leaders and those that stand by. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fuse/ring_impl.h"
#include "util/err.h"
#include "util/log.h"
#include "util/threads.h"

#define THREADS_MAX 64 /* per ring */

static void *ring_main(void *arg)
{
    struct fuse_ring_thread *t = arg;
    struct fuse_ring *r = t->ring;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(r->cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        if (!r->vacant) {
            r->idle++;
            pthread_cond_wait(&r->standby, &r->lock);
            r->idle--;
            continue;
        }
        r->vacant = false;
        pthread_mutex_unlock(&r->lock);
        fuse_ring_lead(t);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* With r->lock held. */
static int thread_add(struct fuse_ring *r)
{
    struct fuse_server *s = r->all->server;
    struct fuse_ring_thread *t = calloc(1, sizeof *t);
    char name[16];
    int rc;

    if (!t)
        return -ENOMEM;
    t->ring = r;
    t->base.server = s;
    t->base.epfd = -1;
    pthread_mutex_lock(&s->lock);
    fuse_thread_add(s, &t->base);
    pthread_mutex_unlock(&s->lock);
    snprintf(name, sizeof name, "fuse-ring%d", r->cpu);
    rc = thread_start(&t->base.id, name, ring_main, t);
    if (rc) {
        pthread_mutex_lock(&s->lock);
        fuse_thread_remove(s, &t->base);
        pthread_mutex_unlock(&s->lock);
        free(t);
        return rc;
    }
    t->next = r->threads;
    r->threads = t;
    r->count++;
    return 0;
}

bool fuse_ring_stopping(struct fuse_ring *r)
{
    bool stop;

    pthread_mutex_lock(&r->lock);
    stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    return stop;
}

void fuse_ring_take(struct fuse_ring *r, uintptr_t leader)
{
    if (!atomic_compare_exchange_strong(&r->state, &leader, 0))
        return;
    pthread_mutex_lock(&r->lock);
    r->short_of = r->current;
    r->vacant = true;
    if (r->idle)
        pthread_cond_signal(&r->standby);
    else if (r->count < THREADS_MAX)
        thread_add(r); /* if that fails, or there are enough: the first who is done leads */
    pthread_mutex_unlock(&r->lock);
}

static void look(struct fuse_ring *r)
{
    uintptr_t state = atomic_load(&r->state);
    uint64_t serial = atomic_load(&r->serial);

    if (serial == r->seen && (state & FUSE_RING_HANDLING))
        fuse_ring_take(r, state);
    r->seen = serial;
}

void fuse_rings_look(struct fuse_rings *all)
{
    for (unsigned i = 0; i < all->count; i++)
        look(&all->ring[i]);
}

/* "0-3" or "0,2-5": one more than the last. */
static unsigned possible_cpus(void)
{
    FILE *f = fopen("/sys/devices/system/cpu/possible", "re");
    char line[256], *last;
    unsigned n = 0;

    if (f && fgets(line, sizeof line, f)) {
        last = line;
        for (char *c = line; *c; c++) {
            if (*c == '-' || *c == ',')
                last = c + 1;
        }
        n = (unsigned)strtoul(last, NULL, 10) + 1;
    }
    if (f)
        fclose(f);
    return n;
}

static int ring_init(struct fuse_rings *all, unsigned index, int cpu)
{
    struct fuse_ring *r = &all->ring[index];
    int rc;

    r->all = all;
    r->index = index;
    r->cpu = cpu;
    r->vacant = true;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->standby, NULL);
    r->event_fd = eventfd(0, EFD_CLOEXEC);
    if (r->event_fd < 0)
        return -errno;
    rc = fuse_ring_open(r);
    if (rc) {
        close(r->event_fd);
        return rc;
    }
    pthread_mutex_lock(&r->lock);
    rc = thread_add(r);
    pthread_mutex_unlock(&r->lock);
    if (rc) {
        close(r->event_fd);
        io_uring_queue_exit(&r->uring);
    }
    return rc;
}

static int rings_start(struct fuse_rings *all, const cpu_set_t *cpus)
{
    int rc = 0;

    for (int cpu = 0; cpu < CPU_SETSIZE && !rc; cpu++) {
        if (!CPU_ISSET(cpu, cpus))
            continue;
        rc = ring_init(all, all->count, cpu);
        if (!rc)
            all->count++;
    }
    return rc;
}

int fuse_rings_new(struct fuse_rings **out, struct fuse_server *s)
{
    struct fuse_rings *all;
    unsigned queues = possible_cpus();
    cpu_set_t cpus;
    int rc;

    if (queues == 0 || sched_getaffinity(0, sizeof cpus, &cpus))
        return -ENOSYS;
    all = calloc(1, sizeof *all + (size_t)CPU_COUNT(&cpus) * sizeof all->ring[0]);
    if (!all)
        return -ENOMEM;
    all->server = s;
    all->queues = queues;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->changed, NULL);
    rc = rings_start(all, &cpus);
    if (rc) {
        fuse_rings_free(all);
        return rc;
    }
    *out = all;
    return 0;
}

static void ring_stop(struct fuse_ring *r)
{
    uint64_t one = 1;

    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->standby);
    pthread_mutex_unlock(&r->lock);
    if (write(r->event_fd, &one, sizeof one) < 0)
        log_error("cannot wake a FUSE ring: %m");
}

static void ring_free(struct fuse_ring *r)
{
    struct fuse_server *s = r->all->server;
    struct fuse_ring_thread *t;

    while ((t = r->threads)) {
        r->threads = t->next;
        pthread_join(t->base.id, NULL);
        pthread_mutex_lock(&s->lock);
        fuse_thread_remove(s, &t->base);
        pthread_mutex_unlock(&s->lock);
        free(t);
    }
    fuse_ring_close(r);
    close(r->event_fd);
    pthread_cond_destroy(&r->standby);
    pthread_mutex_destroy(&r->lock);
}

void fuse_rings_free(struct fuse_rings *all)
{
    if (!all)
        return;
    for (unsigned i = 0; i < all->count; i++)
        ring_stop(&all->ring[i]);
    for (unsigned i = 0; i < all->count; i++)
        ring_free(&all->ring[i]);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

int fuse_rings_attach(struct fuse_rings *all, struct fuse_mount *m)
{
    struct fuse_ring_attach job = {.m = m, .left = all->count};
    struct fuse_ring_attach_node nodes[CPU_SETSIZE];

    for (unsigned i = 0; i < all->count; i++) {
        struct fuse_ring *r = &all->ring[i];
        uint64_t one = 1;

        pthread_mutex_lock(&r->lock);
        nodes[i] = (struct fuse_ring_attach_node){r->attach, &job};
        r->attach = &nodes[i];
        pthread_mutex_unlock(&r->lock);
        if (write(r->event_fd, &one, sizeof one) < 0)
            log_error("cannot wake a FUSE ring: %m");
    }
    pthread_mutex_lock(&all->lock);
    while (job.left)
        pthread_cond_wait(&all->changed, &all->lock);
    pthread_mutex_unlock(&all->lock);
    return job.rc;
}
