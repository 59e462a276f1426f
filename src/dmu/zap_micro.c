/* The microzap (spec 03 12): one block of 64-byte entries, found through the index in memory. */
#include <errno.h>
#include <stdlib.h>

#include "dmu/zap_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

#define ENTRY_VALUE 0
#define ENTRY_CD    8
#define ENTRY_NAME  14

void micro_format(unsigned char *block, size_t size, uint64_t salt, uint64_t normflags)
{
    memset(block, 0, size);
    store64(block, ZAP_TYPE_MICRO);
    store64(block + 8, salt);
    store64(block + 16, normflags);
}

/* Reads the header and builds the index. */
int micro_load(struct zap *z, const unsigned char *block, size_t size)
{
    uint32_t slots = MIN(size / MICRO_ENTRY_SIZE, MICRO_SLOTS_MAX);
    index_clear(&z->index);
    z->fat = false;
    z->flags = 0;
    z->hash_bits = 28;
    z->salt = load64(block + 8);
    z->normflags = load64(block + 16);
    int rc = index_resize(&z->index, slots);
    for (uint32_t slot = 1; slot < slots && rc == 0; slot++) {
        const unsigned char *e = block + slot * MICRO_ENTRY_SIZE;
        const char *name = (const char *)e + ENTRY_NAME;
        struct zap_key key;
        if (name[0] == 0)
            continue;
        if (!memchr(name, 0, MICRO_NAME_MAX + 1) || load32(e + ENTRY_CD) > 0xffff)
            return err_set(EBADE, "a directory-like object is damaged (entry %u)", slot);
        zap_key_string(&key, z, name);
        rc = index_reserve(&z->index);
        if (rc == 0)
            index_append(&z->index, key.hash, load32(e + ENTRY_CD), slot);
    }
    index_sort(&z->index);
    z->index.hint = 0;
    return rc;
}

static bool same_name(const unsigned char *block, uint32_t slot, const struct zap_key *k)
{
    if (k->size > MICRO_NAME_MAX + 1)
        return false;
    return memcmp(block + slot * MICRO_ENTRY_SIZE + ENTRY_NAME, k->bytes, k->size) == 0;
}

/* Position in the index, or -ENOENT; names whose hash is unknown are looked for one by one. */
static int64_t find(const struct zap *z, const unsigned char *block, const struct zap_key *k)
{
    const struct zap_index *x = &z->index;
    for (uint32_t i = k->foreign ? 0 : index_lower(x, k->hash, 0); i < x->count; i++) {
        if (!k->foreign && index_hash(x->at[i]) != k->hash)
            break;
        if (same_name(block, index_slot(x->at[i]), k))
            return i;
    }
    return -ENOENT;
}

/* The block and the entry's place in it. */
static int find_entry(struct zap *z, struct dnode *dn, const struct zap_key *k, struct dbuf **db,
                      uint32_t *position)
{
    int rc = dbuf_hold(dn, 0, 0, db);
    if (rc < 0)
        return rc;
    if (dbuf_size(*db) / MICRO_ENTRY_SIZE < z->index.slots)
        return err_set(EBADE, "the block of a directory-like object changed its size");
    int64_t at = find(z, dbuf_data(*db), k);
    if (at < 0)
        return at;
    *position = at;
    return 0;
}

static unsigned char *entry_at(struct dbuf *db, uint32_t slot)
{
    return (unsigned char *)dbuf_data(db) + slot * MICRO_ENTRY_SIZE;
}

int micro_length(struct zap *z, struct dnode *dn, const struct zap_key *k)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    uint32_t at;
    return find_entry(z, dn, k, &db, &at);
}

int micro_get(struct zap *z, struct dnode *dn, const struct zap_key *k, uint64_t *value)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    uint32_t at;
    int rc = find_entry(z, dn, k, &db, &at);
    if (rc == 0)
        *value = load64(entry_at(db, index_slot(z->index.at[at])) + ENTRY_VALUE);
    return rc;
}

