/* Private to src/codec: HMAC-SHA-512 with its key already worked in. */
#ifndef CODEC_CRYPT_IMPL_H
#define CODEC_CRYPT_IMPL_H

#include <stddef.h>
#include <stdint.h>

#define HMAC_STATE_SIZE 256 /* at least that of libcrypto's SHA512_CTX; checked where it is known  \
                             */

struct hmac_state {
    _Alignas(16) unsigned char inner[HMAC_STATE_SIZE], outer[HMAC_STATE_SIZE];
};

/* n is at most the block size of SHA-512, 128. */
void hmac_key(struct hmac_state *s, const void *key, size_t n);
void hmac_compute(const struct hmac_state *s, const void *data, size_t n, uint8_t out[64]);

#endif
