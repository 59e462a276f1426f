/*
 * Block pointers (spec 02 1-3, 03 1): 128 bytes, sixteen 64-bit words, kept in host order in memory.
 * Everything that knows which bit means what is here.
 */
#ifndef POOL_BLKPTR_H
#define POOL_BLKPTR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "util/bytes.h"

#define BLKPTR_SIZE    128
#define BLKPTR_DVAS    3
#define BLOCK_MIN_SHIFT 9
#define BLOCK_MIN_SIZE (1u << BLOCK_MIN_SHIFT)
#define BLOCK_OLD_MAX  (1u << 17) /* above it a dataset needs the large_blocks feature */
#define BLOCK_MAX_SIZE (1u << 24)
#define BLKPTR_EMBEDDED_MAX 112   /* payload bytes */

struct blkptr {
    uint64_t w[16];
};

static inline uint64_t bits_get(uint64_t w, int low, int n)
{
    return (w >> low) & ((n == 64) ? ~0ull : (1ull << n) - 1);
}
static inline void bits_set(uint64_t *w, int low, int n, uint64_t v)
{
    uint64_t mask = ((1ull << n) - 1) << low;
    *w = (*w & ~mask) | ((v << low) & mask);
}

/* DVAs. Sizes and offsets are bytes. */
static inline uint64_t dva_asize(const struct blkptr *bp, int i)
{
    return bits_get(bp->w[2 * i], 0, 24) << 9;
}
static inline uint64_t dva_vdev(const struct blkptr *bp, int i)
{
    return bits_get(bp->w[2 * i], 32, 24);
}
static inline uint64_t dva_offset(const struct blkptr *bp, int i)
{
    return bits_get(bp->w[2 * i + 1], 0, 63) << 9;
}
static inline bool dva_gang(const struct blkptr *bp, int i)
{
    return bits_get(bp->w[2 * i + 1], 63, 1);
}
static inline void dva_set(struct blkptr *bp, int i, uint64_t vdev, uint64_t offset, uint64_t asize,
                           bool gang)
{
    bp->w[2 * i] = (asize >> 9) | vdev << 32;
    bp->w[2 * i + 1] = (offset >> 9) | (uint64_t)gang << 63;
}
static inline bool dva_empty(const struct blkptr *bp, int i)
{
    return bp->w[2 * i] == 0 && bp->w[2 * i + 1] == 0;
}

/* Properties (word 6). */
static inline bool bp_embedded(const struct blkptr *bp) { return bits_get(bp->w[6], 39, 1); }
static inline unsigned bp_compress(const struct blkptr *bp) { return bits_get(bp->w[6], 32, 7); }
static inline unsigned bp_checksum(const struct blkptr *bp) { return bits_get(bp->w[6], 40, 8); }
static inline unsigned bp_embedded_type(const struct blkptr *bp) { return bp_checksum(bp); }
static inline unsigned bp_type(const struct blkptr *bp) { return bits_get(bp->w[6], 48, 8); }
static inline unsigned bp_level(const struct blkptr *bp) { return bits_get(bp->w[6], 56, 5); }
static inline bool bp_crypt(const struct blkptr *bp) { return bits_get(bp->w[6], 61, 1); }
static inline bool bp_dedup(const struct blkptr *bp) { return bits_get(bp->w[6], 62, 1); }
static inline bool bp_big_endian(const struct blkptr *bp) { return !bits_get(bp->w[6], 63, 1); }
static inline bool bp_rewritten(const struct blkptr *bp) { return bits_get(bp->w[7], 63, 1); }

static inline bool bp_hole(const struct blkptr *bp)
{
    return !bp_embedded(bp) && dva_empty(bp, 0);
}
static inline bool bp_redacted(const struct blkptr *bp)
{
    return bp_embedded(bp) && bp_embedded_type(bp) == 2;
}
static inline bool bp_gang(const struct blkptr *bp)
{
    return !bp_embedded(bp) && dva_gang(bp, 0);
}
static inline bool bp_encrypted(const struct blkptr *bp); /* X=1 level 0 of an encrypted type */

