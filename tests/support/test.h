/* What every cmocka program includes first, and the seed of random tests. */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "util/env.h"
#include "util/err.h"

/* A call that must succeed; else its sentence is told. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        int ok_rc_ = (call);                                                                       \
        if (ok_rc_ != 0)                                                                           \
            fail_msg("%s: %s", #call, err_text(ok_rc_));                                           \
    } while (0)

/* From TARN_SEED, else from the clock; printed so that a failure can be repeated. */
static inline struct env test_env(void)
{
    const char *text = getenv("TARN_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
    struct env e;

    printf("TARN_SEED=%llu\n", (unsigned long long)seed);
    fflush(stdout);
    env_init_seeded(&e, seed);
    return e;
}

/* A random number below n. */
static inline uint64_t test_below(struct env *e, uint64_t n)
{
    return e->random(e) % n;
}

static inline void test_fill(struct env *e, void *data, size_t n)
{
    unsigned char *p = data;

    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)e->random(e);
}

/* A file below tests/data, which the caller frees. */
static inline void *test_load(const char *name, size_t *n)
{
    char path[1024];
    FILE *f;
    void *data;

    snprintf(path, sizeof path, "%s/%s", TEST_DATA, name);
    f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    data = malloc(*n + 1);
    assert_int_equal(fread(data, 1, *n, f), *n);
    fclose(f);
    return data;
}

#endif
