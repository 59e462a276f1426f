#include "../support/test.h"

#include <string.h>

#include "codec/checksum.h"
#include "codec/fletcher_impl.h"
#include "util/bytes.h"

enum { SIZE = 128 * 1024 };

static void known_sums(void **state)
{
    uint8_t data[64] = {0};
    uint64_t s[4];

    put_le32(data, 1);
    put_le32(data + 4, 2);
    put_le32(data + 8, 3);
    fletcher4(data, 12, false, s);
    assert_int_equal(s[0], 6);
    assert_int_equal(s[1], 1 + 3 + 6);
    assert_int_equal(s[2], 1 + 4 + 10);
    assert_int_equal(s[3], 1 + 5 + 15);
    put_be32(data, 7);
    fletcher4(data, 4, true, s);
    assert_int_equal(s[3], 7);

    for (int i = 0; i < 4; i++)
        put_le64(data + 8 * i, (uint64_t)i + 1);
    fletcher2(data, 32, false, s);
    assert_int_equal(s[0], 1 + 3);
    assert_int_equal(s[1], 2 + 4);
    assert_int_equal(s[2], 1 + 4);
    assert_int_equal(s[3], 2 + 6);
}

/* The definition, word by word. */
static void plain(const uint8_t *p, size_t n, bool big, uint64_t s[4])
{
    memset(s, 0, 4 * sizeof *s);
    for (size_t i = 0; i + 4 <= n; i += 4) {
        s[0] += get_u32(p + i, big);
        s[1] += s[0];
        s[2] += s[1];
        s[3] += s[2];
    }
}

static void variants_agree(void **state)
{
    struct env e = test_env();
    uint8_t *data = malloc(SIZE + 64);
    uint64_t expect[4], got[4];

    for (int round = 0; round < 60; round++) {
        size_t n = round < 3 ? SIZE : FLETCHER4_STRIDE * (1 + test_below(&e, 200));
        uint8_t *p = data + test_below(&e, 64);
        bool big = test_below(&e, 2);
        test_fill(&e, p, n);
        if (round == 0)
            memset(p, 0xff, n); /* the largest sums */
        plain(p, n, big, expect);
        for (size_t v = 0; v < fletcher4_variant_count; v++) {
            const struct fletcher4_variant *f = &fletcher4_variants[v];
            if (f->supported && !f->supported()) {
                if (round == 0)
                    printf("this processor has no %s\n", f->name);
                continue;
            }
            f->run(p, n, big != BYTES_HOST_BIG, got);
            assert_memory_equal(got, expect, sizeof got);
        }
    }
    free(data);
}

static void continues(void **state)
{
    struct env e = test_env();
    uint8_t *data = malloc(SIZE);
    uint64_t whole[4], pieces[4];

    printf("in use: %s\n", fletcher4_implementation());
    test_fill(&e, data, SIZE);
    for (int round = 0; round < 50; round++) {
        size_t n = 4 * test_below(&e, SIZE / 4);
        bool big = test_below(&e, 2);
        memset(pieces, 0, sizeof pieces);
        for (size_t at = 0, len; at < n; at += len) {
            len = 4 * (1 + (size_t)test_below(&e, round < 25 ? 40 : 5000));
            len = MIN(len, n - at);
            fletcher4_update(data + at, len, big, pieces);
        }
        plain(data, n, big, whole);
        assert_memory_equal(pieces, whole, sizeof whole);
        fletcher4(data, n, big, pieces);
        assert_memory_equal(pieces, whole, sizeof whole);
    }
    free(data);
}

/* The factors of the joining formula grow with the cube of the length. */
static void joins_long_pieces(void **state)
{
    const size_t n = (size_t)24 << 20;
    uint8_t *data = malloc(n);
    uint64_t whole[4], pieces[4] = {0};

    memset(data, 0xa5, n);
    plain(data, n, false, whole);
    fletcher4_update(data, 4096, false, pieces);
    fletcher4_update(data + 4096, n - 4096, false, pieces);
    assert_memory_equal(pieces, whole, sizeof whole);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_sums),
        cmocka_unit_test(variants_agree),
        cmocka_unit_test(continues),
        cmocka_unit_test(joins_long_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
