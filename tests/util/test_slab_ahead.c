#include "../support/test.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "util/buf.h"

static bool is_resident(unsigned char *page)
{
    unsigned char in = 0;

    return mincore(page, 4096, &in) == 0 && (in & 1);
}

/* The memory behind the first buffer of a slab comes without being used. */
static void touches_ahead(void **state)
{
    enum { SIZE = 1 << 20, HUGE = 2 << 20 };
    struct buf *b[64];
    unsigned char *next = NULL;
    time_t end = time(NULL) + 60;
    int n = 0;

#if defined(__SANITIZE_ADDRESS__)
    skip(); /* no slabs */
#endif
    assert_int_equal(buf_touch_ahead(), 0);
    assert_int_equal(buf_touch_ahead(), 0);
    do { /* until one begins a huge page that has another behind it in its slab */
        assert_true(n < 64);
        b[n] = buf_new(SIZE);
        assert_non_null(b[n]);
        next = b[n]->data + HUGE;
    } while ((uintptr_t)b[n++]->data % HUGE != 0);
    while (!is_resident(next) && time(NULL) < end)
        sched_yield();
    assert_true(is_resident(next));
    while (n > 0)
        buf_unref(b[--n]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(touches_ahead)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
