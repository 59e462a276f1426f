#include "codec/checksum.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "codec/fletcher_impl.h"
#include "codec/hash_impl.h"
#include "util/bytes.h"

static void load_words(const uint8_t digest[32], bool big, uint64_t out[4])
{
    for (int i = 0; i < 4; i++)
        out[i] = get_u64(digest + 8 * i, big);
}

static void none(const void *data, size_t n, const uint8_t *salt, bool big, uint64_t out[4])
{
    memset(out, 0, 4 * sizeof *out);
}

static void plain_fletcher2(const void *data, size_t n, const uint8_t *salt, bool big,
                            uint64_t out[4])
{
    fletcher2(data, n, big, out);
}

static void plain_fletcher4(const void *data, size_t n, const uint8_t *salt, bool big,
                            uint64_t out[4])
{
    fletcher4(data, n, big, out);
}

/* The one hash whose words are big-endian on every host (02 5.3). */
static void sha256(const void *data, size_t n, const uint8_t *salt, bool big, uint64_t out[4])
{
    uint8_t digest[32];

    hash_sha256(data, n, NULL, 0, digest);
    load_words(digest, true, out);
}

static void sha512_256(const void *data, size_t n, const uint8_t *salt, bool big, uint64_t out[4])
{
    uint8_t digest[32];

    hash_sha512_256(data, n, digest);
    load_words(digest, big, out);
}

static void skein(const void *data, size_t n, const uint8_t *salt, bool big, uint64_t out[4])
{
    uint8_t digest[32];

    hash_skein512_256(salt, CHECKSUM_SALT_SIZE, data, n, digest);
    load_words(digest, big, out);
}

/* Edon-R has no keyed mode: a block of 128 bytes made from the salt goes before the data (02 5.4).
 */
static void edonr(const void *data, size_t n, const uint8_t *salt, bool big, uint64_t out[4])
{
    uint8_t key[128], digest[64];

    hash_edonr512(NULL, 0, salt, CHECKSUM_SALT_SIZE, key);
    hash_edonr512(NULL, 0, key, 64, key + 64);
    hash_edonr512(key, sizeof key, data, n, digest);
    load_words(digest, big, out);
}

static void blake3(const void *data, size_t n, const uint8_t *salt, bool big, uint64_t out[4])
{
    uint8_t digest[32];

    hash_blake3(salt, data, n, digest);
    load_words(digest, big, out);
}

#define M CHECKSUM_METADATA
#define D CHECKSUM_DEDUP
#define N CHECKSUM_NOPWRITE
#define S CHECKSUM_SALTED
#define E CHECKSUM_EMBEDDED
static const struct checksum_info kinds[CHECKSUM_COUNT] = {
    [CHECKSUM_INHERIT] = {"inherit", 0, NULL, NULL},
    [CHECKSUM_ON] = {"on", 0, NULL, NULL},
    [CHECKSUM_OFF] = {"off", 0, NULL, none},
    [CHECKSUM_LABEL] = {"label", M | E, NULL, sha256},
    [CHECKSUM_GANG_HEADER] = {"gang_header", M | E, NULL, sha256},
    [CHECKSUM_ZILOG] = {"zilog", E, NULL, plain_fletcher2},
    [CHECKSUM_FLETCHER2] = {"fletcher2", 0, NULL, plain_fletcher2},
    [CHECKSUM_FLETCHER4] = {"fletcher4", M, NULL, plain_fletcher4},
    [CHECKSUM_SHA256] = {"sha256", M | D | N, NULL, sha256},
    [CHECKSUM_ZILOG2] = {"zilog2", E, NULL, plain_fletcher4},
    [CHECKSUM_NOPARITY] = {"noparity", 0, NULL, none},
    [CHECKSUM_SHA512] = {"sha512", M | D | N, "org.illumos:sha512", sha512_256},
    [CHECKSUM_SKEIN] = {"skein", M | D | N | S, "org.illumos:skein", skein},
    [CHECKSUM_EDONR] = {"edonr", M | N | S, "org.illumos:edonr", edonr},
    [CHECKSUM_BLAKE3] = {"blake3", M | D | N | S, "org.openzfs:blake3", blake3},
};
#undef M
#undef D
#undef N
#undef S
#undef E

const struct checksum_info *checksum_info(unsigned type)
{
    return type < CHECKSUM_COUNT ? &kinds[type] : NULL;
}

int checksum_compute(unsigned type, const void *data, size_t n, const uint8_t *salt, bool big,
                     uint64_t out[4])
{
    const struct checksum_info *info = checksum_info(type);

    if (!info || !info->compute)
        return -ENOTSUP;
    if ((info->flags & CHECKSUM_SALTED) && !salt)
        return -EINVAL;
    info->compute(data, n, salt, big, out);
    return 0;
}

void checksum_fold(unsigned type, uint64_t words[4])
{
    const struct checksum_info *info = checksum_info(type);

    if (!info || !(info->flags & CHECKSUM_DEDUP)) {
        words[0] ^= words[2];
        words[1] ^= words[3];
    }
    words[2] = words[3] = 0;
}

void checksum_trailer_words(const void *data, size_t n, const uint64_t verifier[4], bool big,
                            uint64_t out[4])
{
    uint8_t trailer[CHECKSUM_TRAILER_SIZE], digest[32];

    assert(n >= CHECKSUM_TRAILER_SIZE);
    put_u64(trailer, CHECKSUM_TRAILER_MAGIC, big);
    for (int i = 0; i < 4; i++)
        put_u64(trailer + 8 + 8 * i, verifier[i], big);
    hash_sha256(data, n - sizeof trailer, trailer, sizeof trailer, digest);
    load_words(digest, true, out);
}

void checksum_seal_trailer(void *data, size_t n, const uint64_t verifier[4])
{
    uint8_t *trailer = (uint8_t *)data + n - CHECKSUM_TRAILER_SIZE;
    uint64_t words[4];

    checksum_trailer_words(data, n, verifier, BYTES_HOST_BIG, words);
    put_u64(trailer, CHECKSUM_TRAILER_MAGIC, BYTES_HOST_BIG);
    for (int i = 0; i < 4; i++)
        put_u64(trailer + 8 + 8 * i, words[i], BYTES_HOST_BIG);
}

static int verify_trailer(const void *data, size_t n, const uint64_t verifier[4], bool folded,
                          bool *big)
{
    const uint8_t *trailer;
    uint64_t words[4];
    bool is_big;

    if (n < CHECKSUM_TRAILER_SIZE)
        return -EBADE;
    trailer = (const uint8_t *)data + n - CHECKSUM_TRAILER_SIZE;
    is_big = get_be64(trailer) == CHECKSUM_TRAILER_MAGIC;
    if (!is_big && get_le64(trailer) != CHECKSUM_TRAILER_MAGIC)
        return -EBADE;
    checksum_trailer_words(data, n, verifier, is_big, words);
    if (folded)
        checksum_fold(CHECKSUM_GANG_HEADER, words);
    for (int i = 0; i < 4; i++) {
        if (get_u64(trailer + 8 + 8 * i, is_big) != words[i])
            return -EBADE;
    }
    if (big)
        *big = is_big;
    return 0;
}

int checksum_verify_trailer(const void *data, size_t n, const uint64_t verifier[4], bool *big)
{
    return verify_trailer(data, n, verifier, false, big);
}

int checksum_verify_trailer_folded(const void *data, size_t n, const uint64_t verifier[4],
                                   bool *big)
{
    return verify_trailer(data, n, verifier, true, big);
}
