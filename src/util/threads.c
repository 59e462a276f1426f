#include "util/threads.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

int thread_start(pthread_t *t, const char *name, void *(*fn)(void *arg), void *arg)
{
    sigset_t all, before;
    int rc;

    /* The new thread inherits the mask, so no signal can reach it in between. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(t, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_setname_np(*t, name);
    return -rc;
}

unsigned thread_cpu_count(void)
{
    cpu_set_t set;
    long n;

    /* Affinity rather than the machine's count: containers are often given fewer. */
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}
