/* What the parts of tarn verify share. */
#ifndef TOOL_VERIFY_IMPL_H
#define TOOL_VERIFY_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/blkptr.h"
#include "pool/block.h"
#include "tool/tool_impl.h"
#include "util/hashmap.h"

#define TALLY_TYPES       60
#define TALLY_OTHER       54 /* the types that describe themselves */
#define TALLY_DEFERRED    55 /* in lists of what is to be freed */
#define TALLY_DESTROY     56 /* of datasets that are being destroyed */
#define TALLY_LEVELS      8

#define VERIFY_REPORT_MAX 100        /* findings of one kind that are told */
#define LISTS_MAX         (1u << 24) /* lists of blocks below one */
#define MOS_DIRECTORY     1

struct tally {
    uint64_t blocks, lsize, psize, asize;
};

/* A thread's counts, added up at the end. */
struct counts {
    struct tally type[TALLY_TYPES][TALLY_LEVELS];
    uint64_t embedded, gangs, dittoed, extra_refs, dedup_asize, clone_refs, clone_asize;
    uint64_t checked_blocks, checked_bytes;
    char pad[64];
};

/* A set of blocks that is walked: a dataset, the MOS. */
struct counted_set {
    struct counted_set *next;
    uint64_t object; /* of the dataset; 0: the MOS */
    uint64_t words[40];
    bool dataset, destroying, damaged;
    _Atomic uint64_t used, compressed, uncompressed, blocks;
};

/* Space of one top-level vdev: a bit per sector, in pieces that are made when they are needed. */
struct claims {
    uint64_t size;
    unsigned shift, piece_shift; /* of a sector and of a piece, bytes */
    size_t pieces;
    uint64_t *_Atomic *piece;
    _Atomic uint64_t asize; /* claimed */
};

/* A block that may be referred to several times: it is in a dedup or clone table. */
struct shared_block {
    struct hashmap_node node;
    uint64_t vdev, offset;
    uint64_t expected; /* pointers to it, as the table says */
    _Atomic uint64_t seen;
    bool clone; /* of the clone table: expected counts the pointers but one */
};

/* A block of an intent log. One that was not claimed yet by an import is free by the space maps. */
struct log_block {
    uint64_t vdev, offset, asize;
};

struct dnode;
struct mapping;
struct nvlist;
struct rangeset;

struct verify {
    struct tool *t;
    const struct nvlist *labels; /* the configuration a scan has put together */
    struct spa *spa;
    struct pool *pool;
    struct objset *mos;
    unsigned threads;
    bool metadata_only, quiet, verbose;
    struct counts *count; /* per thread; [threads] is the caller's */
    struct counted_set *sets;
    struct claims *claims; /* by top-level id */
    unsigned tops;
    struct hashmap shared;
    struct mapping *mapping; /* of removed vdevs, by top-level id */
    struct rangeset **moved; /* where they lead to, by top-level id */
    uint64_t gaps;           /* bytes there that nobody uses */
    struct log_block *logs;
    size_t nlogs;
    uint64_t unclaimed_logs; /* bytes */
    struct blockwalk *walk;
    struct progress progress;
    _Atomic uint64_t bytes, blocks;
    pthread_mutex_t lock;        /* findings */
    const char *prefix;          /* of findings */
    struct verify *present;      /* of a checkpoint: the pool's present state */
    struct verify *checkpointed; /* NULL: there is no checkpoint */
    uint64_t errors, repairable, double_claims, leaks, leaked_bytes, used_but_free, wrong_asize,
        accounting, refcounts, mos_refs;
    uint64_t class_alloc[4]; /* bytes by the space maps, by vdev class */
    uint64_t class_size[4];
    uint64_t found_alloc; /* claimed bytes */
    uint64_t checkpoint;  /* bytes only a checkpoint has */
};

