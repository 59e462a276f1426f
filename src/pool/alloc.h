/*
 * Space: metaslabs and the allocator (spec 05 2-8). This module knows free and allocated ranges in
 * memory and their on-disk words; the space map *objects* are read and written by the layer that has
 * objects (spa), through the functions below.
 *
 * Life of a range: allocatable -> allocating[txg] -> (written as ALLOC) allocated -> freeing[txg] ->
 * (written as FREE) deferred for two more txgs -> allocatable.
 */
#ifndef POOL_ALLOC_H
#define POOL_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/blkptr.h"
#include "vdev/vdev.h"

struct pool;
struct rangeset;

struct metaslab {
    struct vdev *vdev;       /* its top-level vdev */
    unsigned id;
    uint64_t start, size;    /* bytes within the vdev */
    uint64_t object;         /* MOS space map object, 0 = none yet */
    uint64_t map_length;     /* header: valid bytes in the object */
    int64_t map_alloc;       /* header: allocated bytes */
    int64_t log_alloc;       /* bytes that logs add to map_alloc (05 5.4); read once, see below */
    uint64_t histogram[32];  /* as in the header */
    unsigned header_size;    /* 24 or 320, 0 = no object */
    void *impl;              /* the allocator's */
};

/* Reads all of a metaslab's space into allocated (empty on entry), logs included: exactly what
 * alloc_sync_fn was told so far, for the two never run at the same time for one metaslab. Called
 * from any thread, for metaslabs that have an object; may block on reads. */
typedef int metaslab_load_fn(void *arg, struct metaslab *m, struct rangeset *allocated);

int alloc_init(struct pool *pool, metaslab_load_fn *load, void *arg);
void alloc_fini(struct pool *pool);

/* Makes the metaslabs of a top-level vdev known: count = asize >> metaslab_shift. Their objects and
 * headers are filled in by the caller through alloc_metaslab() before any other call for this vdev:
 * totals and weights are taken from them once. Later the caller keeps them as they are on disk, in
 * alloc_sync_fn only, and the allocator reads them only then. -EINVAL: impossible sizes. */
int alloc_add_vdev(struct pool *pool, struct vdev *top);
unsigned alloc_metaslab_count(const struct vdev *top);
struct metaslab *alloc_metaslab(const struct vdev *top, unsigned id);

/* Allocates `copies` places of psize bytes for txg and fills bp's DVAs (asize as the vdev needs),
 * spread over vdevs, else over metaslabs. -ENOSPC if there is no room for at least one; fewer copies
 * than asked are tolerated only for copies after the first when space is short. */
int alloc_blocks(struct pool *pool, uint64_t txg, uint64_t psize, int copies, bool metadata,
                 struct blkptr *bp);
/* The same on vdevs of one class only, without falling back to others (logs). */
int alloc_blocks_class(struct pool *pool, uint64_t txg, uint64_t psize, int copies, bool metadata,
                       enum vdev_class class, struct blkptr *bp);
/* Takes back an allocation of this txg that was never written anywhere. */
void alloc_undo(struct pool *pool, uint64_t txg, const struct blkptr *bp);
/* Frees one range in txg. -EINVAL if it is not a valid range of a metaslab. */
int alloc_free(struct pool *pool, uint64_t txg, uint64_t vdev, uint64_t offset, uint64_t asize);
/* Allocates a given range that must be free (claiming a log). */
int alloc_claim(struct pool *pool, uint64_t txg, uint64_t vdev, uint64_t offset, uint64_t asize);

/*
 * For the sync of txg, which repeats passes until nothing changes: calls fn for every metaslab with
 * unwritten changes, with the ranges allocated and freed since the last call; fn writes them to the
 * map. The sets are emptied afterwards. *any says whether there was one.
 */
typedef int alloc_sync_fn(void *arg, struct metaslab *m, const struct rangeset *allocs,
                          const struct rangeset *frees);
