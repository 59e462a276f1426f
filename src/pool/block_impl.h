/* Private to src/pool: the parts of the block pipeline. */
#ifndef POOL_BLOCK_IMPL_H
#define POOL_BLOCK_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/block.h"
#include "util/buf.h"
#include "util/hashmap.h"
#include "vdev/vdev.h"

#define BLOCK_INFLIGHT_MAX ((size_t)64 << 20) /* bytes queued to devices before writers wait */

/*
 * One physical block on its way to its places: held back in a batch, or in flight. It can be found
 * by the place of its first copy in both states, so that a reader never sees what was there before.
 * Guarded by block_state.lock, but data and place do not change while it is in flight.
 */
struct block_out {
    struct hashmap_node node;      /* in the batch's map or block_state.inflight */
    struct block_out *prev, *next; /* in the batch; next also in lists of unused or planned ones */
    struct block_state *state;
    struct buf *data;    /* at least the bytes that the vdevs write, zero behind the block */
    struct blkptr place; /* its DVAs, with what was allocated for this block alone */
    uint64_t psize;
    unsigned pending; /* copies not yet written */
    unsigned epoch;
    struct vdev_io io[BLKPTR_DVAS];
};

struct scratch {
    struct scratch *next;
    size_t size;
    unsigned char *data;
};

struct block_state {
    struct pool *pool;
    pthread_mutex_t lock;   /* guards what follows */
    pthread_cond_t drained; /* something in flight has finished */
    unsigned waiting;       /* threads that wait for drained */
    struct hashmap inflight;
    size_t bytes;        /* in flight */
    unsigned epoch;      /* of new writes: 0 or 1 */
    uint64_t count[2];   /* blocks in flight, by epoch */
    unsigned requests;   /* asynchronous reads and log writes under way */
    int rc;              /* the first error; stays */
    uint64_t gang_above; /* tests: larger blocks are stored as gangs; 0 = off */
    struct block_out *unused;
    unsigned unused_count;
    struct scratch *scratch;
    unsigned scratch_count;
    pthread_mutex_t wait_lock; /* one block_wait at a time */
};

struct block_batch {
    struct hashmap map;
    struct block_out *head;
    size_t count;
};

/* pool.c calls these. */
int block_init(struct pool *pool);   /* 0 or -ENOMEM */
void block_fini(struct pool *pool);  /* waits */
void block_drain(struct pool *pool); /* until no read or write is under way */

/* block_out.c */
struct block_out *block_out_new(struct block_state *s, const struct blkptr *place, uint64_t psize,
                                struct buf *data); /* takes data over, also on failure; NULL */
void block_out_drop(struct block_out *o);          /* one that was never submitted */
/* Into the batch, or to the devices when batch is NULL. overwrite: its place may be in flight. */
void block_out_send(struct block_out *o, struct block_batch *batch, bool overwrite);
/* A held-back block: sends it to the devices, or forgets it. */
void block_out_release(struct block_batch *b, struct block_out *o);
void block_out_discard(struct block_batch *b, struct block_out *o);
/* The data of the block at this place if it is held back or in flight: a reference, or NULL. */
struct buf *block_out_find(struct pool *pool, const struct blkptr *bp);
/* Takes a held-back block out of the batch; false if it is not there. */
bool block_batch_remove(struct pool *pool, struct block_batch *batch, const struct blkptr *bp);

/* Scratch space for a compressor; at least size bytes. NULL: out of memory. */
struct scratch *scratch_get(struct block_state *s, size_t size);
void scratch_put(struct block_state *s, struct scratch *c);

/* A buffer with n bytes of data and zeros up to at least `room`; its size is n. */
struct buf *block_padded(const void *data, size_t n, size_t room);

/* Units of the vdevs that are allocated from. */
struct block_units {
    uint64_t smallest, common; /* of the normal class: smallest unit, greatest common divisor */
    uint64_t largest;          /* unit of any class */
    uint64_t sector;           /* largest sector of any class */
};
struct block_units block_units(const struct pool *pool);

/* Counts a request of another kind, for block_drain. */
void block_request_begin(struct block_state *s);
void block_request_end(struct block_state *s);

/* block_log.c: 0, -ESTALE where a chain ends, -ENOTSUP, -ENOMEM. */
int log_verify(const struct blkptr *bp, const void *data);

/* block_log_crypt.c: decrypts a log block, n = psize bytes, in place. -EBADE, -ENOMEM. */
int log_unseal(const struct blkptr *bp, const struct crypt_key *key, unsigned char *block);

/* block_verify.c: does data (psize bytes) have bp's checksum? 0, -EBADE, -ENOTSUP, and of
 * log_verify. */
int block_verify(const struct pool *pool, const struct blkptr *bp, const void *data);
/* Fills bp's checksum words from psize bytes of data. */
int block_seal(const struct pool *pool, struct blkptr *bp, const void *data);

/* gang_write.c, gang_read.c: stores psize bytes of data in pieces. bp has all but its DVAs. */
int gang_write(struct pool *pool, uint64_t txg, struct block_batch *batch, int copies,
               bool metadata, struct buf *data, struct blkptr *bp);
int gang_read(struct pool *pool, const struct blkptr *bp, unsigned depth, unsigned char *out);
int gang_free(struct pool *pool, uint64_t txg, struct block_batch *batch, const struct blkptr *bp,
              unsigned depth);

/* block_read.c: from the stored bytes, which it takes over and may change, to the logical ones. */
int read_open(const struct blkptr *bp, const struct crypt_key *key, struct buf *stored,
              struct buf **out);

/* block_crypt.c: -EACCES if the block cannot be read without a key. */
int block_key_check(const struct blkptr *bp, const struct crypt_key *key);
/* Decrypts the stored bytes of an encrypted dataset's block in place, if its kind is
 * encrypted at all, and checks their authentication code if key is not NULL. Without one the bonuses
 * of dnodes stay as they are. -EACCES, -EBADE, -ENOMEM. */
int block_unseal(const struct blkptr *bp, const struct crypt_key *key, void *stored);
/* The same for an indirect block, expanded. */
int block_authenticate_indirect(const struct blkptr *bp, const struct buf *block);

/* block_copies.c: the psize bytes as stored, verified, into out, which has block_room() bytes. */
int read_places(struct pool *pool, const struct blkptr *bp, unsigned depth, struct buf *out);
size_t block_room(const struct pool *pool, const struct blkptr *bp); /* psize in whole sectors */
/* Writes good data (size bytes) over the copy at DVA i; if that fails, the error counters of the
 * device say so. */
int block_repair_copy(struct pool *pool, const struct blkptr *bp, int i, uint64_t size,
                      struct buf *good, bool resilver);
/* No copy can be read: of n failures the one to report, with its sentence. */
int block_worst(const int *failed, int n, const struct blkptr *bp);
/* Says in the sentence of rc which block it is; returns rc. */
int block_explain(int rc, const struct blkptr *bp, const struct bookmark *bm);
/* 0 if DVA i is a possible place of size bytes. */
int place_check(const struct pool *pool, const struct blkptr *bp, int i, uint64_t size);

#endif
