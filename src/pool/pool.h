/*
 * The pool as the layers below objects see it: devices, space, txgs, block I/O. Opened and filled in by
 * spa (which has the MOS); everything above gets at a pool through this struct.
 */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "codec/checksum.h"
#include "pool/blkptr.h"
#include "util/env.h"

struct vdev;
struct workers;
struct txg_engine;
struct block_batch;
struct cache;

/* Pool-wide features that change how blocks are written: set by spa from the feature tables before
 * the first write, changed only in syncing context. */
struct pool_features {
    bool lz4, embedded_data, hole_birth, spacemap_v2, spacemap_histogram, log_spacemap;
    bool large_blocks, userobj_accounting, project_quota, large_dnode; /* enabled, maybe not active */
    bool block_cloning, dedup; /* active: frees must look things up */
};

struct pool {
    char name[256];
    uint64_t guid;
    bool writable;
    bool in_memory;                 /* changes may be made though it is not writable: nothing is ever
                                       written, they are lost when it is closed */
    struct env env;
    struct vdev *root;              /* vdev tree */
    struct workers *workers;
    struct txg_engine *txg;
    void *alloc;                    /* pool/alloc.c */
    void *block;                    /* pool/block.c: queues and counters */
    struct block_batch *batch;      /* MOS writes held back in the txg being synced, or NULL; set
                                       with block_set_batch() only: readers look into it */
    struct pool_errors *errors;     /* pool/errors.h */
    _Atomic bool autotrim;          /* what is freed is remembered for alloc_lend */
    struct cache *cache;            /* dmu: limit and eviction of cached blocks */
    uint64_t cache_limit;           /* bytes */
    _Atomic int64_t held_bytes; /* memory that counts against the limit but cannot be evicted:
                                   pool_hold_memory */
    struct pool_features features;
    uint8_t salt[CHECKSUM_SALT_SIZE];
    bool has_salt;
    uint64_t checkpoint_bytes;      /* raw bytes that only a checkpoint holds (05 15); set by spa */
    bool deflate;                   /* MOS directory "deflate": 05 8.1 */
    bool no_compress;               /* late sync passes: sizes must stop changing */
    void *spa;                      /* the layer above */
};

/* Initialises everything that belongs to this layer; the vdev tree is opened by the caller and given
 * over. pool_fini waits for I/O and frees, the vdev tree too. */
int pool_init(struct pool *pool, const char *name, struct vdev *root, const struct env *env);
void pool_fini(struct pool *pool);

/* What a layer keeps in memory besides cached blocks and what grows with the pool, in bytes; the
 * cache makes room for it. */
static inline void pool_hold_memory(struct pool *pool, int64_t delta)
{
    atomic_fetch_add_explicit(&pool->held_bytes, delta, memory_order_relaxed);
}

/* The bound of dirty data (txg_config.dirty_max) that goes with the cache limit. */
uint64_t pool_dirty_max(const struct pool *pool);

/* Name rules of 01 12: 0 or -EINVAL with a sentence. */
int pool_name_check(const char *name);

#endif
