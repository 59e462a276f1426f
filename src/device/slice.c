/* A window of a device: a partition. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/device_impl.h"
#include "util/cleanup.h"

struct slice {
    struct device device;
    struct device *below;
    uint64_t start, size;
};

static bool inside(const struct slice *s, uint64_t offset, uint64_t n)
{
    return n <= s->size && offset <= s->size - n;
}

static int slice_read(struct device *d, uint64_t offset, void *data, size_t n)
{
    struct slice *s = (struct slice *)d;
    return inside(s, offset, n) ? device_read(s->below, s->start + offset, data, n) : -EIO;
}

static int slice_write(struct device *d, uint64_t offset, const void *data, size_t n)
{
    struct slice *s = (struct slice *)d;
    return inside(s, offset, n) ? device_write(s->below, s->start + offset, data, n) : -EIO;
}

static void slice_submit(struct device *d, struct device_io *io)
{
    struct slice *s = (struct slice *)d;
    if (io->op == DEVICE_FLUSH) {
        device_submit(s->below, io);
        return;
    }
    if (!inside(s, io->offset, io->size)) {
        io->done(io, -EIO);
        return;
    }
    struct device_io *child = device_child_io(io);
    if (!child) {
        io->done(io, -ENOMEM);
        return;
    }
    child->offset += s->start;
    device_submit(s->below, child);
}

static void slice_info(struct device *d, struct device_info *out)
{
    struct slice *s = (struct slice *)d;
    device_info(s->below, out);
    out->size = s->size;
}

static void slice_close(struct device *d)
{
    struct slice *s = (struct slice *)d;
    device_close(s->below);
    free(s->device.path);
    free(s);
}

static const struct device_driver slice_driver = {
    .name = "slice",
    .close = slice_close,
    .info = slice_info,
    .submit = slice_submit,
    .read = slice_read,
    .write = slice_write,
};

int device_slice(struct device **out, struct device *below, uint64_t start, uint64_t size)
{
    struct device_info info;
    device_info(below, &info);
    if (size > info.size || start > info.size - size)
        return -EINVAL;
    struct slice *s CLEANUP_FREE = calloc(1, sizeof *s);
    char *path = strdup(below->path);
    if (!s || !path) {
        free(path);
        return -ENOMEM;
    }
    *s = (struct slice){.device = {.driver = &slice_driver, .path = path},
                        .below = below,
                        .start = start,
                        .size = size};
    *out = &STEAL(s)->device;
    return 0;
}
