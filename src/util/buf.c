/*
 * Buffers come and go with every block, so freed ones are kept: first in a small stack of the
 * thread that freed them, which needs no lock, then in lists of the whole process, to and from
 * which half a stack moves at a time (a block is often read by one thread and released by another).
 * Both are bounded; what is too much goes back to its slab, and its memory to the system.
 */
#include "util/buf.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/slab_impl.h"

#define CLASSES    SLAB_CLASSES
#define CLASS_NONE SLAB_CLASS_NONE
#define GIVE_BYTES                                                                                 \
    ((size_t)1 << 20) /* what goes back to the slabs in one go: neighbours are found */

#if defined(__SANITIZE_ADDRESS__)
#define KEEP_BUFFERS false /* the sanitizer must see each free to find a use after it */
#else
#define KEEP_BUFFERS true
#endif

struct stack {
    struct buf *top;
    unsigned count;
};

struct thread_cache {
    struct stack stacks[CLASSES];
    size_t bytes;
    bool registered; /* thread_exit will be called */
};

static _Thread_local struct thread_cache local_cache;

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stack shared[CLASSES]; /* shared_lock */
static size_t shared_bytes;          /* shared_lock */
static _Atomic size_t keep_bytes = BUF_KEEP_BYTES;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static bool exit_key_made;

/* Bytes in use, spread over several cache lines: one counter would be the busiest line of all. A
 * single one may wrap below zero when threads free what others allocated; the sum is right. */
#define COUNTERS 32
static struct {
    _Alignas(64) _Atomic size_t bytes;
} counters[COUNTERS];
static _Atomic unsigned next_counter;
static _Thread_local unsigned my_counter; /* 1-based; 0: none yet */

static void count_bytes(size_t delta)
{
    if (my_counter == 0)
        my_counter =
            1 + atomic_fetch_add_explicit(&next_counter, 1, memory_order_relaxed) % COUNTERS;
    atomic_fetch_add_explicit(&counters[my_counter - 1].bytes, delta, memory_order_relaxed);
}

size_t buf_total_bytes(void)
{
    size_t sum = 0;

    for (unsigned i = 0; i < COUNTERS; i++)
        sum += atomic_load_explicit(&counters[i].bytes, memory_order_relaxed);
    return sum > SIZE_MAX / 2 ? 0 : sum; /* read in the middle of a change */
}

size_t buf_unused_bytes(void)
{
    size_t all = slab_resident(), used = buf_total_bytes();

    return all > used ? all - used : 0;
}

static void push(struct stack *s, struct buf *b)
{
    b->next_free = s->top;
    s->top = b;
    s->count++;
}

static struct buf *pop(struct stack *s)
{
    struct buf *b = s->top;

    if (b) {
        s->top = b->next_free;
        s->count--;
    }
    return b;
}

/* How many buffers of a class a thread keeps: 256 KiB, but at least one and at most 32. */
static unsigned stack_limit(size_t capacity)
{
    size_t n = (256u << 10) / capacity;

    return n < 1 ? 1 : n > 32 ? 32 : (unsigned)n;
}

void buf_keep(size_t bytes)
{
    atomic_store_explicit(&keep_bytes, MAX(bytes, (size_t)BUF_KEEP_BYTES), memory_order_relaxed);
}

/* With the lock: takes buffers out when too much is kept, of the class that has most; says which.
 */
static unsigned take_excess(struct stack *excess)
{
    unsigned class = 0;
    size_t most = 0;
    struct buf *b;

    if (shared_bytes <= atomic_load_explicit(&keep_bytes, memory_order_relaxed))
        return CLASS_NONE;
    for (unsigned i = 0; i < CLASSES; i++) {
        size_t bytes = shared[i].count ? shared[i].count * shared[i].top->capacity : 0;
        if (bytes > most) {
            most = bytes;
            class = i;
        }
    }
    for (size_t n = 0; n < GIVE_BYTES && (b = pop(&shared[class])); n += b->capacity) {
        shared_bytes -= b->capacity;
        push(excess, b);
    }
    return class;
}

