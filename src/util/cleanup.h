/* Scope-bound clean-up: CLEANUP_FREE char *p = strdup(...); frees p at the end of its scope. */
#ifndef UTIL_CLEANUP_H
#define UTIL_CLEANUP_H

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(fn) __attribute__((cleanup(fn), unused))

static inline void cleanup_free(void *pp)
{
    free(*(void **)pp);
}

static inline void cleanup_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline pthread_mutex_t *cleanup_lock(pthread_mutex_t *m)
{
    pthread_mutex_lock(m);
    return m;
}

static inline void cleanup_unlock(pthread_mutex_t **m)
{
    if (*m)
        pthread_mutex_unlock(*m);
}

static inline pthread_rwlock_t *cleanup_rdlock(pthread_rwlock_t *l)
{
    pthread_rwlock_rdlock(l);
    return l;
}

static inline pthread_rwlock_t *cleanup_wrlock(pthread_rwlock_t *l)
{
    pthread_rwlock_wrlock(l);
    return l;
}

static inline void cleanup_rwunlock(pthread_rwlock_t **l)
{
    if (*l)
        pthread_rwlock_unlock(*l);
}

#define CLEANUP_FREE  CLEANUP(cleanup_free)
#define CLEANUP_CLOSE CLEANUP(cleanup_close)

/* Locks m until the end of the scope. Several guards may stand in one scope; they are released in
 * the opposite order. The counter makes each guard's name its own. */
#define MUTEX_GUARD(m) MUTEX_GUARD_(m, __COUNTER__)
#define RDLOCK_GUARD(l) RWLOCK_GUARD_(cleanup_rdlock(l), __COUNTER__)
#define WRLOCK_GUARD(l) RWLOCK_GUARD_(cleanup_wrlock(l), __COUNTER__)

#define CLEANUP_PASTE_(a, b) a##b
#define CLEANUP_PASTE(a, b)  CLEANUP_PASTE_(a, b)
#define MUTEX_GUARD_(m, n)                                                                         \
    pthread_mutex_t *CLEANUP_PASTE(guard_, n) __attribute__((unused)) CLEANUP(cleanup_unlock) =    \
        cleanup_lock(m)
#define RWLOCK_GUARD_(locked, n)                                                                   \
    pthread_rwlock_t *CLEANUP_PASTE(guard_, n) __attribute__((unused)) CLEANUP(cleanup_rwunlock) = \
        locked

/* Takes ownership out of a CLEANUP_* variable. */
#define STEAL(p)                                                                                   \
    ({                                                                                             \
        __typeof__(p) stolen_ = (p);                                                               \
        (p) = NULL;                                                                                \
        stolen_;                                                                                   \
    })

#endif
