/* Sound ZAPs with some bytes changed, through the fuzzer's entry. */
#include "../support/test.h"

#include "../fuzz/fuzz_zap.c"

/* A ZAP with n entries, as the fuzzer takes it. */
static size_t make_input(struct env *env, unsigned n, unsigned char **out)
{
    struct objset *os = fake_objset(env->state);
    struct object_params params = {.type = OT_DIRECTORY};
    struct tx tx = {0};
    struct dnode *dn;
    char name[80];
    uint64_t value[4] = {0};
    assert_int_equal(zap_create(os, &params, 0, &tx, &dn), 0);
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%u-%0*u", i, (int)test_below(env, 30) + 1, 0);
        assert_int_equal(zap_add(dn, name, 8, n > 100 ? 1 + test_below(env, 4) : 1, value, &tx), 0);
    }
    uint32_t bs = dnode_block_size(dn);
    uint64_t blocks = dnode_max_blkid(dn) + 1;
    unsigned char *b = *out = malloc(1 + bs * blocks);
    b[0] = blocks > 1 ? 5 << 1 | 1 : (bs / 512 - 1) << 1;
    for (uint64_t i = 0; i < blocks; i++)
        memcpy(b + 1 + i * bs, dn->blocks[i]->data, bs);
    dnode_rele(dn);
    fake_objset_free(os);
    return 1 + bs * blocks;
}

static void run(struct env *env, unsigned n, unsigned rounds)
{
    unsigned char *good, *bad;
    size_t size = make_input(env, n, &good);
    bad = malloc(size);
    for (unsigned r = 0; r < rounds; r++) {
        memcpy(bad, good, size);
        for (unsigned k = 1 + test_below(env, 8); k > 0; k--) {
            /* Mostly headers, tables of chains and chunk links. */
            size_t at = 1 + (test_below(env, 2) ? test_below(env, size - 1)
                                                : test_below(env, size / 16384 + 1) * 16384 +
                                                      test_below(env, 120));
            if (at < size)
                bad[at] = test_below(env, 3) ? env->random(env) : 0xff * test_below(env, 2);
        }
        LLVMFuzzerTestOneInput(bad, size - test_below(env, 2) * test_below(env, size / 2));
    }
    free(good);
    free(bad);
}

static void test_damage(void **state)
{
    struct env env = test_env();
    run(&env, 12, 300);
    run(&env, 90, 300);
    run(&env, 150, 300);
    run(&env, 1500, 100);
}

static void test_rubbish(void **state)
{
    struct env env = test_env();
    unsigned char b[5000];
    for (int i = 0; i < 500; i++) {
        test_fill(&env, b, sizeof b);
        put_le64(b + 1, 0x8000000000000000ull | test_below(&env, 4));
        LLVMFuzzerTestOneInput(b, 2 + test_below(&env, sizeof b - 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_rubbish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
