/*
 * What the files of this folder share: object sets, dnodes and blocks in memory.
 *
 * The central idea: what open-context threads may change is kept in versions by txg; what only the
 * sync thread changes has one version.
 *  - A dnode has its image as of the last sync (512 bytes or more, host order), the newest values of
 *    the fields that open context may change, and per txg in flight a `struct change` with what that
 *    txg has to do: the new bonus, freed block ranges, dirty level-0 blocks...
 *  - A level-0 block (dbuf) has its newest contents and per txg in flight a `struct dirty`. When a
 *    block that is dirty in T is dirtied in T + 1, T's record keeps the old buffer.
 *  - Indirect blocks, the meta-dnode's blocks and the dnode images are changed by the sync thread
 *    (and the workers it waits for), under the dnode's lock, so that readers see whole pointers.
 *
 * Locks, from outer to inner:
 *   slots lock (an object number's fate) > objset shard lock (hash of dnodes) > dnode lock >
 *   dirty list lock > cache shard lock.
 * The meta-dnode's lock comes after any shard lock. A dnode's lock guards everything in the dnode
 * that has no other remark, and the state, buffer and records of its blocks. No lock is held across
 * device I/O or across a call into a higher layer.
 */
#ifndef DMU_DMU_IMPL_H
#define DMU_DMU_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "dmu/cache_impl.h"
#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/tx.h"
#include "pool/blkptr.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "pool/txg.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/hashmap.h"

struct prefetch;
struct rangeset;

#define DNODE_BLOCK_SIZE   (1u << DNODE_BLOCK_SHIFT)
#define DNODES_PER_BLOCK   (DNODE_BLOCK_SIZE / DNODE_MIN_SIZE)
#define DNODE_CORE_SIZE    64
#define SPILL_BLKID        (UINT64_MAX - 1) /* as in bookmarks, 03 10 */
#define LEVELS_MAX         12

/* ---- Dnode images (03 2.1) ---- */

#define DNODE_FLAG_USED_BYTES   0x01
#define DNODE_FLAG_ACCOUNTED    0x02
#define DNODE_FLAG_SPILL        0x04
#define DNODE_FLAG_OBJACCOUNTED 0x08

enum {
    DN_TYPE = 0, DN_INDIRECT_SHIFT = 1, DN_LEVELS = 2, DN_NBLKPTR = 3, DN_BONUS_TYPE = 4,
    DN_CHECKSUM = 5, DN_COMPRESS = 6, DN_FLAGS = 7, DN_BLOCK_SECTORS = 8, DN_BONUS_LEN = 10,
    DN_EXTRA_SLOTS = 12, DN_MAX_BLKID = 16, DN_USED = 24,
};

static inline uint16_t host16(const void *p)
{
    return get_u16(p, BYTES_HOST_BIG);
}
static inline uint64_t host64(const void *p)
{
    return get_u64(p, BYTES_HOST_BIG);
}
static inline void set_host16(void *p, uint16_t v)
{
    put_u16(p, v, BYTES_HOST_BIG);
}
static inline void set_host64(void *p, uint64_t v)
{
    put_u64(p, v, BYTES_HOST_BIG);
}

static inline unsigned image_size(const unsigned char *im)
{
    return (im[DN_EXTRA_SLOTS] + 1u) * DNODE_MIN_SIZE;
}
static inline uint32_t image_block_size(const unsigned char *im)
{
    return (uint32_t)host16(im + DN_BLOCK_SECTORS) << 9;
}
static inline unsigned image_bonus_offset(const unsigned char *im)
{
    return DNODE_CORE_SIZE + BLKPTR_SIZE * im[DN_NBLKPTR];
}
static inline uint64_t image_used(const unsigned char *im)
{
    return host64(im + DN_USED) << (im[DN_FLAGS] & DNODE_FLAG_USED_BYTES ? 0 : 9);
}
static inline unsigned char *image_ptr(unsigned char *im, unsigned i)
{
    return im + DNODE_CORE_SIZE + BLKPTR_SIZE * i;
}
static inline unsigned char *image_spill(unsigned char *im)
{
    return im + image_size(im) - BLKPTR_SIZE;
}
/* The block's ancestor (or itself) levels further up. */
static inline uint64_t blkid_up(uint64_t blkid, unsigned epbs, unsigned levels)
{
    return epbs * levels < 64 ? blkid >> (epbs * levels) : 0;
}
/* -EBADE if the fields contradict each other; the image begins a block with room bytes left. */
int image_check(const unsigned char *im, size_t room);
/* Levels that nblkptr pointers need to reach block blkid (03 4.1). */
unsigned levels_needed(unsigned nblkptr, unsigned epbs, uint64_t blkid);

