/* BLAKE3 over several inputs at once, by width. */
#include "codec/blake3_impl.h"
#include "util/bytes.h"

/* Four lanes are what every processor has, SSE2 and NEON among them. */
#define LANES    4
#define FUNCTION blake3_four
#define TARGET
#include "codec/blake3_lanes_impl.h"

#if defined(__x86_64__)

bool blake3_avx2_supported(void)
{
    return __builtin_cpu_supports("avx2");
}

#define LANES    8
#define FUNCTION blake3_avx2
#define TARGET   __attribute__((target("avx2")))
#include "codec/blake3_lanes_impl.h"

bool blake3_avx512_supported(void)
{
    return __builtin_cpu_supports("avx512f");
}

#define LANES    16
#define FUNCTION blake3_avx512
#define TARGET   __attribute__((target("avx512f")))
#include "codec/blake3_lanes_impl.h"

#endif