static bool fits(const struct zap_key *k, const struct zap_value *v)
{
    return k->size <= MICRO_NAME_MAX + 1 && v->size == 8 && v->count == 1;
}

/* The smallest free cd among the entries with this hash; -EFBIG if there are too many of them. */
static int free_cd(const struct zap *z, uint64_t hash, uint32_t *cd)
{
    const struct zap_index *x = &z->index;
    uint32_t same = 0;
    *cd = 0;
    for (uint32_t i = index_lower(x, hash, 0); i < x->count && index_hash(x->at[i]) == hash; i++) {
        if (index_cd(x->at[i]) == *cd)
            (*cd)++;
        same++;
    }
    return (same + 1) * 5 >= leaf_chunks(FAT_SHIFT) ? -EFBIG : 0;
}

/* One sector more. */
static int grow(struct zap *z, struct dnode *dn, struct tx *tx)
{
    uint32_t size = dnode_block_size(dn) + 512;
    if (size > MICRO_BLOCK_MAX)
        return -EFBIG;
    int rc = index_resize(&z->index, size / MICRO_ENTRY_SIZE);
    if (rc < 0)
        return rc;
    rc = dnode_set_block_size(dn, size, 0, tx);
    if (rc < 0)
        z->index.slots = size / MICRO_ENTRY_SIZE - 8;
    return rc;
}

static int take_slot(struct zap *z, struct dnode *dn, uint32_t *slot, struct tx *tx)
{
    *slot = index_free_slot(&z->index);
    if (*slot != 0)
        return 0;
    int rc = grow(z, dn, tx);
    if (rc == 0)
        *slot = index_free_slot(&z->index);
    return rc;
}

static int insert(struct zap *z, struct dnode *dn, const struct zap_key *k, uint64_t value,
                  struct tx *tx)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    uint32_t cd, slot = 0;
    int rc = free_cd(z, k->hash, &cd);
    if (rc == 0)
        rc = index_reserve(&z->index);
    if (rc == 0)
        rc = take_slot(z, dn, &slot, tx);
    if (rc == 0)
        rc = dbuf_hold(dn, 0, 0, &db);
    if (rc == 0)
        rc = dbuf_dirty(db, tx);
    if (rc < 0)
        return rc;
    unsigned char *e = entry_at(db, slot);
    memset(e, 0, MICRO_ENTRY_SIZE);
    store64(e + ENTRY_VALUE, value);
    store32(e + ENTRY_CD, cd);
    memcpy(e + ENTRY_NAME, k->bytes, k->size);
    index_insert(&z->index, k->hash, cd, slot);
    return 0;
}

static uint64_t value_u64(const struct zap_value *v)
{
    uint64_t value;
    memcpy(&value, v->data, sizeof value);
    return value;
}

int micro_add(struct zap *z, struct dnode *dn, const struct zap_key *k, const struct zap_value *v,
              struct tx *tx)
{
    int rc = micro_length(z, dn, k);
    if (rc != -ENOENT)
        return rc == 0 ? -EEXIST : rc;
    return fits(k, v) ? insert(z, dn, k, value_u64(v), tx) : -EFBIG;
}

int micro_update(struct zap *z, struct dnode *dn, const struct zap_key *k,
                 const struct zap_value *v, struct tx *tx)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    uint32_t at;
    if (!fits(k, v))
        return -EFBIG;
    int rc = find_entry(z, dn, k, &db, &at);
    if (rc == -ENOENT) {
        dbuf_rele(STEAL(db)); /* the block may grow */
        return insert(z, dn, k, value_u64(v), tx);
    }
    if (rc == 0)
        rc = dbuf_dirty(db, tx);
    if (rc == 0)
        store64(entry_at(db, index_slot(z->index.at[at])) + ENTRY_VALUE, value_u64(v));
    return rc;
}

