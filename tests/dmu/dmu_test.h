/*
 * Object sets on a pool in memory, synced by hand or by the txg engine, and an independent reader
 * that checks what is on the devices: fill counts, births, used, sizes, accounting, and that every
 * allocated byte belongs to exactly one block.
 */
#ifndef TESTS_DMU_DMU_TEST_H
#define TESTS_DMU_DMU_TEST_H

#include "../pool/pool_test.h"
#include "codec/checksum.h"
#include "codec/compress.h"
#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/tx.h"
#include "dmu/zap.h"
#include "pool/txg.h"
#include "util/rangeset.h"

#define SETS_MAX 4

struct dmu_pool {
    struct test_pool t;
    struct objset *sets[SETS_MAX];
    struct blkptr roots[SETS_MAX];
    unsigned count;
    uint64_t txg; /* open, when synced by hand */
    uint64_t born, killed;
    _Atomic int freeing; /* the error of a block that could not be freed, which only test_nomem.c has */
    bool nomem;
    unsigned check_every; /* check all sets after each n-th sync */
};

static const struct objset_props test_props = {
    .checksum = CHECKSUM_ON, .compress = COMPRESS_ON, .copies = 1, .recordsize = 131072,
    .dnodesize = 512,
};

static inline void check_pool(struct dmu_pool *p);

static inline int dmu_sync_txg(void *arg, uint64_t txg)
{
    struct dmu_pool *p = arg;
    struct tx tx;

    tx_begin_syncing(&tx, &p->t.pool, txg);
    for (unsigned i = 0; i < p->count; i++)
        assert_int_equal(objset_sync(p->sets[i], &tx, &p->roots[i]), 0);
    test_sync(&p->t, txg);
    if (p->check_every && txg % p->check_every == 0)
        check_pool(p);
    return 0;
}

/* fault may be NULL. */
static inline void dmu_pool_new_on(struct dmu_pool *p, uint64_t size, unsigned ashift,
                                   device_fault_fn *fault)
{
    struct test_vdev v = {size, ashift, VDEV_CLASS_NORMAL};
    struct txg_config config = {.sync = dmu_sync_txg, .arg = p, .timeout_ns = 5000000};

    memset(p, 0, sizeof *p);
    env_init_seeded(&p->t.env, 1);
    p->t.fault = fault;
    test_pool_new(&p->t, &v, 1);
    p->t.pool.features.lz4 = p->t.pool.features.project_quota = true;
    p->t.pool.features.large_blocks = true;
    assert_int_equal(txg_engine_new(&p->t.pool.txg, &config, TXG_INITIAL - 1), 0);
    p->txg = TXG_INITIAL;
    p->check_every = 1;
}

static inline void dmu_pool_new(struct dmu_pool *p)
{
    dmu_pool_new_on(p, 256 << 20, 9, NULL);
}

static inline void dmu_pool_free(struct dmu_pool *p)
{
    for (unsigned i = 0; i < p->count; i++)
        objset_close(p->sets[i]);
    txg_engine_free(p->t.pool.txg);
    test_pool_free(&p->t);
}

/* A tx of the open txg, for pools synced by hand. */
static inline struct tx open_tx(struct dmu_pool *p)
{
    return (struct tx){.pool = &p->t.pool, .txg = p->txg};
}

static inline void sync_now(struct dmu_pool *p)
{
    assert_int_equal(dmu_sync_txg(p, p->txg), 0);
    p->txg++;
}

static inline void count_born(void *arg, const struct blkptr *bp, struct tx *tx)
{
    struct dmu_pool *p = arg;

    assert_int_equal(bp_birth(bp), tx->txg);
    __atomic_fetch_add(&p->born, block_dsize(&p->t.pool, bp), __ATOMIC_RELAXED);
}

static inline void count_killed(void *arg, const struct blkptr *bp, struct tx *tx)
{
    struct dmu_pool *p = arg;
    int rc;

    assert_false(bp_hole(bp));
    __atomic_fetch_add(&p->killed, block_dsize(&p->t.pool, bp), __ATOMIC_RELAXED);
    rc = block_free(&p->t.pool, tx->txg, p->t.pool.batch, bp);
    if (rc && p->nomem)
        p->freeing = rc;
    else
        assert_int_equal(rc, 0);
}

static inline struct objset *add_set(struct dmu_pool *p, enum objset_type type, uint64_t flags,
                              const struct objset_props *props)
{
    static const struct objset_ops ops = {.born = count_born, .killed = count_killed};
    struct tx tx = open_tx(p);
    struct objset *os;

    assert_int_equal(objset_create(&os, &p->t.pool, type == OBJSET_META ? 0 : 54 + p->count, type,
                                   flags, props, &ops, p, &tx),
                     0);
    p->sets[p->count++] = os;
    return os;
}

