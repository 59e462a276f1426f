/*
 * Reference-counted byte buffers for block contents. The contents of a buffer with more than one
 * reference are never changed. A buffer of at least BUF_ALIGN bytes is aligned to BUF_ALIGN, for
 * O_DIRECT; a smaller one of whole sectors to BUF_SECTOR, and the device copies it if it must; any
 * other to BUF_GRAIN.
 */
#ifndef UTIL_BUF_H
#define UTIL_BUF_H

#include <stdatomic.h>
#include <stddef.h>

#define BUF_ALIGN  4096
#define BUF_SECTOR 512
#define BUF_GRAIN  256

struct slab;

struct buf {
    _Atomic unsigned refs;
    size_t size;           /* bytes in use */
    size_t capacity;       /* bytes allocated, a multiple of BUF_GRAIN */
    unsigned char *data;
    struct buf *next_free; /* buf.c's and slab.c's, while the buffer is unused */
    struct slab *slab;     /* slab.c's */
};

/* A new buffer with one reference and undefined contents; NULL when memory is short. */
struct buf *buf_new(size_t size);
struct buf *buf_new_zero(size_t size);
struct buf *buf_copy(const struct buf *b);
struct buf *buf_ref(struct buf *b);
void buf_unref(struct buf *b); /* NULL is allowed */

static inline int buf_shared(const struct buf *b)
{
    return atomic_load_explicit(&b->refs, memory_order_acquire) > 1;
}

/* True if all n bytes are zero. */
int buf_is_zero(const void *data, size_t n);

/* Bytes held by all referenced buffers of the process, for limits and statistics; a snapshot that
 * other threads may already have changed. */
size_t buf_total_bytes(void);
/* Bytes that are resident without being in use: unused buffers kept for the next buf_new (at most
 * BUF_KEEP_BYTES for the process, or what buf_keep says, and BUF_KEEP_THREAD for each thread), and
 * gaps between small buffers, which only their neighbours' end gives back to the system. */
#define BUF_KEEP_BYTES  (64u << 20)
#define BUF_KEEP_THREAD (1u << 20)
size_t buf_unused_bytes(void);
/* From now on a thread touches memory for buffers shortly before it is needed. For processes that
 * live long; a child of a fork(2) after it would have no such thread. 0 or a negative errno, which
 * costs nothing but speed. */
int buf_touch_ahead(void);
void buf_keep(size_t bytes); /* at least BUF_KEEP_BYTES are kept anyway */

#endif
