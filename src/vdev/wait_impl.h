/* Private to src/vdev: waiting for several requests at once. */
#ifndef VDEV_WAIT_IMPL_H
#define VDEV_WAIT_IMPL_H

#include <pthread.h>

struct vdev_wait {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    unsigned pending; /* lock */
    int rc;           /* lock: the first error */
};

static inline void vdev_wait_init(struct vdev_wait *w, unsigned pending)
{
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->idle, NULL);
    w->pending = pending;
    w->rc = 0;
}

/* One has finished. w may be gone when this returns. */
static inline void vdev_wait_done(struct vdev_wait *w, int rc)
{
    pthread_mutex_lock(&w->lock);
    if (rc && w->rc == 0)
        w->rc = rc;
    if (--w->pending == 0)
        pthread_cond_signal(&w->idle);
    pthread_mutex_unlock(&w->lock);
}

/* Until all have; the first error or 0. */
static inline int vdev_wait_all(struct vdev_wait *w)
{
    int rc;

    pthread_mutex_lock(&w->lock);
    while (w->pending > 0)
        pthread_cond_wait(&w->idle, &w->lock);
    rc = w->rc;
    pthread_mutex_unlock(&w->lock);
    pthread_cond_destroy(&w->idle);
    pthread_mutex_destroy(&w->lock);
    return rc;
}

#endif
