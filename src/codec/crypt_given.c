/* Memory for secrets, and the wrapping key from what a user gives (spec 09 3). */
#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codec/crypt.h"
#include "util/bytes.h"
#include "util/err.h"

/* ---- Memory ---- */

static size_t pages(size_t n)
{
    return ROUND_UP(n, (size_t)sysconf(_SC_PAGESIZE));
}

void *crypt_secret_new(size_t n)
{
    void *p = mmap(NULL, pages(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    /* Both are the best we can get: an ordinary user may lock only a little. */
    (void)mlock(p, pages(n));
    (void)madvise(p, pages(n), MADV_DONTDUMP);
    return p;
}

void crypt_secret_free(void *p, size_t n)
{
    if (!p)
        return;
    OPENSSL_cleanse(p, n);
    munmap(p, pages(n));
}

void crypt_wipe(void *p, size_t n)
{
    OPENSSL_cleanse(p, n);
}

/* ---- Forms of keys ---- */

static int from_raw(const uint8_t *given, size_t n, uint8_t out[CRYPT_WRAPPING_SIZE])
{
    if (n != CRYPT_WRAPPING_SIZE)
        return err_set(EINVAL, "Raw key too %s (expected %d).",
                       n < CRYPT_WRAPPING_SIZE ? "short" : "long", CRYPT_WRAPPING_SIZE);
    memcpy(out, given, n);
    return 0;
}

static int digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int from_hex(const uint8_t *given, size_t n, uint8_t out[CRYPT_WRAPPING_SIZE])
{
    if (n != 2 * CRYPT_WRAPPING_SIZE)
        return err_set(EINVAL, "Hex key too %s (expected %d).",
                       n < 2 * CRYPT_WRAPPING_SIZE ? "short" : "long", 2 * CRYPT_WRAPPING_SIZE);
    for (size_t i = 0; i < CRYPT_WRAPPING_SIZE; i++) {
        int high = digit(given[2 * i]), low = digit(given[2 * i + 1]);

        if (high < 0 || low < 0)
            return err_set(EINVAL, "Invalid hex key provided.");
        out[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

static int from_passphrase(const uint8_t *given, size_t n, uint64_t salt, uint64_t iters,
                           uint8_t out[CRYPT_WRAPPING_SIZE])
{
    uint8_t bytes[8];

    n = strnlen((const char *)given, n);
    if (iters == 0 || iters > INT_MAX || n > INT_MAX)
        return err_set(EINVAL, "a passphrase with %llu iterations cannot be",
                       (unsigned long long)iters);
    put_le64(bytes, salt);
    return PKCS5_PBKDF2_HMAC_SHA1((const char *)given, (int)n, bytes, sizeof bytes, (int)iters,
                                  CRYPT_WRAPPING_SIZE, out) == 1
               ? 0
               : -ENOMEM;
}

int crypt_wrapping_key(unsigned format, const void *given, size_t n, uint64_t salt, uint64_t iters,
                       uint8_t out[CRYPT_WRAPPING_SIZE])
{
    const uint8_t *p = given;

    if (format != CRYPT_FORMAT_RAW && n > 0 && p[n - 1] == '\n')
        n--;
    switch (format) {
    case CRYPT_FORMAT_RAW:
        return from_raw(p, n, out);
    case CRYPT_FORMAT_HEX:
        return from_hex(p, n, out);
    case CRYPT_FORMAT_PASSPHRASE:
        return from_passphrase(p, n, salt, iters, out);
    default:
        return err_set(EINVAL, "key format %u is unknown", format);
    }
}
