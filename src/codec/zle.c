/* ZLE (02 6.5): runs of zero bytes between runs of literal ones. */
#include <errno.h>
#include <string.h>

#include "codec/compress_impl.h"
#include "util/bytes.h"

#define LITERALS_MAX 64
#define ZEROS_MAX    (256 - LITERALS_MAX)

static size_t count_zeros(const uint8_t *src, size_t n)
{
    size_t i = 0;

    n = MIN(n, (size_t)ZEROS_MAX);
    while (i < n && src[i] == 0)
        i++;
    return i;
}

/* Bytes up to the next two zeros; a single zero is cheaper as a literal, except as the last. */
static size_t count_literals(const uint8_t *src, size_t n)
{
    size_t i = 0;

    n = MIN(n, (size_t)LITERALS_MAX);
    while (i + 1 < n && (src[i] != 0 || src[i + 1] != 0))
        i++;
    return src[i] != 0 ? i + 1 : i;
}

int zle_encode(int level, const uint8_t *src, size_t n, uint8_t *dst, size_t cap, size_t *out)
{
    size_t to = 0, count;

    for (size_t pos = 0; pos < n; pos += count) {
        if (to + 1 >= cap)
            return -ENOSPC;
        if (src[pos] == 0) {
            count = count_zeros(src + pos, n - pos);
            dst[to++] = (uint8_t)(LITERALS_MAX - 1 + count);
            continue;
        }
        count = count_literals(src + pos, n - pos);
        if (cap - to < LITERALS_MAX || cap - to < count + 1)
            return -ENOSPC;
        dst[to++] = (uint8_t)(count - 1);
        memcpy(dst + to, src + pos, count);
        to += count;
    }
    *out = to;
    return 0;
}

int zle_decode(const uint8_t *src, size_t psize, uint8_t *dst, size_t n)
{
    size_t from = 0, to = 0;

    while (to < n) {
        size_t count;
        if (from >= psize)
            return -EILSEQ;
        count = (size_t)src[from++] + 1;
        if (count <= LITERALS_MAX) {
            if (count > psize - from || count > n - to)
                return -EILSEQ;
            memcpy(dst + to, src + from, count);
            from += count;
        } else {
            count -= LITERALS_MAX;
            if (count > n - to)
                return -EILSEQ;
            memset(dst + to, 0, count);
        }
        to += count;
    }
    return 0;
}
