/* The authentication codes in root blocks that OpenZFS wrote. */
#include "../support/test.h"

#include <errno.h>

#include "../support/crypt_keys.h"
#include "dmu/dmu_impl.h"

/* Of the two codes: which bytes of the root block they cover. */
static bool covered(size_t at)
{
    size_t dn = at < 512 ? 0 : 1024 + (at - 1024) / 512 * 512, in = at - dn;

    if (at >= 512 && at < 1024)
        return at >= OBJSET_OFF_TYPE && at < OBJSET_OFF_LOCAL_MAC + 32; /* not the log's header */
    if (at >= 1024 + 3 * 512)
        return false;
    return in < 64 && in != 7 && (in < 24 || in >= 32);
}

static void real_sets(void **state)
{
    for (size_t k = 0; k < ARRAY_LEN(sample_keys); k++) {
        struct crypt_key *key = sample_key(&sample_keys[k]),
                         *other = sample_key(&sample_keys[1 - k]);
        char name[64];
        unsigned char *file, *block;
        size_t n;
        snprintf(name, sizeof name, "crypt/%s-objset", sample_keys[k].name);
        file = test_load(name, &n);
        block = file + BLKPTR_SIZE;
        n -= BLKPTR_SIZE;
        assert_int_equal(objset_authenticate(key, block, n, false), 0);
        assert_int_equal(objset_authenticate(other, block, n, false), -EBADE);
        for (size_t at = 0; at < n; at++) {
            if (at > 64 && at < 512)
                continue; /* pointers: only some fields count */
            if (at >= 1024 && (at - 1024) % 512 >= 64)
                continue;
            block[at] ^= 1;
            assert_int_equal(objset_authenticate(key, block, n, false), covered(at) ? -EBADE : 0);
            block[at] ^= 1;
        }
        /* As a raw stream leaves it. */
        memset(block + OBJSET_OFF_LOCAL_MAC, 0, 32);
        assert_int_equal(objset_authenticate(key, block, n, false), 0);
        free(file);
        crypt_key_unref(key);
        crypt_key_unref(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_sets)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
