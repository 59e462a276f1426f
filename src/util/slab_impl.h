/*
 * Where buffers get their memory (private to util): slabs of slots of one size. A slot given back
 * is without memory: its pages have gone back to the system, at once if it consists of whole pages,
 * else when the slab has no used slot any more.
 */
#ifndef UTIL_SLAB_IMPL_H
#define UTIL_SLAB_IMPL_H

#include "util/buf.h"

/* Size classes: every 256 bytes below 4 KiB, every 4 KiB up to 64 KiB, then eight steps per
 * doubling up to 16 MiB. Larger buffers are in no class. */
#define SLAB_SMALL_CLASSES  (BUF_ALIGN / BUF_GRAIN - 1)
#define SLAB_LINEAR_CLASSES 16
#define SLAB_STEPS          8
#define SLAB_CLASSES        (SLAB_SMALL_CLASSES + SLAB_LINEAR_CLASSES + 8 * SLAB_STEPS)
#define SLAB_CLASS_NONE     SLAB_CLASSES

/* The class that holds size bytes, and in *capacity how many its buffers have. */
unsigned slab_class(size_t size, size_t *capacity);

/* A buffer of the class (capacity is the class's or, without one, what is needed), with data,
 * capacity and slab set; NULL: out of memory. */
struct buf *slab_take(unsigned class, size_t capacity);
/* Gives a list of buffers of one class back. */
void slab_give(unsigned class, struct buf *list);
/* Bytes of memory in slabs, slots in use included. */
size_t slab_resident(void);

#define HUGE_PAGE ((size_t)2 << 20)

/* slab_ahead.c: the memory of [start, start + bytes) will be needed soon. Returns at once; does
 * nothing before buf_touch_ahead(). */
void slab_populate(void *start, size_t bytes);

#endif
