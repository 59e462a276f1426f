/*
 * A dnode layer in memory for tests of what sits on it: included once by a test program, it takes
 * the place of dmu/dnode.c. It moves a block's data on every dbuf_dirty() (fake_moving), so that a
 * caller who keeps an old pointer is found out by the sanitizer, and fails the n-th fallible call
 * on demand (fake_fail_at).
 */
#ifndef TESTS_FAKE_DNODE_H
#define TESTS_FAKE_DNODE_H

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/tx.h"
#include "pool/pool.h"
#include "util/bytes.h"

static bool fake_moving = true;
static long fake_fail_at = -1; /* counts down; the call that reaches 0 fails */

struct dbuf {
    struct dnode *dn;
    uint64_t blkid;
    unsigned char *data;
    unsigned refs;
};

struct dnode {
    struct objset *os;
    uint64_t object;
    struct object_params params;
    uint32_t block_size;
    uint64_t max_blkid;
    struct dbuf **blocks;
    size_t nblocks;
    void *user[DNODE_USER_SLOTS];
    void (*user_free[DNODE_USER_SLOTS])(void *);
    unsigned refs;
    bool freed;
    unsigned char bonus[DNODE_MAX_SIZE];
    size_t bonus_len;
    unsigned char *spill;
    size_t spill_len;
};

#define FAKE_OBJECTS 1024
struct objset {
    struct pool pool;
    struct dnode *objects[FAKE_OBJECTS];
};

