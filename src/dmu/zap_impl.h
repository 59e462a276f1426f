/*
 * Inside the ZAP (spec 03 11-14).
 *
 * zap.c         the public calls: lock, choose micro or fat
 * zap_hash.c    keys and their hash
 * zap_index.c   the sorted index over a microzap's entries
 * zap_micro.c   the one-block form and its upgrade
 * zap_fat.c     header, lookups and changes of the fat form
 * zap_table.c   the pointer table and its doubling
 * zap_leaf.c    one leaf block (pure functions on bytes), zap_split.c its division in two
 * zap_cursor.c  iteration; zap_object.c the forms by object number; zap_swap.c foreign byte order
 *
 * Blocks are in host byte order here (the dnode layer swaps them), but for values and u64 keys in
 * leaves, which are big-endian everywhere.
 */
#ifndef DMU_ZAP_IMPL_H
#define DMU_ZAP_IMPL_H

#include <pthread.h>
#include <string.h>

#include "dmu/zap.h"
#include "util/bytes.h"
#include "util/cleanup.h"

#define ZAP_TYPE_MICRO     0x8000000000000003ull
#define ZAP_TYPE_HEADER    0x8000000000000001ull
#define ZAP_TYPE_LEAF      0x8000000000000000ull

#define ZAP_FLAG_HASH64    1u
#define ZAP_FLAG_WORD_KEYS 2u
#define ZAP_FLAG_PREHASHED 4u

#define ZAP_VALUE_MAX      8192 /* bytes */
#define ZAP_WORDS_MAX      32   /* of a u64 key */

static inline uint16_t load16(const void *p)
{
    return get_u16(p, BYTES_HOST_BIG);
}
static inline uint32_t load32(const void *p)
{
    return get_u32(p, BYTES_HOST_BIG);
}
static inline uint64_t load64(const void *p)
{
    return get_u64(p, BYTES_HOST_BIG);
}
static inline void store16(void *p, uint16_t v)
{
    put_u16(p, v, BYTES_HOST_BIG);
}
static inline void store32(void *p, uint32_t v)
{
    put_u32(p, v, BYTES_HOST_BIG);
}
static inline void store64(void *p, uint64_t v)
{
    put_u64(p, v, BYTES_HOST_BIG);
}

/* ---- zap_index.c: (hash, cd, slot) of every entry of a microzap, sorted; and its used slots ----
 */

#define MICRO_SLOTS_MAX 16384 /* of a 1 MiB block */

struct zap_index {
    uint64_t *at; /* hash (28 high bits), 6 bits zero, cd (16), slot (14) */
    uint32_t count, capacity;
    uint64_t *used; /* bitmap of slots, slot 0 is the header */
    uint32_t slots;
    uint32_t hint; /* the last slot given out */
};

static inline uint64_t index_hash(uint64_t e)
{
    return e & ~((1ull << 36) - 1);
}
static inline uint32_t index_cd(uint64_t e)
{
    return e >> 14 & 0xffff;
}
static inline uint32_t index_slot(uint64_t e)
{
    return e & 0x3fff;
}

int index_resize(struct zap_index *x, uint32_t slots); /* more slots; -ENOMEM */
int index_reserve(struct zap_index *x);                /* room for one more entry; -ENOMEM */
void index_append(struct zap_index *x, uint64_t hash, uint32_t cd, uint32_t slot); /* unsorted */
void index_sort(struct zap_index *x);
void index_insert(struct zap_index *x, uint64_t hash, uint32_t cd, uint32_t slot);
void index_delete(struct zap_index *x, uint32_t position);
/* Position of the first entry >= (hash, cd); count if there is none. */
uint32_t index_lower(const struct zap_index *x, uint64_t hash, uint32_t cd);
uint32_t index_free_slot(struct zap_index *x); /* 0 if all are used */
void index_clear(struct zap_index *x);

/* ---- The in-memory companion of a ZAP object ---- */

