/* Fletcher-4 with four (AVX2) and eight (AVX-512) lanes of 64 bits. */
#include "codec/fletcher_impl.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define REVERSE_WORDS 12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3

bool fletcher4_avx2_supported(void)
{
    return __builtin_cpu_supports("avx2");
}

__attribute__((target("avx2"))) static inline __m256i load4(const unsigned char *p, bool swap)
{
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);

    if (swap)
        v = _mm_shuffle_epi8(v, _mm_set_epi8(REVERSE_WORDS));
    return _mm256_cvtepu32_epi64(v);
}

__attribute__((target("avx2"))) void fletcher4_avx2(const unsigned char *p, size_t n, bool swap,
                                                    uint64_t out[4])
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    uint64_t lanes[4][4];
    const uint64_t *const rows[4] = {lanes[0], lanes[1], lanes[2], lanes[3]};

    for (const unsigned char *end = p + n; p < end; p += 16) {
        a = _mm256_add_epi64(a, load4(p, swap));
        b = _mm256_add_epi64(b, a);
        c = _mm256_add_epi64(c, b);
        d = _mm256_add_epi64(d, c);
    }
    _mm256_storeu_si256((__m256i *)(void *)lanes[0], a);
    _mm256_storeu_si256((__m256i *)(void *)lanes[1], b);
    _mm256_storeu_si256((__m256i *)(void *)lanes[2], c);
    _mm256_storeu_si256((__m256i *)(void *)lanes[3], d);
    fletcher4_join_lanes(rows, 4, out);
}

bool fletcher4_avx512_supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f");
}

__attribute__((target("avx512f,avx2"))) static inline __m512i load8(const unsigned char *p,
                                                                    bool swap)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);

    if (swap)
        v = _mm256_shuffle_epi8(v, _mm256_set_epi8(REVERSE_WORDS, REVERSE_WORDS));
    return _mm512_cvtepu32_epi64(v);
}

__attribute__((target("avx512f,avx2"))) void fletcher4_avx512(const unsigned char *p, size_t n,
                                                              bool swap, uint64_t out[4])
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    uint64_t lanes[4][8];
    const uint64_t *const rows[4] = {lanes[0], lanes[1], lanes[2], lanes[3]};

    for (const unsigned char *end = p + n; p < end; p += 32) {
        a = _mm512_add_epi64(a, load8(p, swap));
        b = _mm512_add_epi64(b, a);
        c = _mm512_add_epi64(c, b);
        d = _mm512_add_epi64(d, c);
    }
    _mm512_storeu_si512(lanes[0], a);
    _mm512_storeu_si512(lanes[1], b);
    _mm512_storeu_si512(lanes[2], c);
    _mm512_storeu_si512(lanes[3], d);
    fletcher4_join_lanes(rows, 8, out);
}

#endif
