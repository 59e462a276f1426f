/* Leaves: files and disks (spec 01 1, 02 10), and the two kinds that are not there. */
#include <errno.h>
#include <string.h>

#include "util/bytes.h"
#include "util/err.h"
#include "util/hashmap.h"
#include "vdev/leaf_impl.h"
#include "vdev/size.h"
#include "vdev/vdev_impl.h"

uint64_t plain_psize_to_asize(const struct vdev *v, uint64_t psize, uint64_t birth)
{
    return P2_ROUND_UP(psize, 1ull << v->top->ashift);
}

int leaf_measure(struct vdev *leaf, uint64_t device_size)
{
    uint64_t psize = size_psize(device_size);

    if (psize < VDEV_LEAF_MIN_SIZE)
        return err_set(EOVERFLOW, "%s: device is too small (64 MiB is the minimum)",
                       leaf->path ? leaf->path : "device");
    leaf->psize = psize;
    return 0;
}

static uint64_t leaf_asize(const struct vdev *v)
{
    return size_leaf(v->psize);
}

static void leaf_close(struct vdev *v)
{
    device_close(v->device);
    v->device = NULL;
    leaf_queue_free(v);
}

static void count(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static void count_io(struct vdev *v, bool write, size_t size)
{
    count(&v->stats.ops[write], 1);
    count(&v->stats.bytes[write], size);
}

uint64_t leaf_data_size(const struct vdev *leaf)
{
    return leaf->psize - VDEV_LABEL_TOTAL;
}

/* A request that fails is sent a second time: buses are reset, cables move. What fails twice is an
 * error. */
static int read_device(struct vdev *v, uint64_t offset, void *data, size_t size)
{
    int rc = device_read(v->device, offset + VDEV_LABEL_START, data, size);

    if (rc)
        rc = device_read(v->device, offset + VDEV_LABEL_START, data, size);
    if (rc == 0)
        return 0;
    count(&v->stats.read_errors, 1);
    return err_set(EIO, "%s: reading %zu bytes at %llu failed: %s", v->device->path, size,
                   (unsigned long long)(offset + VDEV_LABEL_START), strerror(-rc));
}

static int leaf_read(struct vdev *v, uint64_t offset, void *data, size_t size, uint64_t birth,
                     int (*verify)(void *arg, const void *data), void *arg)
{
    struct leaf_ahead *ahead;
    int rc;

    if (!v->device || !vdev_readable(v))
        return err_set(ENXIO, "%s: the device is not available", v->path ? v->path : "a vdev");
    count_io(v, false, size);
    ahead = leaf_queue_ahead(v);
    if (!verify && leaf_ahead_find(ahead, offset, data, size))
        return 0; /* a column: what it is part of is verified */
    if (verify && leaf_ahead_read(v, ahead, offset, data, size)) {
        if (verify(arg, data) == 0)
            return 0;
        leaf_ahead_forget(ahead, offset, size);
    }
    rc = read_device(v, offset, data, size);
    if (rc == 0 && verify)
        rc = verify(arg, data);
    if (rc == -EBADE)
        count(&v->stats.checksum_errors, 1);
    return rc;
}

void leaf_finish(struct vdev_io *io, int rc)
{
    struct vdev *v = io->leaf;

    if (io->write)
        leaf_ahead_forget(leaf_queue_ahead(v), io->offset, io->size);
    if (rc && !io->retried) {
        io->retried = true;
        leaf_queue_submit(v, io);
        return;
    }
    if (rc && io->write && !io->repair) {
        if (vdev_redundant(v))
            vdev_missed(v, io->birth, io->birth + 1);
        vdev_set_failed(v);
    }
    if (rc) {
        count(io->write ? &v->stats.write_errors : &v->stats.read_errors, 1);
        rc = err_set(EIO, "%s: %s %zu bytes at %llu failed: %s", v->device->path,
                     io->write ? "writing" : "reading", io->size,
                     (unsigned long long)(io->offset + VDEV_LABEL_START), strerror(-rc));
    }
    io->done(io, rc);
}

static void leaf_submit(struct vdev *v, struct vdev_io *io)
{
    if (!v->device || !vdev_readable(v)) {
        io->done(io, -ENXIO);
        return;
    }
    count_io(v, io->write, io->size);
    if (!io->write && leaf_ahead_find(leaf_queue_ahead(v), io->offset, io->data, io->size)) {
        io->done(io, 0);
        return;
    }
    io->leaf = v;
    io->retried = false;
    leaf_queue_submit(v, io);
}

const struct vdev_kind vdev_kind_file = {
    .type = "file",
    .leaf = true,
    .close = leaf_close,
    .asize = leaf_asize,
    .psize_to_asize = plain_psize_to_asize,
    .read = leaf_read,
    .submit = leaf_submit,
};

const struct vdev_kind vdev_kind_disk = {
    .type = "disk",
    .leaf = true,
    .close = leaf_close,
    .asize = leaf_asize,
    .psize_to_asize = plain_psize_to_asize,
    .read = leaf_read,
    .submit = leaf_submit,
};

static uint64_t no_asize(const struct vdev *v)
{
    return 0;
}

static int no_read(struct vdev *v, uint64_t offset, void *data, size_t size, uint64_t birth,
                   int (*verify)(void *arg, const void *data), void *arg)
{
    return err_set(ENXIO, "vdev %u is %s", v->id, v->kind->type);
}

static void no_submit(struct vdev *v, struct vdev_io *io)
{
    io->done(io, -ENXIO);
}

/* A top-level vdev of which no label was found. */
const struct vdev_kind vdev_kind_missing = {
    .type = "missing",
    .leaf = true,
    .asize = no_asize,
    .psize_to_asize = plain_psize_to_asize,
    .read = no_read,
    .submit = no_submit,
};

/* The place of a log vdev that was removed. */
const struct vdev_kind vdev_kind_hole = {
    .type = "hole",
    .leaf = true,
    .asize = no_asize,
    .psize_to_asize = plain_psize_to_asize,
    .read = no_read,
    .submit = no_submit,
};

const struct vdev_kind vdev_kind_root = {
    .type = "root",
    .asize = no_asize,
    .psize_to_asize = plain_psize_to_asize,
    .read = no_read,
    .submit = no_submit,
};
