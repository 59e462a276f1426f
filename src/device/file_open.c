/* Opening files and block devices: locks, sector sizes, and whether O_DIRECT can be used. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device/device_impl.h"
#include "device/file_impl.h"
#include "device/lock_impl.h"
#include "device/trial_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

static _Atomic bool look_only; /* set once, before anything is opened */

void device_look_only(void)
{
    look_only = true;
}

/* How long a file that nobody is seen to hold is tried again. Root sees all that live. */
#define RETRY_MS      10
#define RETRY_MS_USER 3000
#define RETRY_MS_ROOT 10000

/* Of a partition: the disk's. */
static bool disk_discards(const struct stat *st)
{
    static const char *const queues[] = {"queue", "../queue"};
    char path[128], text[32] = "";
    for (size_t i = 0; i < ARRAY_LEN(queues) && !*text; i++) {
        snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%s/discard_max_bytes",
                 major(st->st_rdev), minor(st->st_rdev), queues[i]);
        FILE *f = fopen(path, "re");
        if (f && !fgets(text, sizeof text, f))
            *text = 0;
        if (f)
            fclose(f);
    }
    return strtoull(text, NULL, 10) > 0;
}

static void block_info(struct file *f, const struct stat *st)
{
    int logical = 512;
    unsigned physical = 512;
    unsigned short rotational = 0;
    ioctl(f->fd, BLKSSZGET, &logical);
    ioctl(f->fd, BLKPBSZGET, &physical);
    ioctl(f->fd, BLKROTATIONAL, &rotational);
    f->info.logical_shift = (unsigned)MAX(high_bit((unsigned)logical) - 1, 9);
    f->info.physical_shift = MAX((unsigned)MAX(high_bit(physical) - 1, 9), f->info.logical_shift);
    f->info.rotational = rotational != 0;
    f->info.discards = disk_discards(st);
}

