/* The fat ZAP (spec 03 13): header block, pointer table, leaves. */
#include <errno.h>
#include <stdlib.h>

#include "dmu/zap_impl.h"
#include "util/err.h"

#define FAT_MAGIC        0x2F52AB2ABull

#define OFF_TABLE        16
#define OFF_TABLE_BLOCKS 24
#define OFF_TABLE_SHIFT  32
#define OFF_NEXT         40
#define OFF_COPIED       48
#define OFF_FREE_BLOCK   56
#define OFF_LEAFS        64
#define OFF_ENTRIES      72
#define OFF_SALT         80
#define OFF_NORM         88
#define OFF_FLAGS        96

static int damaged(const struct dnode *dn, const char *what)
{
    return err_set(EBADE, "object %llu is damaged: %s", (unsigned long long)dnode_object(dn), what);
}

/* What never changes, from block 0. */
int fat_load(struct zap *z, const unsigned char *block, size_t size)
{
    if (load64(block + 8) != FAT_MAGIC || !is_pow2(size) || size > 1u << 20)
        return -EBADE;
    uint64_t flags = load64(block + OFF_FLAGS);
    if (flags & ~(uint64_t)(ZAP_FLAG_HASH64 | ZAP_FLAG_WORD_KEYS | ZAP_FLAG_PREHASHED))
        return -ENOTSUP;
    z->fat = true;
    z->flags = flags;
    z->hash_bits = flags & ZAP_FLAG_HASH64 ? 48 : 28;
    z->salt = load64(block + OFF_SALT);
    z->normflags = load64(block + OFF_NORM);
    return 0;
}

static bool header_sound(const struct fat *f)
{
    if (f->table_blocks == 0) {
        if (f->table != 0 || f->shift != f->bs - 4)
            return false;
    } else if (f->shift > FAT_TABLE_MAX || f->shift < f->bs - 3 || f->table == 0 ||
               f->table_blocks != 1ull << (f->shift - (f->bs - 3)) ||
               f->table + f->table_blocks > f->free_block) {
        return false;
    }
    return f->free_block >= 2 && f->free_block < 1ull << 48 && f->next_table < f->free_block;
}

int fat_open(struct fat *f, struct zap *z, struct dnode *dn)
{
    *f = (struct fat){.z = z, .dn = dn};
    int rc = dbuf_hold(dn, 0, 0, &f->header);
    if (rc < 0)
        return rc;
    const unsigned char *b = dbuf_data(f->header);
    f->bs = high_bit(dbuf_size(f->header)) - 1;
    f->table = load64(b + OFF_TABLE);
    f->table_blocks = load64(b + OFF_TABLE_BLOCKS);
    f->shift = MIN(load64(b + OFF_TABLE_SHIFT), 255);
    f->next_table = load64(b + OFF_NEXT);
    f->copied = load64(b + OFF_COPIED);
    f->free_block = load64(b + OFF_FREE_BLOCK);
    f->leafs = load64(b + OFF_LEAFS);
    f->entries = load64(b + OFF_ENTRIES);
    if (load64(b) != ZAP_TYPE_HEADER || !header_sound(f))
        return damaged(dn, "its ZAP header makes no sense");
    return 0;
}

void fat_close(struct fat *f)
{
    if (f->header)
        dbuf_rele(f->header);
    f->header = NULL;
}

void fat_store(struct fat *f)
{
    unsigned char *b = dbuf_data(f->header);
    store64(b + OFF_TABLE, f->table);
    store64(b + OFF_TABLE_BLOCKS, f->table_blocks);
    store64(b + OFF_TABLE_SHIFT, f->shift);
    store64(b + OFF_NEXT, f->next_table);
    store64(b + OFF_COPIED, f->copied);
    store64(b + OFF_FREE_BLOCK, f->free_block);
    store64(b + OFF_LEAFS, f->leafs);
    store64(b + OFF_ENTRIES, f->entries);
}

