/* Reads, writes and flushes on top-level vdevs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/gate_impl.h"
#include "vdev/vdev_impl.h"
#include "vdev/wait_impl.h"

static bool in_range(const struct vdev *top, uint64_t offset, uint64_t size)
{
    return size <= top->asize && offset <= top->asize - size &&
           ((offset | size) & ((1ull << top->ashift) - 1)) == 0;
}

int vdev_check_range(const struct vdev *top, uint64_t offset, size_t size)
{
    if (!top)
        return err_set(ENXIO, "no such vdev");
    if (!vdev_readable(top))
        return err_set(ENXIO, "vdev %u cannot be read%s%s", top->id, top->why ? ": " : "",
                       top->why ? top->why : "");
    if (!in_range(top, offset, size))
        return err_set(EIO, "vdev %u has no %zu bytes at %llu", top->id, size,
                       (unsigned long long)offset);
    return 0;
}

int vdev_read(struct vdev *top, uint64_t offset, void *data, size_t size, uint64_t birth,
              int (*verify)(void *arg, const void *data), void *arg)
{
    unsigned slot = top ? gate_enter(top->gate) : 0;
    int rc = vdev_check_range(top, offset, size);

    if (rc == 0)
        rc = top->kind->read(top, offset, data, size, birth, verify, arg);
    if (top)
        gate_leave(top->gate, slot);
    return rc;
}

static void submitted_done(struct vdev_io *io, int rc)
{
    io->done = io->told;
    gate_leave(io->vdev->gate, io->slot);
    io->done(io, rc);
}

void vdev_submit(struct vdev_io *io)
{
    struct vdev *top = io->vdev;

    if (top->gate) {
        if (!gate_admit(top->gate, io, &io->slot))
            return;
        io->told = io->done;
        io->done = submitted_done;
    }
    if (!vdev_readable(top))
        io->done(io, -ENXIO);
    else if (!in_range(top, io->offset, io->size))
        io->done(io, -EIO);
    else
        top->kind->submit(top, io);
}

/* All leaves flush at the same time; the last one to finish wakes the caller. */
struct flush {
    struct vdev_wait wait;
    struct flush_one {
        struct device_io io;
        struct flush *all;
        struct vdev *leaf;
        int rc; /* of this leaf; 0 if it has nothing to flush */
    } * one;    /* by leaf, in tree order */
    unsigned used, room;
    unsigned judged; /* leaves */
    int rc;          /* of a leaf that cannot be done without */
};

static void flush_done(struct device_io *io, int rc)
{
    struct flush_one *one = (struct flush_one *)io;

    one->rc = rc;
    if (rc)
        vdev_set_failed(one->leaf);
    vdev_wait_done(&one->all->wait, 0);
}

static int count_leaf(struct vdev *leaf, void *arg)
{
    ((struct flush *)arg)->room++;
    return 0;
}

static int flush_leaf(struct vdev *leaf, void *arg)
{
    struct flush *f = arg;
    struct flush_one *one = &f->one[f->used++];
    struct device_info info = {.writable = false};

    *one = (struct flush_one){.io = {.op = DEVICE_FLUSH, .done = flush_done}, .all = f, .leaf = leaf};
    if (leaf->device && vdev_readable(leaf))
        device_info(leaf->device, &info);
    if (info.writable)
        device_submit(leaf->device, &one->io);
    else
        vdev_wait_done(&f->wait, 0);
    return 0;
}

/* Is what was written to v safe? A vdev may do without as many children as it can compute. */
static bool flushed(const struct vdev *v, struct flush *f)
{
    unsigned bad = 0;

    if (v->kind->leaf) {
        int rc = f->one[f->judged++].rc;
        f->rc = rc ? rc : f->rc;
        return rc == 0 && vdev_readable(v);
    }
    for (unsigned i = 0; i < v->children; i++)
        bad += !flushed(v->child[i], f);
    return bad <= vdev_spare_children(v);
}

static int judge(const struct vdev *root, struct flush *f)
{
    int rc = 0;

    for (unsigned i = 0; i < root->children; i++)
        if (!flushed(root->child[i], f) && vdev_readable(root->child[i]) && rc == 0)
            rc = f->rc ? f->rc : -EIO;
    return rc;
}

static int flush_all(struct vdev *root)
{
    struct flush f = {.used = 0};
    int rc;

    vdev_each_leaf(root, count_leaf, &f);
    if (f.room == 0)
        return 0;
    f.one = calloc(f.room, sizeof *f.one);
    if (!f.one)
        return -ENOMEM;
    vdev_wait_init(&f.wait, f.room);
    vdev_each_leaf(root, flush_leaf, &f);
    vdev_wait_all(&f.wait);
    rc = judge(root, &f);
    free(f.one);
    return rc ? err_set(EIO, "flushing the write cache failed: %s", strerror(-rc)) : 0;
}

int vdev_flush(struct vdev *root)
{
    unsigned slot = gate_enter(root->gate);
    int rc = flush_all(root);

    gate_leave(root->gate, slot);
    return rc;
}
