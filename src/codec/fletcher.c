/*
 * Fletcher-4 is a chain of four running sums, a += word; b += a; c += b; d += c, so one word waits
 * for the one before. Vector variants run k independent chains over every k-th word and join them
 * at the end. A word at distance M from the end (1 for the last) counts C(M,1) times in b, C(M+1,2)
 * in c and C(M+2,3) in d; in its lane, at distance m, it counted with the same binomials of m, and
 * M = k m - j. Expanding the former in terms of the latter gives the factors below.
 */
#include <stdatomic.h>
#include <string.h>

#include "codec/checksum.h"
#include "codec/fletcher_impl.h"
#include "util/bytes.h"

static void scalar_more(const unsigned char *p, size_t n, bool swap, uint64_t s[4])
{
    uint64_t a = s[0], b = s[1], c = s[2], d = s[3];

    for (const unsigned char *end = p + n; p < end; p += 4) {
        uint32_t word;
        memcpy(&word, p, sizeof word);
        a += swap ? __builtin_bswap32(word) : word;
        b += a;
        c += b;
        d += c;
    }
    s[0] = a, s[1] = b, s[2] = c, s[3] = d;
}

static void scalar(const unsigned char *p, size_t n, bool swap, uint64_t out[4])
{
    memset(out, 0, 4 * sizeof *out);
    scalar_more(p, n, swap, out);
}

void fletcher4_join_lanes(const uint64_t *const lanes[4], unsigned k, uint64_t out[4])
{
    int64_t q = k;

    memset(out, 0, 4 * sizeof *out);
    for (unsigned lane = 0; lane < k; lane++) {
        int64_t j = lane;
        uint64_t a = lanes[0][lane], b = lanes[1][lane], c = lanes[2][lane], d = lanes[3][lane];
        uint64_t ca = (uint64_t)(j * (j - 1) / 2);
        uint64_t cb = (uint64_t)((q - q * q - 2 * q * j) / 2);
        uint64_t da = (uint64_t)(-j * (j - 1) * (j - 2) / 6);
        uint64_t db =
            (uint64_t)((q * q * q - 3 * q * q * (1 - j) + 3 * q * j * j - 6 * q * j + 2 * q) / 6);
        uint64_t dc = (uint64_t)(-q * q * q + q * q * (1 - j));
        out[0] += a;
        out[1] += k * b - lane * a;
        out[2] += (uint64_t)(q * q) * c + cb * b + ca * a;
        out[3] += (uint64_t)(q * q * q) * d + dc * c + db * b + da * a;
    }
}

const struct fletcher4_variant fletcher4_variants[] = {
#if defined(__x86_64__)
    {"avx512", fletcher4_avx512_supported, fletcher4_avx512},
    {"avx2", fletcher4_avx2_supported, fletcher4_avx2},
#elif defined(__aarch64__)
    {"neon", NULL, fletcher4_neon},
#endif
    {"scalar", NULL, scalar},
};
const size_t fletcher4_variant_count = ARRAY_LEN(fletcher4_variants);

static const struct fletcher4_variant *choose(void)
{
    static const struct fletcher4_variant *_Atomic chosen;
    const struct fletcher4_variant *v = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (v)
        return v;
    v = fletcher4_variants;
    while (v->supported && !v->supported())
        v++;
    /* Threads that come here together choose the same one. */
    atomic_store_explicit(&chosen, v, memory_order_relaxed);
    return v;
}

/* s becomes the sums of what it stood for followed by words whose own sums are piece. */
static void append(uint64_t s[4], const uint64_t piece[4], size_t words)
{
    unsigned __int128 n = words;
    uint64_t c1 = (uint64_t)n, c2 = (uint64_t)(n * (n + 1) / 2);
    /* Divided before the last product, which could pass 128 bits only beyond 2^42 words. */
    uint64_t c3 = (uint64_t)(n * (n + 1) / 2 * (n + 2) / 3);

    s[3] += piece[3] + c1 * s[2] + c2 * s[1] + c3 * s[0];
    s[2] += piece[2] + c1 * s[1] + c2 * s[0];
    s[1] += piece[1] + c1 * s[0];
    s[0] += piece[0];
}

void fletcher4_update(const void *data, size_t n, bool big, uint64_t sums[4])
{
    const unsigned char *p = data;
    bool swap = big != BYTES_HOST_BIG;
    size_t body = P2_ROUND_DOWN(n, (size_t)FLETCHER4_STRIDE);
    uint64_t piece[4];

    if (body > 0) {
        choose()->run(p, body, swap, piece);
        append(sums, piece, body / 4);
    }
    scalar_more(p + body, P2_ROUND_DOWN(n - body, (size_t)4), swap, sums);
}

void fletcher4(const void *data, size_t n, bool big, uint64_t out[4])
{
    memset(out, 0, 4 * sizeof *out);
    fletcher4_update(data, n, big, out);
}

const char *fletcher4_implementation(void)
{
    return choose()->name;
}

void fletcher2(const void *data, size_t n, bool big, uint64_t out[4])
{
    const unsigned char *p = data;
    uint64_t a0 = 0, a1 = 0, b0 = 0, b1 = 0;

    for (const unsigned char *end = p + P2_ROUND_DOWN(n, (size_t)16); p < end; p += 16) {
        a0 += get_u64(p, big);
        a1 += get_u64(p + 8, big);
        b0 += a0;
        b1 += a1;
    }
    out[0] = a0, out[1] = a1, out[2] = b0, out[3] = b1;
}
