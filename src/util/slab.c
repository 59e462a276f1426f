/*
 * Slabs. The C library's allocator serves buffers badly: an aligned 4 KiB block costs it nearly
 * twice that, and what was freed in the middle of its heaps stays resident. A slab is a run of
 * address space cut into slots of one class. Address space is never given back, only reused for
 * another slab of the same length; memory is, by madvise, so that the mappings stay few.
 *
 * Memory comes in huge pages where the system has them, because page faults cost more than what is
 * done with a small block. Once memory has gone back from a region it gets small pages only: a huge
 * one would bring back the memory of the empty slots around one that is used. Sizes that are no
 * record sizes are those of compressed blocks on their way; they are few and get small pages.
 *
 * The headers of a slab's buffers are allocated with it, apart from the data: a slot has to be
 * aligned, and to be recorded as empty while it has no memory.
 */
#include "util/slab_impl.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "util/bytes.h"
#include "util/cleanup.h"

#define LINEAR_MAX (SLAB_LINEAR_CLASSES * (size_t)BUF_ALIGN)
#define CLASS_MAX  ((size_t)16 << 20)

/* Where slabs come from, by their length and the kind of pages. */
enum { SORT_SMALL, SORT_MEDIUM, SORT_LARGE, SORT_RECORD, SORTS };
static const size_t lengths[SORTS] = {(size_t)64 << 10, (size_t)1 << 20, CLASS_MAX, CLASS_MAX};
#define REGION_BYTES ((size_t)64 << 20) /* address space fetched at a time */
#define PAGES_AHEAD  4

#if defined(__SANITIZE_ADDRESS__)
#define USE_SLABS false /* the sanitizer must see each buffer to find its overflow */
#else
#define USE_SLABS true
#endif

struct region {
    unsigned char *start;
    unsigned char *at; /* not yet given to slabs */
    size_t left;
    _Atomic bool huge;
};

struct slab {
    struct slab *prev, *next; /* slabs of the class that have empty slots */
    struct region *region;
    unsigned char *base;
    unsigned class, sort;
    unsigned used;         /* slots handed out */
    unsigned count, fresh; /* fresh: slots that were ever handed out */
    struct buf *empty;     /* those of them that have come back */
    struct buf bufs[];
};

