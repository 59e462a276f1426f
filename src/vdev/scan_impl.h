/* Private to the scan. */
#ifndef VDEV_SCAN_IMPL_H
#define VDEV_SCAN_IMPL_H

#include <sys/types.h>

#include "vdev/label.h"
#include "vdev/scan.h"

/* A device, or a file, that may have labels. */
struct candidate {
    char **name; /* all names it was found under, in the order of the search */
    size_t names;
    size_t order; /* position of the first name in the search */
    bool block;
    dev_t dev; /* identity: of a block device its number, else device and inode */
    ino_t ino;

    /* Filled in by reading it. */
    bool denied;
    bool labelled;  /* set is valid */
    bool partition; /* the labels are in a partition of it */
    struct label_set set;
    unsigned good;             /* usable labels */
    const struct label *label; /* into set: what speaks for it; NULL if nothing is worth a look */
    uint64_t pool_guid;        /* by that label; 0 for spare and cache devices */
    bool damaged;              /* no label has a right checksum */
    uint64_t ub_txg;           /* newest uberblock, 0 if none */
};

struct candidates {
    struct candidate *item;
    size_t n, capacity;
};

/* scan_paths.c: what there is to look at. */
int candidates_add(struct candidates *c, const char *path, bool only_block);
int candidates_add_default(struct candidates *c);
int candidates_merge(struct candidates *c); /* several names of one device become one candidate */
void candidates_free(struct candidates *c);

/* scan.c: reads the labels of d. 0 or -ENOMEM. */
struct device;
int candidate_look(struct candidate *k, struct device *d);

/* scan_pool.c: the pool with this guid from the devices that have labels of it. */
int scan_assemble(struct scan_pool *out, struct candidates *c, uint64_t pool_guid);

/* scan_tree.c */
/* Puts the paths found into a tree and counts what is missing. ok: the vdev can be read. */
struct tree_count {
    unsigned missing_leaves;
    bool ok;
};
int scan_tree_paths(struct nvlist *vdev, const struct candidates *c, uint64_t pool_guid,
                    struct tree_count *count);

#endif