static uint64_t fake_random(struct env *e)
{
    uint64_t z = (e->state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static bool fake_fails(void)
{
    return fake_fail_at >= 0 && fake_fail_at-- == 0;
}

static struct objset *fake_objset(uint64_t seed)
{
    struct objset *os = calloc(1, sizeof *os);
    os->pool.env.random = fake_random;
    os->pool.env.state = seed;
    return os;
}

static void fake_drop_block(struct dnode *dn, uint64_t blkid)
{
    if (blkid < dn->nblocks && dn->blocks[blkid]) {
        assert(dn->blocks[blkid]->refs == 0);
        free(dn->blocks[blkid]->data);
        free(dn->blocks[blkid]);
        dn->blocks[blkid] = NULL;
    }
}

static void fake_drop_users(struct dnode *dn)
{
    for (int i = 0; i < DNODE_USER_SLOTS; i++) {
        if (dn->user[i])
            dn->user_free[i](dn->user[i]);
        dn->user[i] = NULL;
    }
}

static void fake_dnode_destroy(struct dnode *dn)
{
    fake_drop_users(dn);
    for (size_t i = 0; i < dn->nblocks; i++)
        fake_drop_block(dn, i);
    free(dn->blocks);
    free(dn->spill);
    free(dn);
}

static inline void fake_objset_free(struct objset *os)
{
    for (int i = 0; i < FAKE_OBJECTS; i++) {
        if (os->objects[i]) {
            assert(os->objects[i]->refs == 0);
            fake_dnode_destroy(os->objects[i]);
        }
    }
    free(os);
}

/* Forgets what is attached in memory, as if the dnode had been evicted and read again. */
static inline void fake_evict(struct dnode *dn)
{
    fake_drop_users(dn);
}

struct pool *objset_pool(const struct objset *os)
{
    return (struct pool *)&os->pool;
}

int object_create(struct objset *os, uint64_t number, const struct object_params *params,
                  struct tx *tx, struct dnode **out)
{
    if (fake_fails())
        return -ENOMEM;
    for (uint64_t n = number ? number : 1; n < FAKE_OBJECTS; n++) {
        if (os->objects[n]) {
            if (number)
                return -EEXIST;
            continue;
        }
        struct dnode *dn = calloc(1, sizeof *dn);
        dn->os = os;
        dn->object = n;
        dn->params = *params;
        dn->block_size = ROUND_UP(MAX(params->block_size, 512), 512);
        dn->refs = 1;
        os->objects[n] = dn;
        *out = dn;
        return 0;
    }
    return -ENOSPC;
}

int dnode_hold(struct objset *os, uint64_t object, struct dnode **out)
{
    if (object >= FAKE_OBJECTS || !os->objects[object])
        return -ENOENT;
    *out = os->objects[object];
    __atomic_add_fetch(&(*out)->refs, 1, __ATOMIC_RELAXED);
    return 0;
}

void dnode_ref(struct dnode *dn)
{
    __atomic_add_fetch(&dn->refs, 1, __ATOMIC_RELAXED);
}

void dnode_rele(struct dnode *dn)
{
    if (dn && __atomic_sub_fetch(&dn->refs, 1, __ATOMIC_ACQ_REL) == 0 && dn->freed)
        fake_dnode_destroy(dn);
}

int object_free(struct dnode *dn, struct tx *tx)
{
    fake_drop_users(dn);
    dn->os->objects[dn->object] = NULL;
    dn->freed = true;
    return 0;
}

struct objset *dnode_objset(const struct dnode *dn)
{
    return dn->os;
}
uint64_t dnode_object(const struct dnode *dn)
{
    return dn->object;
}
uint32_t dnode_block_size(const struct dnode *dn)
{
    return dn->block_size;
}
uint64_t dnode_max_blkid(const struct dnode *dn)
{
    return dn->max_blkid;
}

int dnode_set_block_size(struct dnode *dn, uint32_t size, uint8_t shift, struct tx *tx)
{
    if (dn->max_blkid > 0)
        return -EBUSY;
    if (fake_fails())
        return -ENOMEM;
    if (dn->nblocks > 0 && dn->blocks[0]) {
        assert(dn->blocks[0]->refs == 0);
        unsigned char *data = calloc(1, size);
        memcpy(data, dn->blocks[0]->data, MIN(size, dn->block_size));
        free(dn->blocks[0]->data);
        dn->blocks[0]->data = data;
    }
    dn->block_size = size;
    return 0;
}

int dnode_free_range(struct dnode *dn, uint64_t off, uint64_t n, struct tx *tx)
{
    uint64_t first = off / dn->block_size;
    uint64_t last = n == UINT64_MAX ? UINT64_MAX : (off + n) / dn->block_size;
    if (fake_fails())
        return -ENOMEM;
    for (uint64_t i = first; i < last && i < dn->nblocks; i++)
        fake_drop_block(dn, i);
    if (last > dn->max_blkid)
        dn->max_blkid = first ? MIN(dn->max_blkid, first - 1) : 0;
    return 0;
}

int dbuf_hold(struct dnode *dn, uint64_t blkid, unsigned flags, struct dbuf **out)
{
    if (dn->freed)
        return -ENOENT;
    if (blkid >= 1 << 20)
        return -EIO;
    if (fake_fails())
        return -ENOMEM;
    if (blkid >= dn->nblocks) {
        size_t n = 2 * blkid + 8;
        dn->blocks = realloc(dn->blocks, n * sizeof *dn->blocks);
        memset(dn->blocks + dn->nblocks, 0, (n - dn->nblocks) * sizeof *dn->blocks);
        dn->nblocks = n;
    }
    struct dbuf *db = dn->blocks[blkid];
    if (!db) {
        db = dn->blocks[blkid] = calloc(1, sizeof *db);
        db->dn = dn;
        db->blkid = blkid;
        db->data = calloc(1, dn->block_size);
    }
    __atomic_add_fetch(&db->refs, 1, __ATOMIC_RELAXED);
    *out = db;
    return 0;
}

void dbuf_rele(struct dbuf *db)
{
    __atomic_sub_fetch(&db->refs, 1, __ATOMIC_RELAXED);
}
void *dbuf_data(struct dbuf *db)
{
    return db->data;
}
size_t dbuf_size(const struct dbuf *db)
{
    return db->dn->block_size;
}
uint64_t dbuf_blkid(const struct dbuf *db)
{
    return db->blkid;
}

int dbuf_dirty(struct dbuf *db, struct tx *tx)
{
    assert(tx);
    if (fake_fails())
        return -ENOMEM;
    if (fake_moving) {
        unsigned char *data = malloc(db->dn->block_size);
        memcpy(data, db->data, db->dn->block_size);
        free(db->data);
        db->data = data;
    }
    db->dn->max_blkid = MAX(db->dn->max_blkid, db->blkid);
    return 0;
}

int dnode_write(struct dnode *dn, uint64_t off, const void *data, size_t n, struct tx *tx)
{
    for (const unsigned char *p = data; n > 0;) {
        struct dbuf *db;
        size_t at = off % dn->block_size, part = MIN(n, dn->block_size - at);
        int rc = dbuf_hold(dn, off / dn->block_size, 0, &db);
        if (rc == 0)
            rc = dbuf_dirty(db, tx);
        if (rc < 0)
            return rc;
        memcpy(db->data + at, p, part);
        dbuf_rele(db);
        p += part;
        off += part;
        n -= part;
    }
    return 0;
}

/* ---- Bonus and spill ---- */

uint8_t dnode_bonus_type(const struct dnode *dn)
{
    return dn->params.bonus_type;
}

size_t dnode_bonus_capacity(const struct dnode *dn, bool with_spill)
{
    return MAX(dn->params.dnode_size, 512) - 192 - (with_spill ? 128 : 0);
}

int dnode_bonus_get(struct dnode *dn, void *out, size_t cap, size_t *len)
{
    *len = dn->bonus_len;
    if (cap < dn->bonus_len)
        return -ERANGE;
    memcpy(out, dn->bonus, dn->bonus_len);
    return 0;
}

int dnode_bonus_set(struct dnode *dn, const void *data, size_t len, uint8_t type, struct tx *tx)
{
    if (len > dnode_bonus_capacity(dn, dn->spill))
        return -E2BIG;
    memcpy(dn->bonus, data, len);
    dn->bonus_len = len;
    if (type)
        dn->params.bonus_type = type;
    return 0;
}

int dnode_spill_get(struct dnode *dn, unsigned char **out, size_t *len)
{
    *out = NULL;
    *len = dn->spill_len;
    if (!dn->spill)
        return 0;
    *out = malloc(dn->spill_len);
    memcpy(*out, dn->spill, dn->spill_len);
    return 0;
}

int dnode_spill_set(struct dnode *dn, const void *data, size_t len, struct tx *tx)
{
    free(dn->spill);
    dn->spill_len = ROUND_UP(len, 512);
    dn->spill = len ? calloc(1, dn->spill_len) : NULL;
    if (len)
        memcpy(dn->spill, data, len);
    return 0;
}

void dnode_user_memory(struct dnode *dn, size_t bytes)
{
}

void *dnode_user(const struct dnode *dn, enum dnode_user_slot slot)
{
    return __atomic_load_n(&dn->user[slot], __ATOMIC_ACQUIRE);
}

void *dnode_user_attach(struct dnode *dn, enum dnode_user_slot slot, void *user,
                        void (*free_fn)(void *user))
{
    void *expected = NULL;
    dn->user_free[slot] = free_fn;
    if (__atomic_compare_exchange_n(&dn->user[slot], &expected, user, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return user;
    return expected;
}

#endif
