/*
 * The intent log of a dataset (spec 06 17): its header, and its chain of blocks with records in
 * them. Reading only. What a record does to a file system is told in fs/replay.h, to a volume in
 * zil_replay_volume().
 */
#ifndef ZIL_ZIL_H
#define ZIL_ZIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/zil_record.h"
#include "dmu/objset.h"
#include "pool/blkptr.h"

struct buf;
struct dataset;

/* ---- The header (17.1) ---- */

struct zil_header {
    uint64_t claim_txg;     /* 0: not claimed */
    uint64_t replay_seq;    /* records up to this one have been replayed */
    struct blkptr log;      /* the first block, or a hole */
    uint64_t claim_blk_seq; /* the last block that belongs to the claimed log */
    uint64_t flags;         /* ZIL_HEADER_* */
    uint64_t claim_lr_seq;  /* the last record; only with its flag */
};
#define ZIL_HEADER_REPLAY       1u /* there is something to replay */
#define ZIL_HEADER_CLAIM_LR_SEQ 2u

/* From the bytes of an object set's root block, in host order. */
void zil_header_decode(const unsigned char b[OBJSET_ZIL_HEADER_SIZE], struct zil_header *out);
/* As memory has it, changes of open txgs included. Of a snapshot it means nothing. */
void zil_header_get(const struct objset *os, struct zil_header *out);
void zil_header_set(struct objset *os, const struct zil_header *h, struct tx *tx);

/* ---- The chain (17.2, 17.8) ---- */

enum zil_end {
    ZIL_END_OF_CHAIN, /* a block that was never written: how every chain ends */
    ZIL_END_OF_CLAIM, /* the rest came after the log was claimed, or its data never reached the disk
                       */
    ZIL_END_DAMAGED   /* a record that makes no sense, or less than was claimed */
};

struct zil_result {
    enum zil_end end;
    uint64_t blocks;   /* that were read */
    uint64_t records;  /* that fn was called for */
    uint64_t last_seq; /* of the last of these, 0 if there was none */
};

/* data: the record's bytes, big: their byte order. A result that is not 0 ends the walk. */
typedef int zil_record_fn(void *arg, const void *data, const struct zil_record_header *h, bool big);
/* Before a block of the chain is read: also of the one that ends it. */
typedef int zil_block_fn(void *arg, const struct blkptr *bp, uint64_t seq);

struct zil_walk {
    struct pool *pool;
    const struct zil_header *header;
    struct crypt_key
        *key; /* of the dataset, or NULL: then encrypted records have only what is clear */
    uint64_t uberblock_txg; /* what it has is on disk; of a log that is not claimed */
    bool replayed;          /* also the records that are on disk already, or were replayed */
    zil_block_fn *block;    /* may be NULL */
    zil_record_fn *record;  /* may be NULL */
    void *arg;
};
/*
 * Goes through a log from its first block: calls record for each record that is to be replayed, in
 * order; those that are on disk already, or were replayed, are left out unless w->replayed. Of a
 * log that is not claimed, it ends before the first record whose data is not there, as claiming
 * does. 0 when it has come to an end, or what block or record returned; -EIO: a device cannot be
 * read; -ENOMEM.
 */
int zil_walk(const struct zil_walk *w, struct zil_result *out);

/* The data of the block that a record names, bp_lsize() bytes; NULL: a hole, whose pointer need not
 * say a size (one that was never written is all zeros, spec 02 3.1). Errors of block_read(). */
int zil_read_data(struct objset *os, uint64_t object, const unsigned char *pointer, bool big,
                  struct buf **out);

/* -ENOMEM: a replay in memory has made as much as memory may hold (TARN_CACHE_LIMIT). Asked before
 * each record; who writes many blocks for one record asks before each of them. */
int zil_check_memory(const struct pool *pool);

/* Which records of a dataset wait to be replayed, and how its log ends; none for a snapshot. Errors
 * of zil_walk(). */
int zil_pending(struct dataset *ds, struct zil_result *out);

/* ---- Replaying ---- */

struct zil_replay {
    bool claimed_only; /* an unclaimed log is not replayed (after a rewind to a checkpoint) */
    /* How it went: */
    struct zil_result result;
    uint64_t unclaimed;  /* records left out for claimed_only */
    uint64_t acl_lists;  /* NFSv4 access lists in records, which are not kept */
    uint64_t failed_seq; /* the record that could not be replayed; those after it are lost */
    unsigned failed_type;
};
/* Who applies a record. decoded: its body, in a transaction that also calls zil_header_set() with
 * replay_seq = its number. */
typedef int zil_apply_fn(void *arg, const struct zil_record *r, bool big);
/* All records of a dataset's log; afterwards the header says that there is none (freeing the
 * chain's blocks is for who may write the pool). A record that cannot be applied ends it: the error
 * is returned, what came before stays. If the chain cannot be read, the log is kept. */
int zil_replay(struct dataset *ds, struct zil_replay *z, zil_apply_fn *apply, void *arg);
/* The same for a volume: object 1 has its data (17.12). */
int zil_replay_volume(struct dataset *ds, struct zil_replay *z);

#endif