/* The alignment that O_DIRECT wants here; false if it cannot be used. O_DIRECT is set already. */
static bool find_alignment(struct file *f)
{
    f->range_align = 1u << f->info.logical_shift;
    f->memory_align = 4096;
#ifdef STATX_DIOALIGN
    struct statx sx;
    if (statx(f->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 &&
        (sx.stx_mask & STATX_DIOALIGN)) {
        f->range_align = MAX(sx.stx_dio_offset_align, 512u);
        f->memory_align = MAX(sx.stx_dio_mem_align, 1u);
        return sx.stx_dio_offset_align && is_pow2(f->range_align) && is_pow2(f->memory_align) &&
               f->range_align <= 65536 && f->memory_align <= 65536;
    }
#endif
    if (f->info.kind == DEVICE_BLOCK)
        return true;
    /* An older kernel: try. */
    void *buffer CLEANUP_FREE = aligned_alloc(4096, 4096);
    for (; buffer && f->range_align <= 4096; f->range_align *= 8)
        if (pread(f->fd, buffer, f->range_align, 0) >= 0)
            return true;
    return false;
}

static void try_direct(struct file *f)
{
    int flags = fcntl(f->fd, F_GETFL);
    if (flags < 0 || fcntl(f->fd, F_SETFL, flags | O_DIRECT))
        return; /* this file system has none */
    if (find_alignment(f))
        atomic_store(&f->queue.direct, true);
    else
        fcntl(f->fd, F_SETFL, flags);
}

static int open_error(const char *path, int e)
{
    switch (e) {
    case EISDIR:
    case ENXIO:
    case ENODEV:
        return err_set(ENODEV, "%s is neither a file nor a block device", path);
    case ENOENT:
        return err_set(ENOENT, "%s does not exist", path);
    case EACCES:
    case EPERM:
        return err_set(EACCES, "%s: permission denied", path);
    default:
        return err_set(e, "%s cannot be opened: %s", path, strerror(e));
    }
}

/* Opens and locks; the descriptor or a negative errno. */
static int try_open_locked(const char *path, unsigned flags, struct stat *st)
{
    /* Looked at before it is opened: opening a tape or a watchdog has effects. O_NONBLOCK in case
     * it has become a FIFO in between. */
    if (stat(path, st))
        return open_error(path, errno);
    bool write = flags & DEVICE_OPEN_WRITE;
    if (write && look_only)
        return err_set(EROFS, "%s: this program writes to no device", path);
    if (look_only)
        flags |= DEVICE_OPEN_NOLOCK;
    bool lock = !(flags & DEVICE_OPEN_NOLOCK) && (flags & (DEVICE_OPEN_WRITE | DEVICE_OPEN_SHARED));
    bool block = S_ISBLK(st->st_mode);
    if (!block && !S_ISREG(st->st_mode))
        return open_error(path, ENODEV);
    int mode = (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, mode | (block && lock && write ? O_EXCL : 0));
    if (fd < 0)
        return errno == EBUSY ? lock_busy(path, st) : open_error(path, errno);
    int rc = 0;
    if (fstat(fd, st) || S_ISBLK(st->st_mode) != block || (!block && !S_ISREG(st->st_mode)))
        rc = open_error(path, ENODEV);
    else if (fcntl(fd, F_SETFL, mode & ~O_NONBLOCK))
        rc = open_error(path, errno);
    else if (lock)
        rc = lock_take(fd, path, write);
    if (rc) {
        close(fd);
        return rc;
    }
    return fd;
}

/* A process that was killed a moment ago can still hold its files: the kernel lets go of those of an
 * io_uring later, in a thread of its own. So a file that nobody is seen to hold is tried again. */
static int open_locked(const char *path, unsigned flags, struct stat *st)
{
    const unsigned most = geteuid() ? RETRY_MS_USER : RETRY_MS_ROOT;
    for (unsigned waited = 0;; waited += RETRY_MS) {
        int fd = try_open_locked(path, flags, st);
        if (fd != -EBUSY || waited >= most || lock_is_explained(st))
            return fd;
        usleep(RETRY_MS * 1000);
    }
}

/* The same file once more, whatever its path leads to by now. */
static void open_stream(struct file *f)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", f->fd);
    if (device_open(&f->stream, path, DEVICE_OPEN_DIRECT | DEVICE_OPEN_NOLOCK))
        f->stream = NULL;
}

int device_open(struct device **out, const char *path, unsigned flags)
{
    struct stat st;
    int fd CLEANUP_CLOSE = open_locked(path, flags, &st);
    if (fd < 0)
        return fd;
    struct file *f CLEANUP_FREE = calloc(1, sizeof *f);
    char *absolute CLEANUP_FREE = device_absolute_path(path);
    if (!f || !absolute)
        return -ENOMEM;
    bool block = S_ISBLK(st.st_mode);
    f->fd = fd;
    f->writable = flags & DEVICE_OPEN_WRITE;
    f->info = (struct device_info){.vectors = true,
                                   .kind = block ? DEVICE_BLOCK : DEVICE_FILE,
                                   .logical_shift = 9,
                                   .physical_shift = 9,
                                   .discards = true,
                                   .writable = f->writable};
    if (block)
        block_info(f, &st);
    file_refresh_size(f);
    int rc = queue_init(&f->queue, fd, block);
    if (rc)
        return rc;
    rc = queue_init(&f->slow, fd, block);
    if (rc) {
        queue_destroy(&f->queue);
        return rc;
    }
    f->slow.only = &engine_threads;
    if (flags & DEVICE_OPEN_DIRECT)
        try_direct(f);
    if (flags & DEVICE_OPEN_STREAM)
        open_stream(f);
    f->device = (struct device){.driver = &file_driver, .path = STEAL(absolute)};
    fd = -1;
    *out = &STEAL(f)->device;
    if (flags & (DEVICE_OPEN_WRITE | DEVICE_OPEN_SHARED))
        rc = trial_wrap(out);
    if (rc)
        device_close(*out);
    return rc;
}
