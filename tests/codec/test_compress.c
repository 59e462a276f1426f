#include "../support/test.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "codec/compress.h"
#include "util/bytes.h"

enum { MOST = 128 * 1024 };

/* Text-like, zero-rich or random bytes, so that each encoder meets what it likes and what not. */
static void make_data(struct env *e, uint8_t *p, size_t n, unsigned kind)
{
    size_t i = 0;

    memset(p, 0, n);
    while (i < n) {
        size_t run = 1 + test_below(e, kind == 2 ? 200 : 90);
        run = MIN(run, n - i);
        if (kind == 0)
            test_fill(e, p + i, run);
        else if (kind == 1 && i > 2000 && test_below(e, 2))
            memmove(p + i, p + i - test_below(e, 2000) - 1, run);
        else if (kind == 1 || test_below(e, 3) == 0)
            memset(p + i, (int)test_below(e, 5), run);
        i += run;
    }
}

/* Buffers of exactly the size, so that the address sanitizer sees each byte too far. */
static void round_trip(unsigned type, int level, const uint8_t *src, size_t n, size_t cap)
{
    uint8_t *packed = malloc(cap ? cap : 1), *back = malloc(n ? n : 1), *exact;
    size_t len = 0;
    int rc = compress_encode(type, level, src, n, packed, cap, &len);

    if (rc == 0) {
        assert_true(len <= cap);
        exact = malloc(len + 100);
        memcpy(exact, packed, len);
        memset(exact + len, 0, 100);
        memset(back, 0xee, n);
        assert_int_equal(
            compress_decode(type, exact, type == COMPRESS_OFF ? len : len + 100, back, n), 0);
        assert_memory_equal(back, src, n);
        free(exact);
    } else {
        assert_int_equal(rc, -ENOSPC);
    }
    free(packed);
    free(back);
}

static const unsigned types[] = {COMPRESS_OFF,        COMPRESS_LZJB,   COMPRESS_GZIP_1,
                                 COMPRESS_GZIP_1 + 5, COMPRESS_GZIP_9, COMPRESS_ZLE,
                                 COMPRESS_LZ4,        COMPRESS_ZSTD};

static void round_trips(void **state)
{
    struct env e = test_env();
    uint8_t *src = malloc(MOST);

    for (int round = 0; round < 120; round++) {
        size_t n = round < 40 ? 1 + test_below(&e, 300) : 512 * (1 + test_below(&e, MOST / 512));
        make_data(&e, src, n, (unsigned)round % 3);
        for (size_t t = 0; t < ARRAY_LEN(types); t++) {
            round_trip(types[t], 0, src, n, n * 2 + 100);
            round_trip(types[t], 0, src, n, n - n / 8);
            round_trip(types[t], 0, src, n, test_below(&e, n));
        }
    }
    free(src);
}

static void sizes_fit_exactly(void **state)
{
    struct env e = test_env();
    uint8_t src[4096], packed[8192], back[4096];
    size_t len, again;

    make_data(&e, src, sizeof src, 2);
    /* ZLE's last item is two bytes long, so that a block one byte shorter ends within it. */
    memcpy(src + sizeof src - 3, "\1\0\0", 3);
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        assert_int_equal(compress_encode(types[t], 0, src, sizeof src, packed, sizeof packed, &len),
                         0);
        /* LZJB and ZLE want some room more than they use, as the reference does. */
        assert_int_equal(compress_encode(types[t], 0, src, sizeof src, packed, len + 65, &again),
                         0);
        assert_int_equal(len, again);
        assert_int_equal(compress_encode(types[t], 0, src, sizeof src, packed, len - 1, &again),
                         -ENOSPC);
        /* A block of another length is damaged; only LZJB has no end to tell it by. */
        compress_encode(types[t], 0, src, sizeof src, packed, sizeof packed, &len);
        assert_int_equal(compress_decode(types[t], packed, len, back, sizeof back - 1),
                         types[t] == COMPRESS_LZJB ? 0 : -EILSEQ);
    }
}

static void zstd_levels(void **state)
{
    struct env e = test_env();
    uint8_t *src = malloc(MOST), *packed = malloc(MOST);
    size_t len;

    make_data(&e, src, MOST, 1);
    for (int level = -1; level < 130; level++) {
        bool known = (level >= 0 && level <= 19) || (level >= 103 && level <= 123);
        assert_int_equal(compress_encode(COMPRESS_ZSTD, level, src, MOST, packed, MOST, &len),
                         known ? 0 : -EINVAL);
        if (!known)
            continue;
        assert_int_equal(packed[4], level == 0 ? 3 : level);
        assert_int_equal(get_be32(packed), len - 8);
        round_trip(COMPRESS_ZSTD, level, src, MOST, MOST);
    }
    packed[4] = 101;
    assert_int_equal(compress_decode(COMPRESS_ZSTD, packed, len, src, MOST), -EILSEQ);
    free(src);
    free(packed);
}

