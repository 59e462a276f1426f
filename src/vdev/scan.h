/*
 * Finding pools: looks at devices and files for labels and puts together what belongs together
 * (spec 01 11.1). Nothing is locked or written; what is found can be wrong or out of date (a label
 * tells what its writer knew), so that importing checks everything again.
 */
#ifndef VDEV_SCAN_H
#define VDEV_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvlist;

/* How a pool looks from outside; the later ones prevent the import. */
enum scan_status {
    SCAN_ONLINE,
    SCAN_DEGRADED, /* devices are missing, but every top-level vdev can be read */
    SCAN_MISSING,  /* a top-level vdev cannot be read (it may be a log: without its label only the
                       pool itself knows) */
    SCAN_VERSION,  /* of a version that we do not know */
    SCAN_CORRUPT   /* labels that contradict themselves, or no uberblock */
};

/* In the vdevs of a scan's tree: how they look. Absent: all of it was found. */
#define SCAN_KEY_STATE "tarn:scan_state"
enum scan_vdev_state { SCAN_VDEV_OK, SCAN_VDEV_DEGRADED, SCAN_VDEV_MISSING };

/* In a pool's config: all spare and cache devices that were found, whosever they are; a list of {guid,
 * path}. Absent: none. */
#define SCAN_KEY_AUX "tarn:aux"

struct scan_pool {
    char *name;
    uint64_t guid;
    uint64_t state; /* enum pool_state: active, exported or destroyed */
    uint64_t version;
    uint64_t txg;    /* of the newest uberblock, 0 if there is none */
    uint64_t hostid; /* of the last host that used it; 0 if unknown */
    char *hostname;  /* NULL if unknown */
    enum scan_status status;
    unsigned missing_tops; /* top-level vdevs that cannot be read */
    unsigned missing_leaves;
    /* As the pool's own configuration: pool-level keys and vdev_tree with type root. Paths are
     * those that were found; a leaf that was not found keeps the path its label tells. Of a
     * top-level vdev without labels there is only {type missing, id, guid 0}; it may be one that
     * was removed from the pool. NULL (with SCAN_CORRUPT) if the labels make no tree. */
    struct nvlist *config;
};

/* A spare or cache device. */
struct scan_device {
    char *path;
    uint64_t guid;
    uint64_t state; /* POOL_STATE_SPARE or POOL_STATE_L2CACHE */
};

struct scan {
    struct scan_pool *pool;
    size_t pools;
    struct scan_device *aux;
    size_t auxs;
    unsigned denied; /* devices that we may not read */
};

/* paths: files, devices or directories, which are searched for files and block devices (not in
 * depth); n = 0: the block devices of the system. Names given first are preferred. What cannot be
 * read is skipped; only a path that does not exist is an error (-ENOENT). */
int scan_run(struct scan **out, const char *const *paths, size_t n);
void scan_free(struct scan *s);

/* The n-th (from 0) pool whose name, or guid in decimal, is the text; NULL if there is none. */
const struct scan_pool *scan_find(const struct scan *s, const char *text, size_t n);

#endif
