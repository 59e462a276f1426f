/*
 * The compression function of BLAKE3 over LANES inputs at once, one lane of a vector each. Included
 * once per width with LANES, FUNCTION and TARGET defined; no include guard therefore. The
 * compiler's generic vectors serve every processor.
 */
#define VECTOR_PASTE_(a, b) a##b
#define VECTOR_PASTE(a, b)  VECTOR_PASTE_(a, b)
#define VECTOR              VECTOR_PASTE(blake3_vector_, LANES)

typedef uint32_t VECTOR __attribute__((vector_size(4 * LANES)));

#define ROT(x, n) ((x) >> (n) | (x) << (32 - (n)))
#define G(a, b, c, d, x, y)                                                                        \
    do {                                                                                           \
        v[a] += v[b] + m[x];                                                                       \
        v[d] = ROT(v[d] ^ v[a], 16);                                                               \
        v[c] += v[d];                                                                              \
        v[b] = ROT(v[b] ^ v[c], 12);                                                               \
        v[a] += v[b] + m[y];                                                                       \
        v[d] = ROT(v[d] ^ v[a], 8);                                                                \
        v[c] += v[d];                                                                              \
        v[b] = ROT(v[b] ^ v[c], 7);                                                                \
    } while (0)

TARGET static inline __attribute__((always_inline)) void
VECTOR_PASTE(seven_rounds_, LANES)(VECTOR v[16], const VECTOR m[16])
{
#pragma GCC unroll 7
    for (int round = 0; round < 7; round++) {
        const uint8_t *s = blake3_schedule[round];
        G(0, 4, 8, 12, s[0], s[1]);
        G(1, 5, 9, 13, s[2], s[3]);
        G(2, 6, 10, 14, s[4], s[5]);
        G(3, 7, 11, 15, s[6], s[7]);
        G(0, 5, 10, 15, s[8], s[9]);
        G(1, 6, 11, 12, s[10], s[11]);
        G(2, 7, 8, 13, s[12], s[13]);
        G(3, 4, 9, 14, s[14], s[15]);
    }
}

/* One block of each input into the chaining values h; counter: low and high words. */
TARGET static inline __attribute__((always_inline)) void
VECTOR_PASTE(compress_, LANES)(VECTOR h[8], const uint8_t *p, size_t stride,
                               const VECTOR counter[2], uint32_t flags)
{
    VECTOR v[16], m[16];

    for (int i = 0; i < 16; i++) {
        for (unsigned lane = 0; lane < LANES; lane++)
            m[i][lane] = get_le32(p + lane * stride + 4 * i);
    }
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[8 + i] = (VECTOR){0} + blake3_iv[i];
    }
    v[12] = counter[0];
    v[13] = counter[1];
    v[14] = (VECTOR){0} + BLAKE3_BLOCK;
    v[15] = (VECTOR){0} + flags;
    VECTOR_PASTE(seven_rounds_, LANES)(v, m);
    for (int i = 0; i < 8; i++)
        h[i] = v[i] ^ v[8 + i];
}

TARGET void FUNCTION(const struct blake3_batch *b, uint8_t *out)
{
    VECTOR h[8], counter[2];

    for (int i = 0; i < 8; i++)
        h[i] = (VECTOR){0} + b->key[i];
    for (unsigned lane = 0; lane < LANES; lane++) {
        uint64_t c = b->counter + (uint64_t)lane * b->counter_step;
        counter[0][lane] = (uint32_t)c;
        counter[1][lane] = (uint32_t)(c >> 32);
    }
    for (unsigned block = 0; block < b->blocks; block++) {
        uint32_t flags = b->flags | (block == 0 ? b->first_flags : 0) |
                         (block + 1 == b->blocks ? b->last_flags : 0);
        VECTOR_PASTE(compress_, LANES)
        (h, b->data + (size_t)block * BLAKE3_BLOCK, (size_t)b->blocks * BLAKE3_BLOCK, counter,
         flags);
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        for (int i = 0; i < 8; i++)
            put_le32(out + lane * BLAKE3_CV + 4 * i, h[i][lane]);
    }
}

#undef ROT
#undef G
#undef VECTOR
#undef VECTOR_PASTE
#undef VECTOR_PASTE_
#undef LANES
#undef FUNCTION
#undef TARGET