/* ---- Blocks ---- */

enum dbuf_state {
    DBUF_EMPTY,   /* contents unknown: read them */
    DBUF_READING, /* a thread is reading */
    DBUF_CACHED,  /* in buf */
    DBUF_HOLE     /* all zero, no buf */
};

/* A block's version of one txg. */
struct dirty {
    struct dbuf *db;
    struct change *change;
    struct dirty *older;        /* of the same block */
    struct dirty *prev, *next;  /* in change->writes */
    struct buf *buf;            /* set aside when a newer version was made; NULL: db->buf */
    uint32_t bytes;             /* counted as dirty in the txg engine */
    uint32_t charged;          /* in the cache, besides the block's own memory */
};

struct dbuf {
    struct cache_item item;
    struct dbuf *next;          /* in the dnode's table */
    struct dnode *dn;           /* referenced */
    uint64_t blkid;
    struct buf *buf;
    struct dirty *dirty;        /* newest first */
    _Atomic uint32_t holds;     /* users, records, reads and syncs in progress */
    const void *reader;         /* who is READING: names the attempt */
    uint8_t level, state;
    bool ahead;                 /* READING is asynchronous */
    bool waiters;               /* somebody waits for READING to end */
    bool touched;               /* sync: on the list of indirect blocks to write */
};

/* ---- Dnodes ---- */

#define DNODE_ORPHAN 0x80000000u /* in refs: out of the hash, freed by the last reference */

struct dnode {
    struct cache_item item;
    struct hashmap_node node;   /* objset shard lock */
    struct objset *os;
    uint64_t object;
    _Atomic uint32_t refs;      /* holders, blocks in memory, txgs it is dirty in */
    pthread_mutex_t lock;
    int gone;                   /* 0, -ENOENT (freed) or -ESTALE (reset) */
    bool on_disk;               /* the image was once synced */
    uint8_t type, bonus_type;   /* newest values */
    uint8_t indirect_shift;
    uint16_t bonus_len;
    uint32_t block_size;
    uint64_t max_blkid;
    struct change *changes[TXG_SLOTS];
    struct dbuf **table;        /* open hash of blocks; one: the table while there is no bigger */
    struct dbuf *one;
    uint32_t table_mask, table_count;
    struct prefetch *prefetch;
    struct {
        _Atomic(void *) ptr;
        void (*free_fn)(void *user);
    } users[DNODE_USER_SLOTS];
    unsigned char *image;       /* behind the struct */
    struct buf *memory;         /* what both are in */
};

enum {
    CHANGE_CREATE = 1, CHANGE_FREE = 2, CHANGE_TYPE = 4, CHANGE_BONUS = 8, CHANGE_BLOCK_SIZE = 16,
    CHANGE_SPILL_REMOVE = 32, CHANGE_MAX_BLKID = 64,
};

/* What one txg does to one dnode. */
struct change {
    struct dnode *dn;           /* referenced */
    struct change *next;        /* in the objset's list of the txg */
    uint64_t txg;
    unsigned flags;
    uint8_t type, bonus_type, indirect_shift;
    uint16_t bonus_len;
    uint16_t bonus_capacity;    /* bytes allocated for bonus */
    uint32_t block_size;
    uint32_t bytes;             /* counted as dirty */
    uint64_t max_blkid;         /* at the end of the txg */
    uint64_t raised;            /* highest block that was dirtied beyond the last one */
    unsigned char *bonus;
    struct rangeset *freed;     /* level-0 block ids */
    struct dirty *writes, *last_write; /* in the order they were first dirtied */
    size_t write_count;
};

/* ---- Object sets ---- */

#define DNODE_SHARDS 32
#define OBJSET_SIZE  4096
#define OBJSET_OFF_ZIL     512
#define OBJSET_OFF_TYPE    704
#define OBJSET_OFF_FLAGS   712
#define OBJSET_OFF_PORTABLE_MAC 720
#define OBJSET_OFF_LOCAL_MAC 752
#define OBJSET_OFF_SPECIAL 1024 /* three dnodes */

