/*
 * A pool of CPU worker threads (one per core by default) for compression, hashing and parity, and
 * a parallel loop on top of it. A job must not wait for another job.
 */
#ifndef UTIL_WORKERS_H
#define UTIL_WORKERS_H

#include <stdbool.h>
#include <stddef.h>

struct workers;

int workers_new(struct workers **out, unsigned threads); /* 0 threads: one per core */
void workers_free(struct workers *w);                    /* waits for all jobs */
unsigned workers_count(const struct workers *w);

/* Runs fn(arg) some time in a worker. 0 or -ENOMEM. */
int workers_submit(struct workers *w, void (*fn)(void *arg), void *arg);

/* Calls fn(arg, i) for every i in 0..n-1, in any order, on the workers and the caller; returns when
 * all are done. The result is fn's non-zero result for the lowest i that has one, with its sentence
 * (util/err.h), or 0; after an error the remaining calls still happen. May be called from a job. w
 * may be NULL: all calls happen in the caller. */
int workers_each(struct workers *w, size_t n, int (*fn)(void *arg, size_t i), void *arg);

/* True in a thread of workers: there nothing may be waited for that takes another job. */
bool workers_inside(void);

#endif
