/*
 * A sorted sequence of pairs of numbers, ordered by a, then b: chunks of up to PAIRS_CHUNK pairs
 * below one array of chunk headers. Insertion and removal move at most a chunk (4 KiB), finding is
 * two binary searches, and a pair costs 16 bytes plus the slack in its chunk. It carries both
 * orders of a rangeset: by (start, end), and by (length, start).
 */
#ifndef UTIL_PAIRS_IMPL_H
#define UTIL_PAIRS_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAIRS_CHUNK 256

struct pair {
    uint64_t a, b;
};

struct pairs_chunk {
    struct pair first; /* a copy of pairs[0]: the upper search stays in the array of headers */
    uint64_t widest;   /* largest b - a of the chunk, where that means something */
    struct pair *pairs;
    uint16_t count; /* never 0 */
    uint16_t capacity;
};

struct pairs {
    struct pairs_chunk *chunks;
    size_t chunk_count, chunk_capacity;
    size_t count; /* pairs in all chunks */
};

/* A place in the sequence; chunk == chunk_count is the end, otherwise i < the chunk's count. */
struct pairs_pos {
    size_t chunk;
    unsigned i;
};

void pairs_clear(struct pairs *s);

/* The first pair that is not below (a, b). */
struct pairs_pos pairs_find(const struct pairs *s, uint64_t a, uint64_t b);

static inline bool pairs_end(const struct pairs *s, struct pairs_pos at)
{
    return at.chunk == s->chunk_count;
}

static inline struct pair pairs_at(const struct pairs *s, struct pairs_pos at)
{
    return s->chunks[at.chunk].pairs[at.i];
}

/* The next place; the one before, false at the beginning. */
struct pairs_pos pairs_after(const struct pairs *s, struct pairs_pos at);
bool pairs_before(const struct pairs *s, struct pairs_pos *at);

/* Puts p where it belongs; 0, or -ENOMEM and nothing has changed. */
int pairs_insert(struct pairs *s, struct pair p);

/* Replaces a pair by one with the same place in the order. */
void pairs_replace(struct pairs *s, struct pairs_pos at, struct pair p);

/* Removes the pair and gives the place of the one that followed it. */
struct pairs_pos pairs_erase(struct pairs *s, struct pairs_pos at);

/* Removes n pairs of at's chunk, from at on. */
struct pairs_pos pairs_erase_run(struct pairs *s, struct pairs_pos at, unsigned n);

#endif
