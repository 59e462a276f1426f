/*
 * BLAKE3 (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2020). The input is divided into chunks of
 * 1 KiB, the leaves of a binary tree in which every left subtree is complete; the result is the
 * root. Chunks, and the nodes of one level, do not depend on each other, so many are hashed at
 * once.
 *
 * The tree is built with a stack of chaining values of complete subtrees, like a binary counter of
 * the chunks so far: before a value is pushed, neighbours of equal size are merged. Nothing is
 * merged after the last push before it is known to be the last, because the root's merge is marked.
 */
#include <string.h>

#include "codec/blake3_impl.h"
#include "codec/hash_impl.h"
#include "util/bytes.h"

#define SUBTREE   32 /* chunks that are reduced to one value by whole levels */
#define STACK_MAX 55

struct hasher {
    uint32_t key[8];
    unsigned flags;
    size_t first_variant;
    uint64_t chunks; /* in the subtrees on the stack */
    unsigned depth;
    uint8_t stack[STACK_MAX][BLAKE3_CV];
};

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

/* One block of len bytes (zeros behind them) into the chaining value. */
static void compress(uint32_t h[8], const uint8_t block[BLAKE3_BLOCK], uint64_t counter,
                     uint32_t len, uint32_t flags)
{
    uint32_t m[16], v[16];

    for (int i = 0; i < 16; i++)
        m[i] = get_le32(block + 4 * i);
    memcpy(v, h, 32);
    memcpy(v + 8, blake3_iv, 16);
    v[12] = (uint32_t)counter;
    v[13] = (uint32_t)(counter >> 32);
    v[14] = len;
    v[15] = flags;
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
    for (int i = 0; i < 8; i++)
        h[i] = v[i] ^ v[8 + i];
}

static void store(const uint32_t h[8], uint8_t out[BLAKE3_CV])
{
    for (int i = 0; i < 8; i++)
        put_le32(out + 4 * i, h[i]);
}

/* A chunk of any length, even none; more: BLAKE3_ROOT if it is the only one, else 0. */
static void hash_chunk(const struct hasher *b, const uint8_t *data, size_t n, uint64_t counter,
                       unsigned more, uint8_t out[BLAKE3_CV])
{
    unsigned start = BLAKE3_CHUNK_START;
    uint8_t last[BLAKE3_BLOCK] = {0};
    uint32_t h[8];

    memcpy(h, b->key, sizeof h);
    for (; n > BLAKE3_BLOCK; data += BLAKE3_BLOCK, n -= BLAKE3_BLOCK, start = 0)
        compress(h, data, counter, BLAKE3_BLOCK, b->flags | start);
    if (n > 0)
        memcpy(last, data, n);
    compress(h, last, counter, (uint32_t)n, b->flags | start | BLAKE3_CHUNK_END | more);
    store(h, out);
}

static void one_lane(const struct blake3_batch *b, uint8_t *out)
{
    uint32_t h[8];

    memcpy(h, b->key, sizeof h);
    for (unsigned i = 0; i < b->blocks; i++)
        compress(h, b->data + (size_t)i * BLAKE3_BLOCK, b->counter, BLAKE3_BLOCK,
                 b->flags | (i == 0 ? b->first_flags : 0) |
                     (i + 1 == b->blocks ? b->last_flags : 0));
    store(h, out);
}

const struct blake3_variant blake3_variants[] = {
#if defined(__x86_64__)
    {"avx512", 16, blake3_avx512_supported, blake3_avx512},
    {"avx2", 8, blake3_avx2_supported, blake3_avx2},
#endif
    {"four", 4, NULL, blake3_four},
    {"one", 1, NULL, one_lane},
};
const size_t blake3_variant_count = ARRAY_LEN(blake3_variants);

/* count inputs, with the widest variant that still fits. */
static void run_batch(const struct hasher *h, struct blake3_batch b, size_t count, uint8_t *out)
{
    for (size_t i = h->first_variant; count > 0; i++) {
        const struct blake3_variant *v = &blake3_variants[i];
        if (count < v->lanes || (v->supported && !v->supported()))
            continue;
        for (; count >= v->lanes; count -= v->lanes) {
            v->run(&b, out);
            b.data += (size_t)v->lanes * b.blocks * BLAKE3_BLOCK;
            b.counter += (uint64_t)v->lanes * b.counter_step;
            out += v->lanes * BLAKE3_CV;
        }
    }
}

