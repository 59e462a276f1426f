/*
 * Devices for tests and trials (docs/trial.md): files and disks that are slower than they are, or worse. What they
 * are is said by a text file that the environment names (TARN_TRIAL), and that may change while
 * they are in use.
 */
#ifndef DEVICE_TRIAL_IMPL_H
#define DEVICE_TRIAL_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

/* ---- What the file says (trial_spec.c) ---- */

enum trial_fault {
    TRIAL_READ_ERROR, TRIAL_WRITE_ERROR, TRIAL_FLUSH_ERROR, /* -EIO, nothing is done */
    TRIAL_LOST,        /* a write is acknowledged and not done: what is read later is stale */
    TRIAL_TORN,        /* only the first half of a write is done (in sectors), and it is acknowledged */
    TRIAL_MISDIRECTED, /* a write goes to another place, as far from its own as it is long */
    TRIAL_FLIP_READ,   /* one bit of what is read is wrong, this time */
    TRIAL_FLIP_WRITE,  /* one bit of what is written is wrong */
    TRIAL_FAULTS
};

/* A disk: one request at a time (channels 1), the nearest first where seeks cost. Times in nanoseconds,
 * rates in bytes per second; 0: nothing, no limit. */
struct trial_model {
    bool any;
    unsigned channels;          /* requests under way at once, that share the rate */
    uint64_t rate[2];           /* reads, writes */
    uint64_t latency[2];        /* of each request */
    uint64_t seek_min, seek_max; /* to the next track, and over the whole device */
    uint64_t turn;              /* of the platter; a seek waits for half of it on average, a flush for all */
};

struct trial_spec {
    struct trial_model model;
    double chance[TRIAL_FAULTS]; /* of each request */
    uint64_t from, to;           /* bytes of the device that have faults */
    uint64_t after, until;       /* nanoseconds since it was said */
    uint64_t seed;
    bool gone;                   /* every request fails */
    bool trace;                  /* every request is logged */
};

/* The last line of the text whose pattern fits the path. false: there is none. -EINVAL goes into *rc, with
 * a sentence that names the line. */
bool trial_spec_find(const char *text, const char *path, struct trial_spec *out, int *rc);

/* ---- Playing the disk (trial_model.c) ---- */

struct trial_queue;
/* Threads that do requests on below, each when the disk would have. NULL: no memory. */
struct trial_queue *trial_queue_new(struct device *below, uint64_t seed);
void trial_queue_free(struct trial_queue *q); /* waits for what is under way */
/* In any thread. Calls io->done when the disk has done it. */
void trial_queue_submit(struct trial_queue *q, const struct trial_model *model, struct device_io *io);

/* ---- The driver (trial.c) ---- */

/* Puts the trial before the device if the file says something about its path, now or later. -EINVAL: the file
 * is wrong; the device stays the caller's. Without TARN_TRIAL: nothing happens. */
int trial_wrap(struct device **d);

#endif