/* Writes an empty fat ZAP into an object whose block size is set; salt and normflags are z's. */
int fat_format(struct zap *z, struct dnode *dn, struct tx *tx)
{
    struct dbuf *header CLEANUP_DBUF = NULL, *first CLEANUP_DBUF = NULL;
    int rc = dbuf_hold(dn, 0, DBUF_NO_READ, &header);
    if (rc == 0)
        rc = dbuf_hold(dn, 1, DBUF_NO_READ, &first);
    if (rc == 0)
        rc = dbuf_dirty(header, tx);
    if (rc == 0)
        rc = dbuf_dirty(first, tx);
    if (rc < 0)
        return rc;
    size_t size = dbuf_size(header);
    unsigned bs = high_bit(size) - 1;
    unsigned char *b = dbuf_data(header);
    memset(b, 0, size);
    store64(b, ZAP_TYPE_HEADER);
    store64(b + 8, FAT_MAGIC);
    store64(b + OFF_TABLE_SHIFT, bs - 4);
    store64(b + OFF_FREE_BLOCK, 2);
    store64(b + OFF_LEAFS, 1);
    store64(b + OFF_SALT, z->salt);
    store64(b + OFF_NORM, z->normflags);
    store64(b + OFF_FLAGS, z->flags);
    for (size_t at = size / 2; at < size; at += 8)
        store64(b + at, 1);
    leaf_init((struct leaf){dbuf_data(first), bs}, z->normflags != 0);
    z->fat = true;
    return 0;
}

/* ---- Finding ---- */

int fat_leaf(struct fat *f, uint64_t hash, struct dbuf **db, struct leaf *l)
{
    uint64_t block;
    int rc = table_get(f, hash >> (64 - f->shift), &block);
    if (rc == 0)
        rc = dbuf_hold(f->dn, block, 0, db);
    if (rc < 0)
        return rc;
    *l = (struct leaf){dbuf_data(*db), f->bs};
    rc = leaf_check(*l);
    unsigned len = rc == 0 ? leaf_prefix_len(*l) : 0;
    if (rc < 0 || len > f->shift || (len > 0 && hash >> (64 - len) != leaf_prefix(*l)))
        return damaged(f->dn, "a ZAP leaf is not what the table says");
    return 0;
}

static bool word_keys(const struct fat *f)
{
    return f->z->flags & ZAP_FLAG_WORD_KEYS;
}

/* Looks for a name whose hash cannot be computed in every leaf. */
static int find_foreign(struct fat *f, const struct zap_key *k, struct dbuf **db, struct leaf *l,
                        struct leaf_entry *e, unsigned char **ref)
{
    uint64_t hash = 0;
    uint32_t cd = 0;
    for (;;) {
        struct zap_entry found;
        int rc = fat_next(f, &hash, &cd, &found);
        if (rc < 0)
            return rc;
        if (strcmp(found.name, (const char *)k->bytes) == 0) {
            struct zap_key there = *k;
            there.hash = hash;
            rc = fat_leaf(f, hash, db, l);
            return rc < 0 ? rc : leaf_find(*l, &there, false, e, ref);
        }
        cd++;
    }
}

int fat_find(struct fat *f, const struct zap_key *k, struct dbuf **db, struct leaf *l,
             struct leaf_entry *e, unsigned char **ref)
{
    if (k->foreign)
        return find_foreign(f, k, db, l, e, ref);
    int rc = fat_leaf(f, k->hash, db, l);
    if (rc == 0)
        rc = leaf_find(*l, k, word_keys(f), e, ref);
    return rc == -EBADE ? damaged(f->dn, "a ZAP leaf has a bad chain") : rc;
}

static int fill_entry(struct fat *f, struct leaf l, const struct leaf_entry *le,
                      struct zap_entry *e)
{
    unsigned char first[8];
    size_t n = word_keys(f) ? 8 * MIN(le->name_ints, ZAP_WORDS_MAX) : le->name_ints;
    int rc = leaf_get_array(l, le->name, (unsigned char *)e->name, n);
    if (rc < 0)
        return rc;
    e->key_words = word_keys(f) ? n / 8 : 0;
    for (unsigned i = 0; i < e->key_words; i++)
        store64(e->name + 8 * i, get_be64(e->name + 8 * i));
    if (e->key_words == 0)
        e->name[n - 1] = 0;
    e->size = le->size;
    e->count = le->value_ints;
    e->first = 0;
    if (le->value_ints > 0) {
        struct leaf_entry one = *le;
        memset(first, 0, sizeof first);
        one.value_ints = 1;
        rc = leaf_get_value(l, &one, 8, 1, &e->first);
    }
    return rc;
}