/* Forgets everything in memory and opens the sets again. */
static inline void reopen(struct dmu_pool *p)
{
    static const struct objset_ops ops = {.born = count_born, .killed = count_killed};

    for (unsigned i = 0; i < p->count; i++) {
        struct objset_props props;
        uint64_t id = objset_id(p->sets[i]);
        objset_props(p->sets[i], &props);
        objset_close(p->sets[i]);
        assert_int_equal(objset_open(&p->sets[i], &p->t.pool, id, &p->roots[i], &props, &ops, p), 0);
    }
}

/* ---- The independent reader (little-endian hosts) ---- */

struct check {
    struct dmu_pool *p;
    struct rangeset *owned; /* offsets on vdev 0 */
    uint64_t space;
    uint64_t dsize;         /* of what was visited since it was last cleared */
    uint64_t sums[3][64][2];
    uint64_t ids[3][64];
};

static inline uint64_t check_u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static inline struct buf *check_read(struct check *c, const struct blkptr *bp)
{
    struct buf *b;

    assert_int_equal(bp_check(bp), 0);
    if (!bp_embedded(bp)) {
        for (int i = 0; i < bp_copies(bp); i++) {
            uint64_t off = dva_offset(bp, i), n = dva_asize(bp, i);
            c->space += n;
            assert_int_equal(dva_vdev(bp, i), 0);
            if (!dva_gang(bp, i) || i == 0)
                assert_int_equal(rangeset_add_exact(c->owned, off, off + n), 0);
        }
        c->dsize += block_dsize(&c->p->t.pool, bp);
    }
    assert_int_equal(block_read(&c->p->t.pool, bp, NULL, &b), 0);
    assert_int_equal(b->size, bp_lsize(bp));
    return b;
}

typedef void leaf_fn(struct check *c, void *arg, uint64_t blkid, const struct blkptr *bp,
                     struct buf *b, uint64_t *fill);

/* Checks a pointer and what is below; its fill. */
static inline uint64_t check_ptr(struct check *c, const unsigned char *dn, unsigned level, uint64_t blkid,
                          const struct blkptr *bp, uint64_t parent_birth, leaf_fn *leaf, void *arg)
{
    unsigned epbs = dn[1] - 7u;
    uint64_t bs = (uint64_t)(dn[8] | dn[9] << 8) << 9, fill = 0, maxblk = check_u64(dn + 16);
    bool data = false;
    struct buf *b;

    assert_true(bp_birth(bp) <= parent_birth);
    if (bp_hole(bp)) {
        struct blkptr want;
        if (bp_birth(bp) == 0) {
            static const struct blkptr zero;
            assert_memory_equal(bp, &zero, sizeof zero);
            return 0;
        }
        bp_set_hole(&want, dn[0], level, bp_lsize(bp), bp_birth(bp));
        want.w[6] = (want.w[6] & ~(0xffull << 48)) | (uint64_t)bp_type(bp) << 48;
        assert_memory_equal(bp, &want, sizeof want);
        return 0;
    }
    if (blkid > maxblk >> (epbs * level))
        fail_msg("block %u:%llu exists, the last is %llu", level, (unsigned long long)blkid,
                 (unsigned long long)maxblk);
    assert_int_equal(bp_level(bp), level);
    assert_int_equal(bp_type(bp), dn[0]);
    assert_int_equal(bp_lsize(bp), level ? 1ull << dn[1] : bs);
    b = check_read(c, bp);
    if (level == 0) {
        fill = 1;
        if (leaf)
            leaf(c, arg, blkid, bp, b, &fill);
    }
    for (uint64_t i = 0; level > 0 && i < 1ull << epbs; i++) {
        struct blkptr child;
        bp_decode(&child, b->data + 128 * i, false);
        data |= !bp_hole(&child);
        fill += check_ptr(c, dn, level - 1, (blkid << epbs) + i, &child, bp_birth(bp), leaf, arg);
    }
    assert_true(level == 0 || data);
    assert_int_equal(bp_fill(bp), fill);
    buf_unref(b);
    return fill;
}

/* Checks an object's tree; sum of the fills of its pointers. */
static inline uint64_t check_dnode(struct check *c, const unsigned char *dn, leaf_fn *leaf, void *arg)
{
    uint64_t fill = 0, used, bs = (uint64_t)(dn[8] | dn[9] << 8) << 9;
    unsigned size = (dn[12] + 1u) * 512, bonus = 64 + 128 * dn[3];
    unsigned len = dn[10] | dn[11] << 8, spill = dn[7] & 4 ? 128 : 0;
    struct blkptr bp;

    assert_in_range(dn[3], 1, 3);
    assert_true(bonus + len + spill <= size);
    assert_true(bs != 0 && ((bs & (bs - 1)) == 0 || check_u64(dn + 16) == 0));
    for (unsigned i = bonus + len; i < size - spill; i++)
        assert_int_equal(dn[i], 0);
    c->dsize = 0;
    for (unsigned i = 0; i < dn[3]; i++) {
        bp_decode(&bp, dn + 64 + 128 * i, false);
        fill += check_ptr(c, dn, dn[2] - 1u, i, &bp, UINT64_MAX, leaf, arg);
    }
    if (spill) {
        bp_decode(&bp, dn + size - 128, false);
        assert_false(bp_hole(&bp));
        assert_int_equal(bp_type(&bp), dn[4]);
        assert_int_equal(bp_fill(&bp), 1);
        buf_unref(check_read(c, &bp));
    }
    used = check_u64(dn + 24);
    if (!leaf)
        assert_int_equal(used, c->dsize);
    if (used)
        assert_true(dn[7] & 1);
    return fill;
}

