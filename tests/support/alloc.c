/* The linker sends our objects' allocations here (--wrap). */
#include "alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic unsigned countdown;
static _Atomic bool failed;

void alloc_fail_at(unsigned n)
{
    countdown = n;
    failed = false;
}

bool alloc_failed(void)
{
    return failed;
}

static bool fails_now(void)
{
    unsigned n = countdown;

    while (n > 0 && !atomic_compare_exchange_weak(&countdown, &n, n - 1))
        ;
    if (n != 1)
        return false;
    failed = true;
    return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);

void *__wrap_malloc(size_t n)
{
    return fails_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails_now() ? NULL : __real_realloc(p, n);
}

int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
    return fails_now() ? ENOMEM : __real_posix_memalign(p, align, n);
}
