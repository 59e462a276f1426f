/*
 * Uberblocks (spec 01 7): the root of a pool as of one txg. Each label has a ring of slots; the
 * newest valid one of all labels of all devices is the pool.
 */
#ifndef VDEV_UBERBLOCK_H
#define VDEV_UBERBLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;

#define UBERBLOCK_MAGIC     0x00bab10cull
#define UBERBLOCK_MMP_MAGIC 0xa11cea11ull
#define UBERBLOCK_SHIFT_MIN 10
#define UBERBLOCK_SHIFT_MAX 13

/* All in host order. Written as is but for the magic. */
struct uberblock {
    uint64_t version;
    uint64_t txg;
    uint64_t guid_sum;
    uint64_t timestamp;  /* seconds since 1970 */
    uint64_t rootbp[16]; /* words of a block pointer */
    uint64_t software_version;
    uint64_t mmp_magic; /* UBERBLOCK_MMP_MAGIC, or 0 in pools of old writers */
    uint64_t mmp_delay; /* nanoseconds; 0: multihost off */
    uint64_t mmp_config;
    uint64_t checkpoint_txg;
    uint64_t raidz_reflow; /* bits 0..54: offset / 512, 55..63: scratch state */
    bool big;              /* it was written by a big-endian host */
};

/* mmp_config (01 9). */
static inline bool uberblock_mmp_sequence(const struct uberblock *u, unsigned *sequence)
{
    *sequence = (unsigned)(u->mmp_config >> 32) & 0xffff;
    return u->mmp_magic == UBERBLOCK_MMP_MAGIC && u->mmp_config & 2;
}

static inline uint64_t uberblock_reflow_offset(const struct uberblock *u) /* bytes */
{
    return (u->raidz_reflow & ((1ull << 55) - 1)) << 9;
}
static inline unsigned uberblock_reflow_state(const struct uberblock *u)
{
    return (unsigned)(u->raidz_reflow >> 55);
}
#define UBERBLOCK_REFLOW_VALID 1 /* the scratch space must be copied back */

/* Slots of a ring, by the ashift of the top-level vdev. */
unsigned uberblock_shift(unsigned ashift); /* log2 of the slot size */
unsigned uberblock_slots(unsigned ashift);
/* The slot of u's txg; multihost reserves the last one. */
unsigned uberblock_slot(unsigned ashift, const struct uberblock *u, bool multihost);
uint64_t uberblock_offset(uint64_t psize, unsigned label, unsigned ashift, unsigned slot);

/* One slot of size bytes at offset of the device. decode: -EBADE (checksum), -EINVAL (no magic). */
void uberblock_encode(const struct uberblock *u, void *slot, size_t size, uint64_t offset);
int uberblock_decode(struct uberblock *u, const void *slot, size_t size, uint64_t offset);

/* <0, 0, >0: which one is newer. */
int uberblock_compare(const struct uberblock *a, const struct uberblock *b);

/* Calls fn for every valid uberblock in all four rings; slots of any size in either byte order are
 * recognised. Stops at fn's first non-zero result and returns it. Rings that cannot be read are
 * skipped; if all are, the read error is returned. */
typedef int uberblock_fn(void *arg, const struct uberblock *u, unsigned label, uint64_t offset);
int uberblock_scan(struct device *d, uint64_t psize, uberblock_fn *fn, void *arg);

/* The newest one with txg <= max_txg. -ENOENT if there is none. */
int uberblock_best(struct device *d, uint64_t psize, uint64_t max_txg, struct uberblock *out);

/* Into its slot in all four labels. Writes only: the caller flushes. 0 if at least one copy was
 * written, else the first error. */
int uberblock_write(struct device *d, uint64_t psize, unsigned ashift, const struct uberblock *u,
                    bool multihost);

#endif
