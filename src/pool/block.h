/*
 * The block pipeline: from a logical block of bytes to a block pointer and back (spec 02, 03 8).
 *
 * Write = zero detection, compression, embedding, allocation of the copies, checksum, in the calling
 * thread (many threads may write at once); the device writes are queued and complete later: their
 * buffer is referenced until then, and block_wait() at the end of the txg tells whether all went
 * well. Read = choose a copy, read, verify, decrypt, decompress.
 */
#ifndef POOL_BLOCK_H
#define POOL_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/blkptr.h"

struct buf;
struct crypt_key;
struct pool;
struct block_batch;

/* Who is being read or written, for messages and error logs (03 10). */
struct bookmark {
    uint64_t objset, object;
    int64_t level;
    uint64_t blkid;
};

/* What a new block gets: decided by the DMU from dataset and object properties. */
struct block_policy {
    uint8_t type, level;
    uint8_t checksum;    /* a computable kind, never inherit/on */
    uint8_t compress;    /* a compressor or COMPRESS_OFF; COMPRESS_EMPTY = zero detection only */
    int8_t compress_level;
    uint8_t copies;      /* 1..3 */
    bool zero_to_hole;   /* all-zero data becomes a hole */
    bool embed;          /* may be embedded in the pointer */
    bool metadata;       /* allocation preference */
    uint64_t fill;       /* stored in the pointer */
};

/*
 * Writes data (its whole size, a multiple of 512) for txg. old is the pointer being replaced: it
 * decides the birth of a hole, and a block born in this same txg is overwritten in place if the new
 * data fits its physical size (then bp_same_place(old, bp) and nothing is to be freed; otherwise the
 * caller frees old). With batch not NULL the device writes are held back in it. The data is not
 * changed and may be referenced until the write is done.
 * -ENOSPC: no space in any form (gang blocks were tried); -ENOMEM.
 */
int block_write(struct pool *pool, uint64_t txg, struct block_batch *batch,
                const struct block_policy *policy, struct buf *data, const struct blkptr *old,
                struct blkptr *bp);

/* Gives the space of a real block back in txg; holes and embedded pointers are ignored. Gang members
 * are freed too (their headers are read). Dedup and cloned blocks are refused with -ENOTSUP. */
int block_free(struct pool *pool, uint64_t txg, struct block_batch *batch, const struct blkptr *bp);

/* Waits for all device writes of this pool that were submitted so far; the first error there ever was,
 * or 0. (An error stays: whoever asks next must not take the pool for good.) */
int block_wait(struct pool *pool);

/* The held-back writes of the MOS, which is rewritten several times in one txg until it is stable:
 * only the last version of each block goes to the devices. */
int block_batch_new(struct block_batch **out);
/* Makes it pool->batch (NULL: none), where block_read looks too. Held-back blocks can be read only
 * between this and submitting. */
void block_set_batch(struct pool *pool, struct block_batch *batch);
int block_batch_submit(struct pool *pool, struct block_batch *batch); /* empties it */
void block_batch_free(struct block_batch *batch);

/*
 * Reads a block: *out is a new buffer of bp_lsize() bytes (all zero for a hole), in the byte order of
 * the writer (bp_big_endian). Blocks held back in the pool's current batch are found there. Errors:
 * -EIO (devices), -EBADE (no copy has the right checksum, or what was read does not decompress),
 * -ENOTSUP (checksum or compression not built in), -EACCES (encrypted), -ENOMEM. The sentence names bm.
 */
int block_read(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm, struct buf **out);

/*
 * The same for blocks of an encrypted dataset: decrypts, and checks the authentication codes (of an
 * object set's root block that is left to who knows what is in it). -EBADE: a code is wrong. Without
 * a key (NULL, or block_read) what is not encrypted can be read, unauthenticated: the structure of
 * the set, dnodes, whose bonuses are ciphertext then, and the chain and the pointers of its log. What is
 * encrypted gives -EACCES.
 */
int block_read_key(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                   const struct crypt_key *key, struct buf **out);

/* The same without decompression or decryption: bp_psize() verified bytes as they are stored (raw
 * send, scrub). -EINVAL for holes and embedded pointers. */
int block_read_stored(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                      struct buf **out);

/*
 * Reads everything that a block is stored as: all copies, all sides of mirrors, all parity (vdev_scrub),
 * the headers and members of gangs. What is wrong is told through the functions, in the caller, and
 * repaired if the pool is writable. 0: the block can be read; else as block_read_stored, and no
 * copy was told of.
 *
 * resilver: only the copies on vdevs with a device that lacks the block are looked at, read in the ordinary way,
 * and given to these devices.
 */
struct vdev;
struct block_scrub {
    void (*device)(void *arg, struct vdev *leaf, int rc); /* -EBADE, -EIO; may be NULL */
    /* The copy-th (from 0) of the block, or of a part of a gang, cannot be read; may be NULL. */
    void (*copy)(void *arg, unsigned copy, unsigned copies, int rc);
    void *arg;
    bool resilver;
    uint64_t *given; /* gets what was written to devices added, bytes; may be NULL */
};
/* Does a resilver have to look at it? Of a gang only its members know. */
bool block_needs_resilver(struct pool *pool, const struct blkptr *bp);
int block_scrub(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                const struct block_scrub *s);

/* Starts reading into the given callback's hands without waiting (prefetch). fn gets the buffer or an
 * error, in another thread. key (or NULL) must live until then. */
void block_read_async(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                      const struct crypt_key *key,
                      void (*fn)(void *arg, struct buf *data, int rc), void *arg);

/*
 * Intent log blocks (06 17.2): one copy, uncompressed; the checksum words of their pointer are the
 * seed of their chain. block_read reads them too; where the chain ends, what is there does not fit the
 * seed: -EBADE, which is then not counted as the device's error.
 *
 * alloc: size bytes (a multiple of 4096, at most 128 KiB) on a log vdev, else on a normal one; bp is
 * complete then. write: block is bp_psize() bytes with the chain structure at its start, of which magic
 * and checksum are filled in here; it is copied. done is called in any thread; the caller flushes the
 * vdev (vdev_flush) before it promises anything.
 */
int block_log_alloc(struct pool *pool, uint64_t txg, uint32_t size, const uint64_t seed[4],
                    struct blkptr *bp);
void block_log_write(struct pool *pool, const struct blkptr *bp, const void *block,
                     void (*done)(void *arg, int rc), void *arg);

/* Calls fn for every piece of space that a block has: its copies, or of a gang the headers and members
 * (headers are read). Holes and embedded pointers have none. Stops at fn's first result that is not 0;
 * -EBADE, -EIO: a header cannot be read. */
typedef int block_place_fn(void *arg, uint64_t vdev, uint64_t offset, uint64_t asize);
int block_each_place(struct pool *pool, const struct blkptr *bp, block_place_fn *fn, void *arg);

/* For tests: blocks that take more than `above` bytes are stored as gangs; 0 = only when they must. */
void block_force_gangs(struct pool *pool, uint64_t above);

/* Deflated size D(bp) of 05 8.1: what dnodes and datasets count, in bytes. */
uint64_t block_dsize(const struct pool *pool, const struct blkptr *bp);

#endif
