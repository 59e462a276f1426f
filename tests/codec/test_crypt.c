#include "../support/test.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "../support/crypt_keys.h"
#include "util/bytes.h"

/* ---- What the user gives ---- */

static void passphrase(void **state)
{
    uint8_t key[32], want[32];

    sample_unhex("4ca793c1e1bb29327c85040fc25eabb501bda4c2e5abe5fa6f7305e260fce019", want);
    assert_int_equal(
        crypt_wrapping_key(CRYPT_FORMAT_PASSPHRASE, "password", 8, 0xaf5547931e4bf5d2, 350000, key),
        0);
    assert_memory_equal(key, want, 32);
    /* One newline is not part of it, nor what comes behind a NUL. */
    assert_int_equal(crypt_wrapping_key(CRYPT_FORMAT_PASSPHRASE, "password\n", 9,
                                        0xaf5547931e4bf5d2, 350000, key),
                     0);
    assert_memory_equal(key, want, 32);
    assert_int_equal(crypt_wrapping_key(CRYPT_FORMAT_PASSPHRASE, "password\0x", 10,
                                        0xaf5547931e4bf5d2, 350000, key),
                     0);
    assert_memory_equal(key, want, 32);
    assert_int_equal(crypt_wrapping_key(CRYPT_FORMAT_PASSPHRASE, "password", 8, 1, 0, key),
                     -EINVAL);
}

static void hex_and_raw(void **state)
{
    static const char hex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\n";
    char bad[65];
    uint8_t key[32], want[32];

    for (int i = 0; i < 32; i++)
        want[i] = (uint8_t)i;
    assert_int_equal(crypt_wrapping_key(CRYPT_FORMAT_HEX, hex, 65, 0, 0, key), 0);
    assert_memory_equal(key, want, 32);
    assert_int_equal(crypt_wrapping_key(CRYPT_FORMAT_HEX, hex, 64, 0, 0, key), 0);
    assert_int_equal(crypt_wrapping_key(CRYPT_FORMAT_HEX, hex, 63, 0, 0, key), -EINVAL);
    memcpy(bad, hex, 64);
    bad[17] = 'g';
    assert_int_equal(crypt_wrapping_key(CRYPT_FORMAT_HEX, bad, 64, 0, 0, key), -EINVAL);
    want[31] = '\n'; /* a byte like others in a raw key */
    assert_int_equal(crypt_wrapping_key(CRYPT_FORMAT_RAW, want, 32, 0, 0, key), 0);
    assert_memory_equal(key, want, 32);
    assert_int_equal(crypt_wrapping_key(CRYPT_FORMAT_RAW, want, 31, 0, 0, key), -EINVAL);
    assert_int_equal(crypt_wrapping_key(CRYPT_FORMAT_NONE, want, 32, 0, 0, key), -EINVAL);
    assert_int_equal(crypt_wrapping_key(4, want, 32, 0, 0, key), -EINVAL);
}

/* ---- Unwrapping ---- */

