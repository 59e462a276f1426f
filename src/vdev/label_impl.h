/* Private to src/vdev: what labels and uberblocks share. */
#ifndef VDEV_LABEL_IMPL_H
#define VDEV_LABEL_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "util/buf.h"

struct device;

/* For CLEANUP(). */
static inline void label_buf_free(struct buf **b)
{
    buf_unref(*b);
}

/* One copy of something on a device. */
struct label_copy {
    uint64_t offset;
    void *data; /* aligned as for O_DIRECT */
};

/* Writes the copies, n bytes each and at most four, side by side. *written says how many were; the
 * result is the first error or 0. */
int label_write_copies(struct device *d, const struct label_copy *copies, unsigned count, size_t n,
                       unsigned *written);

#endif
