/*
 * Object sets (spec 03 5): a set of objects behind one root block pointer. The MOS is one, each
 * dataset has one.
 *
 * Life of a change: open-context calls change dnodes and blocks in memory, versioned per txg; they put
 * the objset on the txg's dirty list. When the txg syncs, objset_sync() writes leaf blocks, parents,
 * dnodes, accounting objects, the meta-dnode and the objset block, each once, bottom-up, using the
 * pool's workers, and hands back the new root pointer.
 *
 * Every block pointer that enters the tree is reported to born(), every one that leaves to killed(),
 * exactly once, by several threads at a time, only while syncing. The owner (dsl: a dataset; spa: the
 * MOS) counts space and decides where killed blocks go; for the MOS and for tests the default frees
 * them at once.
 */
#ifndef DMU_OBJSET_H
#define DMU_OBJSET_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/blkptr.h"

struct bookmark;
struct buf;
struct crypt_key;
struct dnode;
struct objset;
struct pool;
struct tx;

enum objset_type { OBJSET_NONE, OBJSET_META, OBJSET_ZPL, OBJSET_ZVOL, OBJSET_OTHER };

#define OBJSET_FLAG_USERACCOUNTING    1
#define OBJSET_FLAG_USEROBJACCOUNTING 2
#define OBJSET_FLAG_PROJECTQUOTA      4

#define OBJECT_META_DNODE     0
#define OBJECT_USERUSED       ((uint64_t)-1)
#define OBJECT_GROUPUSED      ((uint64_t)-2)
#define OBJECT_PROJECTUSED    ((uint64_t)-3)
#define OBJECT_MAX            (1ull << 48)

/* Properties of the dataset that decide how blocks are written; may be changed at any time with
 * objset_set_props (takes effect for blocks written afterwards). */
struct objset_props {
    uint8_t checksum;     /* as stored in the property: ON, OFF, a kind */
    uint8_t compress;
    int8_t compress_level;
    uint8_t copies;
    uint8_t redundant_metadata; /* 0 all, 1 most, 2 some, 3 none */
    uint32_t recordsize;  /* bytes; used by the file layer through objset_props() */
    uint32_t dnodesize;   /* bytes for new file objects: 512 .. 16384 */
};

struct objset_ops {
    void (*born)(void *arg, const struct blkptr *bp, struct tx *tx);
    void (*killed)(void *arg, const struct blkptr *bp, struct tx *tx);
    /* The set gets its first dirty data of tx's txg; called once per txg, any thread. */
    void (*dirty)(void *arg, struct tx *tx);
};

/* Opens the set behind root (a hole only with objset_create). id is the dataset's object number, 0 for
 * the MOS (bookmarks). ops may be NULL: blocks are freed at once, nothing is counted. -EIO, -EBADE,
 * -EINVAL (no objset), -ENOMEM. */
int objset_open(struct objset **out, struct pool *pool, uint64_t id, const struct blkptr *root,
                const struct objset_props *props, const struct objset_ops *ops, void *ops_arg);
/* The same for the set of an encrypted dataset (a reference of key is taken). Its codes are checked:
 * -EBADE. Opened without a key, such a set shows its structure, and objects that are not encrypted;
 * bonuses are ciphertext then, and reading encrypted blocks gives -EACCES. */
int objset_open_key(struct objset **out, struct pool *pool, uint64_t id, const struct blkptr *root,
                    const struct objset_props *props, const struct objset_ops *ops, void *ops_arg,
                    struct crypt_key *key);
/* A new empty set, dirty in tx (syncing or open). flags are the accounting flags (03 5.2). */
int objset_create(struct objset **out, struct pool *pool, uint64_t id, enum objset_type type,
                  uint64_t flags, const struct objset_props *props, const struct objset_ops *ops,
                  void *ops_arg, struct tx *tx);
/* Nothing may be held or dirty. */
void objset_close(struct objset *os);
/* Throws away every cached block and dnode and reopens at root (rollback). All dnodes held by users
 * become stale: their calls give -ESTALE. Syncing context, nothing dirty. */
int objset_reset(struct objset *os, const struct blkptr *root);

struct pool *objset_pool(const struct objset *os);
uint64_t objset_id(const struct objset *os);
enum objset_type objset_type(const struct objset *os);
uint64_t objset_flags(const struct objset *os);
void objset_set_flags(struct objset *os, uint64_t flags, struct tx *tx); /* syncing context */
void objset_props(const struct objset *os, struct objset_props *out);
void objset_set_props(struct objset *os, const struct objset_props *props);
const struct blkptr *objset_root(const struct objset *os); /* as of the last sync */
/* The key its blocks are encrypted with; it lives as long as the set. NULL: none. */
struct crypt_key *objset_key(const struct objset *os);
uint64_t objset_object_count(const struct objset *os);     /* fill of the root pointer */

/* The 192 bytes of the ZIL header, and whether its log pointer is a hole. Setting dirties the set. */
#define OBJSET_ZIL_HEADER_SIZE 192
void objset_zil_header(const struct objset *os, unsigned char out[OBJSET_ZIL_HEADER_SIZE]);
void objset_set_zil_header(struct objset *os, const unsigned char in[OBJSET_ZIL_HEADER_SIZE],
                           struct tx *tx);

/* True if the set has anything to write in txg. */
bool objset_dirty(const struct objset *os, uint64_t txg);
/* Writes all that is dirty in tx's txg (tx->syncing); *root gets the new pointer. May be called again
 * in the same txg if more got dirty (the MOS): blocks born in this txg are overwritten in place when
 * they fit. Errors mean that the txg cannot be completed. */
int objset_sync(struct objset *os, struct tx *tx, struct blkptr *root);

/* What the last syncs used of features that a dataset must declare (03 9.4); bits are sticky. */
#define OBJSET_USES_LARGE_BLOCKS 1
#define OBJSET_USES_LARGE_DNODE  2
unsigned objset_uses(const struct objset *os);

/* Next allocated object after *object (start with 0), in ascending order, as of memory (open context
 * changes included); -ENOENT at the end. */
int objset_next_object(struct objset *os, uint64_t *object);

/* Calls fn for every block below and including the root of a set on disk (post-order, holes skipped),
 * only those with alloc birth > since: for freeing and verifying sets that nobody has open. The set is
 * read without being cached. Stops at the first non-zero result. */
typedef int objset_walk_fn(void *arg, const struct blkptr *bp, const struct bookmark *bm);
int objset_walk(struct pool *pool, uint64_t id, const struct blkptr *root, uint64_t since,
                objset_walk_fn *fn, void *arg);
/* The same, starting with the block at *from, which an earlier walk had come to: what comes before it in
 * the order of the walk is not read, as it may no longer exist. NULL: from the beginning. */
int objset_walk_from(struct pool *pool, uint64_t id, const struct blkptr *root, uint64_t since,
                     const struct bookmark *from, objset_walk_fn *fn, void *arg);

#endif