struct zap {
    pthread_rwlock_t lock; /* guards the ZAP's blocks and everything below */
    bool loaded;
    bool fat;
    unsigned hash_bits; /* 28 or 48 */
    unsigned flags;     /* fat: ZAP_FLAG_* */
    uint64_t salt, normflags;
    struct zap_index index; /* micro */
};

/* ---- zap_hash.c ---- */

struct zap_key {
    uint64_t hash;              /* masked */
    const unsigned char *bytes; /* as stored in a leaf: with NUL, or big-endian words */
    size_t size;                /* of bytes */
    unsigned ints;              /* the length as stored: bytes with NUL, or words */
    bool foreign;               /* needs Unicode tables that we do not have: hash is unknown */
    unsigned char words[8 * ZAP_WORDS_MAX];
};

uint64_t zap_crc(uint64_t salt, const void *bytes, size_t n);
uint64_t zap_hash_mask(uint64_t hash, unsigned bits);
/* 0, -EINVAL (empty name), -ENAMETOOLONG. */
int zap_key_string(struct zap_key *k, const struct zap *z, const char *name);
int zap_key_words(struct zap_key *k, const struct zap *z, const uint64_t *words, unsigned n);

/* ---- A value on its way in ---- */

struct zap_value {
    unsigned size; /* of an integer */
    size_t count;
    const void *data; /* host order */
};

/* ---- zap_micro.c: the lock is held ---- */

#define MICRO_ENTRY_SIZE 64
#define MICRO_NAME_MAX   49
#define MICRO_BLOCK_MAX  131072

void micro_format(unsigned char *block, size_t size, uint64_t salt, uint64_t normflags);
int micro_load(struct zap *z, const unsigned char *block, size_t size);
int micro_length(struct zap *z, struct dnode *dn, const struct zap_key *k);
int micro_get(struct zap *z, struct dnode *dn, const struct zap_key *k, uint64_t *value);
/* -EFBIG: it does not fit a microzap, upgrade. */
int micro_add(struct zap *z, struct dnode *dn, const struct zap_key *k, const struct zap_value *v,
              struct tx *tx);
int micro_update(struct zap *z, struct dnode *dn, const struct zap_key *k,
                 const struct zap_value *v, struct tx *tx);
int micro_remove(struct zap *z, struct dnode *dn, const struct zap_key *k, struct tx *tx);
int micro_next(struct zap *z, struct dnode *dn, uint64_t *hash, uint32_t *cd, struct zap_entry *e);
int micro_upgrade(struct zap *z, struct dnode *dn, struct tx *tx);

/* ---- zap_leaf.c ---- */

#define LEAF_NONE 0xffffu

struct leaf {
    unsigned char *b;
    unsigned bs; /* log2 of the block size */
};

static inline unsigned leaf_slots(unsigned bs)
{
    return 1u << (bs - 5);
}
static inline unsigned leaf_chunks(unsigned bs)
{
    return ((1u << bs) - 2 * leaf_slots(bs)) / 24 - 2;
}

void leaf_init(struct leaf l, bool sorted);
int leaf_check(struct leaf l); /* -EBADE: not a leaf */
uint64_t leaf_prefix(struct leaf l);
unsigned leaf_prefix_len(struct leaf l);
void leaf_set_prefix(struct leaf l, uint64_t prefix, unsigned len);
bool leaf_sorted(struct leaf l);
unsigned leaf_free_count(struct leaf l);
unsigned leaf_entry_count(struct leaf l);
/* Chunks of an entry. */
unsigned leaf_need(size_t name_bytes, size_t value_bytes);

struct leaf_entry {
    unsigned chunk;
    unsigned size; /* of an integer of the value */
    unsigned next; /* in its chain */
    unsigned name, name_ints;
    unsigned value, value_ints;
    uint32_t cd;
    uint64_t hash;
};
int leaf_entry(struct leaf l, unsigned chunk, struct leaf_entry *e); /* -EBADE */
/* The entry with exactly this key: 0, -ENOENT, -EBADE. *ref is where its number is stored. */
int leaf_find(struct leaf l, const struct zap_key *k, bool word_keys, struct leaf_entry *e,
              unsigned char **ref);
