/* Lets a function decide which requests fail. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/device_impl.h"
#include "util/cleanup.h"

struct fault {
    struct device device;
    struct device *below;
    device_fault_fn *fn;
    void *arg;
};

static int fault_read(struct device *d, uint64_t offset, void *data, size_t n)
{
    struct fault *f = (struct fault *)d;
    int rc = f->fn(f->arg, DEVICE_READ, offset, n);
    return rc ? rc : device_read(f->below, offset, data, n);
}

static int fault_write(struct device *d, uint64_t offset, const void *data, size_t n)
{
    struct fault *f = (struct fault *)d;
    int rc = f->fn(f->arg, DEVICE_WRITE, offset, n);
    return rc ? rc : device_write(f->below, offset, data, n);
}

static void fault_submit(struct device *d, struct device_io *io)
{
    struct fault *f = (struct fault *)d;
    int rc = f->fn(f->arg, io->op, io->offset, io->size);
    if (rc)
        io->done(io, rc);
    else
        device_submit(f->below, io);
}

static void fault_info(struct device *d, struct device_info *out)
{
    device_info(((struct fault *)d)->below, out);
    out->vectors = false; /* fn sees each request in one piece */
}

static void fault_close(struct device *d)
{
    struct fault *f = (struct fault *)d;
    device_close(f->below);
    free(f->device.path);
    free(f);
}

static const struct device_driver fault_driver = {
    .name = "fault",
    .close = fault_close,
    .info = fault_info,
    .submit = fault_submit,
    .read = fault_read,
    .write = fault_write,
};

int device_fault(struct device **out, struct device *below, device_fault_fn *fn, void *arg)
{
    struct fault *f CLEANUP_FREE = calloc(1, sizeof *f);
    char *path = strdup(below->path);
    if (!f || !path) {
        free(path);
        return -ENOMEM;
    }
    *f = (struct fault){
        .device = {.driver = &fault_driver, .path = path}, .below = below, .fn = fn, .arg = arg};
    *out = &STEAL(f)->device;
    return 0;
}
