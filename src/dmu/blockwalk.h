/*
 * Walking all blocks of many object sets on disk, with several threads, and going on behind damage:
 * for checking a pool. (objset_walk of dmu/objset.h is for freeing: one thread, children first,
 * ends at the first error.)
 */
#ifndef DMU_BLOCKWALK_H
#define DMU_BLOCKWALK_H

#include <stdbool.h>
#include <stdint.h>

#include "dmu/objset.h"

struct blkptr;
struct blockwalk;
struct bookmark;
struct pool;

/* All are called from any of the threads, numbered from 0, several at a time; set is what was given
 * to blockwalk_add. */
struct blockwalk_ops {
    /* A block pointer that is no hole, with alloc birth > since. read: the walk reads the block
     * itself afterwards because others are below it. */
    void (*block)(void *arg, unsigned thread, void *set, const struct blkptr *bp,
                  const struct bookmark *bm, bool read);
    /* A block that should have been read, or what is in it, is damaged: what is below it is left
     * out. The sentence of rc is set. */
    void (*bad)(void *arg, unsigned thread, void *set, const struct blkptr *bp,
                const struct bookmark *bm, int rc);
    /* The root block of a set, and its ZIL header (192 bytes, host order). May be NULL. */
    void (*root)(void *arg, unsigned thread, void *set, const unsigned char *zil_header);
};

int blockwalk_new(struct blockwalk **out, struct pool *pool, unsigned threads,
                  const struct blockwalk_ops *ops, void *arg);
/* Puts a set on the list; any thread, also while it runs. id: as in objset_open. */
int blockwalk_add(struct blockwalk *w, uint64_t id, const struct blkptr *root, uint64_t since,
                  void *set);
/* Walks until all is done. tick (may be NULL) is called in the caller a few times a second.
 * -ENOMEM. */
int blockwalk_run(struct blockwalk *w, void (*tick)(void *arg));
void blockwalk_free(struct blockwalk *w);

#endif
