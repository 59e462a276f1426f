/* A device in memory. The pages that nothing was written to are the kernel's zero page. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/device_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"

struct memory {
    struct device device;
    unsigned char *bytes;
    uint64_t size;
};

static bool inside(const struct memory *m, uint64_t offset, uint64_t n)
{
    return n <= m->size && offset <= m->size - n;
}

static int memory_read(struct device *d, uint64_t offset, void *data, size_t n)
{
    struct memory *m = (struct memory *)d;
    if (!inside(m, offset, n))
        return -EIO;
    memcpy(data, m->bytes + offset, n);
    return 0;
}

static int memory_write(struct device *d, uint64_t offset, const void *data, size_t n)
{
    struct memory *m = (struct memory *)d;
    if (!inside(m, offset, n))
        return -EIO;
    memcpy(m->bytes + offset, data, n);
    return 0;
}

/* Whole pages go back to the kernel, the rest is zeroed. */
static int memory_discard(struct memory *m, uint64_t offset, uint64_t n)
{
    if (!inside(m, offset, n))
        return -EIO;
    uint64_t start = P2_ROUND_UP(offset, (uint64_t)4096);
    uint64_t end = P2_ROUND_DOWN(offset + n, (uint64_t)4096);
    if (start >= end) {
        memset(m->bytes + offset, 0, n);
        return 0;
    }
    memset(m->bytes + offset, 0, start - offset);
    memset(m->bytes + end, 0, offset + n - end);
    return madvise(m->bytes + start, end - start, MADV_DONTNEED) ? -errno : 0;
}

static void memory_submit(struct device *d, struct device_io *io)
{
    struct memory *m = (struct memory *)d;
    int rc = 0;
    switch (io->op) {
    case DEVICE_READ:
        rc = memory_read(d, io->offset, io->data, io->size);
        break;
    case DEVICE_WRITE:
        rc = memory_write(d, io->offset, io->data, io->size);
        break;
    case DEVICE_FLUSH:
        break;
    case DEVICE_DISCARD:
        rc = memory_discard(m, io->offset, io->size);
        break;
    }
    io->done(io, rc);
}

static void memory_info(struct device *d, struct device_info *out)
{
    *out = (struct device_info){.kind = DEVICE_FILE,
                                .discards = true,
                                .size = ((struct memory *)d)->size,
                                .logical_shift = 9,
                                .physical_shift = 9,
                                .writable = true};
}

static void memory_close(struct device *d)
{
    struct memory *m = (struct memory *)d;
    if (m->size)
        munmap(m->bytes, m->size);
    free(m->device.path);
    free(m);
}

static const struct device_driver memory_driver = {
    .name = "memory",
    .close = memory_close,
    .info = memory_info,
    .submit = memory_submit,
    .read = memory_read,
    .write = memory_write,
};

int device_memory(struct device **out, uint64_t size)
{
    struct memory *m CLEANUP_FREE = calloc(1, sizeof *m);
    char *path CLEANUP_FREE = strdup("memory");
    if (!m || !path)
        return -ENOMEM;
    m->size = size;
    if (size) {
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            return -ENOMEM;
        m->bytes = p;
    }
    m->device = (struct device){.driver = &memory_driver, .path = STEAL(path)};
    *out = &STEAL(m)->device;
    return 0;
}
