/*
 * LZJB (02 6.4): a control byte says of each of the next eight items whether it is a literal byte
 * or two bytes with a match: six bits of length, ten of distance.
 */
#include <errno.h>
#include <string.h>

#include "codec/compress_impl.h"

#define MATCH_MIN  3
#define MATCH_MAX  66
#define WINDOW     1024
#define GROUP_SIZE 17 /* the control byte and eight matches */

/* The distance to an earlier place with the same first three bytes, 0 if there is none. */
static size_t find_match(const uint8_t *src, size_t pos, uint16_t table[WINDOW])
{
    uint32_t h = (uint32_t)src[pos] << 16 | (uint32_t)src[pos + 1] << 8 | src[pos + 2];
    size_t distance;

    h += h >> 9;
    h += h >> 5;
    h %= WINDOW;
    distance = (pos - table[h]) % WINDOW;
    table[h] = (uint16_t)pos;
    if (distance == 0 || distance > pos || memcmp(src + pos, src + pos - distance, MATCH_MIN) != 0)
        return 0;
    return distance;
}

int lzjb_encode(int level, const uint8_t *src, size_t n, uint8_t *dst, size_t cap, size_t *out)
{
    uint16_t table[WINDOW] = {0};
    size_t pos = 0, to = 0, control = 0;

    for (unsigned item = 0; pos < n; item = (item + 1) % 8) {
        size_t distance, len = MATCH_MIN;
        if (item == 0) {
            if (to + GROUP_SIZE >= cap)
                return -ENOSPC;
            control = to++;
            dst[control] = 0;
        }
        /* Near the end no match is tried, so that none can pass it. */
        distance = pos + MATCH_MAX > n ? 0 : find_match(src, pos, table);
        if (distance == 0) {
            dst[to++] = src[pos++];
            continue;
        }
        while (len < MATCH_MAX && src[pos + len] == src[pos + len - distance])
            len++;
        dst[control] |= (uint8_t)(1u << item);
        dst[to++] = (uint8_t)((len - MATCH_MIN) << 2 | distance >> 8);
        dst[to++] = (uint8_t)distance;
        pos += len;
    }
    *out = to;
    return 0;
}

int lzjb_decode(const uint8_t *src, size_t psize, uint8_t *dst, size_t n)
{
    size_t from = 0, to = 0;
    unsigned control = 0;

    for (unsigned item = 0; to < n; item = (item + 1) % 8) {
        if (item == 0) {
            if (from >= psize)
                return -EILSEQ;
            control = src[from++];
        }
        if (control >> item & 1) {
            size_t len, distance;
            if (psize - from < 2)
                return -EILSEQ;
            len = (size_t)(src[from] >> 2) + MATCH_MIN;
            distance = (size_t)(src[from] & 3) << 8 | src[from + 1];
            from += 2;
            if (distance == 0 || distance > to)
                return -EILSEQ;
            /* The last match may reach beyond the block's end; the rest is dropped. */
            for (; len > 0 && to < n; len--, to++)
                dst[to] = dst[to - distance];
        } else {
            if (from >= psize)
                return -EILSEQ;
            dst[to++] = src[from++];
        }
    }
    return 0;
}
