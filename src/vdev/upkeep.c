/* TRIM and initialize: what is done to devices where nobody's data is. */
#include "vdev/upkeep.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "util/bytes.h"
#include "vdev/change.h"
#include "vdev/gate_impl.h"
#include "vdev/vdev_impl.h"
#include "vdev/wait_impl.h"

#define FILL_SIZE (1u << 20) /* of one write */

/* ---- Positions ---- */

void vdev_leaf_range(const struct vdev *leaf, uint64_t *from, uint64_t *to)
{
    if (leaf->parent == NULL || leaf->top == leaf)
        return;
    vdev_leaf_range(leaf->parent, from, to);
    leaf->parent->kind->child_range(leaf->parent, leaf->id, from, to);
}

bool vdev_has_ranges(const struct vdev *leaf)
{
    for (const struct vdev *v = leaf; v != leaf->top; v = v->parent)
        if (!v->parent->kind->child_range || vdev_is_expanding(v->parent))
            return false;
    return true;
}

uint64_t vdev_leaf_position(const struct vdev *leaf, uint64_t offset)
{
    uint64_t from = 0, to = offset;

    vdev_leaf_range(leaf, &from, &to);
    return to;
}

uint64_t vdev_top_position(const struct vdev *leaf, uint64_t position)
{
    uint64_t low = 0, high = leaf->top->asize >> leaf->top->ashift;

    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (vdev_leaf_position(leaf, middle << leaf->top->ashift) <= position)
            low = middle;
        else
            high = middle - 1;
    }
    return low << leaf->top->ashift;
}

bool vdev_can_trim(const struct vdev *leaf)
{
    struct device_info info = {.discards = true};

    if (leaf->device && vdev_readable(leaf))
        device_info(leaf->device, &info);
    return info.discards && !__atomic_load_n(&leaf->no_trim, __ATOMIC_RELAXED);
}

/* ---- Doing it ---- */

/* What is left to do of one. */
struct part {
    struct device_io io; /* the first, for done */
    struct vdev *leaf;
    uint64_t at, end;    /* bytes of the leaf */
    struct vdev_upkeep *one;
    struct vdev_wait *wait;
};

static uint64_t *fill;

static void make_fill(void)
{
    fill = aligned_alloc(4096, FILL_SIZE);
    for (size_t i = 0; fill && i < FILL_SIZE / sizeof *fill; i++)
        fill[i] = VDEV_INITIALIZE_VALUE;
}

static bool writable(const struct vdev *leaf)
{
    struct device_info info = {.writable = false};

    if (leaf->device && vdev_readable(leaf))
        device_info(leaf->device, &info);
    return info.writable;
}

static struct part prepare(struct vdev *top, uint64_t from, uint64_t to, struct vdev_upkeep *one)
{
    struct part p = {.leaf = vdev_find_guid(top, one->guid), .one = one};

    one->bytes = 0;
    if (!p.leaf || !p.leaf->kind->leaf || !vdev_has_ranges(p.leaf) || !writable(p.leaf)) {
        one->rc = -ENODEV;
        return p;
    }
    vdev_leaf_range(p.leaf, &from, &to);
    p.at = from;
    p.end = to;
    if (one->kind == VDEV_TRIM)
        one->rc = vdev_can_trim(p.leaf) ? 0 : -EOPNOTSUPP;
    else
        one->rc = fill ? 0 : -ENOMEM;
    return p;
}

static void part_done(struct device_io *io, int rc)
{
    struct part *p = (struct part *)io;
    bool trim = p->one->kind == VDEV_TRIM;

    p->at += io->size;
    if (trim && (rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -ENOTTY)) {
        __atomic_store_n(&p->leaf->no_trim, true, __ATOMIC_RELAXED);
        p->one->rc = -EOPNOTSUPP;
    } else if (rc == 0) {
        p->one->bytes += io->size;
    } else {
        __atomic_fetch_add(&p->leaf->stats.write_errors, 1, __ATOMIC_RELAXED);
        p->one->rc = -EIO;
    }
    vdev_wait_done(p->wait, 0);
}

static bool unfinished(const struct part *p)
{
    return p->one->rc == 0 && p->at < p->end;
}

static void send(struct part *p)
{
    bool trim = p->one->kind == VDEV_TRIM;
    uint64_t left = p->end - p->at;

    p->io = (struct device_io){.op = trim ? DEVICE_DISCARD : DEVICE_WRITE,
                               .offset = p->at + VDEV_LABEL_START,
                               .size = trim ? left : MIN(left, FILL_SIZE),
                               .data = trim ? NULL : fill,
                               .done = part_done};
    device_submit(p->leaf->device, &p->io);
}

/* A piece of each that is not finished; false: there is none. */
static bool step(struct part *part, size_t n)
{
    struct vdev_wait wait;
    unsigned pending = 0;

    for (size_t i = 0; i < n; i++)
        pending += unfinished(&part[i]);
    if (pending == 0)
        return false;
    vdev_wait_init(&wait, pending);
    for (size_t i = 0; i < n; i++) {
        part[i].wait = &wait;
        if (unfinished(&part[i]))
            send(&part[i]);
    }
    vdev_wait_all(&wait);
    return true;
}

void vdev_upkeep(struct vdev *top, uint64_t offset, uint64_t size, struct vdev_upkeep *one, size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct part *part = calloc(n, sizeof *part);
    unsigned slot;

    pthread_once(&once, make_fill);
    if (!part) {
        for (size_t i = 0; i < n; i++)
            one[i].rc = -ENOMEM;
        return;
    }
    slot = gate_enter(top->gate);
    for (size_t i = 0; i < n; i++)
        part[i] = prepare(top, offset, offset + size, &one[i]);
    while (step(part, n))
        ;
    gate_leave(top->gate, slot);
    free(part);
}
