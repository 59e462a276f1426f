/*
 * Eviction. Blocks (dbufs) and dnodes in memory carry a cache_item; together they stay below the
 * pool's cache_limit, as far as they are not held or dirty.
 *
 * What else takes memory makes less room for them, but not less than half of the limit: dirty
 * data (bounded by the txg engine), what is known of files the kernel refers to, the allocator's
 * sets (pool_hold_memory), and gaps between small buffers.
 *
 * Three kinds of lists: SMALL takes file data on its first use, MAIN takes metadata and what was used
 * again after a while, PASSED takes file data that was passed on: written once and on disk now, or
 * read once by a stream that has gone on. The kernel of who wrote or read it has a copy and nobody
 * has asked us for it again, so PASSED stays short: what comes next gets the same memory, which is
 * warm, instead of fresh pages. When the limit is reached SMALL is emptied first as long as it has
 * more than an eighth of the limit, so one pass over a big file pushes out nothing but itself. "Again" is counted in epochs, a clock that ticks as blocks come in:
 * thirty reads of neighbouring bytes within one epoch are one use.
 *
 * Locks: each shard has one for its lists. It may be taken with a dnode's lock held. The evictor
 * holds it and only tries the dnode's or object set's lock, so the order may not be turned around.
 */
#ifndef DMU_CACHE_IMPL_H
#define DMU_CACHE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct neighbour_reader;
struct pool;

enum cache_kind { CACHE_DBUF, CACHE_DNODE };
enum cache_list { CACHE_NONE, CACHE_PASSED, CACHE_SMALL, CACHE_MAIN, CACHE_LISTS };

struct cache_item {
    struct cache_item *prev, *next; /* shard lock */
    uint32_t bytes;                 /* shard lock */
    uint8_t kind, list;             /* list: shard lock */
    _Atomic uint8_t uses;
    _Atomic uint32_t epoch;
};

#define CACHE_SHARDS 16

struct cache_shard {
    _Alignas(64) pthread_mutex_t lock;
    struct cache_item lists[CACHE_LISTS]; /* heads; the front has the newest */
    int64_t bytes[CACHE_LISTS];
};

/* Where threads wait for a block that another one is reading. */
struct cache_wait {
    _Alignas(64) pthread_mutex_t lock;
    pthread_cond_t cond;
    uint64_t seq; /* lock */
};

struct cache {
    struct pool *pool;
    unsigned refs;              /* object sets; cache.c's lock */
    _Atomic(struct neighbour_reader *) neighbours; /* NULL: it never read */
    _Atomic int64_t total;      /* bytes of the items and of what belongs to them: cache_charge */
    _Atomic int64_t passed;     /* bytes in the lists PASSED */
    _Atomic int64_t gaps;       /* bytes that no buffer uses and that cannot be given back */
    _Atomic int64_t retry_at;   /* bytes: below that, looking for something to evict is not worth it */
    _Atomic uint64_t inserted;  /* bytes, for the epoch */
    _Atomic unsigned next_shard, trims;
    struct cache_shard shards[CACHE_SHARDS];
    struct cache_wait waits[CACHE_SHARDS];
};

int cache_get(struct pool *pool, struct cache **out); /* one reference for each object set */
void cache_put(struct cache *c);

void cache_insert(struct cache *c, struct cache_item *it, enum cache_list list, uint32_t bytes);
void cache_resize(struct cache *c, struct cache_item *it, uint32_t bytes);
/* A block of file data has been written to disk, or a stream of reads has left it behind. Not for a
 * file's last block, of which the kernel has no whole copy. */
void cache_passed(struct cache *c, struct cache_item *it);
void cache_remove(struct cache *c, struct cache_item *it);
/* Counts memory that comes and goes with items without being theirs (records of changes). */
static inline void cache_charge(struct cache *c, int64_t delta)
{
    atomic_fetch_add_explicit(&c->total, delta, memory_order_relaxed);
}
/* Evicts until the limit is kept, as far as that is quickly possible. With no lock held. */
void cache_trim(struct cache *c);
/* Much has become clean: it is worth looking again. */
void cache_retry(struct cache *c);
uint64_t cache_limit(const struct cache *c);

static inline uint32_t cache_epoch(const struct cache *c)
{
    return (uint32_t)(atomic_load_explicit(&c->inserted, memory_order_relaxed) >> 22);
}

/* Notes a use of the item. */
static inline void cache_touch(struct cache *c, struct cache_item *it)
{
    uint32_t now = cache_epoch(c);
    uint8_t uses = atomic_load_explicit(&it->uses, memory_order_relaxed);

    if (atomic_load_explicit(&it->epoch, memory_order_relaxed) == now && uses > 0)
        return;
    atomic_store_explicit(&it->epoch, now, memory_order_relaxed);
    if (uses < 3)
        atomic_store_explicit(&it->uses, uses + 1, memory_order_relaxed);
}

/* Waiting for a block: take the number while the block's state is locked, then wait for it to
 * change; whoever changes the state calls cache_wake afterwards. */
uint64_t cache_wait_number(struct cache *c, const void *key);
void cache_wait_for(struct cache *c, const void *key, uint64_t number);
void cache_wake(struct cache *c, const void *key);

/* Ends the cache's reader of small files (neighbours.c), which has nothing more to do. */
void neighbours_stop(struct cache *c);

/* Implemented by the owners, called with the shard lock held: takes the thing out of its tables
 * unless somebody uses it. dispose frees it later, with no lock held. */
bool dbuf_try_detach(struct cache_item *it);
void dbuf_dispose(struct cache_item *it);
bool dnode_try_detach(struct cache_item *it);
void dnode_dispose(struct cache_item *it);

#endif
