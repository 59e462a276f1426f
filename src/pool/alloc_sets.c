/* Small helpers of the allocator: sets made on demand, and bitmaps. */
#include <errno.h>
#include <stdlib.h>

#include "pool/alloc_impl.h"

int set_add(struct rangeset **set, uint64_t start, uint64_t end)
{
    if (!*set && !(*set = rangeset_new()))
        return -ENOMEM;
    return rangeset_add_exact(*set, start, end);
}

int set_remove(struct rangeset **set, uint64_t start, uint64_t end)
{
    return *set ? rangeset_remove_exact(*set, start, end) : -ENOENT;
}

void set_free(struct rangeset **set)
{
    rangeset_free(*set);
    *set = NULL;
}

int set_move(struct rangeset **dst, struct rangeset **src)
{
    int rc = 0;

    if (*dst && *src) {
        rc = rangeset_move(*dst, *src);
        if (rc == 0)
            set_free(src);
    } else if (*src) {
        *dst = *src;
        *src = NULL;
    }
    return rc;
}

uint64_t *bitmap_new(unsigned n)
{
    return calloc(n / 64 + 1, sizeof(uint64_t));
}

unsigned bitmap_next(const uint64_t *map, unsigned i, unsigned n)
{
    while (i < n) {
        uint64_t word = map[i / 64] >> i % 64;
        if (word)
            return i + (unsigned)__builtin_ctzll(word) < n ? i + (unsigned)__builtin_ctzll(word)
                                                           : n;
        i = (i / 64 + 1) * 64;
    }
    return n;
}
