/* LZ4: a big-endian length, then a plain LZ4 block (02 6.6). */
#include <errno.h>
#include <limits.h>
#include <lz4.h>

#include "codec/compress_impl.h"
#include "util/bytes.h"

#define PREFIX 4

int lz4_encode(int level, const uint8_t *src, size_t n, uint8_t *dst, size_t cap, size_t *out)
{
    /* The library would otherwise take its 16 KiB of state from the heap or the stack. */
    static _Thread_local LZ4_stream_t state;
    int len;

    if (n > LZ4_MAX_INPUT_SIZE || cap <= PREFIX)
        return -ENOSPC;
    len = LZ4_compress_fast_extState(&state, (const char *)src, (char *)dst + PREFIX, (int)n,
                                     (int)MIN(cap - PREFIX, (size_t)INT_MAX), 1);
    if (len <= 0)
        return -ENOSPC;
    put_be32(dst, (uint32_t)len);
    *out = (size_t)len + PREFIX;
    return 0;
}

int lz4_decode(const uint8_t *src, size_t psize, uint8_t *dst, size_t n)
{
    uint32_t len;

    if (psize < PREFIX || n > INT_MAX)
        return -EILSEQ;
    len = get_be32(src);
    if (len > psize - PREFIX || len > INT_MAX)
        return -EILSEQ;
    if (LZ4_decompress_safe((const char *)src + PREFIX, (char *)dst, (int)len, (int)n) != (int)n)
        return -EILSEQ;
    return 0;
}
