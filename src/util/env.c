#include "util/env.h"

#include <sys/random.h>
#include <time.h>

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t wall_now(struct env *e)
{
    return clock_ns(CLOCK_REALTIME);
}

static uint64_t mono_now(struct env *e)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t system_random(struct env *e)
{
    uint64_t v;

    /* Requests of up to 256 bytes are never cut short once the kernel's generator is ready; only
     * the wait before that can be interrupted. */
    while (getrandom(&v, sizeof v, 0) != sizeof v)
        ;
    return v;
}

/* splitmix64 (Steele, Lea, Flood 2014): a counter and a mixing function, so that threads need no
 * lock, only an atomic addition. */
static uint64_t seeded_random(struct env *e)
{
    const uint64_t step = 0x9e3779b97f4a7c15ull;
    uint64_t z = __atomic_add_fetch(&e->state, step, __ATOMIC_RELAXED);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

void env_init_system(struct env *e)
{
    *e = (struct env){.random = system_random, .now_ns = wall_now, .mono_ns = mono_now};
}

void env_init_seeded(struct env *e, uint64_t seed)
{
    *e = (struct env){
        .random = seeded_random, .now_ns = wall_now, .mono_ns = mono_now, .state = seed};
}
