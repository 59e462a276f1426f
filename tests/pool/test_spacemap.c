#include <errno.h>
#include <string.h>

#include "../support/test.h"
#include "pool/alloc.h"
#include "util/bytes.h"
#include "util/rangeset.h"

static void words_to_bytes(const uint64_t *words, size_t n, unsigned char *out)
{
    for (size_t i = 0; i < n; i++)
        put_le64(out + 8 * i, words[i]);
}

/* The worked example of the description: metaslab 13 of a vdev with ashift 12. */
static void worked_example(void **state)
{
    static const unsigned char bytes[] = {
        0x3e, 0,    0, 0,    0,    0,    0x04, 0x80, 1, 0,    1, 0,    0,    0, 0, 0, 0,    0,
        0,    6,    0, 0,    0,    0xc0, 5,    0,    0, 0,    0, 0,    0,    0, 0, 0, 0x0e, 0,
        0,    0,    0, 0,    0,    0,    0x10, 0,    0, 0,    0, 0,    0x4d, 0, 0, 0, 0,    0,
        0x04, 0x90, 0, 0x80, 0x0e, 0,    0,    0,    0, 0,    0, 0x80, 0x10, 0, 0, 0, 0,    0,
        0x71, 0,    0, 0,    0,    0,    0x04, 0x90, 6, 0x80, 5, 0,    0,    0, 0, 0};
    struct rangeset *s = rangeset_new();
    struct range r;

    assert_int_equal(sizeof bytes, 0x58);
    assert_int_equal(spacemap_apply(s, 0xd000000, 1 << 24, 12, bytes, sizeof bytes, false), 0);
    assert_int_equal(rangeset_total(s), 0x2000);
    assert_true(rangeset_next(s, 0, &r));
    assert_int_equal(r.start, 0xd001000);
    assert_int_equal(r.end, 0xd003000);
    rangeset_free(s);
}

struct seen {
    unsigned count;
    bool is_free;
    uint64_t vdev, offset, run;
};

static int see(void *arg, bool is_free, uint64_t vdev, uint64_t offset, uint64_t run)
{
    struct seen *s = arg;

    *s = (struct seen){s->count + 1, is_free, vdev, offset, run};
    return 0;
}

static void log_words(void **state)
{
    static const uint64_t words[] = {0xc00000000f000001, 0x0000000000023978};
    unsigned char bytes[16], *out;
    struct seen seen = {0};
    struct rangeset *set = rangeset_new();
    uint64_t n;

    words_to_bytes(words, 2, bytes);
    assert_int_equal(spacemap_each(0, ~0ull, 9, bytes, 16, false, see, &seen), 0);
    assert_int_equal(seen.count, 1);
    assert_false(seen.is_free);
    assert_int_equal(seen.vdev, 1);
    assert_int_equal(seen.offset, 0x472f000);
    assert_int_equal(seen.run, 0x2000);

    rangeset_add(set, 0x472f000, 0x4731000);
    assert_int_equal(spacemap_encode_log(set, false, 1, 518, 1, 131072, 0, &out, &n), 0);
    assert_int_equal(n, 24);
    assert_int_equal(get_le64(out), 0x8004000000000000 | 518);
    assert_memory_equal(out + 8, bytes, 16);
    free(out);
    rangeset_free(set);
}

static int apply_words(const uint64_t *words, size_t n, uint64_t size, unsigned shift)
{
    unsigned char bytes[256];
    struct rangeset *s = rangeset_new();
    int rc;

    words_to_bytes(words, n, bytes);
    rc = spacemap_apply(s, 0, size, shift, bytes, 8 * n, false);
    rangeset_free(s);
    return rc;
}

static void refuses_damage(void **state)
{
    const uint64_t twice[] = {0x10000, 0x10000};   /* ALLOC unit 1 twice */
    const uint64_t overlap[] = {0x10003, 0x30000}; /* 1..4, 3 */
    const uint64_t unallocated[] = {0x18000};      /* FREE of nothing */
    const uint64_t half[] = {0x10000, 0x18001};    /* FREE of more than there is */
    const uint64_t outside[] = {0x100000000};      /* unit 65536 of 4096 */
    const uint64_t crosses[] = {0xfff0001};        /* last unit and one more */
    const uint64_t cut[] = {0xc000000000000000};   /* first word of two */
    const uint64_t huge[] = {0xcfffffffff000000, 0x7fffffffffffffff};
    const uint64_t fine[] = {0x8004000000000001, 0, 0x10000, 0x18000, 0x8000000000000000};

    assert_int_equal(apply_words(twice, 2, 1 << 24, 12), -EBADE);
    assert_int_equal(apply_words(overlap, 2, 1 << 24, 12), -EBADE);
    assert_int_equal(apply_words(unallocated, 1, 1 << 24, 12), -EBADE);
    assert_int_equal(apply_words(half, 2, 1 << 24, 12), -EBADE);
    assert_int_equal(apply_words(outside, 1, 1 << 24, 12), -EBADE);
    assert_int_equal(apply_words(crosses, 1, 1 << 24, 12), -EBADE);
    assert_int_equal(apply_words(cut, 1, 1 << 24, 12), -EBADE);
    assert_int_equal(apply_words(huge, 2, 1 << 24, 12), -EBADE);
    assert_int_equal(apply_words(fine, 5, 1 << 24, 12), 0);
    assert_int_equal(spacemap_apply(NULL, 0, 1 << 24, 12, fine, 7, false), -EBADE);
}

