/* Variants of fletcher-4. Each computes from zero over n bytes, a multiple of FLETCHER4_STRIDE. */
#ifndef CODEC_FLETCHER_IMPL_H
#define CODEC_FLETCHER_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLETCHER4_STRIDE 64

struct fletcher4_variant {
    const char *name;
    bool (*supported)(void); /* NULL: always */
    void (*run)(const unsigned char *p, size_t n, bool swap, uint64_t out[4]);
};

/* Fastest first; the last is the scalar one. */
extern const struct fletcher4_variant fletcher4_variants[];
extern const size_t fletcher4_variant_count;

#if defined(__x86_64__)
bool fletcher4_avx2_supported(void);
void fletcher4_avx2(const unsigned char *p, size_t n, bool swap, uint64_t out[4]);
bool fletcher4_avx512_supported(void);
void fletcher4_avx512(const unsigned char *p, size_t n, bool swap, uint64_t out[4]);
#elif defined(__aarch64__)
void fletcher4_neon(const unsigned char *p, size_t n, bool swap, uint64_t out[4]);
#endif

/* The sums of k interleaved lanes (lane j saw words j, j+k, j+2k, ...) as those of the whole.
 * lanes[0..3] are a, b, c, d with k words each. */
void fletcher4_join_lanes(const uint64_t *const lanes[4], unsigned k, uint64_t out[4]);

void fletcher2(const void *data, size_t n, bool big, uint64_t out[4]);

#endif
