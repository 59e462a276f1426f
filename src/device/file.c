/*
 * Files and block devices.
 *
 * Alignment: in direct mode (queue_impl.h) a request whose memory is not aligned, or a read whose
 * range is not, goes through a bounce buffer. A write whose range is not aligned ends direct mode:
 * the pool on this device has sectors smaller than what the file system can write directly.
 */
#include <errno.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/file_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"

#define STREAM_MIN 16384

static uint64_t current_size(int fd, bool block)
{
    uint64_t size = 0;
    struct stat st;
    if (block)
        return ioctl(fd, BLKGETSIZE64, &size) ? 0 : size;
    return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

uint64_t file_refresh_size(struct file *f)
{
    uint64_t size = current_size(f->fd, f->info.kind == DEVICE_BLOCK);
    atomic_store_explicit(&f->size, size, memory_order_relaxed);
    return size;
}

/* Is [offset, offset + n) inside the device? */
static bool inside(struct file *f, uint64_t offset, uint64_t n)
{
    uint64_t size = atomic_load_explicit(&f->size, memory_order_relaxed);
    if (n <= size && offset <= size - n)
        return true;
    size = file_refresh_size(f);
    return n <= size && offset <= size - n;
}

enum how { HOW_PLAIN, HOW_BOUNCE, HOW_LEAVE };

/* What a transfer needs at this moment. Direct mode may end right afterwards, which does no harm:
 * whatever is good for it is good without it. */
static enum how how_to(struct file *f, bool write, uint64_t offset, const void *data, size_t n)
{
    if (!atomic_load(&f->queue.direct))
        return HOW_PLAIN;
    uint64_t mask = f->range_align - 1;
    if ((offset | n) & mask) {
        if (write)
            return HOW_LEAVE;
        /* The last, incomplete unit of a file cannot be read directly. */
        if (P2_ROUND_UP(offset + n, (uint64_t)f->range_align) >
            atomic_load_explicit(&f->size, memory_order_relaxed))
            return HOW_LEAVE;
        return HOW_BOUNCE;
    }
    return (uintptr_t)data & (f->memory_align - 1) ? HOW_BOUNCE : HOW_PLAIN;
}

static void *aligned_buffer(struct file *f, size_t n)
{
    size_t align = MAX(MAX(f->memory_align, f->range_align), 4096u);
    return aligned_alloc(align, P2_ROUND_UP(n, align));
}

/* ---- requests in the caller's thread ---- */

static int bounced_read(struct file *f, uint64_t offset, void *data, size_t n)
{
    uint64_t start = P2_ROUND_DOWN(offset, (uint64_t)f->range_align);
    size_t whole = (size_t)(P2_ROUND_UP(offset + n, (uint64_t)f->range_align) - start);
    unsigned char *buffer CLEANUP_FREE = aligned_buffer(f, whole);
    if (!buffer)
        return -ENOMEM;
    int rc = fd_read(f->fd, start, buffer, whole);
    if (rc == 0)
        memcpy(data, buffer + (offset - start), n);
    return rc;
}

static int file_read(struct device *d, uint64_t offset, void *data, size_t n)
{
    struct file *f = (struct file *)d;
    if (!inside(f, offset, n))
        return -EIO;
    enum how how = how_to(f, false, offset, data, n);
    int rc = how == HOW_LEAVE    ? -EINVAL
             : how == HOW_BOUNCE ? bounced_read(f, offset, data, n)
                                 : fd_read(f->fd, offset, data, n);
    if (rc == -EINVAL && atomic_load(&f->queue.direct)) {
        queue_write_begin(&f->queue, true);
        queue_write_end(&f->queue);
        rc = fd_read(f->fd, offset, data, n);
    }
    return rc;
}

static int file_write(struct device *d, uint64_t offset, const void *data, size_t n)
{
    struct file *f = (struct file *)d;
    if (!f->writable)
        return -EBADF;
    if (!inside(f, offset, n))
        return -EIO;
    enum how how = how_to(f, true, offset, data, n);
    void *buffer CLEANUP_FREE = NULL;
    if (how == HOW_BOUNCE) {
        buffer = aligned_buffer(f, n);
        if (!buffer)
            return -ENOMEM;
        data = memcpy(buffer, data, n);
    }
    queue_write_begin(&f->queue, how == HOW_LEAVE);
    int rc = fd_write(f->fd, offset, data, n);
    queue_write_end(&f->queue);
    if (rc == -EINVAL && atomic_load(&f->queue.direct)) {
        queue_write_begin(&f->queue, true);
        rc = fd_write(f->fd, offset, data, n);
        queue_write_end(&f->queue);
    }
    return rc;
}

/* ---- asynchronous requests ---- */

/* A request through a bounce buffer. */
struct bounce {
    struct device_io io;
    struct device_io *parent;
    size_t skip; /* bytes read before what the parent wants */
};

static void bounce_done(struct device_io *io, int rc)
{
    struct bounce *b = (struct bounce *)io;
    struct device_io *parent = b->parent;
    if (rc == 0 && io->op == DEVICE_READ)
        memcpy(parent->data, (char *)io->data + b->skip, parent->size);
    free(io->data);
    free(b);
    parent->done(parent, rc);
}

static struct device_io *bounce_new(struct file *f, struct device_io *parent)
{
    struct bounce *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    uint64_t start = P2_ROUND_DOWN(parent->offset, (uint64_t)f->range_align);
    uint64_t end = P2_ROUND_UP(parent->offset + parent->size, (uint64_t)f->range_align);
    b->io = (struct device_io){.op = parent->op,
                               .offset = start,
                               .size = (size_t)(end - start),
                               .data = aligned_buffer(f, (size_t)(end - start)),
                               .done = bounce_done};
    b->parent = parent;
    b->skip = (size_t)(parent->offset - start);
    if (!b->io.data) {
        free(b);
        return NULL;
    }
    if (parent->op == DEVICE_WRITE)
        memcpy(b->io.data, parent->data, parent->size);
    return &b->io;
}

static int file_check(struct file *f, const struct device_io *io)
{
    if (io->op != DEVICE_READ && !f->writable)
        return io->op == DEVICE_FLUSH ? 0 : -EBADF;
    if (io->op != DEVICE_FLUSH && !inside(f, io->offset, io->size))
        return -EIO;
    return 0;
}

static const void *memory(const struct device_io *io)
{
    return io->iov ? io->iov->iov_base : io->data;
}

/* Does this read go past the page cache, which has all others of this device? */
static bool streams(const struct file *f, const struct device_io *io)
{
    struct file *stream = (struct file *)f->stream;
    return stream && io->op == DEVICE_READ && io->size >= STREAM_MIN &&
           how_to(stream, false, io->offset, memory(io), io->size) == HOW_PLAIN;
}

static void file_submit(struct device *d, struct device_io *io)
{
    struct file *f = (struct file *)d;
    int rc = file_check(f, io);
    if (rc || (io->size == 0 && io->op != DEVICE_FLUSH)) {
        io->done(io, rc);
        return;
    }
    if (streams(f, io)) {
        device_submit(f->stream, io);
        return;
    }
    if (io->op == DEVICE_DISCARD && f->info.kind == DEVICE_BLOCK) {
        queue_submit(&f->slow, io, false);
        return;
    }
    enum how how = HOW_PLAIN;
    if (io->op == DEVICE_READ || io->op == DEVICE_WRITE)
        how = how_to(f, io->op == DEVICE_WRITE, io->offset, memory(io), io->size);
    struct device_io *real = how == HOW_BOUNCE ? bounce_new(f, io) : io;
    if (real)
        queue_submit(&f->queue, real, how == HOW_LEAVE);
    else
        io->done(io, -ENOMEM);
}

static void file_info(struct device *d, struct device_info *out)
{
    struct file *f = (struct file *)d;
    *out = f->info;
    out->size = file_refresh_size(f);
}

static void file_close(struct device *d)
{
    struct file *f = (struct file *)d;
    device_close(f->stream);
    queue_destroy(&f->queue);
    queue_destroy(&f->slow);
    close(f->fd);
    free(f->device.path);
    free(f);
}

const struct device_driver file_driver = {
    .name = "file",
    .close = file_close,
    .info = file_info,
    .submit = file_submit,
    .read = file_read,
    .write = file_write,
};