static inline void check_charge(struct check *c, unsigned kind, uint64_t id, uint64_t space)
{
    unsigned i = 0;

    while (c->sums[kind][i][1] && c->ids[kind][i] != id)
        assert_true(++i < 64);
    c->ids[kind][i] = id;
    c->sums[kind][i][0] += space;
    c->sums[kind][i][1]++;
}

/* The fixed prefix of 06 4.4. */
static inline void check_owner(struct check *c, const unsigned char *dn)
{
    const unsigned char *sa = dn + 64 + 128 * dn[3];
    unsigned header = sa[5] >> 2 ? (sa[5] >> 2) * 8u : 8;
    uint64_t space = 512 + check_u64(dn + 24);

    if (dn[4] != OT_SA)
        return;
    assert_int_equal(dn[7] & 10, 10);
    sa += header;
    check_charge(c, 0, check_u64(sa + 24), space);
    check_charge(c, 1, check_u64(sa + 32), space);
    check_charge(c, 2, check_u64(sa + 48) >> 47 & 1 ? check_u64(sa + 128) : 0, space);
}

struct check_set {
    struct objset *os;
    bool accounted;
    uint64_t meta_dsize;
};

static inline void check_dnode_block(struct check *c, void *arg, uint64_t blkid, const struct blkptr *bp,
                              struct buf *b, uint64_t *fill)
{
    struct check_set *set = arg;
    uint64_t meta = c->dsize;

    *fill = 0;
    for (unsigned i = 0; i < 32;) {
        const unsigned char *dn = b->data + 512 * i;
        if (dn[0] == 0) {
            assert_true(buf_is_zero(dn, 512));
            i++;
            continue;
        }
        assert_true(i + dn[12] < 32);
        assert_true(blkid + i > 0);
        check_dnode(c, dn, NULL, NULL);
        if (set->accounted)
            check_owner(c, dn);
        ++*fill;
        i += dn[12] + 1u;
    }
    assert_true(*fill > 0);
    c->dsize = meta;
}

static inline void check_account(struct check *c, struct objset *os)
{
    unsigned kinds = objset_flags(os) & OBJSET_FLAG_PROJECTQUOTA ? 3 : 2;

    for (unsigned kind = 0; kind < kinds; kind++) {
        struct zap_cursor cursor;
        struct zap_entry e;
        struct dnode *dn;
        uint64_t n = 0, want = 0;
        assert_int_equal(dnode_hold(os, UINT64_MAX - kind, &dn), 0);
        zap_cursor_init(&cursor, dn, 0);
        while (zap_cursor_next(&cursor, &e) == 0) {
            bool objects = strncmp(e.name, "obj-", 4) == 0;
            uint64_t id = strtoull(e.name + (objects ? 4 : 0), NULL, 16);
            unsigned i = 0;
            while (c->ids[kind][i] != id || !c->sums[kind][i][1])
                assert_true(++i < 64);
            assert_int_equal(e.first, c->sums[kind][i][objects]);
            n++;
        }
        for (unsigned i = 0; i < 64; i++)
            want += c->sums[kind][i][1] ? 2 : 0;
        assert_int_equal(n, want);
        dnode_rele(dn);
    }
}

static inline void check_set(struct check *c, struct objset *os, const struct blkptr *root)
{
    struct check_set set = {.os = os,
                            .accounted = objset_type(os) == OBJSET_ZPL && objset_flags(os) & 1};
    struct buf *b = check_read(c, root);

    memset(c->sums, 0, sizeof c->sums);
    memset(c->ids, 0, sizeof c->ids);
    assert_int_equal(b->size, 4096);
    c->dsize = 0;
    assert_int_equal(check_dnode(c, b->data, check_dnode_block, &set), bp_fill(root));
    assert_int_equal(check_u64(b->data + 24), c->dsize);
    assert_int_equal(check_u64(b->data + 704), objset_type(os));
    assert_int_equal(bp_fill(root), objset_object_count(os));
    for (unsigned i = 0; i < 3; i++)
        if (b->data[1024 + 512 * i])
            check_dnode(c, b->data + 1024 + 512 * i, NULL, NULL);
    buf_unref(b);
    if (set.accounted)
        check_account(c, os);
}

static inline void check_pool(struct dmu_pool *p)
{
    struct check c = {.p = p, .owned = rangeset_new()};

    for (unsigned i = 0; i < p->count; i++)
        check_set(&c, p->sets[i], &p->roots[i]);
    assert_int_equal(rangeset_total(c.owned), test_allocated(&p->t));
    assert_int_equal(c.space, test_allocated(&p->t));
    rangeset_free(c.owned);
}

#endif
