/* Private to src/vdev: dRAID. */
#ifndef VDEV_DRAID_IMPL_H
#define VDEV_DRAID_IMPL_H

#include <stdint.h>

#define DRAID_CHILDREN_MAX 255
#define DRAID_SPARES_MAX   100

struct draid_map {
    unsigned children, rows;
    unsigned char *base; /* rows permutations of the children */
};

int draid_map_new(struct draid_map *m, unsigned children); /* 2..255; 0 or -ENOMEM */

/* The child at a position of the permutation of a slice. */
unsigned draid_map_device(const struct draid_map *m, uint64_t slice, unsigned position);

#endif
