/* Private to src/pool: the allocator's parts. */
#ifndef POOL_ALLOC_IMPL_H
#define POOL_ALLOC_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/alloc.h"
#include "pool/txg.h"
#include "util/rangeset.h"

#define CURSORS      16 /* by the power of two that divides the size, from 512 up */
#define NO_METASLAB  (~0u)
#define FRAG_UNKNOWN (~0u)

/* What a metaslab is busy with; both exclude each other, and nothing else. */
enum metaslab_work { WORK_NONE, WORK_LOADING, WORK_SYNCING };

/* Sets that are empty are NULL: most metaslabs are idle, and there can be 100 000 of them. */
struct metaslab_impl {
    pthread_mutex_t lock;  /* guards what follows, unless it is atomic */
    bool failed;           /* its map could not be read: never allocated from */
    bool dirty[TXG_SLOTS]; /* its bit in group.dirty is set */
    struct rangeset *free; /* allocatable; NULL: not loaded */
    struct rangeset *allocating[TXG_SLOTS], *freeing[TXG_SLOTS];
    struct rangeset *syncing;  /* frees that alloc_sync_fn is writing now */
    struct rangeset *freed;    /* written as FREE in the txg being synced */
    struct rangeset *defer[2]; /* by txg: not allocatable yet */
    struct rangeset *lent;     /* taken out of free for a while (alloc_lend) */
    struct rangeset *trim;     /* what became allocatable and was not allocated since, nor trimmed */
    uint64_t cursor[CURSORS];
    uint64_t used_txg;      /* of the last allocation */
    unsigned since_weighed; /* allocations */
    _Atomic enum metaslab_work work;
    _Atomic uint64_t weight; /* 05 6.2 */
    _Atomic uint64_t fits;   /* no larger range can be free */
    _Atomic uint64_t room;   /* bytes not allocated, for averages */
    _Atomic unsigned frag;   /* 0..100 or FRAG_UNKNOWN */
};

/* A lane is a stream of blocks that go to one metaslab until that is worn: first, second and third
 * copies of data, and the same of metadata. */
enum { LANE_COPIES = BLKPTR_DVAS, LANES = 2 * LANE_COPIES, LANE_SETS = 4 };

struct lane {
    _Atomic unsigned current;    /* metaslab or NO_METASLAB */
    _Atomic unsigned start_size; /* log2 of its largest free range when it was chosen */
};

struct group {
    struct vdev *vdev;
    struct alloc *alloc;
    struct metaslab *metaslabs;
    struct metaslab_impl *impl;
    unsigned count, lane_sets;
    uint64_t size;              /* bytes of all metaslabs */
    _Atomic uint64_t allocated; /* bytes, what is not yet reusable included */
    _Atomic uint64_t deferred;  /* bytes in defer sets */
    _Atomic uint64_t trimmable; /* bytes in trim sets, about */
    _Atomic bool ready;         /* weights and totals were taken from the headers */
    pthread_mutex_t lock;       /* guards what follows; taken after a metaslab's lock */
    pthread_cond_t idle;        /* with the lock of a metaslab: its work is done */
    uint64_t *dirty[TXG_SLOTS]; /* bitmaps of metaslabs: something unwritten */
    uint64_t *rotating;         /* freed or defer sets */
    uint64_t *loaded;
    int64_t memory; /* bytes of sets, as the pool has been told; sync thread */
    struct lane lanes[LANE_SETS][LANES];
};

struct rotor {
    unsigned at;   /* top-level vdev id */
    uint64_t left; /* bytes until it moves on */
};

struct alloc {
    struct pool *pool;
    metaslab_load_fn *load;
    void *arg;
    pthread_mutex_t lock;  /* guards rotor */
    struct rotor rotor[4]; /* by vdev class */
    unsigned loans;        /* under lock, as what follows */
    uint64_t returned;     /* loans, ever */
    pthread_cond_t back;   /* a loan has come back */
};

static inline struct metaslab_impl *metaslab_impl(const struct metaslab *m)
{
    return m->impl;
}
static inline struct group *metaslab_group(const struct metaslab *m)
{
    return m->vdev->allocator;
}

/* Sets that are made when needed. */
int set_add(struct rangeset **set, uint64_t start, uint64_t end);    /* exact */
int set_remove(struct rangeset **set, uint64_t start, uint64_t end); /* exact */
void set_free(struct rangeset **set);
/* Moves all of src into dst; on error the rest stays in src. */
int set_move(struct rangeset **dst, struct rangeset **src);
static inline uint64_t set_total(const struct rangeset *s)
{
    return s ? rangeset_total(s) : 0;
}
static inline bool set_empty(const struct rangeset *s)
{
    return !s || rangeset_count(s) == 0;
}

/* Bitmaps. */
uint64_t *bitmap_new(unsigned n);
static inline bool bitmap_get(const uint64_t *map, unsigned i)
{
    return map[i / 64] >> i % 64 & 1;
}
static inline void bitmap_set(uint64_t *map, unsigned i)
{
    map[i / 64] |= 1ull << i % 64;
}
static inline void bitmap_clear(uint64_t *map, unsigned i)
{
    map[i / 64] &= ~(1ull << i % 64);
}
/* The first set bit from i on; n if there is none. */
unsigned bitmap_next(const uint64_t *map, unsigned i, unsigned n);

/* metaslab.c; all with the metaslab's lock held. */
int metaslab_load(struct metaslab *m); /* drops the lock meanwhile; -EBUSY while it is synced */
void metaslab_unload(struct metaslab *m);
void metaslab_weigh(struct metaslab *m);
/* Takes size bytes for txg. -ENOSPC if there is no such range. */
int metaslab_take(struct metaslab *m, uint64_t txg, uint64_t size, uint64_t *offset);
void metaslab_mark_dirty(struct metaslab *m, uint64_t txg);
void metaslab_wait_work(struct metaslab *m);
void metaslab_end_work(struct metaslab *m);

/* alloc_lend.c */
/* For who finds no space: waits if there are loans, and says whether to try again. */
bool alloc_wait_for_loans(struct alloc *a);
/* Notes what became allocatable, for autotrim, and what is allocated again. With the metaslab's lock. */
void metaslab_note_freed(struct metaslab *m, const struct rangeset *set);
void metaslab_forget_freed(struct metaslab *m, uint64_t start, uint64_t end);

/* alloc_space.c */
bool alloc_short_of_space(struct pool *pool);

/* fragmentation.c */
unsigned fragmentation_of(const uint64_t hist[32], unsigned shift);
unsigned group_fragmentation(const struct group *g);

/* group.c */
void group_prepare(struct group *g);
bool group_usable(const struct group *g);
/* Allocates asize bytes in a metaslab that holds none of bp's first `copy` DVAs (hard: may). */
int group_take(struct group *g, uint64_t txg, uint64_t asize, bool metadata,
               const struct blkptr *bp, int copy, bool hard, uint64_t *offset);
struct metaslab *group_find(struct group *g, uint64_t offset, uint64_t size);

#endif
