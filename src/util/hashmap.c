#include "util/hashmap.h"

#include <errno.h>
#include <stdlib.h>

#include "util/bytes.h"

#define SLOTS_MIN 16

static struct hashmap_node **slot_of(const struct hashmap *m, uint64_t hash)
{
    return &m->slots[hash & m->mask];
}

int hashmap_init(struct hashmap *m, size_t expected)
{
    size_t n = SLOTS_MIN;

    while (n < expected)
        n *= 2;
    m->slots = calloc(n, sizeof(*m->slots));
    m->mask = n - 1;
    m->count = 0;
    return m->slots ? 0 : -ENOMEM;
}

void hashmap_destroy(struct hashmap *m)
{
    free(m->slots);
    *m = (struct hashmap){0};
}

static void grow(struct hashmap *m)
{
    struct hashmap bigger;

    if (hashmap_init(&bigger, (m->mask + 1) * 2) < 0)
        return;
    for (size_t i = 0; i <= m->mask; i++) {
        struct hashmap_node *n = m->slots[i];
        while (n) {
            struct hashmap_node *next = n->next;
            struct hashmap_node **slot = slot_of(&bigger, n->hash);
            n->next = *slot;
            *slot = n;
            n = next;
        }
    }
    free(m->slots);
    m->slots = bigger.slots;
    m->mask = bigger.mask;
}

void hashmap_insert(struct hashmap *m, struct hashmap_node *n, uint64_t hash)
{
    struct hashmap_node **slot;

    if (m->count > m->mask)
        grow(m);
    slot = slot_of(m, hash);
    n->hash = hash;
    n->next = *slot;
    *slot = n;
    m->count++;
}

void hashmap_remove(struct hashmap *m, struct hashmap_node *n)
{
    struct hashmap_node **p = slot_of(m, n->hash);

    while (*p != n)
        p = &(*p)->next;
    *p = n->next;
    n->next = NULL;
    m->count--;
}

static struct hashmap_node *skip_to(struct hashmap_node *n, uint64_t hash)
{
    while (n && n->hash != hash)
        n = n->next;
    return n;
}

struct hashmap_node *hashmap_first(const struct hashmap *m, uint64_t hash)
{
    return skip_to(*slot_of(m, hash), hash);
}

struct hashmap_node *hashmap_next(const struct hashmap_node *n)
{
    return skip_to(n->next, n->hash);
}

/* Both halves of the 128-bit product: every input bit reaches every output bit. */
static uint64_t fold_multiply(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed)
{
    const uint64_t k1 = 0x9e3779b97f4a7c15ull, k2 = 0xd6e8feb86659fd93ull;
    const unsigned char *p = data;
    uint64_t h = seed ^ k1 ^ fold_multiply(n ^ k2, k1);
    unsigned char tail[16] = {0};

    for (; n >= 16; p += 16, n -= 16)
        h = fold_multiply(get_le64(p) ^ h ^ k1, get_le64(p + 8) ^ k2) ^ (h >> 17);
    if (n > 0)
        memcpy(tail, p, n);
    h = fold_multiply(get_le64(tail) ^ h ^ k1, get_le64(tail + 8) ^ k2) ^ (h >> 17);
    return hash_u64(h);
}
