/* Parity with byte shuffles (SSSE3, AVX2) and with the affine instruction (GFNI). */
#include "codec/raidz_impl.h"

#if defined(__x86_64__)

#include <immintrin.h>

/* A product is the sum of those of the low and the high four bits, each looked up by a shuffle. */
struct nibbles128 {
    __m128i low, high;
};

__attribute__((target("ssse3"))) static inline struct nibbles128
nibbles128_of(const struct raidz_tables *t, unsigned char factor)
{
    const __m128i *p = (const __m128i *)(const void *)t->nibble[factor];

    return (struct nibbles128){_mm_load_si128(p), _mm_load_si128(p + 1)};
}

__attribute__((target("ssse3"))) static inline __m128i nibbles128_times(__m128i x,
                                                                        struct nibbles128 t)
{
    const __m128i mask = _mm_set1_epi8(15);
    __m128i high = _mm_and_si128(_mm_srli_epi64(x, 4), mask);

    return _mm_xor_si128(_mm_shuffle_epi8(t.low, _mm_and_si128(x, mask)),
                         _mm_shuffle_epi8(t.high, high));
}

bool raidz_ssse3_supported(void)
{
    return __builtin_cpu_supports("ssse3");
}

#define LANES_FN(name) name##_ssse3
#define TARGET         __attribute__((target("ssse3")))
#define VEC            __m128i
#define VECS           2
#define LOAD(p)        _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STORE(p, v)    _mm_storeu_si128((__m128i *)(void *)(p), v)
#define XOR(a, b)      _mm_xor_si128(a, b)
#define ZERO           _mm_setzero_si128()
#define TABLE          struct nibbles128
#define TABLE_OF(t, f) nibbles128_of(t, f)
#define TIMES(x, t)    nibbles128_times(x, t)
#include "codec/raidz_lanes_impl.h"

struct nibbles256 {
    __m256i low, high;
};

__attribute__((target("avx2"))) static inline struct nibbles256
nibbles256_of(const struct raidz_tables *t, unsigned char factor)
{
    const __m128i *p = (const __m128i *)(const void *)t->nibble[factor];

    return (struct nibbles256){_mm256_broadcastsi128_si256(_mm_load_si128(p)),
                               _mm256_broadcastsi128_si256(_mm_load_si128(p + 1))};
}

__attribute__((target("avx2"))) static inline __m256i nibbles256_times(__m256i x,
                                                                       struct nibbles256 t)
{
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i high = _mm256_and_si256(_mm256_srli_epi64(x, 4), mask);

    return _mm256_xor_si256(_mm256_shuffle_epi8(t.low, _mm256_and_si256(x, mask)),
                            _mm256_shuffle_epi8(t.high, high));
}

bool raidz_avx2_supported(void)
{
    return __builtin_cpu_supports("avx2");
}

#define LANES_FN(name) name##_avx2
#define TARGET         __attribute__((target("avx2")))
#define VEC            __m256i
#define VECS           2
#define LOAD(p)        _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, v)    _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define XOR(a, b)      _mm256_xor_si256(a, b)
#define ZERO           _mm256_setzero_si256()
#define TABLE          struct nibbles256
#define TABLE_OF(t, f) nibbles256_of(t, f)
#define TIMES(x, t)    nibbles256_times(x, t)
#include "codec/raidz_lanes_impl.h"

bool raidz_gfni_supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("gfni");
}

#define LANES_FN(name) name##_gfni
#define TARGET         __attribute__((target("avx2,gfni")))
#define VEC            __m256i
#define VECS           2
#define LOAD(p)        _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, v)    _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define XOR(a, b)      _mm256_xor_si256(a, b)
#define ZERO           _mm256_setzero_si256()
#define TABLE          __m256i
#define TABLE_OF(t, f) _mm256_set1_epi64x((long long)(t)->matrix[f])
#define TIMES(x, m)    _mm256_gf2p8affine_epi64_epi8(x, m, 0)
#include "codec/raidz_lanes_impl.h"

bool raidz_gfni512_supported(void)
{
    return raidz_gfni_supported() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw");
}

#define LANES_FN(name) name##_gfni512
#define TARGET         __attribute__((target("avx512f,avx512bw,gfni")))
#define VEC            __m512i
#define VECS           4
#define LOAD(p)        _mm512_loadu_si512(p)
#define STORE(p, v)    _mm512_storeu_si512(p, v)
#define XOR(a, b)      _mm512_xor_si512(a, b)
#define ZERO           _mm512_setzero_si512()
#define TABLE          __m512i
#define TABLE_OF(t, f) _mm512_set1_epi64((long long)(t)->matrix[f])
#define TIMES(x, m)    _mm512_gf2p8affine_epi64_epi8(x, m, 0)
#include "codec/raidz_lanes_impl.h"

#endif