/* A block the reference wrote (02 6.7). */
static void zstd_real_block(void **state)
{
    uint8_t block[] = {0, 0, 0,    0x0e, 2, 0, 0x28, 0xa5, 0,    0x20, 0x4d,
                       0, 0, 0x10, 0xfe, 0, 1, 0,    0xfb, 0x9f, 0x07, 0x58};
    uint8_t data[0x4000], old[sizeof block], again[0x4000];

    assert_int_equal(compress_decode(COMPRESS_ZSTD, block, sizeof block, data, sizeof data), 0);
    /* With the level last, as early big-endian writers had it. */
    memcpy(old, block, sizeof old);
    memmove(old + 4, old + 5, 3);
    old[7] = 2;
    assert_int_equal(compress_decode(COMPRESS_ZSTD, old, sizeof old, again, sizeof again), 0);
    assert_memory_equal(data, again, sizeof data);
    assert_int_equal(compress_decode(COMPRESS_ZSTD, block, sizeof block, data, 0x3fff), -EILSEQ);
}

static void lzjb_by_hand(void **state)
{
    /* "abc", then 9 bytes from 3 back, then literal "d". */
    const uint8_t packed[] = {0x08, 'a', 'b', 'c', 6 << 2, 3, 'd'};
    uint8_t bad[] = {0x02, 'a', 0, 2}, data[13];

    assert_int_equal(compress_decode(COMPRESS_LZJB, packed, sizeof packed, data, 13), 0);
    assert_memory_equal(data, "abcabcabcabcd", 13);
    assert_int_equal(compress_decode(COMPRESS_LZJB, packed, sizeof packed - 1, data, 13), -EILSEQ);
    assert_int_equal(compress_decode(COMPRESS_LZJB, bad, sizeof bad, data, 13), -EILSEQ);
    bad[3] = 0;
    assert_int_equal(compress_decode(COMPRESS_LZJB, bad, sizeof bad, data, 13), -EILSEQ);
}

static void zle_by_hand(void **state)
{
    uint8_t src[512] = {0}, packed[512];
    /* 192 zeros, three literals (a single zero among them), 317 zeros as 192 + 125. */
    const uint8_t expect[] = {255, 2, 'x', 0, 'y', 255, 63 + 125};
    size_t len;

    src[192] = 'x';
    src[194] = 'y';
    assert_int_equal(compress_encode(COMPRESS_ZLE, 0, src, sizeof src, packed, 448, &len), 0);
    assert_int_equal(len, sizeof expect);
    assert_memory_equal(packed, expect, sizeof expect);
}

static void odd_numbers(void **state)
{
    uint8_t a[16] = {0}, b[16];
    size_t len = 1;

    assert_int_equal(compress_encode(COMPRESS_EMPTY, 0, a, 16, b, 16, &len), 0);
    assert_int_equal(len, 0);
    a[3] = 1;
    assert_int_equal(compress_encode(COMPRESS_EMPTY, 0, a, 16, b, 16, &len), -ENOSPC);
    assert_int_equal(compress_encode(COMPRESS_ON, 0, a, 16, b, 16, &len), -ENOTSUP);
    assert_int_equal(compress_encode(COMPRESS_COUNT, 0, a, 16, b, 16, &len), -ENOTSUP);
    assert_int_equal(compress_decode(COMPRESS_INHERIT, a, 16, b, 16), -ENOTSUP);
    assert_int_equal(compress_decode(99, a, 16, b, 16), -ENOTSUP);
    assert_string_equal(compress_name(COMPRESS_GZIP_9), "gzip-9");
    assert_null(compress_name(COMPRESS_COUNT));
}

/* Damaged blocks may decode to anything, but only within the buffers. */
static void survives_damage(void **state)
{
    struct env e = test_env();
    uint8_t *src = malloc(8192), *packed = malloc(16384), *back = malloc(8192), *exact;
    size_t len;

    for (int round = 0; round < 2000; round++) {
        unsigned type = types[test_below(&e, ARRAY_LEN(types))];
        make_data(&e, src, 8192, (unsigned)round % 3);
        assert_int_equal(compress_encode(type, 0, src, 8192, packed, 16384, &len), 0);
        for (uint64_t i = test_below(&e, 4); i > 0; i--)
            packed[test_below(&e, len)] ^= (uint8_t)(1u << test_below(&e, 8));
        len = round % 4 ? len : test_below(&e, len);
        exact = malloc(len ? len : 1);
        memcpy(exact, packed, len);
        (void)compress_decode(type, exact, len, back, 8192);
        free(exact);
    }
    free(src);
    free(packed);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),  cmocka_unit_test(sizes_fit_exactly),
        cmocka_unit_test(zstd_levels),  cmocka_unit_test(zstd_real_block),
        cmocka_unit_test(lzjb_by_hand), cmocka_unit_test(zle_by_hand),
        cmocka_unit_test(odd_numbers),  cmocka_unit_test(survives_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
