/* The pointer table of a fat ZAP (spec 03 13.2, 13.8) and the splitting of leaves (13.7). */
#include <errno.h>
#include <stdlib.h>

#include "dmu/zap_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

/* The block that holds table entry `index` and the entry's place in it. */
static int entry_place(struct fat *f, uint64_t index, struct dbuf **db, size_t *at)
{
    if (f->table_blocks == 0) {
        *db = f->header;
        *at = (1u << (f->bs - 1)) + 8 * index;
        return 0;
    }
    *at = 8 * (index & ((1u << (f->bs - 3)) - 1));
    return dbuf_hold(f->dn, f->table + (index >> (f->bs - 3)), 0, db);
}

static void drop(struct fat *f, struct dbuf *db)
{
    if (db && db != f->header)
        dbuf_rele(db);
}

int table_get(struct fat *f, uint64_t index, uint64_t *block)
{
    struct dbuf *db = NULL;
    size_t at;
    int rc = entry_place(f, index, &db, &at);
    if (rc < 0)
        return rc;
    *block = load64((unsigned char *)dbuf_data(db) + at);
    drop(f, db);
    if (*block == 0 || *block >= f->free_block)
        return err_set(EBADE, "object %llu is damaged: its ZAP table points nowhere",
                       (unsigned long long)dnode_object(f->dn));
    return 0;
}

/* Dirties (block 0) or sets the entries [first, first + count), which lie in one table block. */
static int set_run(struct fat *f, uint64_t first, uint64_t count, uint64_t block, struct tx *tx)
{
    struct dbuf *db = NULL;
    size_t at;
    int rc = entry_place(f, first, &db, &at);
    if (rc == 0)
        rc = dbuf_dirty(db, tx);
    for (uint64_t i = 0; i < count && rc == 0 && block != 0; i++)
        store64((unsigned char *)dbuf_data(db) + at + 8 * i, block);
    drop(f, db);
    return rc;
}

static int each_run(struct fat *f, uint64_t first, uint64_t count, uint64_t block, struct tx *tx)
{
    uint64_t per_block = 1ull << (f->bs - 3);
    int rc = 0;
    while (count > 0 && rc == 0) {
        uint64_t n = f->table_blocks == 0 ? count : MIN(count, per_block - first % per_block);
        rc = set_run(f, first, n, block, tx);
        first += n;
        count -= n;
    }
    return rc;
}

/* All blocks are dirtied before the first entry changes, so that a failure changes nothing. */
int table_set(struct fat *f, uint64_t first, uint64_t count, uint64_t block, struct tx *tx)
{
    int rc = each_run(f, first, count, 0, tx);
    return rc < 0 ? rc : each_run(f, first, count, block, tx);
}

/* ---- Doubling ---- */

/* Writes table block `to` with each of the n entries at `from` twice. */
static int double_block(struct fat *f, const unsigned char *from, uint64_t to, struct tx *tx)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    int rc = dbuf_hold(f->dn, to, DBUF_NO_READ, &db);
    if (rc == 0)
        rc = dbuf_dirty(db, tx);
    if (rc < 0)
        return rc;
    unsigned char *b = dbuf_data(db);
    for (size_t i = 0; i < 1u << (f->bs - 3); i++)
        store64(b + 8 * i, load64(from + 8 * (i / 2)));
    return 0;
}

static int grow_embedded(struct fat *f, struct tx *tx)
{
    int rc = dbuf_dirty(f->header, tx);
    const unsigned char *old = (unsigned char *)dbuf_data(f->header) + (1u << (f->bs - 1));
    if (rc == 0)
        rc = double_block(f, old, f->free_block, tx);
    if (rc < 0)
        return rc;
    f->table = f->free_block++;
    f->table_blocks = 1;
    f->shift++;
    fat_store(f);
    return 0;
}

