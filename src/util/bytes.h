/* Reading and writing integers of a given byte order at any address. */
#ifndef UTIL_BYTES_H
#define UTIL_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define BYTES_DEFINE(bits)                                                                         \
    static inline uint##bits##_t get_le##bits(const void *p)                                       \
    {                                                                                              \
        uint##bits##_t v;                                                                          \
        memcpy(&v, p, sizeof v);                                                                   \
        return le##bits##toh(v);                                                                   \
    }                                                                                              \
    static inline uint##bits##_t get_be##bits(const void *p)                                       \
    {                                                                                              \
        uint##bits##_t v;                                                                          \
        memcpy(&v, p, sizeof v);                                                                   \
        return be##bits##toh(v);                                                                   \
    }                                                                                              \
    static inline void put_le##bits(void *p, uint##bits##_t v)                                     \
    {                                                                                              \
        v = htole##bits(v);                                                                        \
        memcpy(p, &v, sizeof v);                                                                   \
    }                                                                                              \
    static inline void put_be##bits(void *p, uint##bits##_t v)                                     \
    {                                                                                              \
        v = htobe##bits(v);                                                                        \
        memcpy(p, &v, sizeof v);                                                                   \
    }                                                                                              \
    /* big says which byte order the bytes are in. */                                              \
    static inline uint##bits##_t get_u##bits(const void *p, int big)                               \
    {                                                                                              \
        return big ? get_be##bits(p) : get_le##bits(p);                                            \
    }                                                                                              \
    static inline void put_u##bits(void *p, uint##bits##_t v, int big)                             \
    {                                                                                              \
        if (big)                                                                                   \
            put_be##bits(p, v);                                                                    \
        else                                                                                       \
            put_le##bits(p, v);                                                                    \
    }

BYTES_DEFINE(16)
BYTES_DEFINE(32)
BYTES_DEFINE(64)
#undef BYTES_DEFINE

/* 1 on a big-endian host: what this host writes to disk. */
#define BYTES_HOST_BIG (__BYTE_ORDER == __BIG_ENDIAN)

#define ROUND_UP(x, to)   ((((x) + (to) - 1) / (to)) * (to))
#define ROUND_DOWN(x, to) (((x) / (to)) * (to))
#define P2_ROUND_UP(x, to)   (((x) + ((to) - 1)) & ~((__typeof__(x))(to) - 1)) /* to: power of two */
#define P2_ROUND_DOWN(x, to) ((x) & ~((__typeof__(x))(to) - 1))
#define ARRAY_LEN(a)      (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)         ((a) < (b) ? (a) : (b))
#define MAX(a, b)         ((a) > (b) ? (a) : (b))

static inline int is_pow2(uint64_t x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

/* 1-based position of the highest set bit; 0 for 0. */
static inline int high_bit(uint64_t x)
{
    return x ? 64 - __builtin_clzll(x) : 0;
}

#endif