int alloc_sync(struct pool *pool, uint64_t txg, alloc_sync_fn *fn, void *arg, bool *any);
bool alloc_dirty(struct pool *pool, uint64_t txg);
/* After txg is durable: rotates the deferred sets; unloads metaslabs long unused. */
void alloc_sync_done(struct pool *pool, uint64_t txg);
/* The free set of a metaslab including what is deferred, for its histogram (05 2.6). */
int alloc_histogram(struct metaslab *m, unsigned shift, uint64_t hist[32]);
/* Reads the whole metaslab now. -EBUSY from inside alloc_sync_fn if it is not loaded. */
int alloc_load(struct metaslab *m);
/* For rewriting a map (05 2.7) from inside alloc_sync_fn: what the map must have as allocated after
 * this call's ranges. -EBUSY if the metaslab is not loaded. */
int alloc_snapshot(struct metaslab *m, struct rangeset *allocated);

/*
 * Lending: free space that is not allocated for a while, so that its devices can be told to forget it
 * (TRIM), or be written over. Adds up to `most` bytes of the allocatable ranges of m from `from` on (bytes
 * within the vdev) to out, which is empty on entry; at least one range if there is any. freed_only: of
 * what was freed since this was asked last (pool.autotrim), which is forgotten then. Reads the map if it has to. Whoever finds
 * no space waits for loans: between the two calls no waiting for txgs, no allocation. One loan of a metaslab at a
 * time. -EIO: the map cannot be read; -ENOMEM; nothing is lent then.
 */
int alloc_lend(struct metaslab *m, uint64_t from, uint64_t most, bool freed_only, struct rangeset *out);
void alloc_return(struct metaslab *m);
/* Bytes of a metaslab that are not allocated, those included that are not allocatable yet. */
uint64_t alloc_room(const struct metaslab *m);
/* Bytes freed since alloc_lend was last asked for them: a hint. */
uint64_t alloc_freed_bytes(const struct vdev *top);

struct alloc_space {
    uint64_t size;      /* raw bytes of the normal class (metaslabs only) */
    uint64_t alloc;     /* raw allocated bytes, deferred included (what zpool list shows) */
    uint64_t dspace;    /* deflated size (05 8.3 rdspace) */
    uint64_t deferred;  /* deflated bytes waiting in deferred sets */
    unsigned fragmentation; /* 0..100, or ~0u if unknown */
};
void alloc_space(struct pool *pool, struct alloc_space *out);
void alloc_vdev_space(const struct vdev *top, struct alloc_space *out);

/*
 * Space map words (05 2.3-2.5). Decoding applies them to a set: ALLOC adds, FREE removes, exactly;
 * -EBADE for anything illegal. spacemap_each hands the entries to fn instead (logs); vdev is ~0 for
 * one-word entries, offset and run are bytes.
 */
int spacemap_apply(struct rangeset *allocated, uint64_t start, uint64_t size, unsigned shift,
                   const void *words, uint64_t bytes, bool big);
typedef int spacemap_entry_fn(void *arg, bool is_free, uint64_t vdev, uint64_t offset, uint64_t run);
int spacemap_each(uint64_t start, uint64_t size, unsigned shift, const void *words, uint64_t bytes,
                  bool big, spacemap_entry_fn *fn, void *arg);
/* Encodes one batch: a debug word and the ranges of set; block = the object's block size, pos = the
 * present length (for the no-straddling rule). *out is malloc'ed, *bytes a multiple of 8; an empty set
 * gives NULL and 0. v2: the feature spacemap_v2 is active. */
int spacemap_encode(const struct rangeset *set, bool is_free, uint64_t start, unsigned shift, uint64_t txg,
                    unsigned pass, bool v2, uint64_t block, uint64_t pos, unsigned char **out,
                    uint64_t *bytes);
/* The same for a log: two-word entries with the vdev, unit 512 bytes. An empty set gives 0 bytes. */
int spacemap_encode_log(const struct rangeset *set, bool is_free, uint64_t vdev, uint64_t txg,
                        unsigned pass, uint64_t block, uint64_t pos, unsigned char **out,
                        uint64_t *bytes);

#endif
