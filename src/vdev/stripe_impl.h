/*
 * Blocks on vdevs with parity. The kinds (RAID-Z, dRAID) only say where the pieces of a block are:
 * a map. Reading, finding out which devices told wrong bytes, repairing and writing are the same
 * for all and are done here.
 *
 * A map has one stripe or several; each is a row of columns, parity first, that its parity covers
 * (codec/raidz.h). A plain RAID-Z block is one stripe of large columns; one on an expanded RAID-Z
 * has a stripe for each row of sectors, since there the devices differ from row to row; a dRAID
 * block that crosses the end of its group has two. Data columns point into the caller's block.
 */
#ifndef VDEV_STRIPE_IMPL_H
#define VDEV_STRIPE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vdev;
struct vdev_io;
struct vdev_scrub;

/* Of a column, besides errors of the devices: */
enum {
    COLUMN_READ = 0,
    COLUMN_UNREAD = 1, /* nobody has asked for it */
    COLUMN_WANTED = 2, /* the next step reads it */
};

struct stripe_column {
    uint64_t offset;     /* in the child, bytes */
    size_t size;         /* bytes; 0: it counts as zeros only */
    unsigned char *data; /* NULL: parity without memory yet */
    unsigned child;
    unsigned next; /* the next column of the same request, 0 = none */
    int rc;        /* COLUMN_..., or why it cannot be read */
    bool stale;    /* its device may not have this block (01 21) */
    bool wrong;    /* it was read, and was not what it should be */
    bool give;     /* a device of it lacks the block, and gets it */
    bool again;    /* it is being written again */
    bool pad;      /* writing: a sector of zeros follows (dRAID) */
};

struct stripe {
    unsigned first, cols; /* into map.col */
};

struct stripe_map {
    struct vdev *v;
    unsigned nparity, stripes, cols;
    bool repair; /* what is written is on other devices already (struct vdev_io) */
    bool resilver; /* what cannot be written is missed (struct vdev_scrub) */
    uint64_t written; /* by stripe_heal, bytes */
    bool whole; /* parity and data alternate on the devices: parity is read with the data */
    struct stripe *stripe;
    struct stripe_column *col;
    unsigned char *parity; /* memory of all parity columns, or NULL */
};

/* A map with room; all zero but for v and nparity. NULL: out of memory. */
struct stripe_map *stripe_map_new(struct vdev *v, unsigned nparity, unsigned stripes,
                                  unsigned cols);
void stripe_map_free(struct stripe_map *m);
int stripe_parity_memory(struct stripe_map *m); /* 0 or -ENOMEM */

/* vdev_kind.read: reads the block, verifies, finds and repairs what is wrong. The map is freed.
 * data has size bytes and is where the data columns point into. */
int stripe_read(struct stripe_map *m, uint64_t birth, const void *data,
                int (*verify)(void *arg, const void *data), void *arg);

/* vdev_kind.scrub: the same, with all parity. scrub.c. */
int stripe_scrub(struct stripe_map *m, const void *data, const struct vdev_scrub *s);

/* vdev_kind.submit: reads without verifying, or writes. The map is freed; NULL: out of memory. */
void stripe_submit(struct stripe_map *m, struct vdev_io *io);

/* stripe_io.c: one step. Reads the wanted columns, or writes those with write set, and calls
 * finished, in any thread. Afterwards rc of these columns says how it went. */
struct stripe_step;
typedef void stripe_finished(void *arg, int rc); /* rc: 0 or -ENOMEM, when nothing was done */
void stripe_start(struct stripe_map *m, bool write, uint64_t birth, stripe_finished *finished,
                  void *arg);
int stripe_run(struct stripe_map *m, bool write, uint64_t birth); /* the same, and waits */

/* stripe.c: computes data columns that were not read. -EIO or -ENXIO: there are too many. */
int stripe_fill(struct stripe_map *m);
/* Reads all data columns, or computes them. As stripe_fill, or -ENOMEM. */
int stripe_gather(struct stripe_map *m, uint64_t birth);
/* Computes the parity of one stripe; there is memory for it. */
void stripe_generate(const struct stripe_map *m, const struct stripe *s);
/* Asks for the data, and for as much parity as is known to be needed. 0 or -ENOMEM. */
int stripe_plan(struct stripe_map *m, uint64_t birth);
/* Writes the columns again that are wrong, could not be read or are lacking, if the devices are writable. */
void stripe_heal(struct stripe_map *m, uint64_t birth);

/* stripe_search.c: the data is not what it should be, and no device says it was its fault: tries
 * every combination. 0, or what verify said first. Then the parity is right as well. */
int stripe_search(struct stripe_map *m, uint64_t birth, int first, const void *data,
                  int (*verify)(void *arg, const void *data), void *arg);
/* Counts a checksum error of each child with wrong columns. */
void stripe_convict(const struct stripe_map *m);

#endif
