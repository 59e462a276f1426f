/*
 * Skein-512-256, version 1.3 (Ferguson and others, 2010), hashing in sequence: the chaining mode
 * UBI over the block cipher Threefish-512.
 */
#include <string.h>

#include "codec/hash_impl.h"
#include "util/bytes.h"

#define WORDS  8
#define BLOCK  64
#define ROUNDS 72

/* Kinds of UBI input, in bits 120 to 125 of the tweak. */
enum { KIND_KEY = 0, KIND_CONFIG = 4, KIND_MESSAGE = 48, KIND_OUTPUT = 63 };
#define TWEAK_FIRST  (1ull << 62)
#define TWEAK_FINAL  (1ull << 63)

#define ROT(x, n)    ((x) << (n) | (x) >> (64 - (n)))
#define MIX(a, b, r) (v[a] += v[b], v[b] = ROT(v[b], r) ^ v[a])

/* Four rounds. The permutation of words after each round is in the numbers of the next one; after
 * four they are back in their places. */
#define FOUR_ROUNDS(r00, r01, r02, r03, r10, r11, r12, r13, r20, r21, r22, r23, r30, r31, r32,     \
                    r33)                                                                           \
    do {                                                                                           \
        MIX(0, 1, r00), MIX(2, 3, r01), MIX(4, 5, r02), MIX(6, 7, r03);                            \
        MIX(2, 1, r10), MIX(4, 7, r11), MIX(6, 5, r12), MIX(0, 3, r13);                            \
        MIX(4, 1, r20), MIX(6, 3, r21), MIX(0, 5, r22), MIX(2, 7, r23);                            \
        MIX(6, 1, r30), MIX(0, 7, r31), MIX(2, 5, r32), MIX(4, 3, r33);                            \
    } while (0)

/* The sub-key of index s, added before rounds 4 s. */
static inline void add_key(uint64_t v[WORDS], const uint64_t key[WORDS + 1],
                           const uint64_t tweak[3], unsigned s)
{
#pragma GCC unroll 8
    for (unsigned i = 0; i < WORDS; i++)
        v[i] += key[(s + i) % (WORDS + 1)];
    v[5] += tweak[s % 3];
    v[6] += tweak[(s + 1) % 3];
    v[7] += s;
}

/* Enciphers the block under the chaining value and adds it to the result: the new chaining value.
 */
static void chain_block(uint64_t chain[WORDS], const uint64_t tweak_words[2], const uint8_t *block)
{
    const uint64_t tweak[3] = {tweak_words[0], tweak_words[1], tweak_words[0] ^ tweak_words[1]};
    uint64_t key[WORDS + 1], m[WORDS], v[WORDS];

    key[WORDS] = 0x1bd11bdaa9fc1a22ull;
    for (int i = 0; i < WORDS; i++) {
        key[i] = chain[i];
        key[WORDS] ^= chain[i];
        v[i] = m[i] = get_le64(block + 8 * i);
    }
#pragma GCC unroll 9 /* so that the sub-keys' indices are constants */
    for (unsigned s = 0; s < ROUNDS / 4; s += 2) {
        add_key(v, key, tweak, s);
        FOUR_ROUNDS(46, 36, 19, 37, 33, 27, 14, 42, 17, 49, 36, 39, 44, 9, 54, 56);
        add_key(v, key, tweak, s + 1);
        FOUR_ROUNDS(39, 30, 34, 24, 13, 50, 10, 17, 25, 29, 39, 43, 8, 35, 56, 22);
    }
    add_key(v, key, tweak, ROUNDS / 4);
    for (int i = 0; i < WORDS; i++)
        chain[i] = v[i] ^ m[i];
}

static void ubi(uint64_t chain[WORDS], unsigned kind, const uint8_t *data, size_t n)
{
    uint64_t tweak[2] = {0, (uint64_t)kind << 56 | TWEAK_FIRST};
    uint8_t last[BLOCK] = {0};

    for (; n > BLOCK; data += BLOCK, n -= BLOCK) {
        tweak[0] += BLOCK;
        chain_block(chain, tweak, data);
        tweak[1] &= ~TWEAK_FIRST;
    }
    if (n > 0)
        memcpy(last, data, n);
    tweak[0] += n;
    tweak[1] |= TWEAK_FINAL;
    chain_block(chain, tweak, last);
}

void hash_skein512_256(const uint8_t *key, size_t key_len, const void *data, size_t n,
                       uint8_t digest[32])
{
    /* "SHA3", version 1, 256 bits of output, no tree. */
    static const uint8_t config[32] = {'S', 'H', 'A', '3', 1, 0, 0, 0, 0, 1};
    static const uint8_t counter[8];
    uint64_t chain[WORDS] = {0};

    if (key_len > 0)
        ubi(chain, KIND_KEY, key, key_len);
    ubi(chain, KIND_CONFIG, config, sizeof config);
    ubi(chain, KIND_MESSAGE, data, n);
    ubi(chain, KIND_OUTPUT, counter, sizeof counter);
    for (int i = 0; i < 4; i++)
        put_le64(digest + 8 * i, chain[i]);
}
