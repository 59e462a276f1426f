/* Unwrapping keys, and AES-CCM and AES-GCM with what is derived from them (spec 09 4, 7). */
#include "codec/crypt.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "codec/crypt_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define CCM_MAX                                                                                    \
    ((1u << 24) - 1) /* bytes of a message: a nonce of 12 bytes leaves 3 for its length */

static const struct suite {
    const char *cipher, *wrapper; /* the wrapping key always has 32 bytes */
    unsigned key_size;
    bool ccm;
} suites[] = {
    [3] = {"AES-128-CCM", "AES-256-CCM", 16, true},
    [4] = {"AES-192-CCM", "AES-256-CCM", 24, true},
    [5] = {"AES-256-CCM", "AES-256-CCM", 32, true},
    [6] = {"AES-128-GCM", "AES-256-GCM", 16, false},
    [7] = {"AES-192-GCM", "AES-256-GCM", 24, false},
    [8] = {"AES-256-GCM", "AES-256-GCM", 32, false},
};

struct crypt_key {
    _Atomic unsigned refs;
    unsigned version;
    const struct suite *suite;
    EVP_CIPHER *cipher;
    struct hmac_state derive; /* keyed with what HKDF extracts from the master key */
    struct hmac_state authenticate;
};

static void free_context(EVP_CIPHER_CTX **c)
{
    EVP_CIPHER_CTX_free(*c);
}

static void free_cipher(EVP_CIPHER **c)
{
    EVP_CIPHER_free(*c);
}

/* ---- Authenticated decryption ---- */

struct sealed {
    const uint8_t *key, *iv, *mac;
    const void *aad;
    size_t aad_size;
    void *data;
    size_t n;
};

/* The order of calls that either mode wants; false if libcrypto refuses one of them. */
static bool begin(EVP_CIPHER_CTX *c, const EVP_CIPHER *cipher, bool ccm, const struct sealed *s)
{
    int len;

    return EVP_DecryptInit_ex2(c, cipher, NULL, NULL, NULL) == 1 &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_IVLEN, CRYPT_IV_SIZE, NULL) == 1 &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, CRYPT_MAC_SIZE, (void *)s->mac) == 1 &&
           EVP_DecryptInit_ex2(c, NULL, s->key, s->iv, NULL) == 1 &&
           (!ccm || EVP_DecryptUpdate(c, NULL, &len, NULL, (int)s->n) == 1) &&
           (s->aad_size == 0 || EVP_DecryptUpdate(c, NULL, &len, s->aad, (int)s->aad_size) == 1);
}

static int open_sealed(const EVP_CIPHER *cipher, bool ccm, const struct sealed *s)
{
    EVP_CIPHER_CTX *c CLEANUP(free_context) = EVP_CIPHER_CTX_new();
    uint8_t nothing[CRYPT_MAC_SIZE];
    void *data = s->n > 0 ? s->data : nothing; /* an empty message is a message */
    int len;

    if (ccm && s->n > CCM_MAX)
        return err_set(ENOTSUP, "AES-CCM cannot hold a block of %zu bytes", s->n);
    if (!c || !begin(c, cipher, ccm, s))
        return -ENOMEM;
    if (EVP_DecryptUpdate(c, data, &len, data, (int)s->n) != 1)
        return -EBADE;
    /* CCM has compared before it gave anything out. */
    return ccm || EVP_DecryptFinal_ex(c, nothing, &len) == 1 ? 0 : -EBADE;
}

int crypt_decrypt(const struct crypt_key *k, const uint8_t salt[CRYPT_SALT_SIZE],
                  const uint8_t iv[CRYPT_IV_SIZE], const uint8_t mac[CRYPT_MAC_SIZE],
                  const void *aad, size_t m, void *data, size_t n)
{
    uint8_t info[CRYPT_SALT_SIZE + 1], key[CRYPT_HASH_SIZE];
    struct sealed s = {key, iv, mac, aad, m, data, n};
    int rc;

    /* One round of HKDF's expansion is enough. */
    memcpy(info, salt, CRYPT_SALT_SIZE);
    info[CRYPT_SALT_SIZE] = 1;
    hmac_compute(&k->derive, info, sizeof info, key);
    rc = open_sealed(k->cipher, k->suite->ccm, &s);
    crypt_wipe(key, sizeof key);
    return rc;
}

