/* Allocations that fail on demand, in programs linked with alloc.c and alloc_link
 * (tests/meson.build). Only calls from our own objects fail, not those inside libraries. Which one
 * is the n-th is the same each time only if one thread allocates. */
#ifndef TESTS_SUPPORT_ALLOC_H
#define TESTS_SUPPORT_ALLOC_H

#include <stdbool.h>

/* The n-th allocation from now on fails (1 = the next one); 0: none. */
void alloc_fail_at(unsigned n);

/* Whether it did, since the last alloc_fail_at. */
bool alloc_failed(void);

#endif
