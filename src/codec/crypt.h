/*
 * Keys and ciphers of encrypted datasets (spec 09 3, 4, 7): the wrapping key that a user knows, the
 * key of a dataset that it unwraps, and what that key decrypts and authenticates.
 *
 * Key material lives in memory that is not swapped out or dumped where the system allows it, and is
 * overwritten when it is freed.
 */
#ifndef CODEC_CRYPT_H
#define CODEC_CRYPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRYPT_WRAPPING_SIZE 32
#define CRYPT_MASTER_SIZE   32 /* room; the suite says how many bytes count */
#define CRYPT_HMAC_KEY_SIZE 64
#define CRYPT_SALT_SIZE     8
#define CRYPT_IV_SIZE       12
#define CRYPT_MAC_SIZE      16
#define CRYPT_HASH_SIZE     64

enum crypt_format {
    CRYPT_FORMAT_NONE,
    CRYPT_FORMAT_RAW,
    CRYPT_FORMAT_HEX,
    CRYPT_FORMAT_PASSPHRASE
};

/* ---- Memory for secrets ---- */

void *crypt_secret_new(size_t n);          /* zeroed; NULL: out of memory */
void crypt_secret_free(void *p, size_t n); /* overwrites; NULL is allowed */
void crypt_wipe(void *p, size_t n);

/* ---- What the user gives ---- */

/*
 * The wrapping key from n bytes as they were read from a file or a prompt; salt and iters count for
 * passphrases only, of which, as of hex digits, one newline at the end is dropped. -EINVAL with a
 * sentence if the bytes are not of the format; -ENOMEM. Takes as long as iters say.
 */
int crypt_wrapping_key(unsigned format, const void *given, size_t n, uint64_t salt, uint64_t iters,
                       uint8_t out[CRYPT_WRAPPING_SIZE]);

/* ---- The key of a dataset ---- */

struct crypt_key;

/* As it is stored. */
struct crypt_wrapped {
    uint64_t suite, guid, version;
    uint8_t iv[CRYPT_IV_SIZE], mac[CRYPT_MAC_SIZE];
    uint8_t master[CRYPT_MASTER_SIZE], hmac[CRYPT_HMAC_KEY_SIZE];
};

/* -EACCES: it is not the right wrapping key (or the stored key is damaged, which looks the same);
 * -ENOTSUP: unknown suite or version; -ENOMEM. The result has one reference. */
int crypt_key_unwrap(struct crypt_key **out, const struct crypt_wrapped *w,
                     const uint8_t wrapping[CRYPT_WRAPPING_SIZE]);
struct crypt_key *crypt_key_ref(struct crypt_key *k);
void crypt_key_unref(struct crypt_key *k);        /* NULL is allowed */
bool crypt_key_shared(const struct crypt_key *k); /* more than one reference? */
unsigned crypt_key_version(const struct crypt_key *k);

/* Decrypts n bytes in place if mac is right for them and the m bytes of aad. Any thread. -EBADE: it
 * is not, and the contents of data are undefined; -ENOTSUP: more bytes than the suite can take;
 * -ENOMEM. */
int crypt_decrypt(const struct crypt_key *k, const uint8_t salt[CRYPT_SALT_SIZE],
                  const uint8_t iv[CRYPT_IV_SIZE], const uint8_t mac[CRYPT_MAC_SIZE],
                  const void *aad, size_t m, void *data, size_t n);

/* HMAC-SHA-512 with the dataset's authentication key. */
void crypt_hmac(const struct crypt_key *k, const void *data, size_t n,
                uint8_t out[CRYPT_HASH_SIZE]);
void crypt_sha512(const void *data, size_t n, uint8_t out[CRYPT_HASH_SIZE]);

#endif