/* Address space without memory. */
struct run {
    struct run *next;
    struct region *region;
    unsigned char *base;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of this and the slabs */
static struct slab *partial[SLAB_CLASSES];
static struct run *runs[SORTS];
static struct region *regions[SORTS]; /* the newest */
static _Atomic size_t resident;

unsigned slab_class(size_t size, size_t *capacity)
{
    unsigned log, step;
    size_t grain;

    if (size <= BUF_ALIGN - BUF_GRAIN) {
        *capacity = size == 0 ? BUF_GRAIN : P2_ROUND_UP(size, (size_t)BUF_GRAIN);
        return (unsigned)(*capacity / BUF_GRAIN) - 1;
    }
    *capacity = P2_ROUND_UP(size, (size_t)BUF_ALIGN);
    if (size <= LINEAR_MAX)
        return SLAB_SMALL_CLASSES + (unsigned)(*capacity / BUF_ALIGN) - 1;
    if (size > CLASS_MAX)
        return SLAB_CLASS_NONE;
    log = (unsigned)high_bit(size - 1) - 1; /* 2^log < size <= 2^(log+1), log >= 16 */
    grain = ((size_t)1 << log) / SLAB_STEPS;
    step = (unsigned)((size - 1 - ((size_t)1 << log)) / grain);
    *capacity = ((size_t)1 << log) + (step + 1) * grain;
    return SLAB_SMALL_CLASSES + SLAB_LINEAR_CLASSES + (log - 16) * SLAB_STEPS + step;
}

static unsigned sort_of(unsigned class, size_t capacity)
{
    return class < SLAB_SMALL_CLASSES                         ? SORT_SMALL
           : class < SLAB_SMALL_CLASSES + SLAB_LINEAR_CLASSES ? SORT_MEDIUM
           : is_pow2(capacity)                                ? SORT_RECORD
                                                              : SORT_LARGE;
}

/* Slots of whole pages come and go one by one; smaller ones with their slab. */
static bool whole_pages(unsigned class)
{
    return class >= SLAB_SMALL_CLASSES;
}

/* ---- Address space; with the lock ---- */

static bool fetch_region(unsigned sort)
{
    struct region *r = malloc(sizeof *r);
    size_t n = REGION_BYTES + HUGE_PAGE;
    unsigned char *p;

    if (!r)
        return false;
    p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        free(r);
        return false;
    }
    r->at = (unsigned char *)P2_ROUND_UP((uintptr_t)p, (uintptr_t)HUGE_PAGE);
    r->start = r->at;
    r->left = REGION_BYTES;
    r->huge = sort != SORT_LARGE;
    madvise(p, n, r->huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    regions[sort] = r; /* the one before is all in slabs, which know it */
    return true;
}

static bool take_run(unsigned sort, struct slab *s)
{
    struct run *run = runs[sort];
    struct region *r;

    if (run) {
        runs[sort] = run->next;
        s->region = run->region;
        s->base = run->base;
        free(run);
        return true;
    }
    if ((!regions[sort] || regions[sort]->left == 0) && !fetch_region(sort))
        return false;
    r = regions[sort];
    s->region = r;
    s->base = r->at;
    r->at += lengths[sort];
    r->left -= lengths[sort];
    return true;
}

/* Gives pages back. Without huge ones any more: see above. */
static void drop(struct region *r, unsigned char *p, size_t n)
{
    if (atomic_exchange(&r->huge, false))
        madvise(r->start, REGION_BYTES, MADV_NOHUGEPAGE);
    madvise(p, n, MADV_DONTNEED);
}

/* ---- Slabs; with the lock ---- */

static void link_slab(struct slab *s)
{
    s->prev = NULL;
    s->next = partial[s->class];
    if (s->next)
        s->next->prev = s;
    partial[s->class] = s;
}

static void unlink_slab(struct slab *s)
{
    *(s->prev ? &s->prev->next : &partial[s->class]) = s->next;
    if (s->next)
        s->next->prev = s->prev;
}

static bool full(const struct slab *s)
{
    return s->used == s->count;
}

static struct slab *new_slab(unsigned class, size_t capacity)
{
    unsigned sort = sort_of(class, capacity), count = (unsigned)(lengths[sort] / capacity);
    struct slab *s = malloc(sizeof *s + count * sizeof s->bufs[0]);

    if (!s)
        return NULL;
    *s = (struct slab){.class = class, .sort = sort, .count = count};
    if (!take_run(sort, s)) {
        free(s);
        return NULL;
    }
    if (!whole_pages(class))
        atomic_fetch_add_explicit(&resident, lengths[sort], memory_order_relaxed);
    link_slab(s);
    return s;
}

/* The slab has no used slot. If its address cannot be noted it stays as it is. */
static void end_slab(struct slab *s)
{
    struct run *r = malloc(sizeof *r);

    if (!r)
        return;
    unlink_slab(s);
    if (!whole_pages(s->class)) {
        drop(s->region, s->base, lengths[s->sort]);
        atomic_fetch_sub_explicit(&resident, lengths[s->sort], memory_order_relaxed);
    }
    *r = (struct run){runs[s->sort], s->region, s->base};
    runs[s->sort] = r;
    free(s);
}

/* A slot is used for the first time: if it is the first in its huge page, those behind will be
 * needed soon. */
static void look_ahead(const struct slab *s, const unsigned char *data, size_t capacity)
{
    const struct region *r = s->region;
    size_t at = (size_t)(data - r->start), next = ROUND_UP(at + 1, HUGE_PAGE), end;

    if (!r->huge || capacity > HUGE_PAGE || at % HUGE_PAGE >= capacity)
        return;
    end = MIN(REGION_BYTES, next + PAGES_AHEAD * HUGE_PAGE);
    if (next < end)
        slab_populate(r->start + next, end - next);
}

static struct buf *take_slot(struct slab *s, size_t capacity)
{
    struct buf *b = s->empty;