void crypt_hmac(const struct crypt_key *k, const void *data, size_t n, uint8_t out[CRYPT_HASH_SIZE])
{
    hmac_compute(&k->authenticate, data, n, out);
}

/* ---- Unwrapping ---- */

static int decrypt_wrapped(const struct crypt_wrapped *w, const struct suite *suite,
                           const uint8_t *wrapping, uint8_t *keys)
{
    EVP_CIPHER *cipher CLEANUP(free_cipher) = EVP_CIPHER_fetch(NULL, suite->wrapper, NULL);
    uint8_t aad[24];
    struct sealed s = {.key = wrapping, .iv = w->iv, .mac = w->mac, .aad = aad, .data = keys};
    int rc;

    if (!cipher)
        return err_set(ENOTSUP, "libcrypto lacks %s", suite->wrapper);
    put_le64(aad, w->guid);
    put_le64(aad + 8, w->suite);
    put_le64(aad + 16, w->version);
    s.aad_size = w->version == 0 ? 8 : sizeof aad;
    s.n = suite->key_size + CRYPT_HMAC_KEY_SIZE;
    memcpy(keys, w->master, suite->key_size);
    memcpy(keys + suite->key_size, w->hmac, CRYPT_HMAC_KEY_SIZE);
    rc = open_sealed(cipher, suite->ccm, &s);
    return rc == -EBADE ? -EACCES : rc;
}

/* keys: the master key, behind it the key for authentication. */
static int make_key(struct crypt_key **out, const struct crypt_wrapped *w,
                    const struct suite *suite, const uint8_t *keys)
{
    struct crypt_key *k = crypt_secret_new(sizeof *k);
    static const uint8_t no_salt[CRYPT_HASH_SIZE];
    struct hmac_state extract;
    uint8_t prk[CRYPT_HASH_SIZE];

    if (!k)
        return -ENOMEM;
    k->cipher = EVP_CIPHER_fetch(NULL, suite->cipher, NULL);
    if (!k->cipher) {
        crypt_secret_free(k, sizeof *k);
        return err_set(ENOTSUP, "libcrypto lacks %s", suite->cipher);
    }
    atomic_init(&k->refs, 1);
    k->version = (unsigned)w->version;
    k->suite = suite;
    hmac_key(&extract, no_salt, sizeof no_salt);
    hmac_compute(&extract, keys, suite->key_size, prk);
    hmac_key(&k->derive, prk, sizeof prk);
    hmac_key(&k->authenticate, keys + suite->key_size, CRYPT_HMAC_KEY_SIZE);
    crypt_wipe(prk, sizeof prk);
    *out = k;
    return 0;
}

int crypt_key_unwrap(struct crypt_key **out, const struct crypt_wrapped *w,
                     const uint8_t wrapping[CRYPT_WRAPPING_SIZE])
{
    uint8_t keys[CRYPT_MASTER_SIZE + CRYPT_HMAC_KEY_SIZE];
    const struct suite *suite = w->suite < ARRAY_LEN(suites) ? &suites[w->suite] : NULL;
    int rc;

    if (!suite || !suite->cipher)
        return err_set(ENOTSUP, "encryption suite %llu is unknown", (unsigned long long)w->suite);
    if (w->version > 1)
        return err_set(ENOTSUP, "version %llu of encryption is unknown",
                       (unsigned long long)w->version);
    rc = decrypt_wrapped(w, suite, wrapping, keys);
    if (rc == 0)
        rc = make_key(out, w, suite, keys);
    crypt_wipe(keys, sizeof keys);
    return rc;
}

struct crypt_key *crypt_key_ref(struct crypt_key *k)
{
    if (k)
        atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
    return k;
}

void crypt_key_unref(struct crypt_key *k)
{
    if (!k || atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) != 1)
        return;
    EVP_CIPHER_free(k->cipher);
    crypt_secret_free(k, sizeof *k);
}

bool crypt_key_shared(const struct crypt_key *k)
{
    return atomic_load_explicit(&k->refs, memory_order_acquire) > 1;
}

unsigned crypt_key_version(const struct crypt_key *k)
{
    return k->version;
}
