/* Starting threads the way this program wants them. */
#ifndef UTIL_THREADS_H
#define UTIL_THREADS_H

#include <pthread.h>

/* Starts a thread with all signals blocked (the main thread handles them) under a name of at most
 * 15 characters. 0 or a negative errno. */
int thread_start(pthread_t *t, const char *name, void *(*fn)(void *arg), void *arg);

/* Processors this process may run on, at least 1. */
unsigned thread_cpu_count(void);

#endif
