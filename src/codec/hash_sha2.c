/*
 * SHA-2 by libcrypto's plain functions. They are marked as deprecated in favour of EVP, but EVP
 * costs a look-up and an allocation for each block, and can fail; these do the same work with the
 * same assembler code and cannot.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <string.h>

#include "codec/hash_impl.h"

void hash_sha256(const void *a, size_t n, const void *b, size_t m, uint8_t digest[32])
{
    SHA256_CTX c;

    SHA256_Init(&c);
    SHA256_Update(&c, a, n);
    SHA256_Update(&c, b, m);
    SHA256_Final(digest, &c);
}

void hash_sha512_256(const void *data, size_t n, uint8_t digest[32])
{
    /* FIPS 180-4, 5.3.6.2: the only difference to SHA-512 but the shorter result. */
    static const SHA_LONG64 start[8] = {
        0x22312194fc2bf72cull, 0x9f555fa3c84c64c2ull, 0x2393b86b6f53b151ull, 0x963877195940eabdull,
        0x96283ee2a88effe3ull, 0xbe5e1e2553863992ull, 0x2b0199fc2c85b8aaull, 0x0eb72ddc81c52ca2ull,
    };
    uint8_t full[SHA512_DIGEST_LENGTH];
    SHA512_CTX c;

    SHA512_Init(&c);
    memcpy(c.h, start, sizeof start);
    SHA512_Update(&c, data, n);
    SHA512_Final(full, &c);
    memcpy(digest, full, 32);
}
