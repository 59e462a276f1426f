#include <errno.h>
#include <string.h>

#include "../support/test.h"
#include "codec/raidz_impl.h"
#include "util/bytes.h"

struct stripe {
    struct raidz_column col[RAIDZ_COLUMNS_MAX];
    unsigned cols, nparity;
};

static void stripe_free(struct stripe *s)
{
    for (unsigned c = 0; c < s->cols; c++)
        free(s->col[c].data);
}

/* Long columns first, as the layout makes them; sizes in units of 256 bytes. */
static void stripe_new(struct stripe *s, struct env *env, unsigned nparity, unsigned data,
                       size_t units, unsigned longer)
{
    s->nparity = nparity;
    s->cols = nparity + data;
    for (unsigned c = 0; c < s->cols; c++) {
        bool is_long = c < nparity + longer;
        s->col[c].size = RAIDZ_UNIT * (units + (is_long || c < nparity ? longer != 0 : 0));
        s->col[c].data = malloc(s->col[c].size + 1);
        test_fill(env, s->col[c].data, s->col[c].size);
    }
}

/* Straight from the definition (spec 02 12.2). */
static unsigned char parity_byte(const struct stripe *s, unsigned p, size_t at)
{
    unsigned char sum = 0;

    for (unsigned c = s->nparity; c < s->cols; c++) {
        for (unsigned k = 0; k < p; k++)
            sum = (unsigned char)(sum << 1) ^ (sum & 0x80 ? 0x1d : 0);
        sum ^= at < s->col[c].size ? s->col[c].data[at] : 0;
    }
    return sum;
}

static void check_parity(const struct stripe *s)
{
    for (unsigned p = 0; p < s->nparity; p++)
        for (size_t at = 0; at < s->col[p].size; at++)
            assert_int_equal(s->col[p].data[at], parity_byte(s, p, at));
}

static const struct raidz_variant *usable(size_t i)
{
    const struct raidz_variant *v = &raidz_variants[i];

    if (v->supported && !v->supported()) {
        print_message("%s is not there\n", v->name);
        return NULL;
    }
    raidz_use(v);
    return v;
}

static void published_bytes(void **state)
{
    struct stripe s = {.cols = 6, .nparity = 3};
    unsigned char expected[] = {0x00, 0x03, 0x1b};

    for (size_t i = 0; i < raidz_variant_count; i++) {
        if (!usable(i))
            continue;
        for (unsigned c = 0; c < 6; c++) {
            s.col[c] = (struct raidz_column){calloc(1, 256), 256};
            memset(s.col[c].data, c < 3 ? 0xee : (int)c - 2, 256);
        }
        raidz_generate(s.col, 6, 3);
        for (unsigned p = 0; p < 3; p++)
            assert_int_equal(s.col[p].data[255], expected[p]);
        stripe_free(&s);
    }
    assert_int_equal(raidz_tables()->power[8], 0x1d);
    assert_int_equal(raidz_mul(0x8e, 2), 1);
}

static void generates(void **state)
{
    struct env env = test_env();

    for (size_t i = 0; i < raidz_variant_count; i++)
        for (unsigned n = 0; usable(i) && n < 60; n++) {
            struct stripe s;
            unsigned data = 1 + (unsigned)test_below(&env, n < 55 ? 12 : 252);
            stripe_new(&s, &env, 1 + (unsigned)test_below(&env, 3), data, test_below(&env, 8),
                       1 + (unsigned)test_below(&env, data));
            raidz_generate(s.col, s.cols, s.nparity);
            check_parity(&s);
            stripe_free(&s);
        }
}

/* Loses the columns of set, and gets them back. */
static void lose(const struct stripe *s, const bool *bad)
{
    unsigned char *kept[RAIDZ_COLUMNS_MAX] = {0};

    for (unsigned c = 0; c < s->cols; c++)
        if (bad[c]) {
            kept[c] = malloc(s->col[c].size + 1);
            memcpy(kept[c], s->col[c].data, s->col[c].size);
            memset(s->col[c].data, 0xa5, s->col[c].size);
        }
    assert_int_equal(raidz_reconstruct(s->col, s->cols, s->nparity, bad), 0);
    for (unsigned c = 0; c < s->cols; c++)
        if (bad[c]) {
            assert_memory_equal(kept[c], s->col[c].data, s->col[c].size);
            free(kept[c]);
        }
}

/* Every set of up to nparity columns. */
static void lose_all(const struct stripe *s)
{
    for (unsigned set = 1; set < 1u << s->cols; set++) {
        bool bad[32];
        for (unsigned c = 0; c < s->cols; c++)
            bad[c] = set & 1u << c;
        if ((unsigned)__builtin_popcount(set) <= s->nparity)
            lose(s, bad);
        else
            assert_int_equal(raidz_reconstruct(s->col, s->cols, s->nparity, bad), -EINVAL);
    }
}

static void reconstructs_every_combination(void **state)
{
    struct env env = test_env();

    for (size_t i = 0; i < raidz_variant_count; i++)
        for (unsigned p = 1; usable(i) && p <= 3; p++)
            for (unsigned data = 1; data <= 7; data++)
                for (unsigned longer = 0; longer <= data; longer += 2) {
                    struct stripe s;
                    stripe_new(&s, &env, p, data, longer ? test_below(&env, 3) : 2, longer);
                    raidz_generate(s.col, s.cols, p);
                    lose_all(&s);
                    stripe_free(&s);
                }
}

static void reconstructs_wide_stripes(void **state)
{
    struct env env = test_env();

    for (size_t i = 0; i < raidz_variant_count; i++) {
        struct stripe s;
        if (!usable(i))
            continue;
        stripe_new(&s, &env, 3, 252, 1, 200);
        raidz_generate(s.col, s.cols, 3);
        for (unsigned n = 0; n < 100; n++) {
            bool bad[RAIDZ_COLUMNS_MAX] = {false};
            for (unsigned k = 0; k < 3; k++)
                bad[test_below(&env, s.cols)] = true;
            lose(&s, bad);
        }
        stripe_free(&s);
    }
}

/* P = Q = R = the data when there is one data column. */
static void one_data_column(void **state)
{
    struct env env = test_env();

    for (size_t i = 0; i < raidz_variant_count; i++) {
        struct stripe s;
        if (!usable(i))
            continue;
        stripe_new(&s, &env, 3, 1, 2, 1);
        raidz_generate(s.col, s.cols, 3);
        for (unsigned p = 0; p < 3; p++)
            assert_memory_equal(s.col[p].data, s.col[3].data, s.col[3].size);
        lose_all(&s);
        stripe_free(&s);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_bytes),
        cmocka_unit_test(generates),
        cmocka_unit_test(reconstructs_every_combination),
        cmocka_unit_test(reconstructs_wide_stripes),
        cmocka_unit_test(one_data_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
