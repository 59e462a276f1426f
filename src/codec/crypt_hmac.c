/*
 * SHA-512 and HMAC by libcrypto's plain functions, for the reasons told in hash_sha2.c. The state
 * after the padded key is kept, so that a short message costs two rounds.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <string.h>

#include "codec/crypt.h"
#include "codec/crypt_impl.h"

_Static_assert(sizeof(SHA512_CTX) <= HMAC_STATE_SIZE, "the state of SHA-512 does not fit");

static void start(unsigned char *state, const unsigned char *key, unsigned char pad)
{
    unsigned char block[SHA512_CBLOCK];
    SHA512_CTX c;

    for (size_t i = 0; i < sizeof block; i++)
        block[i] = key[i] ^ pad;
    SHA512_Init(&c);
    SHA512_Update(&c, block, sizeof block);
    memcpy(state, &c, sizeof c);
    crypt_wipe(block, sizeof block);
    crypt_wipe(&c, sizeof c);
}

void hmac_key(struct hmac_state *s, const void *key, size_t n)
{
    unsigned char padded[SHA512_CBLOCK] = {0};

    memcpy(padded, key, n);
    start(s->inner, padded, 0x36);
    start(s->outer, padded, 0x5c);
    crypt_wipe(padded, sizeof padded);
}

void hmac_compute(const struct hmac_state *s, const void *data, size_t n, uint8_t out[64])
{
    SHA512_CTX c;

    memcpy(&c, s->inner, sizeof c);
    SHA512_Update(&c, data, n);
    SHA512_Final(out, &c);
    memcpy(&c, s->outer, sizeof c);
    SHA512_Update(&c, out, SHA512_DIGEST_LENGTH);
    SHA512_Final(out, &c);
    crypt_wipe(&c, sizeof c);
}

void crypt_sha512(const void *data, size_t n, uint8_t out[CRYPT_HASH_SIZE])
{
    SHA512_CTX c;

    SHA512_Init(&c);
    SHA512_Update(&c, data, n);
    SHA512_Final(out, &c);
}
