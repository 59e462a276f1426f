/*
 * Devices: where bytes are. A device is opened through a driver (a table of functions); wrappers
 * (slice, trace, fault, model) are drivers on top of another device, so that a test or a partition
 * slots under everything else. Offsets and sizes are bytes.
 *
 * A device is locked against other pool processes when it is opened for writing: an
 * open-file-description lock on files, O_EXCL on block devices; who holds it is told by the error.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct device;

enum device_kind { DEVICE_FILE, DEVICE_BLOCK };

enum device_op { DEVICE_READ, DEVICE_WRITE, DEVICE_FLUSH, DEVICE_DISCARD };

/* One asynchronous request. The caller owns it and its buffers until done() is called, which may
 * happen in any thread, also before device_submit returns. rc is 0 or a negative errno; a short
 * read or write is -EIO. done must not block for long and may submit further requests. */
struct device_io {
    enum device_op op;
    uint64_t offset;
    size_t size;          /* bytes; for DISCARD the length of the range */
    void *data;           /* READ, WRITE: 4096-aligned where O_DIRECT is to be possible */
    const struct iovec *iov; /* or, if not NULL, iovcnt pieces (at most DEVICE_IOV_MAX) that make up
                                size; offset, addresses and lengths are multiples of 4096. Only where
                                device_info() says vectors */
    unsigned iovcnt;
    void (*done)(struct device_io *io, int rc);
    struct device_io *next; /* for the driver's queues */
    void *driver;           /* for the driver */
};

#define DEVICE_IOV_MAX 64

struct device_info {
    enum device_kind kind;
    uint64_t size;          /* bytes */
    unsigned logical_shift; /* log2 of the logical and physical sector; 9 and 9 for files */
    unsigned physical_shift;
    bool writable;
    bool rotational;
    bool vectors;           /* takes requests with iov */
    bool discards;          /* may be told what nobody needs (DEVICE_DISCARD); files: it is tried */
};

enum {
    DEVICE_OPEN_WRITE = 1,    /* read and write; takes the exclusive lock */
    DEVICE_OPEN_DIRECT = 2,   /* O_DIRECT where the file system allows it (silently not otherwise).
                                 Memory that is not aligned is copied; the first write whose range
                                 is not aligned moves the device to the page cache for good, since
                                 the two must not be mixed */
    DEVICE_OPEN_SHARED = 4,   /* read-only users: a shared lock, so that a writer is refused;
                                 neither this nor WRITE: no lock */
    DEVICE_OPEN_NOLOCK = 8,   /* scanning labels: no lock at all */
    DEVICE_OPEN_STREAM = 16   /* without WRITE: asynchronous reads of 16 KiB and more go past the page
                                 cache, where the file system allows it; what is small stays there
                                 for the next process that looks at the device */
};

/* A driver's functions. A wrapper keeps the device below in its own state. */
struct device_driver {
    const char *name;
    void (*close)(struct device *d);
    void (*info)(struct device *d, struct device_info *out);
    void (*submit)(struct device *d, struct device_io *io);
    int (*read)(struct device *d, uint64_t offset, void *data, size_t n);  /* in the caller */
    int (*write)(struct device *d, uint64_t offset, const void *data, size_t n);
};

/* Every implementation embeds this as its first member. */
struct device {
    const struct device_driver *driver;
    char *path; /* as opened, absolute */
};

/* Opens a file or block device by path. Errors: -ENOENT, -EACCES, -ENODEV (neither a file nor a
 * block device), -EBUSY (locked; the sentence names the process that holds it where it can be known),
 * -ENOMEM and what open(2) gives. */
int device_open(struct device **out, const char *path, unsigned flags);
/* For programs that only look: from now on nothing in this process is opened for writing (-EROFS), and
 * no lock is taken, so that nobody else is kept from anything. */
void device_look_only(void);
/* Who has a file or block device locked: for writing (DEVICE_HELD_WRITE), or for reading only. who may
 * be empty where it cannot be known. Asks the kernel; takes no lock. */
enum device_held { DEVICE_FREE, DEVICE_HELD_READ, DEVICE_HELD_WRITE };
enum device_held device_holder(const char *path, char *who, size_t cap);
void device_close(struct device *d); /* waits for submitted requests; NULL is allowed; not in done() */

void device_info(struct device *d, struct device_info *out);

/* Synchronous forms, in the calling thread (a read that the page cache can answer costs one system
 * call). 0 or a negative errno; reading past the end is -EIO. */
int device_read(struct device *d, uint64_t offset, void *data, size_t n);
int device_write(struct device *d, uint64_t offset, const void *data, size_t n);
int device_flush(struct device *d);
int device_discard(struct device *d, uint64_t offset, uint64_t n);

/* Asynchronous: io_uring where the kernel offers it, a few threads otherwise (or always, with
 * TARN_DEVICE_ENGINE=threads in the environment). The threads are started by the first request and
 * do not survive fork(): fork first. */
void device_submit(struct device *d, struct device_io *io);

/* A window [start, start + size) of a device; closing it closes the device below. */
int device_slice(struct device **out, struct device *below, uint64_t start, uint64_t size);

/* The ZFS partition of a GPT-partitioned device: the first of type "Solaris /usr & Apple ZFS"
 * (6A898CC3-1DD2-11B2-99A6-080020736631) or "FreeBSD ZFS" (516E7CBA-6ECF-11D6-8FF8-00022D09712B).
 * -ENOENT if there is no valid GPT or no such partition. Both header copies are tried; CRCs are
 * checked. */
int device_find_gpt(struct device *d, uint64_t *start, uint64_t *size);

/* Wrappers for tests. trace calls fn before each write, flush and discard is passed down. */
typedef void device_trace_fn(void *arg, enum device_op op, uint64_t offset, const void *data, size_t n);
int device_trace(struct device **out, struct device *below, device_trace_fn *fn, void *arg);

/* fault: fn decides for each request: 0 = pass on, a negative errno = fail with it. */
typedef int device_fault_fn(void *arg, enum device_op op, uint64_t offset, size_t n);
int device_fault(struct device **out, struct device *below, device_fault_fn *fn, void *arg);

/* A device in memory (sparse), for tests. */
int device_memory(struct device **out, uint64_t size);

#endif