/* Moves n buffers of the thread's class to the process's list. */
static void give_back(struct thread_cache *t, unsigned class, unsigned n)
{
    struct stack excess = {0};
    struct buf *b;

    {
        MUTEX_GUARD(&shared_lock);
        for (; n > 0 && (b = pop(&t->stacks[class])); n--) {
            t->bytes -= b->capacity;
            shared_bytes += b->capacity;
            push(&shared[class], b);
        }
        class = take_excess(&excess);
    }
    slab_give(class, excess.top);
}

static void take_shared(struct thread_cache *t, unsigned class, unsigned n)
{
    struct buf *b;

    MUTEX_GUARD(&shared_lock);
    for (; n > 0 && (b = pop(&shared[class])); n--) {
        shared_bytes -= b->capacity;
        t->bytes += b->capacity;
        push(&t->stacks[class], b);
    }
}

static void thread_exit(void *arg)
{
    struct thread_cache *t = arg;

    /* Another destructor may still free buffers after this one: it registers again then. */
    t->registered = false;
    for (unsigned i = 0; i < CLASSES; i++) {
        if (t->stacks[i].count > 0)
            give_back(t, i, t->stacks[i].count);
    }
}

static void make_exit_key(void)
{
    exit_key_made = pthread_key_create(&exit_key, thread_exit) == 0;
}

/* The thread's cache, or NULL if its contents would be lost at the thread's end. */
static struct thread_cache *thread_cache(void)
{
    struct thread_cache *t = &local_cache;

    if (t->registered)
        return t;
    if (!KEEP_BUFFERS)
        return NULL;
    pthread_once(&exit_once, make_exit_key);
    if (!exit_key_made || pthread_setspecific(exit_key, t) != 0)
        return NULL;
    t->registered = true;
    return t;
}

static struct buf *reuse(unsigned class, size_t capacity)
{
    struct thread_cache *t = class == CLASS_NONE ? NULL : thread_cache();
    struct buf *b;

    if (!t)
        return NULL;
    if (t->stacks[class].count == 0)
        take_shared(t, class, (stack_limit(capacity) + 1) / 2);
    b = pop(&t->stacks[class]);
    if (b)
        t->bytes -= capacity;
    return b;
}

static void keep(struct buf *b)
{
    size_t capacity;
    unsigned class = slab_class(b->capacity, &capacity);
    struct thread_cache *t = class == CLASS_NONE ? NULL : thread_cache();
    struct stack *s;

    if (!t) {
        b->next_free = NULL;
        slab_give(class, b);
        return;
    }
    s = &t->stacks[class];
    push(s, b);
    t->bytes += b->capacity;
    if (s->count > stack_limit(capacity) || t->bytes > BUF_KEEP_THREAD)
        give_back(t, class, (s->count + 1) / 2);
}

struct buf *buf_new(size_t size)
{
    struct buf *b;
    size_t capacity;
    unsigned class;

    if (size > SIZE_MAX / 2)
        return NULL;
    class = slab_class(size, &capacity);
    b = reuse(class, capacity);
    if (!b)
        b = slab_take(class, capacity);
    if (!b)
        return NULL;
    atomic_init(&b->refs, 1);
    b->size = size;
    b->next_free = NULL;
    count_bytes(b->capacity);
    return b;
}

struct buf *buf_new_zero(size_t size)
{
    struct buf *b = buf_new(size);

    if (b)
        memset(b->data, 0, size);
    return b;
}

struct buf *buf_copy(const struct buf *b)
{
    struct buf *copy = buf_new(b->size);

    if (copy)
        memcpy(copy->data, b->data, b->size);
    return copy;
}

struct buf *buf_ref(struct buf *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void buf_unref(struct buf *b)
{
    /* Release: our reads of the data come before its reuse; acquire: so do everybody else's. */
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    count_bytes(-b->capacity);
    keep(b);
}

int buf_is_zero(const void *data, size_t n)
{
    const unsigned char *p = data;
    size_t head = MIN(n, (size_t)16);

    for (size_t i = 0; i < head; i++) {
        if (p[i] != 0)
            return 0;
    }
    /* Each byte equals the one 16 before it; the C library's comparison is as fast as memory. */
    return n <= 16 || memcmp(p, p + 16, n - 16) == 0;
}
