#include "../support/test.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/buf.h"
#include "util/bytes.h"

static size_t alignment_for(size_t size)
{
    if (size > BUF_ALIGN - BUF_GRAIN)
        return BUF_ALIGN;
    return size > 0 && size % BUF_SECTOR == 0 ? BUF_SECTOR : BUF_GRAIN;
}

static void has_room_and_alignment(void **state)
{
    for (size_t size = 0; size < (20u << 20); size = size * 9 / 8 + 256) {
        struct buf *b = buf_new(size);
        assert_non_null(b);
        assert_int_equal(b->size, size);
        assert_true(b->capacity >= size && b->capacity % BUF_GRAIN == 0 && b->capacity > 0);
        assert_true(b->capacity <= size + size / 8 + BUF_ALIGN);
        if (size < BUF_ALIGN)
            assert_true(b->capacity < size + BUF_GRAIN || b->capacity == BUF_GRAIN);
        assert_int_equal((uintptr_t)b->data % alignment_for(size), 0);
        memset(b->data, 0xaa, b->capacity);
        buf_unref(b);
    }
    assert_null(buf_new(SIZE_MAX));
    assert_null(buf_new(SIZE_MAX - 5000));
    buf_unref(NULL);
}

static void counts_references(void **state)
{
    size_t before = buf_total_bytes();
    struct buf *b = buf_new_zero(3000), *c;

    assert_true(buf_is_zero(b->data, 3000));
    assert_int_equal(buf_total_bytes(), before + 3072);
    assert_false(buf_shared(b));
    assert_ptr_equal(buf_ref(b), b);
    assert_true(buf_shared(b));
    buf_unref(b);
    assert_false(buf_shared(b));
    memset(b->data, 7, 3000);
    c = buf_copy(b);
    buf_unref(b);
    assert_int_equal(c->size, 3000);
    assert_int_equal(c->data[2999], 7);
    buf_unref(c);
    assert_int_equal(buf_total_bytes(), before);
}

static void zeroes_reused_buffers(void **state)
{
    for (int i = 0; i < 100; i++) {
        struct buf *b = buf_new(8192);
        memset(b->data, 1, 8192);
        buf_unref(b);
        b = buf_new_zero(8192);
        assert_true(buf_is_zero(b->data, 8192));
        buf_unref(b);
    }
}

static void knows_zeros(void **state)
{
    unsigned char data[200] = {0};

    for (size_t n = 0; n <= sizeof data; n++) {
        assert_true(buf_is_zero(data, n));
        for (size_t i = 0; i < n; i++) {
            data[i] = 1;
            assert_false(buf_is_zero(data, n));
            data[i] = 0;
        }
    }
}

static size_t resident(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*s %lu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MEMORY false /* the sanitizer has as much again */
#else
#define OWN_MEMORY true
#endif

/* Resident is what is in use and little more, whatever sizes came and went before. */
static void gives_memory_back(void **state)
{
    enum { BYTES = 128 << 20 };
    static const size_t sizes[] = {512, 4096, 1536, 131072, 20000, 1 << 20};
    static struct buf *held[BYTES / 512];
    size_t before = resident(), slack = BUF_KEEP_BYTES + BUF_KEEP_THREAD + (8 << 20);

    if (!OWN_MEMORY)
        skip();
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        size_t n = BYTES / sizes[s];
        for (size_t i = 0; i < n; i++) {
            held[i] = buf_new(sizes[s]);
            assert_non_null(held[i]);
            memset(held[i]->data, 1, sizes[s]);
        }
        assert_true(resident() < before + BYTES + BYTES / 4 + slack);
        /* Every second one first: the gaps of small ones cannot go, but they are known. */
        for (size_t i = 0; i < n; i += 2)
            buf_unref(held[i]);
        if (sizes[s] >= BUF_ALIGN)
            assert_true(resident() < before + BYTES / 2 + BYTES / 8 + slack);
        assert_true(buf_total_bytes() + buf_unused_bytes() + slack + before + BYTES / 8 >
                    resident());
        for (size_t i = 1; i < n; i += 2)
            buf_unref(held[i]);
        assert_true(resident() < before + slack);
    }
}

/* Buffers that one thread allocates, checks and hands to the next through a table of slots. */
enum { THREADS = 4, SLOTS = 64, ROUNDS = 20000 };
static struct buf *_Atomic slots[SLOTS];

static void *churn(void *arg)
{
    struct env e;

    env_init_seeded(&e, (uintptr_t)arg);
    for (int i = 0; i < ROUNDS; i++) {
        struct buf *b = buf_new((size_t)512 << test_below(&e, 9)), *old;
        b->data[0] = (unsigned char)b->size;
        b->data[b->size - 1] = (unsigned char)(b->size >> 8);
        old = atomic_exchange(&slots[test_below(&e, SLOTS)], b);
        if (old && old->size > 1)
            assert_int_equal(old->data[old->size - 1], (unsigned char)(old->size >> 8));
        buf_unref(old);
    }
    return NULL;
}

static void moves_between_threads(void **state)
{
    struct env e = test_env();
    size_t before = buf_total_bytes();
    pthread_t t[THREADS];

    for (uintptr_t round = 0; round < 3; round++) {
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)e.random(&e)), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(t[i], NULL);
    }
    for (int i = 0; i < SLOTS; i++)
        buf_unref(atomic_exchange(&slots[i], NULL));
    assert_int_equal(buf_total_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_room_and_alignment), cmocka_unit_test(counts_references),
        cmocka_unit_test(zeroes_reused_buffers),  cmocka_unit_test(knows_zeros),
        cmocka_unit_test(moves_between_threads),  cmocka_unit_test(gives_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
