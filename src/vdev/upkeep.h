/*
 * What is done to devices where nobody's data is: they are told to forget it (TRIM), or it is written over
 * (spec 02 18, 05 17). Where that is only the caller knows (pool/alloc.h: alloc_lend).
 */
#ifndef VDEV_UPKEEP_H
#define VDEV_UPKEEP_H

#include "vdev/vdev.h"

enum vdev_upkeep_kind { VDEV_TRIM, VDEV_INITIALIZE, VDEV_UPKEEP_KINDS };

#define VDEV_INITIALIZE_VALUE 0xdeadbeefdeadbeeeull /* the words that are written */

/* What is to be done to a leaf, and how it went. */
struct vdev_upkeep {
    uint64_t guid;
    enum vdev_upkeep_kind kind;
    /* 0; -ENODEV: there is no such leaf, or it is not in use for writing; -EOPNOTSUPP: the device cannot, which
     * is remembered (vdev_can_trim); -EIO, counted as a write error of the leaf; -ENOMEM. */
    int rc;
    uint64_t bytes; /* of the leaf, done */
};

/* All of them at the same time, with what of [offset, offset + size) of the top-level vdev is theirs.
 * Returns when that is done. size should be small enough not to take long (some MiB, for TRIM some 100
 * MiB): the tree cannot be locked meanwhile. */
void vdev_upkeep(struct vdev *top, uint64_t offset, uint64_t size, struct vdev_upkeep *one, size_t n);

/* ---- In the tree (vdev/change.h) ---- */

/* Is the leaf's place in its top-level vdev such that ranges of one are ranges of the other? Not in a
 * dRAID, nor while a raidz is being expanded. */
bool vdev_has_ranges(const struct vdev *leaf);
bool vdev_can_trim(const struct vdev *leaf); /* as far as is known; of a device not in use: true */
/* How many bytes of the leaf belong to the first `offset` bytes of its top-level vdev; and the other way:
 * the most of these that the first bytes of the leaf hold. */
uint64_t vdev_leaf_position(const struct vdev *leaf, uint64_t offset);
uint64_t vdev_top_position(const struct vdev *leaf, uint64_t position);

#endif
