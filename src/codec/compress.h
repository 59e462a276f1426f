/* Block compression with ZFS's framing (spec 02 6). */
#ifndef CODEC_COMPRESS_H
#define CODEC_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

enum compress {
    COMPRESS_INHERIT, COMPRESS_ON, COMPRESS_OFF, COMPRESS_LZJB, COMPRESS_EMPTY,
    COMPRESS_GZIP_1, COMPRESS_GZIP_9 = COMPRESS_GZIP_1 + 8,
    COMPRESS_ZLE, COMPRESS_LZ4, COMPRESS_ZSTD, COMPRESS_COUNT
};

/* Compresses n bytes of src into at most cap bytes of dst; *out is the length with framing.
 * -ENOSPC if it does not fit, -ENOTSUP for a number that is no compressor, -EINVAL for an unknown
 * level, -ENOMEM. The bytes of dst beyond *out are undefined. "off" copies; "empty" gives length 0
 * for zeros and -ENOSPC for anything else.
 * level: zstd's as stored in the property (02 6.7), 0 = default; ignored by the others. */
int compress_encode(unsigned type, int level, const void *src, size_t n, void *dst, size_t cap,
                    size_t *out);

/* Fills exactly n bytes of dst from psize bytes of src, which may end in padding; -EILSEQ for
 * anything malformed, -ENOTSUP for a number that is no compressor, -ENOMEM. */
int compress_decode(unsigned type, const void *src, size_t psize, void *dst, size_t n);

/* "lz4", "gzip-6", ... NULL if out of range. */
const char *compress_name(unsigned type);

#endif
