/* Tells a function of everything that changes the device: for recording what a workload writes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/device_impl.h"
#include "util/cleanup.h"

struct trace {
    struct device device;
    struct device *below;
    device_trace_fn *fn;
    void *arg;
};

static int trace_read(struct device *d, uint64_t offset, void *data, size_t n)
{
    return device_read(((struct trace *)d)->below, offset, data, n);
}

static int trace_write(struct device *d, uint64_t offset, const void *data, size_t n)
{
    struct trace *t = (struct trace *)d;
    t->fn(t->arg, DEVICE_WRITE, offset, data, n);
    return device_write(t->below, offset, data, n);
}

static void trace_submit(struct device *d, struct device_io *io)
{
    struct trace *t = (struct trace *)d;
    if (io->op != DEVICE_READ)
        t->fn(t->arg, io->op, io->offset, io->data, io->size);
    device_submit(t->below, io);
}

static void trace_info(struct device *d, struct device_info *out)
{
    device_info(((struct trace *)d)->below, out);
    out->vectors = false; /* fn sees each request in one piece */
}

static void trace_close(struct device *d)
{
    struct trace *t = (struct trace *)d;
    device_close(t->below);
    free(t->device.path);
    free(t);
}

static const struct device_driver trace_driver = {
    .name = "trace",
    .close = trace_close,
    .info = trace_info,
    .submit = trace_submit,
    .read = trace_read,
    .write = trace_write,
};

int device_trace(struct device **out, struct device *below, device_trace_fn *fn, void *arg)
{
    struct trace *t CLEANUP_FREE = calloc(1, sizeof *t);
    char *path = strdup(below->path);
    if (!t || !path) {
        free(path);
        return -ENOMEM;
    }
    *t = (struct trace){
        .device = {.driver = &trace_driver, .path = path}, .below = below, .fn = fn, .arg = arg};
    *out = &STEAL(t)->device;
    return 0;
}