int fat_next(struct fat *f, uint64_t *hash, uint32_t *cd, struct zap_entry *e)
{
    for (;;) {
        struct dbuf *db CLEANUP_DBUF = NULL;
        struct leaf l;
        struct leaf_entry le;
        int rc = fat_leaf(f, *hash, &db, &l);
        if (rc == 0)
            rc = leaf_next(l, *hash, *cd, &le);
        if (rc == 0) {
            rc = fill_entry(f, l, &le, e);
            *hash = le.hash;
            *cd = le.cd;
            return rc;
        }
        if (rc != -ENOENT)
            return rc;
        unsigned len = leaf_prefix_len(l);
        *hash = len ? (leaf_prefix(l) + 1) << (64 - len) : 0;
        *cd = 0;
        if (*hash == 0)
            return -ENOENT;
    }
}

/* ---- Changing ---- */

static int update_entry(struct fat *f, struct dbuf *db, struct leaf l, const struct leaf_entry *e,
                        const struct zap_value *v, struct tx *tx)
{
    unsigned has = leaf_need(0, e->value_ints * e->size), wants = leaf_need(0, v->size * v->count);
    if (wants > has && wants - has > leaf_free_count(l))
        return -ENOSPC;
    int rc = dbuf_dirty(db, tx);
    if (rc < 0)
        return rc;
    return leaf_set_value((struct leaf){dbuf_data(db), f->bs}, e, v);
}

static int add_entry(struct fat *f, struct dbuf *db, const struct zap_key *k, const uint32_t *cd,
                     const struct zap_value *v, struct tx *tx)
{
    struct leaf l = {dbuf_data(db), f->bs};
    uint32_t free_cd = cd ? *cd : 0;
    if (leaf_need(k->size, v->size * v->count) > leaf_free_count(l))
        return -ENOSPC;
    int rc = cd ? 0 : leaf_free_cd(l, k->hash, &free_cd);
    if (rc == 0)
        rc = dbuf_dirty(f->header, tx);
    if (rc == 0)
        rc = dbuf_dirty(db, tx);
    if (rc == 0)
        rc = leaf_insert((struct leaf){dbuf_data(db), f->bs}, k, free_cd, v);
    if (rc < 0)
        return rc;
    f->entries++;
    fat_store(f);
    return 0;
}

/* One try; -ENOSPC: the leaf is full and must be split (*db is held). */
static int try_put(struct fat *f, const struct zap_key *k, const uint32_t *cd,
                   const struct zap_value *v, int mode, struct tx *tx, struct dbuf **db,
                   struct leaf *l)
{
    struct leaf_entry e;
    unsigned char *ref;
    int rc = fat_find(f, k, db, l, &e, &ref);
    if (rc == -ENOENT)
        return add_entry(f, *db, k, cd, v, tx);
    if (rc < 0)
        return rc;
    return mode == FAT_ADD ? -EEXIST : update_entry(f, *db, *l, &e, v, tx);
}

int fat_put(struct fat *f, const struct zap_key *k, const uint32_t *cd, const struct zap_value *v,
            int mode, struct tx *tx)
{
    if (leaf_need(k->size, v->size * v->count) > leaf_chunks(f->bs))
        return -ENOSPC;
    for (;;) {
        struct dbuf *db CLEANUP_DBUF = NULL;
        struct leaf l;
        int rc = try_put(f, k, cd, v, mode, tx, &db, &l);
        if (rc != -ENOSPC)
            return rc;
        rc = fat_split(f, db, l, tx);
        if (rc < 0)
            return rc;
    }
}

int fat_remove(struct fat *f, const struct zap_key *k, struct tx *tx)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    struct leaf l;
    struct leaf_entry e;
    unsigned char *ref;
    int rc = fat_find(f, k, &db, &l, &e, &ref);
    if (rc == 0)
        rc = dbuf_dirty(f->header, tx);
    if (rc < 0)
        return rc;
    size_t where = ref - l.b;
    rc = dbuf_dirty(db, tx);
    if (rc < 0)
        return rc;
    l.b = dbuf_data(db);
    rc = leaf_remove(l, &e, l.b + where, word_keys(f));
    if (rc < 0)
        return damaged(f->dn, "a ZAP leaf has a bad entry");
    f->entries -= f->entries > 0;
    fat_store(f);
    return 0;
}
