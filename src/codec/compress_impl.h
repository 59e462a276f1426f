/* One pair of functions per compressor; arguments and results as in compress.h. */
#ifndef CODEC_COMPRESS_IMPL_H
#define CODEC_COMPRESS_IMPL_H

#include <stddef.h>
#include <stdint.h>

typedef int compress_encode_fn(int level, const uint8_t *src, size_t n, uint8_t *dst, size_t cap,
                               size_t *out);
typedef int compress_decode_fn(const uint8_t *src, size_t psize, uint8_t *dst, size_t n);

compress_encode_fn lzjb_encode, gzip_encode, zle_encode, lz4_encode, zstd_encode;
compress_decode_fn lzjb_decode, gzip_decode, zle_decode, lz4_decode, zstd_decode;

#endif
