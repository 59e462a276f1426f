#include "../support/test.h"

#include <errno.h>

#include "util/cleanup.h"

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

static int locked(pthread_mutex_t *m)
{
    if (pthread_mutex_trylock(m) != 0)
        return 1;
    pthread_mutex_unlock(m);
    return 0;
}

static void guards(void **state)
{
    {
        MUTEX_GUARD(&a);
        assert_true(locked(&a));
        MUTEX_GUARD(&b);
        assert_true(locked(&b));
        WRLOCK_GUARD(&rw);
        assert_int_equal(pthread_rwlock_tryrdlock(&rw), EBUSY);
    }
    assert_false(locked(&a));
    assert_false(locked(&b));
    {
        RDLOCK_GUARD(&rw);
        assert_int_equal(pthread_rwlock_trywrlock(&rw), EBUSY);
    }
    assert_int_equal(pthread_rwlock_trywrlock(&rw), 0);
    pthread_rwlock_unlock(&rw);
}

static char *stolen(void)
{
    CLEANUP_FREE char *p = malloc(3);

    return STEAL(p);
}

static void steals(void **state)
{
    CLEANUP_FREE char *p = stolen();

    assert_non_null(p);
    p[2] = 1; /* the address sanitizer would see a use after free */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(guards), cmocka_unit_test(steals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