static void hash_chunks(const struct hasher *h, const uint8_t *data, uint64_t counter, size_t count,
                        uint8_t *out)
{
    struct blake3_batch b = {
        .key = h->key,
        .data = data,
        .blocks = BLAKE3_CHUNK / BLAKE3_BLOCK,
        .counter = counter,
        .counter_step = 1,
        .flags = h->flags,
        .first_flags = BLAKE3_CHUNK_START,
        .last_flags = BLAKE3_CHUNK_END,
    };

    run_batch(h, b, count, out);
}

/* Nodes above count pairs of chaining values. */
static void hash_parents(const struct hasher *h, const uint8_t *pairs, size_t count, unsigned more,
                         uint8_t *out)
{
    struct blake3_batch b = {
        .key = h->key, .data = pairs, .blocks = 1, .flags = h->flags | BLAKE3_PARENT | more};

    run_batch(h, b, count, out);
}

static void merge_top(struct hasher *h, unsigned more)
{
    h->depth--;
    hash_parents(h, h->stack[h->depth - 1], 1, more, h->stack[h->depth - 1]);
}

static void push(struct hasher *h, const uint8_t cv[BLAKE3_CV], uint64_t chunks)
{
    while (h->depth > (unsigned)__builtin_popcountll(h->chunks))
        merge_top(h, 0);
    memcpy(h->stack[h->depth++], cv, BLAKE3_CV);
    h->chunks += chunks;
}

static void push_subtree(struct hasher *h, const uint8_t *data)
{
    uint8_t level[SUBTREE * BLAKE3_CV], above[SUBTREE / 2 * BLAKE3_CV];

    hash_chunks(h, data, h->chunks, SUBTREE, level);
    for (size_t count = SUBTREE / 2; count > 0; count /= 2) {
        hash_parents(h, level, count, 0, above);
        memcpy(level, above, count * BLAKE3_CV);
    }
    push(h, level, SUBTREE);
}

static void init(struct hasher *h, size_t first_variant, const uint8_t *key)
{
    memset(h, 0, offsetof(struct hasher, stack));
    h->first_variant = first_variant;
    h->flags = key ? BLAKE3_KEYED : 0;
    for (int i = 0; i < 8; i++)
        h->key[i] = key ? get_le32(key + 4 * i) : blake3_iv[i];
}

void blake3_hash_with(size_t first, const uint8_t key[32], const void *data, size_t n,
                      uint8_t digest[32])
{
    const size_t subtree = SUBTREE * BLAKE3_CHUNK;
    uint8_t cvs[SUBTREE * BLAKE3_CV];
    const uint8_t *p = data;
    struct hasher h;
    size_t whole;

    init(&h, first, key);
    if (n <= BLAKE3_CHUNK) {
        hash_chunk(&h, p, n, 0, BLAKE3_ROOT, digest);
        return;
    }
    /* A subtree is reduced to one value only if it cannot be the whole tree. */
    for (; n > subtree || (n == subtree && h.chunks > 0); p += subtree, n -= subtree)
        push_subtree(&h, p);
    whole = n / BLAKE3_CHUNK;
    hash_chunks(&h, p, h.chunks, whole, cvs);
    for (size_t i = 0; i < whole; i++)
        push(&h, cvs + i * BLAKE3_CV, 1);
    if (n % BLAKE3_CHUNK > 0) {
        hash_chunk(&h, p + whole * BLAKE3_CHUNK, n % BLAKE3_CHUNK, h.chunks, 0, cvs);
        push(&h, cvs, 1);
    }
    while (h.depth > 2)
        merge_top(&h, 0);
    merge_top(&h, BLAKE3_ROOT);
    memcpy(digest, h.stack[0], BLAKE3_CV);
}

void hash_blake3(const uint8_t key[32], const void *data, size_t n, uint8_t digest[32])
{
    blake3_hash_with(0, key, data, n, digest);
}
