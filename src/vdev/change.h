/*
 * Changing the shape of a tree that is in use (docs/devices.md, "Changing the tree of a running
 * pool").
 *
 * Who may see what:
 *   - A top-level vdev, once in the tree, stays where it is in memory until the tree is freed: its
 *     address, its place in the root's list, ashift, class and allocator never change. The root's
 *     list only grows.
 *   - What is below a top-level vdev (children, leaves, their devices), and whether it is a leaf
 *     itself, changes only in the sync thread, with the tree locked. The sync thread therefore
 *     needs no protection to look at the tree. Other threads that walk it enter it; I/O (vdev_read,
 *     vdev_submit, vdev_scrub, vdev_flush, vdev_upkeep) enters by itself.
 */
#ifndef VDEV_CHANGE_H
#define VDEV_CHANGE_H

#include "vdev/vdev.h"

/* For a walk over the tree in any thread but that of the sync. Cheap: a counter of this processor.
 * Waits while the tree is locked. Inside: no I/O on vdevs, no wait for a txg, no second entering.
 * leave gets what enter gave. */
unsigned vdev_tree_enter(struct vdev *root);
void vdev_tree_leave(struct vdev *root, unsigned slot);

/* Waits until nobody is inside and no request is under way; what comes meanwhile waits. In the sync
 * thread, not for long: all reads and writes of the pool wait. */
void vdev_tree_lock(struct vdev *root);
void vdev_tree_unlock(struct vdev *root);

/* ---- With the tree locked ---- */

/* A device that can be opened, for a leaf that is without: opened and looked at before the tree is
 * locked, taken over then. */
struct vdev_opened {
    struct device *device;
    uint64_t psize;
    const char *why;     /* why it cannot be used (static words), or NULL */
};
/* Opens the device of the leaf with this guid, as vdev_tree_open would; needs no lock. least:
 * allocatable bytes (vdev_leaf_needs). 0, -ENXIO (why says it), -EBUSY, -ENOMEM. */
int vdev_open_device(const char *path, uint64_t guid, uint64_t pool_guid, uint64_t least,
                     struct vdev_opened *out);
/* Is a device still where it was? It is not opened for that if it is in use. */
bool vdev_device_there(const char *path, uint64_t guid, uint64_t pool_guid);
void vdev_opened_close(struct vdev_opened *o);
/* Allocatable bytes that a device needs to stand in the place of this leaf. */
uint64_t vdev_leaf_needs(const struct vdev *leaf);
/* The leaf takes it over and is HEALTHY; -ENOMEM leaves both as they are. */
int vdev_bring_back(struct vdev *leaf, struct vdev_opened *o);
/* Closes the device of a leaf, which gets this state; vdevs above get theirs. */
void vdev_put_away(struct vdev *leaf, enum vdev_state state, const char *why);

/* A new top-level vdev at the end of the root's list. -ENOMEM changes nothing. */
int vdev_append_top(struct vdev *root, struct vdev *top);

/* Puts a new leaf beside one that is there: into its mirror, or into a new vdev of `type`
 * ("mirror", "replacing") with that guid in its place. A leaf that is a top-level vdev moves down:
 * *leaf is where it is then. -ENOMEM changes nothing, and the caller still owns the new leaf. */
int vdev_join(struct vdev **leaf, struct vdev *new_leaf, const char *type, uint64_t guid);
/* Takes a leaf out of a mirror, replacing or spare vdev; the caller owns it then, with its device.
 * What has one child left vanishes: the child takes its place, and if that is at the top, its guid
 * as well. *heir: the vdev that is in the place of the parent now. */
int vdev_part(struct vdev *leaf, struct vdev **heir);

/* ---- Finding ---- */

/* The vdev that people call so: a guid, a path or its last part, "mirror-0". NULL: none. */
struct vdev *vdev_find(struct vdev *root, const char *name);
struct vdev *vdev_find_guid(struct vdev *v, uint64_t guid);

#endif
