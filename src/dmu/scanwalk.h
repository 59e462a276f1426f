/*
 * Walking the blocks of an object set on disk in order, so that the walk can stop anywhere and go
 * on later, in a tree that has changed meanwhile: for scrub and resilver. (blockwalk.h is for
 * checking: many threads, no order.) What has to be read to get on is read ahead.
 */
#ifndef DMU_SCANWALK_H
#define DMU_SCANWALK_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/blkptr.h"
#include "pool/block.h"

struct scanwalk {
    struct pool *pool;
    uint64_t id; /* of the set, for bookmarks */
    struct blkptr root;
    uint64_t min, max; /* blocks with min < birth <= max are visited */
    /* Where it goes on: a block of level 0, or the root (03 10). NULL: from the start. Blocks above
     * it are visited again. */
    const struct bookmark *from;
    /* A block that is stored, of any level; before those below it. A non-zero result ends the walk.
     */
    int (*block)(void *arg, const struct blkptr *bp, const struct bookmark *bm);
    /* What is below bp (NULL: a dnode) cannot be reached, and is left out; the sentence of rc is
     * set. */
    void (*bad)(void *arg, const struct blkptr *bp, const struct bookmark *bm, int rc);
    /* Asked before each block of level 0 (but in the accounting objects). */
    bool (*pause)(void *arg);
    void *arg;
};

/* 0: all was visited. -EAGAIN: paused; *at is where to go on, with nothing before it left. Else
 * block's result, or -ENOMEM. */
int scanwalk_run(const struct scanwalk *w, struct bookmark *at);

#endif
