/* Private to the file driver: file.c has its requests, file_open.c its opening. */
#ifndef DEVICE_FILE_IMPL_H
#define DEVICE_FILE_IMPL_H

#include "device/device.h"
#include "device/queue_impl.h"

struct file {
    struct device device;
    int fd;
    bool writable;
    unsigned range_align; /* of offset and size in direct mode, bytes */
    unsigned memory_align;
    _Atomic uint64_t size;   /* as last seen; files can be grown */
    struct device_info info; /* all but the size */
    struct queue queue;
    struct device *stream; /* the same again with O_DIRECT, for large reads; NULL: none */
    struct queue slow; /* block devices: discards, which io_uring has no call for */
};

extern const struct device_driver file_driver;

uint64_t file_refresh_size(struct file *f); /* asks the kernel */

#endif