/* The entry with the smallest (hash, cd) not below the given: 0, -ENOENT, -EBADE. */
int leaf_next(struct leaf l, uint64_t hash, uint32_t cd, struct leaf_entry *e);
int leaf_free_cd(struct leaf l, uint64_t hash, uint32_t *cd);
/* The bytes of a name or value (n of them). */
int leaf_get_array(struct leaf l, unsigned first, unsigned char *out, size_t n);
/* -ENOSPC: split first. */
int leaf_insert(struct leaf l, const struct zap_key *k, uint32_t cd, const struct zap_value *v);
int leaf_remove(struct leaf l, const struct leaf_entry *e, unsigned char *ref, bool word_keys);
int leaf_set_value(struct leaf l, const struct leaf_entry *e, const struct zap_value *v);
/* The value as host integers of size `size`, count of them; the rest zero. -EINVAL: does not fit.
 */
int leaf_get_value(struct leaf l, const struct leaf_entry *e, unsigned size, size_t count,
                   void *out);
/* Moves the entries of the upper half of src's hashes to dst (fresh); both get their new prefix. On
 * -EBADE both are garbage. */
int leaf_split(struct leaf src, struct leaf dst, bool word_keys);

/* ---- zap_fat.c and zap_table.c: the lock is held ---- */

#define FAT_SHIFT     14 /* block size of new ones */
#define FAT_TABLE_MAX 46

struct fat {
    struct zap *z;
    struct dnode *dn;
    struct dbuf *header;
    unsigned bs;
    unsigned shift;
    uint64_t table, table_blocks; /* external; 0 = embedded */
    uint64_t next_table, copied;
    uint64_t free_block, leafs, entries;
};

int fat_open(struct fat *f, struct zap *z, struct dnode *dn);
void fat_close(struct fat *f);
#define CLEANUP_FAT CLEANUP(fat_close)
int fat_load(struct zap *z, const unsigned char *block, size_t size);
int fat_format(struct zap *z, struct dnode *dn, struct tx *tx);
void fat_store(struct fat *f); /* the numbers into the header block, which is dirty already */
/* The leaf for a hash, held. */
int fat_leaf(struct fat *f, uint64_t hash, struct dbuf **db, struct leaf *l);
int fat_find(struct fat *f, const struct zap_key *k, struct dbuf **db, struct leaf *l,
             struct leaf_entry *e, unsigned char **ref);
enum { FAT_ADD, FAT_UPDATE };
int fat_put(struct fat *f, const struct zap_key *k, const uint32_t *cd, const struct zap_value *v,
            int mode, struct tx *tx);
int fat_remove(struct fat *f, const struct zap_key *k, struct tx *tx);
int fat_next(struct fat *f, uint64_t *hash, uint32_t *cd, struct zap_entry *e);
int fat_split(struct fat *f, struct dbuf *db, struct leaf l, struct tx *tx);

int table_get(struct fat *f, uint64_t index, uint64_t *block);
int table_set(struct fat *f, uint64_t first, uint64_t count, uint64_t block, struct tx *tx);
int table_grow(struct fat *f, struct tx *tx);
int table_finish(struct fat *f, struct tx *tx); /* a doubling that somebody left half done */

/* ---- zap_swap.c ---- */

void zap_swap_as(unsigned char *block, size_t size, uint64_t type); /* either way */

/* ---- zap.c ---- */

static inline void dbuf_cleanup(struct dbuf **db)
{
    if (*db)
        dbuf_rele(*db);
}
#define CLEANUP_DBUF CLEANUP(dbuf_cleanup)

/* Loads if needed and locks. zap_leave unlocks. */
int zap_enter(struct dnode *dn, bool write, struct zap **out);
static inline void zap_leave(struct zap **z)
{
    if (*z)
        pthread_rwlock_unlock(&(*z)->lock);
}
#define CLEANUP_ZAP CLEANUP(zap_leave)
int zap_value_check(const struct zap_value *v);

#endif
