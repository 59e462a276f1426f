/*
 * Reading more than was asked for. A request costs a device, and this machine, as much as dozens of
 * blocks of data, and what was written together lies together: many small files, or the dnodes of a
 * directory. So when small reads come close to each other, the whole neighbourhood is read at
 * once, and the next ones are answered from a few such windows. Lonely reads are left alone.
 *
 * A window may be older than a write that was under way while it was read. Blocks are checked by
 * their checksums, so the worst that can happen is that one does not match; then it is read from
 * the device. What has no checksum never comes from here.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "vdev/leaf_impl.h"

#define WINDOW  ((uint64_t)128 << 10)
#define WINDOWS 8
#define SMALL   ((size_t)32 << 10) /* larger reads gain nothing */
#define PIECES  12                 /* that were asked for */
#define RECENT  8                  /* reads that are remembered, */
#define NEAR    (2 * WINDOW)       /* and what is close to them */

struct window {
    uint64_t start;   /* multiple of WINDOW */
    struct buf *data; /* NULL: none */
    uint64_t used;    /* when, in reads */
};

struct leaf_ahead {
    pthread_mutex_t lock; /* guards what follows */
    struct window windows[WINDOWS];
    struct window pieces[PIECES]; /* a ring: start and size are any */
    unsigned next_piece;
    uint64_t recent[RECENT]; /* offsets + 1 of reads that went to the device */
    unsigned next;           /* to be replaced */
    uint64_t clock;
    uint64_t writes; /* counts them */
};

struct leaf_ahead *leaf_ahead_new(void)
{
    struct leaf_ahead *a = calloc(1, sizeof *a);

    if (a)
        pthread_mutex_init(&a->lock, NULL);
    return a;
}

void leaf_ahead_free(struct leaf_ahead *a)
{
    if (!a)
        return;
    for (unsigned i = 0; i < WINDOWS; i++)
        buf_unref(a->windows[i].data);
    for (unsigned i = 0; i < PIECES; i++)
        buf_unref(a->pieces[i].data);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static void forget_in(struct window *w, unsigned n, uint64_t offset, uint64_t size)
{
    for (; n-- > 0; w++) {
        if (w->data && w->start < offset + size && offset < w->start + w->data->size) {
            buf_unref(w->data);
            w->data = NULL;
        }
    }
}

void leaf_ahead_forget(struct leaf_ahead *a, uint64_t offset, uint64_t size)
{
    MUTEX_GUARD(&a->lock);
    a->writes++;
    forget_in(a->windows, WINDOWS, offset, size);
    forget_in(a->pieces, PIECES, offset, size);
}

static int forget_all(struct vdev *leaf, void *arg)
{
    if (leaf->device)
        leaf_ahead_forget(leaf_queue_ahead(leaf), 0, leaf_data_size(leaf));
    return 0;
}

void vdev_forget_ahead(struct vdev *root)
{
    vdev_each_leaf(root, forget_all, NULL);
}

/* With the lock: the window's memory, referenced, if it has all of it. */
static struct buf *find(struct leaf_ahead *a, uint64_t offset, size_t size)
{
    for (unsigned i = 0; i < WINDOWS; i++) {
        struct window *w = &a->windows[i];
        if (w->data && w->start <= offset && offset + size <= w->start + w->data->size) {
            w->used = ++a->clock;
            return buf_ref(w->data);
        }
    }
    return NULL;
}

/* With the lock: remembers a read; was there one close to it? */
static bool near_others(struct leaf_ahead *a, uint64_t offset)
{
    bool near = false;

    for (unsigned i = 0; i < RECENT; i++) {
        uint64_t other = a->recent[i];
        near |= other && other - 1 < offset + NEAR && offset < other - 1 + NEAR;
    }
    a->recent[a->next++ % RECENT] = offset + 1;
    return near;
}

/* With the lock: data (taken over) replaces the window that was used longest ago. */
static void keep(struct leaf_ahead *a, uint64_t start, struct buf *data)
{
    struct window *oldest = &a->windows[0];

    for (unsigned i = 0; i < WINDOWS; i++) {
        struct window *w = &a->windows[i];
        if (w->data && w->start == start)
            oldest = w;
        else if (oldest->data && oldest->start != start && (!w->data || w->used < oldest->used))
            oldest = w;
    }
    buf_unref(oldest->data);
    *oldest = (struct window){start, data, ++a->clock};
}

static struct buf *read_window(struct vdev *leaf, struct leaf_ahead *a, uint64_t start,
                               uint64_t writes)
{
    struct buf *b = buf_new((size_t)MIN(WINDOW, leaf_data_size(leaf) - start));

    if (!b || device_read(leaf->device, start + VDEV_LABEL_START, b->data, b->size) != 0) {
        buf_unref(b);
        return NULL;
    }
    MUTEX_GUARD(&a->lock);
    if (a->writes == writes)
        keep(a, start, buf_ref(b));
    return b;
}

uint64_t leaf_ahead_begin(struct leaf_ahead *a)
{
    MUTEX_GUARD(&a->lock);
    return a->writes;
}

void leaf_ahead_add(struct leaf_ahead *a, uint64_t writes, uint64_t start, struct buf *data)
{
    MUTEX_GUARD(&a->lock);
    struct window *w = &a->pieces[a->next_piece++ % PIECES];
    buf_unref(w->data);
    *w = (struct window){start, data, 0};
    if (a->writes != writes) {
        buf_unref(w->data);
        w->data = NULL;
    }
}

bool leaf_ahead_find(struct leaf_ahead *a, uint64_t offset, void *data, size_t size)
{
    struct buf *b = NULL;
    uint64_t start = 0;
    {
        MUTEX_GUARD(&a->lock);
        for (unsigned i = 0; i < PIECES && !b; i++) {
            struct window *w = &a->pieces[i];
            if (w->data && w->start <= offset && offset + size <= w->start + w->data->size) {
                b = buf_ref(w->data);
                start = w->start;
            }
        }
    }
    if (!b)
        return false;
    memcpy(data, b->data + (offset - start), size);
    buf_unref(b);
    return true;
}

bool leaf_ahead_read(struct vdev *leaf, struct leaf_ahead *a, uint64_t offset, void *data,
                     size_t size)
{
    uint64_t start = P2_ROUND_DOWN(offset, WINDOW), writes;
    struct buf *b;
    bool near = false;

    if (leaf_ahead_find(a, offset, data, size))
        return true;
    if (size > SMALL || offset + size > leaf_data_size(leaf))
        return false;
    {
        MUTEX_GUARD(&a->lock);
        b = find(a, offset, size);
        near = !b && near_others(a, offset);
        writes = a->writes;
    }
    if (near && offset + size <= start + WINDOW)
        b = read_window(leaf, a, start, writes);
    if (!b)
        return false;
    memcpy(data, b->data + (offset - start), size);
    buf_unref(b);
    return true;
}