    if (b) {
        s->empty = b->next_free;
    } else {
        b = &s->bufs[s->fresh];
        b->slab = s;
        b->data = s->base + s->fresh++ * capacity;
        b->capacity = capacity;
        look_ahead(s, b->data, capacity);
    }
    s->used++;
    if (full(s))
        unlink_slab(s);
    return b;
}

static void put_slot(struct buf *b)
{
    struct slab *s = b->slab;

    if (full(s))
        link_slab(s);
    b->next_free = s->empty;
    s->empty = b;
    if (--s->used == 0)
        end_slab(s);
}

/* ---- Buffers without a slab ---- */

static struct buf *take_single(size_t capacity)
{
    struct buf *b = malloc(sizeof *b);
    void *data;

    if (!b)
        return NULL;
    if (posix_memalign(&data, capacity < BUF_ALIGN ? BUF_SECTOR : BUF_ALIGN, capacity) != 0) {
        free(b);
        return NULL;
    }
    b->data = data;
    b->capacity = capacity;
    b->slab = NULL;
    return b;
}

static void give_singles(struct buf *list)
{
    while (list) {
        struct buf *b = list;
        list = b->next_free;
        free(b->data);
        free(b);
    }
}

/* ---- The interface ---- */

struct buf *slab_take(unsigned class, size_t capacity)
{
    struct slab *s;

    if (!USE_SLABS || class == SLAB_CLASS_NONE)
        return take_single(capacity);
    if (whole_pages(class))
        atomic_fetch_add_explicit(&resident, capacity, memory_order_relaxed);
    {
        MUTEX_GUARD(&lock);
        s = partial[class] ? partial[class] : new_slab(class, capacity);
        if (s)
            return take_slot(s, capacity);
    }
    if (whole_pages(class))
        atomic_fetch_sub_explicit(&resident, capacity, memory_order_relaxed);
    return NULL;
}

static int by_address(const void *x, const void *y)
{
    const struct buf *a = *(struct buf *const *)x, *b = *(struct buf *const *)y;

    return a->data < b->data ? -1 : a->data > b->data;
}

/* Neighbours go in one call: each costs the system, and every other thread, a moment. */
static void drop_pages(struct buf **v, size_t n)
{
    qsort(v, n, sizeof *v, by_address);
    for (size_t i = 0, k; i < n; i = k) {
        size_t bytes = v[i]->capacity;
        for (k = i + 1;
             k < n && v[k]->data == v[i]->data + bytes && v[k]->slab->region == v[i]->slab->region;
             k++)
            bytes += v[k]->capacity;
        drop(v[i]->slab->region, v[i]->data, bytes);
        atomic_fetch_sub_explicit(&resident, bytes, memory_order_relaxed);
    }
}

void slab_give(unsigned class, struct buf *list)
{
    enum { AT_ONCE = 256 };
    struct buf *v[AT_ONCE];

    if (!USE_SLABS || class == SLAB_CLASS_NONE) {
        give_singles(list);
        return;
    }
    while (list) {
        size_t n = 0;
        for (; list && n < AT_ONCE; list = list->next_free)
            v[n++] = list;
        if (whole_pages(class))
            drop_pages(v, n);
        MUTEX_GUARD(&lock);
        for (size_t i = 0; i < n; i++)
            put_slot(v[i]);
    }
}

size_t slab_resident(void)
{
    return atomic_load_explicit(&resident, memory_order_relaxed);
}