static void real_keys(void **state)
{
    struct env e = test_env();

    for (size_t i = 0; i < ARRAY_LEN(sample_keys); i++) {
        const struct sample_key *s = &sample_keys[i];
        uint8_t wrapping[32];
        struct crypt_wrapped w;
        struct crypt_key *key;

        assert_int_equal(sample_wrapping(s, wrapping), 0);
        sample_wrapped(s, &w);
        assert_int_equal(crypt_key_unwrap(&key, &w, wrapping), 0);
        assert_int_equal(crypt_key_version(key), 1);
        assert_false(crypt_key_shared(key));
        crypt_key_unref(crypt_key_ref(key));
        crypt_key_unref(key);
        /* Nothing of what is stored may be changed, but what is behind a short key. */
        for (int k = 0; k < 100; k++) {
            size_t at = test_below(&e, 16 + 12 + 16 + (i == 0 ? 32 : 16));
            uint8_t bit = (uint8_t)(1 << test_below(&e, 8));
            struct crypt_wrapped bad = w;
            if (at < 8)
                bad.guid ^= (uint64_t)bit << 8 * at;
            else if (at < 16)
                bad.hmac[at + 30] ^= bit;
            else
                bad.iv[at - 16] ^= bit; /* or what follows it */
            assert_int_equal(crypt_key_unwrap(&key, &bad, wrapping), -EACCES);
        }
        wrapping[test_below(&e, 32)] ^= 1;
        assert_int_equal(crypt_key_unwrap(&key, &w, wrapping), -EACCES);
        w.suite = 9;
        assert_int_equal(crypt_key_unwrap(&key, &w, wrapping), -ENOTSUP);
        w.suite = 2;
        assert_int_equal(crypt_key_unwrap(&key, &w, wrapping), -ENOTSUP);
        w.suite = s->suite;
        w.version = 2;
        assert_int_equal(crypt_key_unwrap(&key, &w, wrapping), -ENOTSUP);
    }
}

/* As the writer of a pool does it, with the calls of libcrypto that decryption does not use. */
static void encrypt(const char *cipher, bool ccm, const uint8_t *key, const uint8_t *iv,
                    const void *aad, size_t m, uint8_t *data, size_t n, uint8_t mac[16])
{
    EVP_CIPHER *type = EVP_CIPHER_fetch(NULL, cipher, NULL);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    uint8_t nothing[16];
    int len;

    assert_int_equal(EVP_EncryptInit_ex2(c, type, NULL, NULL, NULL), 1);
    assert_int_equal(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_IVLEN, 12, NULL), 1);
    if (ccm)
        assert_int_equal(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, 16, NULL), 1);
    assert_int_equal(EVP_EncryptInit_ex2(c, NULL, key, iv, NULL), 1);
    if (ccm)
        assert_int_equal(EVP_EncryptUpdate(c, NULL, &len, NULL, (int)n), 1);
    if (m > 0)
        assert_int_equal(EVP_EncryptUpdate(c, NULL, &len, aad, (int)m), 1);
    assert_int_equal(EVP_EncryptUpdate(c, n ? data : nothing, &len, n ? data : nothing, (int)n), 1);
    assert_int_equal(EVP_EncryptFinal_ex(c, nothing, &len), 1);
    assert_int_equal(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, 16, mac), 1);
    EVP_CIPHER_CTX_free(c);
    EVP_CIPHER_free(type);
}

static const char *const ciphers[] = {"AES-128-CCM", "AES-192-CCM", "AES-256-CCM",
                                      "AES-128-GCM", "AES-192-GCM", "AES-256-GCM"};
static const unsigned key_sizes[] = {16, 24, 32, 16, 24, 32};

static struct crypt_key *wrap(unsigned suite, unsigned version, const uint8_t *master,
                              const uint8_t *hmac)
{
    struct crypt_wrapped w = {.suite = suite, .guid = 77, .version = version};
    unsigned size = key_sizes[suite - 3];
    uint8_t wrapping[32] = {5}, both[96], aad[24];
    struct crypt_key *key;

    put_le64(aad, 77);
    put_le64(aad + 8, suite);
    put_le64(aad + 16, version);
    memcpy(both, master, size);
    memcpy(both + size, hmac, 64);
    encrypt(suite < 6 ? "AES-256-CCM" : "AES-256-GCM", suite < 6, wrapping, w.iv, aad,
            version ? 24 : 8, both, size + 64, w.mac);
    memcpy(w.master, both, size);
    memcpy(w.hmac, both + size, 64);
    assert_int_equal(crypt_key_unwrap(&key, &w, wrapping), 0);
    return key;
}