int micro_remove(struct zap *z, struct dnode *dn, const struct zap_key *k, struct tx *tx)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    uint32_t at;
    int rc = find_entry(z, dn, k, &db, &at);
    if (rc == 0)
        rc = dbuf_dirty(db, tx);
    if (rc < 0)
        return rc;
    memset(entry_at(db, index_slot(z->index.at[at])), 0, MICRO_ENTRY_SIZE);
    index_delete(&z->index, at);
    return 0;
}

int micro_next(struct zap *z, struct dnode *dn, uint64_t *hash, uint32_t *cd, struct zap_entry *e)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    uint32_t at = index_lower(&z->index, *hash, *cd);
    if (at >= z->index.count)
        return -ENOENT;
    int rc = dbuf_hold(dn, 0, 0, &db);
    if (rc < 0)
        return rc;
    const unsigned char *p = entry_at(db, index_slot(z->index.at[at]));
    memcpy(e->name, p + ENTRY_NAME, MICRO_NAME_MAX);
    e->name[MICRO_NAME_MAX] = 0;
    e->key_words = 0;
    e->size = 8;
    e->count = 1;
    e->first = load64(p + ENTRY_VALUE);
    *hash = index_hash(z->index.at[at]);
    *cd = index_cd(z->index.at[at]);
    return 0;
}

/* ---- Upgrade ---- */

/* Adds every entry of the old block to the new fat ZAP, with its old cd so that cursors stay valid.
 */
static int transfer(struct zap *z, struct dnode *dn, const struct zap_index *x,
                    const unsigned char *old, struct tx *tx)
{
    struct fat f CLEANUP_FAT = {0};
    int rc = fat_open(&f, z, dn);
    for (uint32_t i = 0; i < x->count && rc == 0; i++) {
        const unsigned char *p = old + index_slot(x->at[i]) * MICRO_ENTRY_SIZE;
        uint64_t value = load64(p + ENTRY_VALUE);
        uint32_t cd = index_cd(x->at[i]);
        struct zap_value v = {8, 1, &value};
        struct zap_key key;
        rc = zap_key_string(&key, z, (const char *)p + ENTRY_NAME);
        if (rc == 0 && key.foreign)
            rc = -ENOTSUP; /* its hash would be wrong */
        if (rc == 0)
            rc = fat_put(&f, &key, &cd, &v, FAT_ADD, tx);
    }
    return rc;
}

static int copy_block(struct dnode *dn, unsigned char **out, size_t *size)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    int rc = dbuf_hold(dn, 0, 0, &db);
    if (rc < 0)
        return rc;
    *size = dbuf_size(db);
    *out = malloc(*size);
    if (!*out)
        return -ENOMEM;
    memcpy(*out, dbuf_data(db), *size);
    return 0;
}

/* After a failed upgrade: the old block comes back. */
static void restore(struct zap *z, struct dnode *dn, const unsigned char *old, size_t size,
                    struct tx *tx)
{
    z->fat = false;
    z->loaded = false; /* the index is built anew */
    if (dnode_free_range(dn, 1u << FAT_SHIFT, UINT64_MAX, tx) == 0 &&
        dnode_set_block_size(dn, size, 0, tx) == 0)
        dnode_write(dn, 0, old, size, tx);
}

int micro_upgrade(struct zap *z, struct dnode *dn, struct tx *tx)
{
    CLEANUP_FREE unsigned char *old = NULL;
    size_t size = 0;
    int rc = copy_block(dn, &old, &size);
    if (rc == 0)
        rc = dnode_set_block_size(dn, 1u << FAT_SHIFT, 0, tx);
    if (rc < 0)
        return rc;
    struct zap_index x = z->index;
    z->index = (struct zap_index){0};
    rc = fat_format(z, dn, tx);
    if (rc == 0)
        rc = transfer(z, dn, &x, old, tx);
    index_clear(&x);
    if (rc < 0)
        restore(z, dn, old, size, tx);
    return rc;
}
