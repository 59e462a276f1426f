#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "codec/checksum.h"
#include "util/bytes.h"

static void check_words(unsigned type, const char *text, bool big, const uint64_t expect[4])
{
    uint64_t words[4];

    assert_int_equal(checksum_compute(type, text, strlen(text), NULL, big, words), 0);
    assert_memory_equal(words, expect, sizeof words);
}

static void sha2_vectors(void **state)
{
    /* FIPS 180-4 examples for "abc". */
    static const uint64_t sha256[4] = {0xba7816bf8f01cfeaull, 0x414140de5dae2223ull,
                                       0xb00361a396177a9cull, 0xb410ff61f20015adull};
    static const uint64_t sha512_256[4] = {0x53048e2681941ef9ull, 0x9b2e29b76b4c7dabull,
                                           0xe4c2d0c634fc6d46ull, 0xe0e2f13107e7af23ull};
    uint64_t swapped[4];

    check_words(CHECKSUM_SHA256, "abc", true, sha256);
    check_words(CHECKSUM_SHA256, "abc", false, sha256);
    check_words(CHECKSUM_SHA512, "abc", true, sha512_256);
    for (int i = 0; i < 4; i++)
        swapped[i] = __builtin_bswap64(sha512_256[i]);
    check_words(CHECKSUM_SHA512, "abc", false, swapped);
}

static void table(void **state)
{
    uint64_t words[4] = {1, 1, 1, 1};

    assert_null(checksum_info(CHECKSUM_COUNT));
    for (unsigned t = 0; t < CHECKSUM_COUNT; t++)
        assert_non_null(checksum_info(t)->name);
    assert_string_equal(checksum_info(CHECKSUM_BLAKE3)->feature, "org.openzfs:blake3");
    assert_int_equal(checksum_compute(CHECKSUM_COUNT, "", 0, NULL, false, words), -ENOTSUP);
    assert_int_equal(checksum_compute(CHECKSUM_ON, "", 0, NULL, false, words), -ENOTSUP);
    assert_int_equal(checksum_compute(CHECKSUM_OFF, "abcd", 4, NULL, false, words), 0);
    assert_true(words[0] == 0 && words[3] == 0);
}

static void folds(void **state)
{
    uint64_t a[4] = {1, 2, 4, 8}, b[4] = {1, 2, 4, 8};
    const uint64_t folded[4] = {5, 10, 0, 0}, cut[4] = {1, 2, 0, 0};

    checksum_fold(CHECKSUM_FLETCHER4, a);
    assert_memory_equal(a, folded, sizeof a);
    checksum_fold(CHECKSUM_SHA256, b);
    assert_memory_equal(b, cut, sizeof b);
}

static void trailers(void **state)
{
    struct env e = test_env();
    const uint64_t verifier[4] = {0x4000, 0, 0, 0}, other[4] = {0x44000, 0, 0, 0};
    uint8_t block[1024];
    bool big;

    test_fill(&e, block, sizeof block);
    assert_int_equal(checksum_verify_trailer(block, sizeof block, verifier, &big), -EBADE);
    checksum_seal_trailer(block, sizeof block, verifier);
    assert_int_equal(checksum_verify_trailer(block, sizeof block, verifier, &big), 0);
    assert_int_equal(big, BYTES_HOST_BIG);
    assert_int_equal(checksum_verify_trailer(block, sizeof block, other, &big), -EBADE);
    assert_int_equal(checksum_verify_trailer(block, 39, verifier, &big), -EBADE);
    block[17] ^= 4;
    assert_int_equal(checksum_verify_trailer(block, sizeof block, verifier, &big), -EBADE);
    block[17] ^= 4;
    block[1023] ^= 1;
    assert_int_equal(checksum_verify_trailer(block, sizeof block, verifier, &big), -EBADE);
}

static void foreign_trailers(void **state)
{
    const uint64_t verifier[4] = {7, 8, 9, 0};
    uint8_t block[512] = "anything";
    uint64_t words[4];
    bool big = BYTES_HOST_BIG;

    checksum_trailer_words(block, sizeof block, verifier, !BYTES_HOST_BIG, words);
    put_u64(block + 472, CHECKSUM_TRAILER_MAGIC, !BYTES_HOST_BIG);
    for (int i = 0; i < 4; i++)
        put_u64(block + 480 + 8 * i, words[i], !BYTES_HOST_BIG);
    assert_int_equal(checksum_verify_trailer(block, sizeof block, verifier, &big), 0);
    assert_int_equal(big, !BYTES_HOST_BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha2_vectors),
        cmocka_unit_test(table),
        cmocka_unit_test(folds),
        cmocka_unit_test(trailers),
        cmocka_unit_test(foreign_trailers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
