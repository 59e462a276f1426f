/* Randomness and time, injected so that tests repeat exactly. One struct per pool; its functions
 * may be called from any thread. */
#ifndef UTIL_ENV_H
#define UTIL_ENV_H

#include <stdint.h>

struct env {
    uint64_t (*random)(struct env *e);    /* any 64-bit number */
    uint64_t (*now_ns)(struct env *e);    /* wall clock, nanoseconds since 1970 */
    uint64_t (*mono_ns)(struct env *e);   /* monotonic clock */
    uint64_t state;                       /* of a seeded generator; atomic */
};

void env_init_system(struct env *e);               /* getrandom, clock_gettime */
void env_init_seeded(struct env *e, uint64_t seed); /* splitmix64 and the real clock */

#endif
