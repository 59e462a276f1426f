/* What the parts of BLAKE3 share. */
#ifndef CODEC_BLAKE3_IMPL_H
#define CODEC_BLAKE3_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLAKE3_CHUNK 1024
#define BLAKE3_BLOCK 64
#define BLAKE3_CV    32 /* bytes of a chaining value, stored little-endian */

enum {
    BLAKE3_CHUNK_START = 1,
    BLAKE3_CHUNK_END = 2,
    BLAKE3_PARENT = 4,
    BLAKE3_ROOT = 8,
    BLAKE3_KEYED = 16
};

/* A batch of inputs of equal length that follow each other: whole chunks, or pairs of chaining
 * values. */
struct blake3_batch {
    const uint32_t *key;
    const uint8_t *data;
    unsigned blocks;       /* in each input */
    uint64_t counter;      /* of the first input */
    unsigned counter_step; /* 1 for chunks, 0 for parents */
    unsigned flags, first_flags, last_flags;
};

/* Hashes `lanes` inputs at once. */
struct blake3_variant {
    const char *name;
    unsigned lanes;
    bool (*supported)(void); /* NULL: always */
    void (*run)(const struct blake3_batch *b, uint8_t *out);
};

/* Widest first; the last has one lane. */
extern const struct blake3_variant blake3_variants[];
extern const size_t blake3_variant_count;

/* hash_blake3 with variants from the first-th on, for tests. */
void blake3_hash_with(size_t first, const uint8_t key[32], const void *data, size_t n,
                      uint8_t digest[32]);

static const uint32_t blake3_iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/* Which message words each round takes: every row is the one above it, permuted. */
static const uint8_t blake3_schedule[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

#if defined(__x86_64__)
bool blake3_avx2_supported(void);
bool blake3_avx512_supported(void);
void blake3_avx2(const struct blake3_batch *b, uint8_t *out);
void blake3_avx512(const struct blake3_batch *b, uint8_t *out);
#endif
void blake3_four(const struct blake3_batch *b, uint8_t *out);

#endif