/* HKDF as OpenSSL has it. */
static void block_key(const uint8_t *master, unsigned size, const uint8_t *salt, uint8_t *out)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *c = EVP_KDF_CTX_new(kdf);
    OSSL_PARAM p[] = {
        OSSL_PARAM_utf8_string("digest", (char *)"SHA512", 6),
        OSSL_PARAM_octet_string("key", (void *)master, size),
        OSSL_PARAM_octet_string("info", (void *)salt, 8),
        OSSL_PARAM_END,
    };

    assert_int_equal(EVP_KDF_derive(c, out, size, p), 1);
    EVP_KDF_CTX_free(c);
    EVP_KDF_free(kdf);
}

static void all_suites(void **state)
{
    struct env e = test_env();
    static const size_t sizes[] = {0, 1, 16, 512, 5000};

    for (unsigned i = 0; i < 2 * 6 * ARRAY_LEN(sizes) * 2; i++) {
        unsigned suite = 3 + i / 2 % 6;
        size_t n = sizes[i / 12 % ARRAY_LEN(sizes)], m = i < 12 * ARRAY_LEN(sizes) ? 0 : 100;
        uint8_t master[32], hmac[64], salt[8], iv[12], mac[16], key[32], aad[100], data[5001],
            plain[5000];
        test_fill(&e, master, 32);
        test_fill(&e, hmac, 64);
        test_fill(&e, salt, 8);
        test_fill(&e, iv, 12);
        test_fill(&e, aad, sizeof aad);
        test_fill(&e, plain, n);
        memcpy(data, plain, n);
        struct crypt_key *k = wrap(suite, i % 2, master, hmac);
        block_key(master, key_sizes[suite - 3], salt, key);
        encrypt(ciphers[suite - 3], suite < 6, key, iv, aad, m, data, n, mac);
        uint8_t sealed[5001];
        memcpy(sealed, data, n);
        assert_int_equal(crypt_decrypt(k, salt, iv, mac, aad, m, data, n), 0);
        assert_memory_equal(data, plain, n);
        memcpy(data, sealed, n);
        mac[test_below(&e, 16)] ^= 0x10;
        assert_int_equal(crypt_decrypt(k, salt, iv, mac, aad, m, data, n), -EBADE);
        crypt_key_unref(k);
    }
}

/* CCM's length field has three bytes. */
static void too_long(void **state)
{
    uint8_t master[32] = {0}, hmac[64] = {0}, zero[16] = {0};
    struct crypt_key *k = wrap(5, 1, master, hmac);
    void *data = calloc(1, 1 << 24);

    assert_int_equal(crypt_decrypt(k, zero, zero, zero, NULL, 0, data, 1 << 24), -ENOTSUP);
    crypt_key_unref(k);
    k = wrap(8, 1, master, hmac);
    assert_int_equal(crypt_decrypt(k, zero, zero, zero, NULL, 0, data, 1 << 24), -EBADE);
    crypt_key_unref(k);
    free(data);
}

static void hashes(void **state)
{
    uint8_t master[32] = {0}, hmac[64], out[64], want[64];
    struct crypt_key *k;

    memset(hmac, 0xaa, sizeof hmac);
    k = wrap(8, 1, master, hmac);
    for (size_t n = 0; n < 300; n += 37) {
        uint8_t data[300] = {1, 2, 3};
        size_t len;
        crypt_hmac(k, data, n, out);
        assert_non_null(EVP_Q_mac(NULL, "HMAC", NULL, "SHA512", NULL, hmac, sizeof hmac, data, n,
                                  want, sizeof want, &len));
        assert_memory_equal(out, want, 64);
        crypt_sha512(data, n, out);
        assert_int_equal(EVP_Q_digest(NULL, "SHA512", NULL, data, n, want, &len), 1);
        assert_memory_equal(out, want, 64);
    }
    crypt_key_unref(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passphrase), cmocka_unit_test(hex_and_raw), cmocka_unit_test(real_keys),
        cmocka_unit_test(all_suites), cmocka_unit_test(too_long),    cmocka_unit_test(hashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
