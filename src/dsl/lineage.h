/*
 * How datasets follow from one another: snapshots and heads form a tree, each with the one it was
 * made from above it. A scan walks it from the top, so that each block is met once, in the oldest
 * dataset that has it; and it has to know when the tree changes.
 */
#ifndef DSL_LINEAGE_H
#define DSL_LINEAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/blkptr.h"

struct dsl;
struct tx;

struct lineage {
    uint64_t prev_txg;    /* of the one above it: blocks born up to it are there, too */
    uint64_t created_txg; /* of a snapshot */
    bool snapshot;
    struct blkptr root;
};
/* MOS object number of the one at the top; 0: the pool is too old to have it. */
uint64_t lineage_top(const struct dsl *dsl);
/* What is known about one, and (out, to be freed by the caller) those that follow from it. */
int lineage_read(struct dsl *dsl, uint64_t object, struct lineage *out, uint64_t **below,
                 size_t *n);

/* Called in a txg's sync, when the tree has been changed. */
struct lineage_ops {
    /* snapshot has been put between head and what was above it */
    void (*snapshotted)(void *arg, uint64_t head, uint64_t snapshot);
    /* next takes the place of a destroyed snapshot */
    void (*snapshot_gone)(void *arg, uint64_t snapshot, uint64_t next);
    void (*head_gone)(void *arg, uint64_t head);
};
void lineage_watch(struct dsl *dsl, const struct lineage_ops *ops, void *arg);

#endif
