/* The sorted index of a microzap: at most 16383 words, so a binary search and a memmove beat trees.
 */
#include <errno.h>
#include <stdlib.h>

#include "dmu/zap_impl.h"

static uint64_t pack(uint64_t hash, uint32_t cd, uint32_t slot)
{
    return hash | (uint64_t)cd << 14 | slot;
}

int index_resize(struct zap_index *x, uint32_t slots)
{
    size_t words = (slots + 63) / 64, had = (x->slots + 63) / 64;
    uint64_t *used = realloc(x->used, words * 8);
    if (!used)
        return -ENOMEM;
    if (words > had)
        memset(used + had, 0, (words - had) * 8);
    used[0] |= 1;
    x->used = used;
    x->slots = slots;
    return 0;
}

int index_reserve(struct zap_index *x)
{
    if (x->count < x->capacity)
        return 0;
    uint32_t capacity = x->capacity ? 2 * x->capacity : 8;
    uint64_t *at = realloc(x->at, capacity * sizeof *at);
    if (!at)
        return -ENOMEM;
    x->at = at;
    x->capacity = capacity;
    return 0;
}

static void use_slot(struct zap_index *x, uint32_t slot)
{
    x->used[slot / 64] |= 1ull << (slot % 64);
    x->hint = slot;
}

void index_append(struct zap_index *x, uint64_t hash, uint32_t cd, uint32_t slot)
{
    x->at[x->count++] = pack(hash, cd, slot);
    use_slot(x, slot);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void index_sort(struct zap_index *x)
{
    if (x->count > 1)
        qsort(x->at, x->count, sizeof x->at[0], compare);
}

static uint32_t lower(const struct zap_index *x, uint64_t key)
{
    uint32_t lo = 0, n = x->count;
    while (n > 0) {
        uint32_t half = n / 2;
        if (x->at[lo + half] < key) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo;
}

uint32_t index_lower(const struct zap_index *x, uint64_t hash, uint32_t cd)
{
    if (cd > 0xffff) {
        if (hash >= zap_hash_mask(~0ull, 28))
            return x->count;
        return lower(x, index_hash(hash) + (1ull << 36));
    }
    return lower(x, pack(hash, cd, 0));
}

void index_insert(struct zap_index *x, uint64_t hash, uint32_t cd, uint32_t slot)
{
    uint64_t e = pack(hash, cd, slot);
    uint32_t i = lower(x, e);
    memmove(x->at + i + 1, x->at + i, (x->count - i) * sizeof x->at[0]);
    x->at[i] = e;
    x->count++;
    use_slot(x, slot);
}

void index_delete(struct zap_index *x, uint32_t position)
{
    uint32_t slot = index_slot(x->at[position]);
    x->count--;
    memmove(x->at + position, x->at + position + 1, (x->count - position) * sizeof x->at[0]);
    x->used[slot / 64] &= ~(1ull << (slot % 64));
    if (slot < x->hint)
        x->hint = slot;
}

uint32_t index_free_slot(struct zap_index *x)
{
    if (x->count + 1 >= x->slots)
        return 0;
    uint32_t words = (x->slots + 63) / 64, w = x->hint / 64;
    for (uint32_t i = 0; i < words; i++, w = w + 1 < words ? w + 1 : 0) {
        if (~x->used[w] == 0)
            continue;
        uint32_t slot = w * 64 + __builtin_ctzll(~x->used[w]);
        if (slot < x->slots)
            return slot;
    }
    return 0;
}

void index_clear(struct zap_index *x)
{
    free(x->at);
    free(x->used);
    *x = (struct zap_index){0};
}
