/*
 * Objects (spec 03 2-4): a dnode with a bonus buffer, an optional spill block, and a tree of data
 * blocks.
 *
 * Concurrency: calls on different objects run in parallel. Calls on one object are serialised inside
 * where memory safety needs it; who wants read/modify/write of contents to be atomic brings a lock of
 * its own (the ZAP and the file layer do). Changes made with a tx of txg T are part of T whatever
 * happens later: the sync thread writes T's version even while T+1 changes the same bytes.
 */
#ifndef DMU_DNODE_H
#define DMU_DNODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct dbuf;
struct dnode;
struct objset;
struct tx;

/* Object types used in code (03 3.1). */
enum {
    OT_NONE = 0, OT_OBJECT_DIRECTORY = 1, OT_OBJECT_ARRAY = 2, OT_PACKED_NVLIST = 3,
    OT_PACKED_NVLIST_SIZE = 4, OT_BPOBJ = 5, OT_BPOBJ_HDR = 6, OT_SPACE_MAP_HEADER = 7,
    OT_SPACE_MAP = 8, OT_INTENT_LOG = 9, OT_DNODE = 10, OT_OBJSET = 11, OT_DSL_DIR = 12,
    OT_DSL_DIR_CHILD_MAP = 13, OT_DSL_SNAP_MAP = 14, OT_DSL_PROPS = 15, OT_DSL_DATASET = 16,
    OT_ZNODE = 17, OT_OLDACL = 18, OT_PLAIN_FILE = 19, OT_DIRECTORY = 20, OT_MASTER_NODE = 21,
    OT_DELETE_QUEUE = 22, OT_ZVOL = 23, OT_ZVOL_PROP = 24, OT_OTHER_UINT8 = 25, OT_OTHER_UINT64 = 26,
    OT_OTHER_ZAP = 27, OT_ERROR_LOG = 28, OT_HISTORY = 29, OT_HISTORY_OFFSETS = 30,
    OT_POOL_PROPS = 31, OT_DSL_PERMS = 32, OT_ACL = 33, OT_SYSACL = 34, OT_FUID = 35,
    OT_FUID_SIZE = 36, OT_NEXT_CLONES = 37, OT_SCAN_QUEUE = 38, OT_USERGROUP_USED = 39,
    OT_USERGROUP_QUOTA = 40, OT_USERREFS = 41, OT_DDT_ZAP = 42, OT_DDT_STATS = 43, OT_SA = 44,
    OT_SA_MASTER = 45, OT_SA_REGISTRATION = 46, OT_SA_LAYOUTS = 47, OT_SCAN_XLATE = 48,
    OT_DEDUP = 49, OT_DEADLIST = 50, OT_DEADLIST_HDR = 51, OT_DSL_CLONES = 52, OT_BPOBJ_SUBOBJ = 53,
    OT_UINT64_METADATA = 0xc3, OT_ZAP_METADATA = 0xc4,
};

#define DNODE_MIN_SIZE     512
#define DNODE_MAX_SIZE     16384
#define DNODE_BLOCK_SHIFT  14
#define DNODE_INDIRECT_SHIFT 17
#define DNODE_SPILL_MAX    131072

/* ---- Objects ---- */

/* Holds the object; -ENOENT if it is not allocated (or an interior slot), -EIO/-EBADE if its dnode
 * cannot be read, -ESTALE after a reset of the set. */
int dnode_hold(struct objset *os, uint64_t object, struct dnode **out);
void dnode_ref(struct dnode *dn);
void dnode_rele(struct dnode *dn); /* NULL is allowed */

struct object_params {
    uint8_t type, bonus_type;
    uint16_t bonus_len;
    uint32_t block_size;       /* bytes, rounded up to 512; 0 = 512 */
    uint8_t indirect_shift;    /* 0 = DNODE_INDIRECT_SHIFT */
    uint8_t compress;          /* 0 = inherit; sync_bplist has 2 */
    uint8_t nlevels;           /* 0 = 1 */
    uint32_t dnode_size;       /* bytes; 0 = 512 */
};
/* Creates an object under a free number (number 0), or under the given one (-EEXIST if taken; -EBUSY
 * if it was freed by a txg not synced yet: see object_wait_free()). The result is held. */
int object_create(struct objset *os, uint64_t number, const struct object_params *params, struct tx *tx,
                  struct dnode **out);
/* Waits until no object freed before is in the way of creating one of this number and size (bytes, 0 =
 * 512), as replaying a log does; not in a transaction. */
int object_wait_free(struct objset *os, uint64_t number, uint32_t dnode_size);
/* Frees the object: contents, spill, dnode. The caller's hold stays valid until released, but every
 * further call on it gives -ENOENT. */
int object_free(struct dnode *dn, struct tx *tx);

