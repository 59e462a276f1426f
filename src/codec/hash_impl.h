/* The cryptographic hashes behind checksum.h. */
#ifndef CODEC_HASH_IMPL_H
#define CODEC_HASH_IMPL_H

#include <stddef.h>
#include <stdint.h>

/* SHA-256 of two pieces one after the other. */
void hash_sha256(const void *a, size_t n, const void *b, size_t m, uint8_t digest[32]);
void hash_sha512_256(const void *data, size_t n, uint8_t digest[32]);

/* Skein-512 with 256 bits of output; with a key (key_len > 0) it is a MAC. */
void hash_skein512_256(const uint8_t *key, size_t key_len, const void *data, size_t n,
                       uint8_t digest[32]);

/* Edon-R-512 of a first piece, a multiple of 128 bytes, and a second one after it. */
void hash_edonr512(const void *first, size_t first_len, const void *data, size_t n,
                   uint8_t digest[64]);

/* BLAKE3, with key in its keyed mode, without (NULL) the plain hash. */
void hash_blake3(const uint8_t key[32], const void *data, size_t n, uint8_t digest[32]);

#endif
