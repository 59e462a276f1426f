/* What the drivers share. */
#ifndef DEVICE_DEVICE_IMPL_H
#define DEVICE_DEVICE_IMPL_H

#include "device/device.h"

/* path, made absolute with the current directory; symbolic links stay (a name from /dev/disk/by-id
 * is worth more than what it points to). NULL: out of memory. */
char *device_absolute_path(const char *path);

/* Does a request through submit and waits for it. */
int device_wait(struct device *d, enum device_op op, uint64_t offset, void *data, size_t n);

/* A request that a wrapper passes on in its own name: done goes to the parent. */
struct device_io *device_child_io(struct device_io *parent);

#endif
