/* What the throughput programs share. */
#ifndef TESTS_BENCH_RATE_H
#define TESTS_BENCH_RATE_H

#include <stddef.h>
#include <time.h>

/* Seconds of the processor, so that other programs disturb less. */
static inline double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* fn handles so many bytes a call: the best of five tenths of a second. */
static inline double gigabytes_per_second(void (*fn)(void), size_t bytes)
{
    double best = 0;

    for (int round = 0; round < 5; round++) {
        double start = now(), took;
        size_t calls = 0;
        do {
            fn();
            calls++;
            took = now() - start;
        } while (took < 0.1);
        if ((double)calls * (double)bytes / took > best)
            best = (double)calls * (double)bytes / took;
    }
    return best / 1e9;
}

#endif
