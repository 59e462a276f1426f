/*
 * An intrusive chained hash map from a 64-bit hash to nodes that the caller embeds and compares.
 * Grows by itself; growing can fail silently (the chains just get longer). Not locked.
 */
#ifndef UTIL_HASHMAP_H
#define UTIL_HASHMAP_H

#include <stddef.h>
#include <stdint.h>

struct hashmap_node {
    struct hashmap_node *next;
    uint64_t hash;
};

struct hashmap {
    struct hashmap_node **slots;
    size_t mask;  /* slots - 1 */
    size_t count;
};

int hashmap_init(struct hashmap *m, size_t expected); /* 0 or -ENOMEM */
void hashmap_destroy(struct hashmap *m);              /* nodes are the caller's */
void hashmap_insert(struct hashmap *m, struct hashmap_node *n, uint64_t hash);
void hashmap_remove(struct hashmap *m, struct hashmap_node *n);

/* First node with this hash, and the next one with the same hash; NULL at the end. */
struct hashmap_node *hashmap_first(const struct hashmap *m, uint64_t hash);
struct hashmap_node *hashmap_next(const struct hashmap_node *n);

/* A good 64-bit mix for integer keys. */
static inline uint64_t hash_u64(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    return x;
}

/* The same value in every process and on every host; no defence against chosen keys. */
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);

#define container_of(ptr, type, member)                                                            \
    ((type *)((char *)(ptr) - offsetof(type, member)))

#endif
