/* The hashes that are written here, against published vectors and themselves. */
#include "../support/test.h"

#include <string.h>

#include "codec/blake3_impl.h"
#include "codec/hash_impl.h"
#include "util/bytes.h"

static void check_hex(const uint8_t *digest, size_t n, const char *expect)
{
    char text[129];

    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, expect);
}

static void edonr(void **state)
{
    struct env e = test_env();
    uint8_t digest[64], again[64], data[600];

    hash_edonr512(NULL, 0, "abc", 3, digest);
    check_hex(digest, 64,
              "1b14db155f1d406594b8cef70a4362ec6b5de6a5daf50ec999e987c19d3049e2"
              "de5977bb05b1bb220050a1ea5b46a9f1740acafbf6b45032adc90c628372c22b");
    /* In two pieces it is the same, whatever the padding. */
    test_fill(&e, data, sizeof data);
    for (size_t n = 128; n <= sizeof data; n++) {
        hash_edonr512(NULL, 0, data, n, digest);
        hash_edonr512(data, 128, data + 128, n - 128, again);
        assert_memory_equal(digest, again, 64);
    }
}

static void skein(void **state)
{
    uint8_t digest[32];

    hash_skein512_256(NULL, 0, "", 0, digest);
    check_hex(digest, 32, "39ccc4554a8b31853b9de7a1fe638a24cce6b35a55f2431009e18780335d2621");
}

static void blake3(void **state)
{
    /* The first vector of the authors' file has this key and no input. */
    static const char key[] = "whats the Elvish word for friend";
    uint8_t digest[32];

    hash_blake3(NULL, "", 0, digest);
    check_hex(digest, 32, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
    hash_blake3((const uint8_t *)key, "", 0, digest);
    check_hex(digest, 32, "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26");
    hash_blake3(NULL, "abc", 3, digest);
    check_hex(digest, 32, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
}

/* The definition as a recursion: the left part is the largest power of two of chunks that leaves
 * something to the right. */
static void tree(const uint8_t *key, const uint8_t *p, size_t n, uint64_t counter, unsigned more,
                 uint8_t out[32])
{
    uint8_t pair[64];
    uint32_t words[8];
    size_t left = BLAKE3_CHUNK;
    struct blake3_batch b = {
        .key = words, .data = pair, .blocks = 1, .flags = BLAKE3_KEYED | BLAKE3_PARENT | more};

    for (int i = 0; i < 8; i++)
        words[i] = get_le32(key + 4 * i);
    if (n == BLAKE3_CHUNK) {
        b = (struct blake3_batch){.key = words,
                                  .data = p,
                                  .blocks = 16,
                                  .counter = counter,
                                  .flags = BLAKE3_KEYED,
                                  .first_flags = BLAKE3_CHUNK_START,
                                  .last_flags = BLAKE3_CHUNK_END | more};
    } else {
        while (left * 2 < n)
            left *= 2;
        tree(key, p, left, counter, 0, pair);
        tree(key, p + left, n - left, counter + left / BLAKE3_CHUNK, 0, pair + 32);
    }
    blake3_variants[blake3_variant_count - 1].run(&b, out);
}

static void blake3_trees(void **state)
{
    struct env e = test_env();
    const size_t most = 140 * BLAKE3_CHUNK;
    uint8_t *data = malloc(most), key[32], one[32], two[32];

    test_fill(&e, data, most);
    test_fill(&e, key, sizeof key);
    for (size_t n = BLAKE3_CHUNK; n <= most; n += BLAKE3_CHUNK) {
        tree(key, data, n, 0, BLAKE3_ROOT, one);
        for (size_t v = 0; v < blake3_variant_count; v++) {
            blake3_hash_with(v, key, data, n, two);
            assert_memory_equal(one, two, 32);
        }
    }
    /* Lengths between whole chunks, where only the variants can be compared. */
    for (int i = 0; i < 300; i++) {
        size_t n = test_below(&e, most);
        blake3_hash_with(blake3_variant_count - 1, NULL, data, n, one);
        for (size_t v = 0; v < blake3_variant_count; v++) {
            blake3_hash_with(v, NULL, data, n, two);
            assert_memory_equal(one, two, 32);
        }
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edonr),
        cmocka_unit_test(skein),
        cmocka_unit_test(blake3),
        cmocka_unit_test(blake3_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
