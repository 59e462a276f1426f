/*
 * Sizes of devices and vdevs (spec 01 1, 10), in bytes. Each formula is part of the format: labels
 * of other writers are checked against it.
 */
#ifndef VDEV_SIZE_H
#define VDEV_SIZE_H

#include <stdint.h>

/* The part of a device that is used: whole labels. */
uint64_t size_psize(uint64_t device_size);

/* Allocatable bytes of a leaf; 0 if it is too small for its labels. */
uint64_t size_leaf(uint64_t psize);

/* Of a raidz and of a draid, from the smallest child. */
uint64_t size_raidz(uint64_t child, uint64_t children);
uint64_t size_draid(uint64_t child, uint64_t children, uint64_t ndata, uint64_t nparity,
                    uint64_t nspares);

/* log2 of the metaslab size of a new top-level vdev. */
unsigned size_metaslab_shift(uint64_t asize);

#endif
