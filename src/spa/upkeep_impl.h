/* Private to spa: what upkeep.c (jobs, commands, the MOS) and upkeep_work.c (doing it) share. */
#ifndef SPA_UPKEEP_IMPL_H
#define SPA_UPKEEP_IMPL_H

#include <pthread.h>

#include "spa/spa_impl.h"
#include "spa/upkeep.h"

/* What is done to a leaf, or was. */
struct job {
    uint64_t guid;       /* the leaf's */
    struct vdev *top;
    enum vdev_upkeep_kind kind;
    enum spa_upkeep_state state;
    uint64_t at;         /* bytes of the top-level vdev: all before is done */
    uint64_t time;       /* when it took its state, seconds since 1970 */
    uint64_t rate;       /* bytes per second, 0: no limit */
    bool dirty;          /* not in the MOS as it is */
    bool away;           /* the device is not in use, or cannot; until something changes */
    uint64_t sent;       /* bytes since `since`, for the rate */
    uint64_t since;      /* nanoseconds */
};

/* A thread for a top-level vdev. */
struct worker {
    struct upkeep *upkeep;
    struct vdev *top;
    pthread_t thread;
    bool runs;           /* there is a thread, perhaps at its end */
    bool at_end;
    bool freed;          /* autotrim: what was freed is to be trimmed */
    struct worker *next;
};

struct upkeep {
    struct spa *spa;
    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t changed;
    struct job *job;
    size_t n, room;
    struct worker *workers;
    bool stop;
    uint64_t trimmed_txg; /* in which autotrim last looked */
};

/* The job of this kind for a leaf, or NULL. With the lock. */
struct job *upkeep_find(struct upkeep *u, uint64_t guid, enum vdev_upkeep_kind kind);

/* upkeep_work.c */
/* Sees to it that a thread does what there is to do. With the lock. */
void upkeep_wake(struct upkeep *u);
/* Waits until no thread is at it; none starts until resume. */
void upkeep_pause(struct upkeep *u);
void upkeep_resume(struct upkeep *u);

#endif