struct dnode_shard {
    _Alignas(64) pthread_mutex_t lock;
    struct hashmap map;
};

#define NEIGHBOURS_RECENT 8

/* Which files are read ahead of their readers; neighbours.c. */
struct neighbours {
    pthread_mutex_t lock;                /* guards what follows */
    uint64_t missed[NEIGHBOURS_RECENT];  /* objects that had to be read from disk, 0: none */
    unsigned next;                       /* to be replaced */
    uint64_t start;                      /* groups of objects that were asked for: [start, end) */
    _Atomic uint64_t end;
};

#define RECENT_BLOCKS 64

struct objset_dirty {
    pthread_mutex_t lock;
    struct change *list;             /* lock */
    size_t count;                    /* lock */
    uint64_t recent[RECENT_BLOCKS]; /* lock: blocks of dnodes that were counted as dirty lately */
    bool self;                       /* lock: the objset block itself */
    bool zil_set;                    /* lock */
    unsigned char zil[OBJSET_ZIL_HEADER_SIZE]; /* lock */
    _Atomic uint64_t announced;      /* txg for which ops->dirty was called */
};

struct slots;

struct objset {
    struct pool *pool;
    struct cache *cache;
    uint64_t id;
    enum objset_type type;
    struct objset_ops ops;
    void *ops_arg;
    pthread_mutex_t lock;            /* props, root, flags */
    struct objset_props props;
    struct crypt_key *key;           /* NULL: not encrypted, or not loaded */
    struct blkptr root;
    uint64_t flags;
    unsigned char phys[OBJSET_SIZE]; /* as of the last sync; sync thread; its ZIL header: lock */
    uint32_t phys_size;              /* of the block at root */
    struct dnode *meta;              /* object 0 */
    struct dnode *special[3];        /* objects -1, -2, -3; NULL: not allocated; lock */
    struct dnode_shard shards[DNODE_SHARDS];
    struct objset_dirty dirty[TXG_SLOTS];
    struct slots *slots;
    struct neighbours neighbours;
    _Atomic unsigned uses;
    int async;                       /* asynchronous reads under way; lock */
    pthread_cond_t idle;             /* async became 0 */
};

/* ---- Memory ---- */

#define MALLOC_SLACK  16                            /* what the allocator adds to each piece */
#define DIRTY_MEMORY  (sizeof(struct dirty) + 256)  /* with its part in the sync's tables */
#define CHANGE_MEMORY (sizeof(struct change) + 256) /* with its bonus buffer */

/* ---- cache and blocks: dbuf.c ---- */

/* With dn->lock: the block if it is in memory, not held. */
struct dbuf *dbuf_find(struct dnode *dn, unsigned level, uint64_t blkid);
/* With dn->lock: finds or makes it; held. NULL: out of memory. */
struct dbuf *dbuf_get(struct dnode *dn, unsigned level, uint64_t blkid);
/* With dn->lock, which is released meanwhile: makes the state CACHED or HOLE. */
int dbuf_load(struct dbuf *db);
/* With dn->lock: gives the block these contents (takes the reference; NULL: a hole). */
void dbuf_set_buf(struct dbuf *db, struct buf *b);
void dbuf_unhold(struct dbuf *db);
/* Holds a block of any level and loads it. */
int dbuf_hold_level(struct dnode *dn, unsigned level, uint64_t blkid, struct dbuf **out);
/* The pointer to a block as the last sync left it; a hole for ranges freed since. No lock held. */
int dbuf_find_bp(struct dnode *dn, unsigned level, uint64_t blkid, struct blkptr *bp);
void dbuf_bookmark(const struct dnode *dn, unsigned level, uint64_t blkid, struct bookmark *bm);
/* What a block that was read needs before it can be used: size and byte order. Takes *b over. */
int dbuf_accept(struct dnode *dn, unsigned level, uint64_t blkid, const struct blkptr *bp,
                struct buf **b);
/* Forgets the dnode's blocks, except those that are held, dirty or being read. */
void dbuf_drop_unheld(struct dnode *dn);
/* Starts reading a block into the cache if it is not there. */
void dbuf_prefetch(struct dnode *dn, unsigned level, uint64_t blkid);

/* ---- versions: change.c ---- */