static int copy_table(struct fat *f, uint64_t to, struct tx *tx)
{
    size_t half = 1u << (f->bs - 1);
    int rc = 0;
    for (uint64_t i = 0; i < f->table_blocks && rc == 0; i++) {
        struct dbuf *db CLEANUP_DBUF = NULL;
        rc = dbuf_hold(f->dn, f->table + i, 0, &db);
        if (rc == 0)
            rc = double_block(f, dbuf_data(db), to + 2 * i, tx);
        if (rc == 0)
            rc = double_block(f, (unsigned char *)dbuf_data(db) + half, to + 2 * i + 1, tx);
    }
    return rc;
}

static int grow_external(struct fat *f, uint64_t to, struct tx *tx)
{
    int rc = dbuf_dirty(f->header, tx);
    if (rc == 0)
        rc = copy_table(f, to, tx);
    if (rc < 0)
        return rc;
    uint64_t old = f->table, blocks = f->table_blocks;
    f->table = to;
    f->table_blocks = 2 * blocks;
    f->free_block = MAX(f->free_block, to + 2 * blocks);
    f->shift++;
    f->next_table = f->copied = 0;
    fat_store(f);
    /* The old blocks are no longer used; if they cannot be freed they only take space. */
    dnode_free_range(f->dn, old << f->bs, blocks << f->bs, tx);
    return 0;
}

int table_grow(struct fat *f, struct tx *tx)
{
    if (f->shift + 1 > f->z->hash_bits - 2)
        return -ENOSPC;
    if (f->table_blocks == 0)
        return grow_embedded(f, tx);
    return grow_external(f, f->free_block, tx);
}

/* The old table rules until the copy is complete (13.8); we never leave one incomplete ourselves.
 */
int table_finish(struct fat *f, struct tx *tx)
{
    if (f->next_table == 0)
        return 0;
    if (f->table_blocks == 0 || f->next_table + 2 * f->table_blocks > f->free_block)
        return -EBADE;
    return grow_external(f, f->next_table, tx);
}

/* ---- Splitting a leaf ---- */

/* Divides copies of the two leaves; the blocks themselves change only when all has gone well. */
static int divide(struct fat *f, struct leaf full, unsigned char *two)
{
    struct leaf src = {two, f->bs}, dst = {two + (1u << f->bs), f->bs};
    memcpy(two, full.b, 1u << f->bs);
    leaf_init(dst, f->z->normflags != 0);
    if (leaf_split(src, dst, f->z->flags & ZAP_FLAG_WORD_KEYS) < 0)
        return err_set(EBADE, "object %llu is damaged: a ZAP leaf cannot be split",
                       (unsigned long long)dnode_object(f->dn));
    return 0;
}

int fat_split(struct fat *f, struct dbuf *db, struct leaf full, struct tx *tx)
{
    struct dbuf *fresh CLEANUP_DBUF = NULL;
    size_t size = 1u << f->bs;
    CLEANUP_FREE unsigned char *two = malloc(2 * size);
    int rc = two ? table_finish(f, tx) : -ENOMEM;
    if (rc == 0)
        rc = divide(f, full, two);
    if (rc == 0 && leaf_prefix_len(full) >= f->shift)
        rc = table_grow(f, tx);
    if (rc == 0)
        rc = dbuf_hold(f->dn, f->free_block, DBUF_NO_READ, &fresh);
    if (rc == 0)
        rc = dbuf_dirty(fresh, tx);
    if (rc == 0)
        rc = dbuf_dirty(db, tx);
    if (rc == 0)
        rc = dbuf_dirty(f->header, tx);
    if (rc < 0)
        return rc;
    struct leaf half = {two + size, f->bs};
    unsigned rest = f->shift - leaf_prefix_len(half);
    rc = table_set(f, leaf_prefix(half) << rest, 1ull << rest, f->free_block, tx);
    if (rc < 0)
        return rc;
    memcpy(dbuf_data(db), two, size);
    memcpy(dbuf_data(fresh), two + size, size);
    f->free_block++;
    f->leafs++;
    fat_store(f);
    return 0;
}
