/* Private to src/vdev: leaves and their devices. */
#ifndef VDEV_LEAF_IMPL_H
#define VDEV_LEAF_IMPL_H

#include "vdev/vdev.h"

/* The windows of leaf_ahead.c. read: true if it has filled data, which the caller then verifies; false:
 * read it yourself. Offsets are the leaf's, in bytes. forget: the range is being written. */
struct leaf_ahead;
struct leaf_ahead *leaf_ahead_new(void); /* NULL: no memory */
void leaf_ahead_free(struct leaf_ahead *a);
bool leaf_ahead_read(struct vdev *leaf, struct leaf_ahead *a, uint64_t offset, void *data,
                     size_t size);
void leaf_ahead_forget(struct leaf_ahead *a, uint64_t offset, uint64_t size);
/* A piece that was read on purpose (vdev_preread): begin gives the count of writes, which add wants back: if
 * there were others meanwhile, it is not kept. data is taken over. find: as read, of such pieces only. */
struct buf;
uint64_t leaf_ahead_begin(struct leaf_ahead *a);
void leaf_ahead_add(struct leaf_ahead *a, uint64_t writes, uint64_t start, struct buf *data);
bool leaf_ahead_find(struct leaf_ahead *a, uint64_t offset, void *data, size_t size);
uint64_t leaf_data_size(const struct vdev *leaf); /* bytes between the labels */

/* A leaf's queues (leaf_queue.c), in leaf->private while there is a device. */
int leaf_queue_new(struct vdev *leaf); /* 0 or -ENOMEM */
void leaf_queue_free(struct vdev *leaf);
/* Waits until none of the leaf's requests is under way, and the queue has let go of the leaf. */
void leaf_queue_drain(struct vdev *leaf);
void leaf_queue_submit(struct vdev *leaf, struct vdev_io *io);
struct leaf_ahead *leaf_queue_ahead(struct vdev *leaf);
/* Tells the owner of a request how it went, and counts errors. */
void leaf_finish(struct vdev_io *io, int rc);

/* Opens the device of a leaf, checks its label and sets state, psize and device. */
void leaf_open(struct vdev *v, unsigned flags, uint64_t pool_guid);

/* -EBUSY with a sentence if the device's label says that it belongs to a pool. open: some process
 * has the device open, so that the pool is active. */
int leaf_in_use(struct device *d, bool open);

#endif
