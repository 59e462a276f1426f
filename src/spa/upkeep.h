/*
 * TRIM and initialize: devices are told which of their bytes nobody uses, or these are written over (spec 05 17,
 * docs/devices.md). By order of people, once over each device; what is done is noted in the device's
 * ZAP, so that it goes on after a crash or an import anywhere. Or all the time, with what is freed (the
 * pool property autotrim).
 */
#ifndef SPA_UPKEEP_H
#define SPA_UPKEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vdev/upkeep.h"

struct spa;

/* The numbers are those on disk. */
enum spa_upkeep_state {
    SPA_UPKEEP_NONE, SPA_UPKEEP_ACTIVE, SPA_UPKEEP_CANCELED, SPA_UPKEEP_SUSPENDED, SPA_UPKEEP_COMPLETE
};

enum spa_upkeep_action {
    SPA_UPKEEP_START,   /* also goes on with what was suspended */
    SPA_UPKEEP_SUSPEND,
    SPA_UPKEEP_CANCEL,
    SPA_UPKEEP_CLEAR    /* initialize only: as if it never had been */
};

struct spa_upkeep_args {
    enum vdev_upkeep_kind kind;
    enum spa_upkeep_action action;
    const char *const *names; /* devices, as in spa/vdevs.h */
    size_t n;                 /* 0: all data and log devices of the pool */
    uint64_t rate;            /* TRIM: bytes per second for each device; 0: no limit */
    bool secure;              /* TRIM: so that nobody can read it any more; none of our devices can */
    /* Called for each device that keeps the order from being carried out: its name and the sentence. */
    void (*refused)(void *arg, const char *name, const char *why);
    void *arg;
};
/* Returns when it is noted (durably) that the work has begun, or has ended. All devices or none. -EROFS;
 * -EINVAL: some were refused. */
int spa_upkeep(struct spa *spa, const struct spa_upkeep_args *args);

/* Waits until none of these leaves (n 0: of the pool's) is at it, or so many seconds have passed; *left: bytes
 * of free space that are still to be done. -ENODEV: no such device. */
int spa_upkeep_wait(struct spa *spa, enum vdev_upkeep_kind kind, const char *const *names, size_t n,
                    unsigned seconds, uint64_t *left);

/* What there is to say about a leaf; in the tree. */
struct spa_upkeep_status {
    enum spa_upkeep_state state;
    uint64_t time;        /* when it took this state, seconds since 1970 */
    uint64_t done, total; /* bytes of free space */
};
void spa_upkeep_status(struct spa *spa, const struct vdev *leaf, enum vdev_upkeep_kind kind,
                       struct spa_upkeep_status *out);

#endif