/* Tells the owner about the first dirty data of a txg; before any lock is taken. */
void objset_announce(struct objset *os, struct tx *tx);
/* With dn->lock: what tx's txg does to the dnode, made on first use. NULL: out of memory. */
struct change *change_get(struct dnode *dn, struct tx *tx);
/* With dn->lock: prepares the block (held) for a change in tx: it becomes CACHED and unshared. keep:
 * the present contents matter. fresh (may be NULL) replaces the contents and is taken over. */
int dbuf_make_dirty(struct dbuf *db, struct tx *tx, bool keep, struct buf *fresh);
/* With dn->lock: an older version keeps its contents, which the block is about to change. */
void dirty_set_aside(struct dirty *d);
/* With dn->lock: the record is written or void. */
void dirty_release(struct dirty *d);
/* With dn->lock: freed in memory by a txg that is not synced yet? */
bool dnode_block_freed(const struct dnode *dn, uint64_t blkid);
void change_free(struct change *ch);

/* ---- dnodes: dnode.c ---- */

struct dnode *dnode_alloc(struct objset *os, uint64_t object, const unsigned char *image);
void dnode_free_memory(struct dnode *dn);
static inline bool dnode_is_special(const struct dnode *dn)
{
    return dn->object == OBJECT_META_DNODE || dn->object >= OBJECT_PROJECTUSED;
}
static inline unsigned dnode_epbs(const struct dnode *dn)
{
    return dn->image[DN_INDIRECT_SHIFT] - 7u;
}
/* The dnode if it is in memory; with a reference. */
struct dnode *dnode_find(struct objset *os, uint64_t object);
/* Takes the dnode out of the hash; it lives until its last reference is dropped. */
void dnode_orphan(struct dnode *dn);
struct dnode_shard *dnode_shard(struct objset *os, uint64_t object);

/* ---- authentication of an encrypted set's root block: objset_mac.c ---- */

/* block has n bytes, in the byte order that big says. 0 or -EBADE with a sentence. */
int objset_authenticate(const struct crypt_key *key, const unsigned char *block, size_t n, bool big);

/* ---- object numbers: slots.c ---- */

int slots_new(struct objset *os);
void slots_free(struct objset *os);
int slots_claim(struct objset *os, unsigned count, uint64_t *object);        /* any free number */
int slots_claim_at(struct objset *os, uint64_t object, unsigned count);      /* this one */
void slots_unclaim(struct objset *os, uint64_t object, unsigned count);      /* creation failed */
/* The sync is about to clear a freed object's slots in its (held) block: they stay taken for now. */
int slots_freeing(struct objset *os, uint64_t object, struct dbuf *block);
/* The creation and/or freeing of an object has been synced. */
void slots_synced(struct objset *os, uint64_t object, unsigned count, bool created, bool freed);
/* The lowest dnode block >= *blkid that has unsynced creations; false if none. */
bool slots_next_pending(struct objset *os, uint64_t *blkid);
void slots_reset(struct objset *os);
/* Walks the slots of a dnode block: -EBADE if it is damaged at this slot. */
int dnode_block_slots(const unsigned char *block, unsigned slot, unsigned *width, bool *allocated);

/* ---- others ---- */

/* The blocks first..last are about to be read. */
void prefetch_read(struct dnode *dn, uint64_t first, uint64_t last);
void prefetch_free(struct prefetch *p);
/* The beginning of a file is about to be read: is it time to read those of others? */
void neighbours_read(struct dnode *dn);
/* A level-0 block's contents, referenced; *b is NULL for a hole. */
int dnode_contents(struct dnode *dn, uint64_t blkid, struct buf **b);
/* Is nothing known of its contents, nor anybody reading them? */
bool dnode_block_absent(struct dnode *dn, uint64_t blkid);
/* Reads in other threads, for which the end of the object set waits. */
void objset_async_begin(struct objset *os);
void objset_async_end(struct objset *os);
void block_swap(uint8_t type, unsigned level, unsigned char *data, size_t n);
void dnode_image_swap(unsigned char *image);
void bonus_swap(uint8_t type, unsigned char *data, size_t n);

/* The write policy of 03 8. spill: the block is a spill block of an object with this bonus type. */
struct policy_for {
    uint8_t type;
    unsigned level;
    uint8_t checksum, compress; /* the dnode's, 0 = inherit */
    bool spill;
};
void policy_choose(struct objset *os, const struct policy_for *what, struct block_policy *out);
struct block_batch *objset_batch(const struct objset *os);

#endif
