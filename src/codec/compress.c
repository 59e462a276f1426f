#include "codec/compress.h"

#include <errno.h>
#include <string.h>

#include "codec/compress_impl.h"
#include "util/buf.h"

static int off_encode(int level, const uint8_t *src, size_t n, uint8_t *dst, size_t cap,
                      size_t *out)
{
    if (n > cap)
        return -ENOSPC;
    memcpy(dst, src, n);
    *out = n;
    return 0;
}

static int off_decode(const uint8_t *src, size_t psize, uint8_t *dst, size_t n)
{
    if (psize != n)
        return -EILSEQ;
    memcpy(dst, src, n);
    return 0;
}

static int empty_encode(int level, const uint8_t *src, size_t n, uint8_t *dst, size_t cap,
                        size_t *out)
{
    *out = 0;
    return buf_is_zero(src, n) ? 0 : -ENOSPC;
}

static const struct {
    const char *name;
    compress_encode_fn *encode; /* NULL: only a property value */
    compress_decode_fn *decode; /* NULL: never in a block pointer */
} kinds[COMPRESS_COUNT] = {
    [COMPRESS_INHERIT] = {"inherit", NULL, NULL},
    [COMPRESS_ON] = {"on", NULL, NULL},
    [COMPRESS_OFF] = {"off", off_encode, off_decode},
    [COMPRESS_LZJB] = {"lzjb", lzjb_encode, lzjb_decode},
    [COMPRESS_EMPTY] = {"empty", empty_encode, NULL},
    [COMPRESS_GZIP_1] = {"gzip-1", gzip_encode, gzip_decode},
    [COMPRESS_GZIP_1 + 1] = {"gzip-2", gzip_encode, gzip_decode},
    [COMPRESS_GZIP_1 + 2] = {"gzip-3", gzip_encode, gzip_decode},
    [COMPRESS_GZIP_1 + 3] = {"gzip-4", gzip_encode, gzip_decode},
    [COMPRESS_GZIP_1 + 4] = {"gzip-5", gzip_encode, gzip_decode},
    [COMPRESS_GZIP_1 + 5] = {"gzip-6", gzip_encode, gzip_decode},
    [COMPRESS_GZIP_1 + 6] = {"gzip-7", gzip_encode, gzip_decode},
    [COMPRESS_GZIP_1 + 7] = {"gzip-8", gzip_encode, gzip_decode},
    [COMPRESS_GZIP_9] = {"gzip-9", gzip_encode, gzip_decode},
    [COMPRESS_ZLE] = {"zle", zle_encode, zle_decode},
    [COMPRESS_LZ4] = {"lz4", lz4_encode, lz4_decode},
    [COMPRESS_ZSTD] = {"zstd", zstd_encode, zstd_decode},
};

int compress_encode(unsigned type, int level, const void *src, size_t n, void *dst, size_t cap,
                    size_t *out)
{
    if (type >= COMPRESS_COUNT || !kinds[type].encode)
        return -ENOTSUP;
    if (type >= COMPRESS_GZIP_1 && type <= COMPRESS_GZIP_9)
        level = (int)(type - COMPRESS_GZIP_1) + 1;
    return kinds[type].encode(level, src, n, dst, cap, out);
}

int compress_decode(unsigned type, const void *src, size_t psize, void *dst, size_t n)
{
    if (type >= COMPRESS_COUNT || !kinds[type].decode)
        return -ENOTSUP;
    return kinds[type].decode(src, psize, dst, n);
}

const char *compress_name(unsigned type)
{
    return type < COMPRESS_COUNT ? kinds[type].name : NULL;
}
