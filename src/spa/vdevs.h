/*
 * Changing the devices of a live pool (docs/devices.md). Each call returns when the change is
 * durable: either all of it has happened, or (after an error, or a crash meanwhile) nothing. One at
 * a time; calls from several threads wait for each other.
 *
 * Devices are named by path, by guid, or as status names them ("mirror-0"). Errors that all have:
 * -ENODEV (no such device in pool), -EROFS, -EIO (the pool is suspended).
 */
#ifndef SPA_VDEVS_H
#define SPA_VDEVS_H

#include <stdbool.h>
#include <stddef.h>

#include "vdev/vdev.h"

struct spa;
struct spa_create_group;
struct tx;

/* Takes a device out of use, for_now: until the pool is imported again. -EBUSY: it is needed ("no
 * valid replicas"), or a spare; -ENOTSUP: not a single device. */
int spa_vdev_offline(struct spa *spa, const char *name, bool for_now);
/* Takes it into use again. What it missed is resilvered. *state: what it is then; one that cannot
 * be opened is no error. -EBUSY: a spare. */
int spa_vdev_online(struct spa *spa, const char *name, enum vdev_state *state);
/* Forgets the errors that were counted, for a vdev and all below it, or (NULL) all of the pool, and
 * takes devices that were put out of use because of errors, or could not be opened, into use again. */
int spa_vdev_clear(struct spa *spa, const char *name);
/* Looks for devices that were away, and whether those in use are still where they were. */
int spa_vdev_reopen(struct spa *spa);

struct spa_add_args {
    const char *const *paths;
    size_t npaths;
    const struct spa_create_group *groups; /* as in spa_create_args */
    size_t ngroups;
    unsigned ashift;               /* 0: the pool's, or by the device */
    bool force;                    /* devices that look in use but are not active */
};
/* New top-level vdevs. dry_run: only what can be checked. -EBUSY: a device is in use (the sentence
 * says by what); -EOVERFLOW: too small. */
int spa_vdev_add(struct spa *spa, const struct spa_add_args *args, bool dry_run);

struct spa_attach_args {
    const char *name;              /* the device that is there */
    const char *path;              /* the new one; may be the same path if the old device is not in use */
    unsigned ashift;               /* 0: the vdev's; another is refused */
    bool replace, force;
};
/* Makes a disk a mirror or a mirror wider; replace: puts the new device in the place of the old
 * one, which goes when the new one has everything. -ENOTSUP: can only be done to others;
 * -EOVERFLOW: too small; -EDOM: its sectors are larger than the vdev's; -EBUSY: the new one is in
 * use; -EALREADY: the old one is being replaced already. */
int spa_vdev_attach(struct spa *spa, const struct spa_attach_args *args);
/* Takes a device out of a mirror, or ends a replacement. -ENOTSUP: it is in none, or a spare stands
 * in for it; -EBUSY: it is needed ("no valid replicas"), or a spare. */
int spa_vdev_detach(struct spa *spa, const char *name);

#endif
