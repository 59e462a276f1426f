/* Private to spa: what the files that change devices share. */
#ifndef SPA_VDEVS_IMPL_H
#define SPA_VDEVS_IMPL_H

#include "spa/spa_impl.h"
#include "spa/vdevs.h"
#include "vdev/change.h"

struct spa_create_args;

/* newvdevs.c: the vdevs that are asked for, in root. create_txg 0: set later. */
int spa_new_tops(const struct spa_add_args *args, uint64_t create_txg, struct env *env,
                 struct vdev *root);
/* All labels of the leaves below v, with txg 0: what was there before is gone, and nobody takes
 * them for a part of a pool yet. */
int spa_label_new(struct spa *spa, struct vdev *v);

/* vdevs.c */
/* The leaf that is called so. -ENODEV, -EBUSY (a spare), -ENOTSUP (no leaf). In the tree. */
int spa_vdev_leaf(struct spa *spa, const char *name, struct vdev **leaf);
/* A leaf came into use in the sync of txg: it may lack blocks from `from` on that were written
 * before, those of txg and of the txgs that are open too. */
void spa_vdev_missed_until(struct vdev *leaf, uint64_t from, uint64_t txg);
/* After the commit of a txg: what had to wait for it. */
void spa_vdevs_committed(struct spa *spa);

/* commit.c: a device that is no longer in the pool is made one of none. */
void spa_label_wipe(struct spa *spa, struct vdev *leaf);

#endif