static inline uint64_t bp_lsize(const struct blkptr *bp)
{
    if (bp_embedded(bp))
        return bp_redacted(bp) ? 0 : bits_get(bp->w[6], 0, 25) + 1;
    return (bits_get(bp->w[6], 0, 16) + 1) << 9;
}
/* Compressed bytes; of an embedded pointer the payload. */
static inline uint64_t bp_psize(const struct blkptr *bp)
{
    if (bp_embedded(bp))
        return bits_get(bp->w[6], 25, 7) + 1;
    return (bits_get(bp->w[6], 16, 16) + 1) << 9;
}
static inline uint64_t bp_birth(const struct blkptr *bp) { return bp->w[10]; } /* logical */
static inline uint64_t bp_phys_birth(const struct blkptr *bp)
{
    return bp_embedded(bp) ? 0 : bp->w[9] ? bp->w[9] : bp->w[10];
}
/* The birth that decides who owns the space: 04 B(bp). */
static inline uint64_t bp_alloc_birth(const struct blkptr *bp)
{
    return bp_rewritten(bp) && !bp_embedded(bp) ? bp_phys_birth(bp) : bp_birth(bp);
}
/* The stored fill; embedded pointers count 1, holes 0. */
static inline uint64_t bp_fill(const struct blkptr *bp)
{
    if (bp_embedded(bp))
        return 1;
    return bp_crypt(bp) && bp_encrypted(bp) ? bp->w[11] & 0xffffffff : bp->w[11];
}

/* Types whose level-0 blocks an encrypted dataset encrypts (02 4, 03 3). */
static inline bool object_type_encrypted(unsigned t)
{
    static const uint64_t old = 1ull << 9 | 1ull << 10 | 1ull << 18 | 1ull << 19 | 1ull << 20 |
                                1ull << 22 | 1ull << 23 | 1ull << 25 | 1ull << 26 | 1ull << 33 |
                                1ull << 34 | 1ull << 35 | 1ull << 39 | 1ull << 40 | 1ull << 44 |
                                1ull << 45 | 1ull << 46 | 1ull << 47 | 1ull << 49;
    return t & 0x80 ? (t & 0x20) != 0 : t < 54 && (old >> t & 1);
}
static inline bool bp_encrypted(const struct blkptr *bp)
{
    return bp_level(bp) == 0 && object_type_encrypted(bp_type(bp));
}
/* Metadata by type (03 3.1); level > 0 and spill blocks are metadata too. */
static inline bool object_type_metadata(unsigned t)
{
    return t & 0x80 ? (t & 0x40) != 0 : t != 19 && t != 23 && t != 25 && t != 26 && t != 49;
}
static inline bool bp_metadata(const struct blkptr *bp)
{
    return bp_level(bp) > 0 || object_type_metadata(bp_type(bp));
}

/* Number of DVAs that are space (an encrypted block's third holds salt and IV). */
static inline int bp_copies(const struct blkptr *bp)
{
    if (bp_embedded(bp))
        return 0;
    int max = bp_crypt(bp) && bp_encrypted(bp) ? 2 : BLKPTR_DVAS, n = 0;
    while (n < max && dva_asize(bp, n) != 0)
        n++;
    return n;
}
static inline bool bp_same_place(const struct blkptr *a, const struct blkptr *b)
{
    return !bp_embedded(a) && !bp_embedded(b) && a->w[0] == b->w[0] && a->w[1] == b->w[1];
}

static inline void bp_zero(struct blkptr *bp) { memset(bp, 0, sizeof *bp); }
/* A hole; birth 0 gives the all-zero pointer (02 3.1). */
static inline void bp_set_hole(struct blkptr *bp, unsigned type, unsigned level, uint64_t lsize,
                               uint64_t birth)
{
    bp_zero(bp);
    if (birth != 0) {
        bits_set(&bp->w[6], 0, 16, (lsize >> 9) - 1);
        bits_set(&bp->w[6], 48, 8, type);
        bits_set(&bp->w[6], 56, 5, level);
        bp->w[10] = birth;
    }
}

/* To and from disk bytes; big says the byte order of the block that contains the pointer. */
static inline void bp_decode(struct blkptr *bp, const void *bytes, bool big)
{
    for (int i = 0; i < 16; i++)
        bp->w[i] = get_u64((const unsigned char *)bytes + 8 * i, big);
}
static inline void bp_encode(const struct blkptr *bp, void *bytes)
{
    memcpy(bytes, bp->w, BLKPTR_SIZE); /* host order */
}

/* P and U of spec 04: what a block counts as compressed and uncompressed. */
static inline uint64_t bp_count_psize(const struct blkptr *bp)
{
    return bp_embedded(bp) || bp_hole(bp) ? 0 : bp_psize(bp);
}
static inline uint64_t bp_count_lsize(const struct blkptr *bp)
{
    if (bp_hole(bp))
        return 0;
    return bp_metadata(bp) ? bp_count_psize(bp) : bp_lsize(bp);
}

/* 0 if the pointer obeys 02 3.6 (vdev ranges are checked by the reader), else -EBADE with a sentence. */
int bp_check(const struct blkptr *bp);
/* zdb-like text for messages; returns buf. */
const char *bp_print(const struct blkptr *bp, char *buf, unsigned size);

#endif
