/*
 * Labels: what each device says about the pool it belongs to (spec 01 1, 2, 4, 6, 25). A leaf has
 * four copies of 256 KiB, two at each end. Offsets and sizes are bytes; nothing here is locked:
 * labels are written by the txg in sync and by commands that own the device.
 */
#ifndef VDEV_LABEL_H
#define VDEV_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vdev/uberblock.h"

struct device;
struct nvlist;

#define LABELS              4
#define LABEL_SIZE          0x40000ull
#define LABEL_BOOT_OFFSET   0x2000ull /* of the boot environment block in a label */
#define LABEL_BOOT_SIZE     0x2000u
#define LABEL_CONFIG_OFFSET 0x4000ull
#define LABEL_CONFIG_SIZE   0x1c000u
#define LABEL_RING_OFFSET   0x20000ull
#define LABEL_RING_SIZE     0x20000u
#define LABEL_CONFIG_MAX    (LABEL_CONFIG_SIZE - 40) /* bytes of a packed configuration */

enum pool_state {
    POOL_STATE_ACTIVE,
    POOL_STATE_EXPORTED,
    POOL_STATE_DESTROYED,
    POOL_STATE_SPARE, /* labels of spare and cache devices only */
    POOL_STATE_L2CACHE
};

/* Where label l is on a device of psize bytes (vdev/size.h). */
uint64_t label_offset(uint64_t psize, unsigned l);

struct label {
    uint64_t offset;       /* of the label on the device */
    struct nvlist *config; /* NULL if none can be read */
    int rc;             /* 0; -EBADE: config is there, its checksum is wrong; -EINVAL: the checksum
                           is right, the list is not; -ENOENT: no label; or a read error */
    uint64_t guid, txg; /* of config, 0 if absent */
    uint64_t state;     /* UINT64_MAX if absent */
};

struct label_set {
    uint64_t psize;
    struct label label[LABELS];
};

/* Reads the labels of a device. 0 if at least one has a configuration, even one with a wrong
 * checksum; else -ENOENT, or the read error if none could be read. The caller frees the set when
 * the result is 0. */
int label_read(struct device *d, struct label_set *out);
void label_set_free(struct label_set *s);

/* What a scan takes seriously: checksum right, a guid, a known state, and, but for spare and cache
 * devices, a txg. */
bool label_usable(const struct label *l);

/* The usable label with the highest txg <= max_txg; NULL if none. */
const struct label *label_best(const struct label_set *s, uint64_t max_txg);

/* Writing. psize is the one the device was opened with: a file that grows meanwhile keeps its
 * labels where they are until it is opened again. In a commit the labels 0 and 2 are written before
 * the uberblock, 1 and 3 after it (01 8). Writes only: the caller flushes. 0 if at least one copy
 * was written, else the first error; -ENAMETOOLONG if the configuration does not fit. */
enum label_pair { LABEL_PAIR_FIRST, LABEL_PAIR_SECOND };
int label_write_pair(struct device *d, uint64_t psize, enum label_pair pair, const void *packed,
                     size_t n);

/* A new device: all four labels with this configuration (txg 0), an empty boot environment block
 * and an empty ring. The first 8 KiB of each label stay as they are. Fails if any copy fails. */
int label_init(struct device *d, uint64_t psize, const void *packed, size_t n);

/* zpool labelclear: zeros over all four labels, flushed. -ENOENT if no label has a configuration.
 */
int label_clear(struct device *d);

/* Opens a device and, if it has no labels but a GPT with a ZFS partition, that partition of it.
 * flags and errors as device_open. */
int label_open_device(struct device **out, const char *path, unsigned flags);

#endif