struct objset *dnode_objset(const struct dnode *dn);
uint64_t dnode_object(const struct dnode *dn);
uint8_t dnode_type(const struct dnode *dn);
uint8_t dnode_bonus_type(const struct dnode *dn);
uint32_t dnode_block_size(const struct dnode *dn);
uint32_t dnode_size(const struct dnode *dn);        /* 512 * slots */
uint64_t dnode_max_blkid(const struct dnode *dn);
uint64_t dnode_used(const struct dnode *dn);        /* bytes on disk, as of the last sync */
unsigned dnode_levels(const struct dnode *dn);
int dnode_set_type(struct dnode *dn, uint8_t type, struct tx *tx); /* "zapify": 04 3.1 */

/* ---- Bonus and spill ---- */

/* Copies the bonus buffer; *len is its length. If cap is smaller, the beginning is copied and the result
 * is -ERANGE. */
int dnode_bonus_get(struct dnode *dn, void *out, size_t cap, size_t *len);
/* Replaces the whole bonus; type 0 keeps the type. Too long for the dnode (03 2.3; one less block
 * pointer with a spill): -E2BIG. */
int dnode_bonus_set(struct dnode *dn, const void *data, size_t len, uint8_t type, struct tx *tx);
/* Changes n bytes at off inside the present length, cheaply. */
int dnode_bonus_patch(struct dnode *dn, size_t off, const void *data, size_t n, struct tx *tx);
size_t dnode_bonus_capacity(const struct dnode *dn, bool with_spill);

/* The spill block: *out is malloc'ed (NULL and *len 0 if there is none). set with len 0 removes it. The
 * block is len rounded up to 512. */
int dnode_spill_get(struct dnode *dn, unsigned char **out, size_t *len);
int dnode_spill_set(struct dnode *dn, const void *data, size_t len, struct tx *tx);

/* ---- Data ---- */

/* Bytes beyond the last block are zeros. read never fails for holes. */
int dnode_read(struct dnode *dn, uint64_t off, void *data, size_t n);
int dnode_write(struct dnode *dn, uint64_t off, const void *data, size_t n, struct tx *tx);
/* Whole blocks without copying: get takes references to the contents of count blocks (NULL for a hole),
 * put makes them the contents of the blocks of another object, or another place; holes are freed.
 * -EAGAIN: the block sizes differ, or the object's only block is no power of two; nothing is held (get),
 * some blocks may have been written (put). */
int dnode_get_blocks(struct dnode *dn, uint64_t blkid, size_t count, struct buf **blocks);
int dnode_put_blocks(struct dnode *dn, uint64_t blkid, size_t count, struct buf *const *blocks,
                     struct tx *tx);
/* Frees [off, off + n); n == UINT64_MAX: to the end (truncation, lowers the max block id). Partial
 * blocks are zeroed. */
int dnode_free_range(struct dnode *dn, uint64_t off, uint64_t n, struct tx *tx);
/* Changes the block size while there is at most block 0 (03 4.7); -EBUSY if too late. indirect_shift 0
 * keeps it. */
int dnode_set_block_size(struct dnode *dn, uint32_t size, uint8_t indirect_shift, struct tx *tx);
/* The next offset >= *off that is (hole: is not) data, in whole blocks, dirty data of all txgs
 * counted as data; a range freed in memory counts as hole. -ENXIO if there is none before the end of
 * the last block (for hole: *off = end of the last block). */
int dnode_seek(struct dnode *dn, uint64_t *off, bool hole);
/* Reads ahead [off, off+n) into the cache, without waiting. */
void dnode_prefetch(struct dnode *dn, uint64_t off, uint64_t n);
/* Sum of what is dirty for an object: 0 if nothing. For fsync shortcuts. */
bool dnode_dirty(const struct dnode *dn);

/* ---- Blocks, for the ZAP and others that work in place ---- */

/* A held level-0 block. data (size bytes) is the newest version, host byte order. It may change when
 * the block is dirtied: read dbuf_data() again after dbuf_dirty(). */
enum { DBUF_NO_READ = 1 /* the caller will overwrite all of it */ };
int dbuf_hold(struct dnode *dn, uint64_t blkid, unsigned flags, struct dbuf **out);
void dbuf_rele(struct dbuf *db);
void *dbuf_data(struct dbuf *db);
size_t dbuf_size(const struct dbuf *db);
uint64_t dbuf_blkid(const struct dbuf *db);
/* The caller is going to change the block in tx. 0 or -ENOMEM/-EIO. */
int dbuf_dirty(struct dbuf *db, struct tx *tx);

/* ---- An in-memory companion of an object (the ZAP's index, the file layer's znode) ---- */

/* Attaches user if there is none yet; returns what is attached now. free_fn is called when the dnode
 * leaves memory, is freed or is reset. One user pointer per layer slot. */
enum dnode_user_slot { DNODE_USER_ZAP, DNODE_USER_FS, DNODE_USER_SLOTS };
void *dnode_user_attach(struct dnode *dn, enum dnode_user_slot slot, void *user,
                        void (*free_fn)(void *user));
/* Counts what the users take in memory against the cache limit. */
void dnode_user_memory(struct dnode *dn, size_t bytes);
void *dnode_user(const struct dnode *dn, enum dnode_user_slot slot);

#endif