/* Maps of real pools: their headers say how much is allocated. */
static void real_maps(void **state)
{
    static const struct {
        const char *name;
        uint64_t metaslab, alloc;
    } maps[] = {{"spacemap/aged-ms1.map", 1, 1117696},
                {"spacemap/aged-ms4.map", 4, 87552},
                {"spacemap/zoo-ms3.map", 3, 11492864}};
    struct seen seen = {0};
    unsigned char *log;
    size_t n;

    for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
        unsigned char *bytes = test_load(maps[i].name, &n);
        struct rangeset *s = rangeset_new();
        assert_int_equal(spacemap_apply(s, maps[i].metaslab << 24, 1 << 24, 9, bytes, n, false), 0);
        assert_int_equal(rangeset_total(s), maps[i].alloc);
        rangeset_free(s);
        free(bytes);
    }
    log = test_load("spacemap/aged-log.map", &n);
    assert_int_equal(spacemap_each(0, ~0ull, 9, log, n, false, see, &seen), 0);
    assert_true(seen.count > 10);
    assert_int_equal(seen.vdev, 0);
    free(log);
}

static void big_endian(void **state)
{
    unsigned char bytes[16];
    struct rangeset *s = rangeset_new();

    put_be64(bytes, 0x8004000000000001);
    put_be64(bytes + 8, 0x10003);
    assert_int_equal(spacemap_apply(s, 0, 1 << 24, 12, bytes, 16, true), 0);
    assert_true(rangeset_contains(s, 0x1000, 0x5000));
    assert_int_equal(rangeset_total(s), 0x4000);
    rangeset_free(s);
}

static void long_runs(void **state)
{
    struct rangeset *s = rangeset_new(), *back = rangeset_new();
    unsigned char *out;
    uint64_t n;

    rangeset_add(s, 0x1000, 0x1000 + (40000ull << 12));
    assert_int_equal(spacemap_encode(s, false, 0, 12, 9, 2, false, 16384, 0, &out, &n), 0);
    assert_int_equal(n, 24); /* debug, 32768 units, 7232 units */
    assert_int_equal(get_le64(out), 0x8008000000000009);
    assert_int_equal(get_le64(out + 8), 0x10000 | 32767);
    assert_int_equal(get_le64(out + 16), 0x80010000 | 7231);
    free(out);
    /* With two words per entry: both in the same block. */
    assert_int_equal(spacemap_encode(s, true, 0, 12, 9, 2, true, 512, 496, &out, &n), 0);
    assert_int_equal(n, 32);
    assert_int_equal(get_le64(out + 8), 0x8000000000000000);
    assert_int_equal(get_le64(out + 16), 0xc000000000000000 | 39999ull << 24);
    assert_int_equal(get_le64(out + 24), 0x8000000000000001);
    rangeset_add(back, 0x1000, 0x1000 + (40000ull << 12));
    assert_int_equal(spacemap_apply(back, 0, 1ull << 28, 12, out, n, false), 0);
    assert_int_equal(rangeset_total(back), 0);
    free(out);
    rangeset_clear(s);
    out = (unsigned char *)1;
    assert_int_equal(spacemap_encode(s, true, 0, 12, 9, 2, true, 512, 496, &out, &n), 0);
    assert_int_equal(n, 0);
    assert_null(out);
    rangeset_free(s);
    rangeset_free(back);
}

/* Random changes, written as batches, read back. */
static void round_trip(void **state)
{
    struct env env = test_env();
    const uint64_t start = 5ull << 34, size = 1ull << 34, block = 4096;

    for (int round = 0; round < 40; round++) {
        struct rangeset *truth = rangeset_new(), *back = rangeset_new();
        unsigned char *map = NULL;
        uint64_t length = 0;
        bool v2 = round & 1;
        for (int batch = 0; batch < 20; batch++) {
            struct rangeset *change = rangeset_new();
            bool is_free = batch & 1;
            unsigned char *out;
            uint64_t n;
            for (int i = 0; i < 50; i++) {
                uint64_t at = start + (test_below(&env, size >> 12) << 12);
                uint64_t run = (1 + test_below(&env, test_below(&env, 10) ? 20 : 100000)) << 12;
                struct range r;
                if (at + run > start + size)
                    continue;
                if (!is_free && !rangeset_overlaps(truth, at, at + run)) {
                    rangeset_add(change, at, at + run);
                    rangeset_add(truth, at, at + run);
                } else if (is_free && rangeset_next(truth, at, &r)) {
                    rangeset_add(change, r.start, r.end);
                    rangeset_remove(truth, r.start, r.end);
                }
            }
            assert_int_equal(
                spacemap_encode(change, is_free, start, 12, 100, 1, v2, block, length, &out, &n),
                0);
            map = realloc(map, length + n + 1);
            memcpy(map + length, out, n);
            length += n;
            free(out);
            rangeset_free(change);
        }
        assert_int_equal(spacemap_apply(back, start, size, 12, map, length, false), 0);
        assert_int_equal(rangeset_total(back), rangeset_total(truth));
        assert_int_equal(rangeset_count(back), rangeset_count(truth));
        for (uint64_t at = 0; at < length; at += 8) /* no entry crosses a block */
            if (get_le64(map + at) >> 62 == 3) {
                assert_true(at / block == (at + 8) / block);
                at += 8;
            }
        free(map);
        rangeset_free(truth);
        rangeset_free(back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_example), cmocka_unit_test(log_words),
        cmocka_unit_test(refuses_damage), cmocka_unit_test(real_maps),
        cmocka_unit_test(big_endian),     cmocka_unit_test(long_runs),
        cmocka_unit_test(round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
