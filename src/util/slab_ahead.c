/*
 * Pages ahead of their use. The first touch of a huge page clears two megabytes, and in a virtual
 * machine whose host has taken back free memory it waits for the host as well: milliseconds, in the
 * middle of somebody's write. A thread of low priority touches the pages that will be needed next;
 * if it comes too late they are touched when they are used.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/slab_impl.h"
#include "util/threads.h"

#define WAITING_MAX 16 /* ranges; what is more is left to its user */

struct range {
    void *start;
    size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the three below */
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct range waiting[WAITING_MAX];
static unsigned count;

static _Atomic bool started;

/* Adds nothing to a byte of each huge page: whoever has begun to use the page sees no change. Not
 * madvise(2) with MADV_POPULATE_WRITE, which locks the whole address space for as long as the host
 * takes, and so stops every thread whose malloc needs to grow. */
static void touch(const struct range *r)
{
    for (size_t at = 0; at < r->bytes; at += HUGE_PAGE)
        atomic_fetch_or_explicit((_Atomic unsigned char *)r->start + at, 0, memory_order_relaxed);
}

static void *populate_main(void *arg)
{
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
    pthread_mutex_lock(&lock);
    for (;;) {
        while (count == 0)
            pthread_cond_wait(&work, &lock);
        struct range r = waiting[--count]; /* the newest is the next that somebody needs */
        pthread_mutex_unlock(&lock);
        touch(&r);
        pthread_mutex_lock(&lock);
    }
    return NULL;
}

int buf_touch_ahead(void)
{
    pthread_t id;
    int rc;

    if (atomic_load(&started))
        return 0;
    rc = thread_start(&id, "tarn-pages", populate_main, NULL);
    if (rc)
        return rc;
    pthread_detach(id);
    atomic_store(&started, true);
    return 0;
}

void slab_populate(void *start, size_t bytes)
{
    if (!atomic_load_explicit(&started, memory_order_relaxed))
        return;
    MUTEX_GUARD(&lock);
    if (count == WAITING_MAX)
        return;
    waiting[count++] = (struct range){start, bytes};
    pthread_cond_signal(&work);
}