/* Reports a finding: a line on standard error and a JSON row. kind is a word for programs. */
void verify_found(struct verify *v, const char *kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* verify_walk.c */
int verify_walk(struct verify *v);
struct counted_set *verify_new_set(struct verify *v, uint64_t object);
void verify_count(struct counts *c, const struct blkptr *bp, unsigned type);
int verify_tally(const struct blkptr *bp); /* the type that a block is counted with */
/* Counts a block of this type, claims its space and scrubs it. read: the walk reads it, and reports
 * that it cannot. */
void verify_block(struct verify *v, unsigned thread, const struct blkptr *bp,
                  const struct bookmark *bm, int type, bool read);

/* verify_log.c: the intent log of a dataset, whose header has these bytes. */
void verify_log(struct verify *v, unsigned thread, uint64_t dataset, const unsigned char *zil);

/* verify_scrub.c: reads all copies of a block, on all devices, and reports what is wrong. reported:
 * that none can be read will be reported by the caller. */
void verify_scrub(struct verify *v, struct counts *c, const struct blkptr *bp,
                  const struct bookmark *bm, bool reported);
/* Reports the sentence of rc: something is lost. */
void verify_unreadable(struct verify *v, int rc);

/* verify_lists.c: holds an object of the MOS (dn NULL: only for the call) and reads the first n words
 * of its bonus buffer in host order; -EBADE if it has less than `least`, the rest are 0. On an error
 * nothing is held. */
int verify_hold(struct verify *v, uint64_t object, uint64_t *words, size_t n, size_t least,
                struct dnode **dn);
/* -EBADE if n things of this size (bytes) are more than the object has. */
int verify_fits(const struct dnode *dn, uint64_t n, size_t size);
#define VERIFY_SKIP 1
typedef int verify_entry_fn(void *arg, const struct blkptr *bp, const struct bookmark *bm,
                            bool freed);
/* What is to be called for lists: each object (VERIFY_SKIP: not to be read), each entry; may be
 * NULL. */
struct list_visit {
    int (*object)(void *arg, uint64_t object);
    verify_entry_fn *entry;
    void *arg;
};
/* A list of block pointers and those below it. The first error, -EBADE, -EIO, -ENOENT, -ENOMEM. */
int verify_list(struct verify *v, uint64_t object, const struct list_visit *visit);
/* All lists of a deadlist, of the old form too, or of a livelist. */
int verify_deadlist(struct verify *v, uint64_t object, const struct list_visit *visit);
/* Adds to the walk what is still to be freed. Only -ENOMEM. */
int verify_add_lists(struct verify *v);

/* verify_livelist.c */
struct livelist_sums {
    uint64_t used, compressed, unpaired;
};
/* Calls fn (or NULL) for the blocks that are left of a livelist. */
int verify_livelist(struct verify *v, uint64_t object, verify_entry_fn *fn, void *arg,
                    struct livelist_sums *sums);
/* Compares the livelists of clones with what the walk has found. Only -ENOMEM. */
int verify_livelists(struct verify *v);

/* verify_space.c */
int claims_init(struct verify *v);
void claims_free(struct verify *v);
/* Marks the space of a block as used by it. */
void claim_block(struct verify *v, struct counts *c, const struct blkptr *bp,
                 const struct bookmark *bm);
/* The same for a block of an intent log. -ENOMEM. */
int claim_log(struct verify *v, const struct blkptr *bp);
/* Is the place of the block's first copy used by some block already? */
bool claim_is_known(struct verify *v, const struct blkptr *bp);
/* Marks ranges that a checkpoint keeps; then compares with the space maps. */
int verify_space(struct verify *v);

/* verify_mapping.c: removed vdevs */
int verify_mappings_load(struct verify *v);
void verify_mappings_free(struct verify *v);
/* Calls fn for the pieces that a range of a removed vdev was moved to. -ENOENT: it is not in the
 * mapping. */
int verify_moved(struct verify *v, uint64_t vdev, uint64_t offset, uint64_t asize,
                 block_place_fn *fn, void *arg);
/* The end of the part of [start, end) that is (*gap) or is not inside of what was moved there. */
uint64_t verify_gap(struct verify *v, unsigned vdev, uint64_t start, uint64_t end, bool *gap);

/* verify_tables.c: dedup and clone tables */
struct zap_entry;
typedef int verify_zap_fn(struct verify *v, struct dnode *zap, const struct zap_entry *e,
                          uint64_t arg);
/* fn for each entry of a ZAP of the MOS, until one fails; what fn says is never taken for the ZAP's
 * end. */
int verify_each_entry(struct verify *v, uint64_t object, verify_zap_fn *fn, uint64_t arg);
bool verify_directory_has(struct verify *v, const char *key); /* of the MOS */
int verify_tables_load(struct verify *v);
void verify_tables_check(struct verify *v);
void verify_tables_free(struct verify *v);
struct shared_block *verify_shared(struct verify *v, uint64_t vdev, uint64_t offset);

/* verify_account.c: the counters of datasets */
void verify_accounting(struct verify *v);

/* verify_checkpoint.c: walks the tree that a checkpoint keeps. *out has what it uses, to be
 * compared by verify_space(); NULL if there is none. Only -ENOMEM. */
int verify_checkpoint(struct verify *v, struct verify **out);
void verify_checkpoint_close(struct verify *c);
/* verify.c: frees what a run has loaded. */
void verify_release(struct verify *v);

/* verify_mos.c: references to objects of the MOS. Only -ENOMEM. */
int verify_mos(struct verify *v);

/* verify_print.c */
const char *verify_type_name(unsigned type);
void verify_print(struct verify *v);

#endif
