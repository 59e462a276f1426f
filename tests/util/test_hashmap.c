#include "../support/test.h"

#include <string.h>

#include "util/hashmap.h"

struct item {
    int value;
    struct hashmap_node node;
};

static void finds_and_removes(void **state)
{
    enum { N = 5000 };
    struct hashmap m;
    struct item *items = calloc(N, sizeof *items);

    assert_int_equal(hashmap_init(&m, 0), 0);
    for (int i = 0; i < N; i++) {
        items[i].value = i;
        hashmap_insert(&m, &items[i].node, hash_u64((uint64_t)i / 2)); /* two per hash */
    }
    assert_int_equal(m.count, N);
    assert_true(m.mask + 1 >= N);
    for (int i = 0; i < N; i += 2) {
        struct hashmap_node *n = hashmap_first(&m, hash_u64((uint64_t)i / 2));
        int sum = container_of(n, struct item, node)->value;
        n = hashmap_next(n);
        sum += container_of(n, struct item, node)->value;
        assert_int_equal(sum, 2 * i + 1);
        assert_null(hashmap_next(n));
        hashmap_remove(&m, n);
        assert_non_null(hashmap_first(&m, hash_u64((uint64_t)i / 2)));
    }
    assert_int_equal(m.count, N / 2);
    assert_null(hashmap_first(&m, hash_u64(N)));
    hashmap_destroy(&m);
    free(items);
}

static void hashes_bytes(void **state)
{
    struct env e = test_env();
    unsigned char data[100], flipped[100];

    test_fill(&e, data, sizeof data);
    for (size_t n = 0; n < sizeof data; n++) {
        uint64_t h = hash_bytes(data, n, 7);
        assert_true(h == hash_bytes(data, n, 7));
        assert_false(h == hash_bytes(data, n, 8));
        assert_false(h == hash_bytes(data, n + 1, 7));
        for (size_t bit = 0; bit < n * 8; bit++) {
            memcpy(flipped, data, n);
            flipped[bit / 8] ^= (unsigned char)(1 << bit % 8);
            assert_false(h == hash_bytes(flipped, n, 7));
        }
    }
    /* A zero tail is part of the value. */
    memset(data, 0, sizeof data);
    for (size_t n = 0; n < 40; n++)
        assert_false(hash_bytes(data, n, 0) == hash_bytes(data, n + 1, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_and_removes),
        cmocka_unit_test(hashes_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
