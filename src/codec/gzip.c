/* "gzip" is a zlib stream without any frame of its own (02 6.6). */
#include <errno.h>
#include <zlib.h>

#include "codec/compress_impl.h"

int gzip_encode(int level, const uint8_t *src, size_t n, uint8_t *dst, size_t cap, size_t *out)
{
    uLongf len = cap;
    int rc = compress2(dst, &len, src, n, level);

    if (rc == Z_MEM_ERROR)
        return -ENOMEM;
    if (rc != Z_OK)
        return -ENOSPC;
    *out = len;
    return 0;
}

int gzip_decode(const uint8_t *src, size_t psize, uint8_t *dst, size_t n)
{
    uLongf len = n;
    int rc = uncompress(dst, &len, src, psize); /* stops at the end of the stream */

    if (rc == Z_MEM_ERROR)
        return -ENOMEM;
    return rc == Z_OK && len == n ? 0 : -EILSEQ;
}
