/*
 * A pool on a device in memory with a MOS and a DSL, synced by a txg engine whose sync function does what
 * spa does, space maps aside; and a checker that recomputes the books of spec 04 8.1 from the objects,
 * without the code under test.
 */
#ifndef TESTS_DSL_DSL_TEST_H
#define TESTS_DSL_DSL_TEST_H

#include "../pool/pool_test.h"
#include "codec/checksum.h"
#include "codec/compress.h"
#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/tx.h"
#include "dmu/zap.h"
#include "dsl/bookmark.h"
#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "dsl/feature.h"
#include "dsl/dsl_impl.h"
#include "dsl/props.h"
#include "nvlist/nvlist.h"

struct dsl_test {
    struct test_pool t;
    struct objset *mos;
    struct dsl *dsl;
    struct dsl_mos_space space;
    struct blkptr root; /* of the MOS */
    bool creating;
    bool features[FEATURE_COUNT];
    bool check;         /* recompute everything after each txg */
    bool hold_frees;    /* no background freeing */
    unsigned passes;
};

static void check_books(struct dsl_test *p);

static inline int test_format(struct objset *os, uint32_t uid, uint32_t gid, bool with_projid, struct tx *tx)
{
    struct object_params params = {.type = OT_MASTER_NODE};
    struct dnode *dn;
    uint64_t version = 5;
    int rc = object_create(os, 1, &params, tx, &dn);

    if (rc == 0)
        rc = zap_format(dn, 0, tx);
    if (rc == 0)
        rc = zap_add(dn, "VERSION", 8, 1, &version, tx);
    dnode_rele(dn);
    return rc;
}

static const struct objset_props mos_props = {.checksum = CHECKSUM_FLETCHER4, .compress = COMPRESS_ON,
                                              .copies = 3, .recordsize = 131072, .dnodesize = 512};
static const struct objset_ops mos_ops = {.born = dsl_mos_born, .killed = dsl_mos_killed};

static inline int create_mos(struct dsl_test *p, struct tx *tx)
{
    struct object_params params = {.type = OT_OBJECT_DIRECTORY};
    struct dnode *dn;

    assert_int_equal(object_create(p->mos, 1, &params, tx, &dn), 0);
    assert_int_equal(zap_format(dn, 0, tx), 0);
    dnode_rele(dn);
    assert_int_equal(dsl_create(&p->dsl, &p->t.pool, p->mos, p->features, 0, 0, tx), 0);
    dsl_set_mos_space(p->dsl, &p->space);
    return dsl_sync_again(p->dsl, tx);
}

static inline int test_dsl_sync(void *arg, uint64_t txg)
{
    struct dsl_test *p = arg;
    struct pool *pool = &p->t.pool;
    struct tx tx;
    bool more;

    tx_begin_syncing(&tx, pool, txg);
    struct block_batch *batch = NULL;
    assert_int_equal(block_batch_new(&batch), 0);
    block_set_batch(pool, batch);
    if (p->creating) {
        assert_int_equal(create_mos(p, &tx), 0);
    } else {
        assert_int_equal(dsl_sync(p->dsl, &tx), 0);
        if (!p->hold_frees)
            assert_int_equal(dsl_sync_free(p->dsl, &tx, false, &more), 0);
    }
    for (p->passes = 1;; p->passes++) {
        assert_true(p->passes < 40);
        assert_int_equal(dsl_sync_again(p->dsl, &tx), 0);
        assert_int_equal(dsl_sync_mos_delta(p->dsl, &tx), 0);
        pool->no_compress = p->passes >= 8;
        if (!objset_dirty(p->mos, txg))
            break;
        assert_int_equal(objset_sync(p->mos, &tx, &p->root), 0);
    }
    pool->no_compress = false;
    assert_int_equal(block_batch_submit(pool, pool->batch), 0);
    block_set_batch(pool, NULL);
    block_batch_free(batch);
    test_sync(&p->t, txg);
    dsl_sync_done(p->dsl, txg);
    if (p->check)
        check_books(p);
    return 0;
}

static inline bool test_dsl_wanted(void *arg)
{
    struct dsl_test *p = arg;

    return !p->hold_frees && dsl_sync_wanted(p->dsl, txg_open_number(p->t.pool.txg));
}

static inline void start_engine(struct dsl_test *p, uint64_t synced)
{
    struct txg_config config = {.sync = test_dsl_sync, .wanted = test_dsl_wanted, .arg = p,
                                .timeout_ns = 50000000};

    assert_int_equal(txg_engine_new(&p->t.pool.txg, &config, synced), 0);
    assert_int_equal(txg_engine_start(p->t.pool.txg), 0);
}

/* features: NULL = the default set. */
static inline void dsl_test_new(struct dsl_test *p, uint64_t size, unsigned ashift, const bool *features)
{
    struct test_vdev v = {size, ashift, VDEV_CLASS_NORMAL};
    struct tx tx;

    memset(p, 0, sizeof *p);
    p->t.env = test_env();
    test_pool_new(&p->t, &v, 1);
    for (int f = 0; f < FEATURE_COUNT; f++)
        p->features[f] = features ? features[f] : (feature_info(f)->flags & FEATURE_DEFAULT) != 0;
    p->t.pool.features.lz4 = p->features[FEATURE_LZ4_COMPRESS];
    p->t.pool.features.large_blocks = p->features[FEATURE_LARGE_BLOCKS];
    p->t.pool.features.large_dnode = p->features[FEATURE_LARGE_DNODE];
    p->t.pool.features.embedded_data = p->features[FEATURE_EMBEDDED_DATA];
    p->t.pool.features.hole_birth = p->features[FEATURE_HOLE_BIRTH];
    p->t.pool.features.userobj_accounting = p->features[FEATURE_USEROBJ_ACCOUNTING];
    p->t.pool.features.project_quota = p->features[FEATURE_PROJECT_QUOTA];
    dsl_register_format(test_format);
    p->check = true;
    p->creating = true;
    tx_begin_syncing(&tx, &p->t.pool, TXG_INITIAL);
    assert_int_equal(objset_create(&p->mos, &p->t.pool, 0, OBJSET_META, 0, &mos_props, &mos_ops,
                                   &p->space, &tx), 0);
    assert_int_equal(test_dsl_sync(p, TXG_INITIAL), 0);
    p->creating = false;
    start_engine(p, TXG_INITIAL);
}

/* Only $ORIGIN@$ORIGIN may still be held. */
static inline void check_released(struct dsl *dsl)
{
    for (size_t i = 0; i <= dsl->datasets.mask; i++) {
        for (struct hashmap_node *n = dsl->datasets.slots[i]; n; n = n->next) {
            struct dataset *ds = container_of(n, struct dataset, node);
            char name[DATASET_NAME_MAX];

            dataset_name(ds, name);
            if (ds != dsl->origin)
                fail_msg("%s is still held %u times", name, ds->refs);
        }
    }
}

static inline void dsl_test_close(struct dsl_test *p)
{
    txg_engine_stop(p->t.pool.txg);
    check_released(p->dsl);
    dsl_close(p->dsl);
    objset_close(p->mos);
    p->dsl = NULL;
    p->mos = NULL;
}

static inline void dsl_test_free(struct dsl_test *p)
{
    dsl_test_close(p);
    txg_engine_free(p->t.pool.txg);
    test_pool_free(&p->t);
}

static inline void dsl_test_open(struct dsl_test *p)
{
    uint64_t synced = txg_synced_number(p->t.pool.txg);

    txg_engine_free(p->t.pool.txg);
    p->t.pool.txg = NULL;
    assert_int_equal(objset_open(&p->mos, &p->t.pool, 0, &p->root, &mos_props, &mos_ops, &p->space), 0);
    assert_int_equal(dsl_open(&p->dsl, &p->t.pool, p->mos), 0);
    dsl_set_mos_space(p->dsl, &p->space);
    start_engine(p, synced);
}

static inline void dsl_test_reopen(struct dsl_test *p)
{
    dsl_test_close(p);
    dsl_test_open(p);
}

static inline void wait_txg(struct dsl_test *p)
{
    assert_int_equal(txg_wait_synced(p->t.pool.txg, 0), 0);
}

/* ---- Files' worth of objects ---- */

static inline uint64_t make_object(struct dsl_test *p, struct dataset *ds, uint32_t block)
{
    struct object_params params = {.type = OT_PLAIN_FILE, .block_size = block};
    struct objset *os;
    struct dnode *dn;
    struct tx tx;
    uint64_t object;

    assert_int_equal(dataset_objset(ds, &os), 0);
    assert_int_equal(dataset_tx_begin(ds, DATASET_TX_WRITE, 65536, &tx), 0);
    assert_int_equal(object_create(os, 0, &params, &tx, &dn), 0);
    object = dnode_object(dn);
    dnode_rele(dn);
    dataset_tx_end(&tx);
    return object;
}

/* Writes n random bytes; zeros compress, noise does not. */
static inline int write_object(struct dsl_test *p, struct dataset *ds, uint64_t object, uint64_t off, size_t n,
                        bool noise)
{
    unsigned char *data = malloc(n);
    struct objset *os;
    struct dnode *dn;
    struct tx tx;
    int rc;

    for (size_t i = 0; i < n; i++)
        data[i] = noise ? (unsigned char)p->t.env.random(&p->t.env) : (unsigned char)(i / 64);
    assert_int_equal(dataset_objset(ds, &os), 0);
    rc = dataset_tx_begin(ds, DATASET_TX_WRITE, n, &tx);
    if (rc == 0) {
        assert_int_equal(dnode_hold(os, object, &dn), 0);
        assert_int_equal(dnode_write(dn, off, data, n, &tx), 0);
        dnode_rele(dn);
        dataset_tx_end(&tx);
    }
    free(data);
    return rc;
}

static inline void free_object(struct dsl_test *p, struct dataset *ds, uint64_t object)
{
    struct objset *os;
    struct dnode *dn;
    struct tx tx;

    assert_int_equal(dataset_objset(ds, &os), 0);
    assert_int_equal(dataset_tx_begin(ds, DATASET_TX_FREE, 65536, &tx), 0);
    assert_int_equal(dnode_hold(os, object, &dn), 0);
    assert_int_equal(object_free(dn, &tx), 0);
    dnode_rele(dn);
    dataset_tx_end(&tx);
}

static inline struct dataset *hold(struct dsl_test *p, const char *name)
{
    struct dataset *ds = NULL;
    int rc = dataset_hold(p->dsl, name, &ds);

    if (rc != 0)
        fail_msg("hold %s: %s", name, err_text(rc));
    return ds;
}

static inline void snapshot(struct dsl_test *p, const char *name)
{
    int rc = dataset_snapshot(p->dsl, &name, 1, NULL, 0);

    if (rc != 0)
        fail_msg("snapshot %s: %s", name, err_text(rc));
}

static inline void set_prop(struct dsl_test *p, const char *ds, const char *name, const char *value)
{
    struct nvlist *l = nvlist_new();
    int rc;

    nvlist_add_string(l, name, value);
    rc = prop_set(p->dsl, ds, l);
    if (rc != 0)
        fail_msg("set %s=%s: %s", name, value, err_text(rc));
    nvlist_free(l);
}

/* ---- The books, recomputed ---- */

struct sum {
    uint64_t d, p, u;
};

struct books {
    struct dsl_test *t;
    struct rangeset *owned;     /* every allocated range that something refers to */
    uint64_t refs[FEATURE_COUNT]; /* counted */
    uint64_t zapified, root, origin, empty;
    uint64_t free_bpobj, bptree;
};

static inline uint64_t bk_word(struct books *b, uint64_t object, unsigned word)
{
    uint64_t w[40] = {0};
    struct dnode *dn;
    size_t len;

    assert_int_equal(dnode_hold(b->t->mos, object, &dn), 0);
    assert_int_equal(dnode_bonus_get(dn, w, sizeof w, &len), 0);
    dnode_rele(dn);
    assert_true(word * 8 < len);
    return w[word];
}

static inline void bk_add(struct books *b, struct sum *s, const struct blkptr *bp)
{
    if (!bp_embedded(bp)) {
        s->d += block_dsize(&b->t->t.pool, bp);
        s->p += bp_psize(bp);
    }
    if (bp_embedded(bp))
        s->u += bp_metadata(bp) ? 0 : bp_lsize(bp);
    else
        s->u += bp_metadata(bp) ? bp_psize(bp) : bp_lsize(bp);
}

static inline void bk_own(struct books *b, const struct blkptr *bp)
{
    for (int i = 0; !bp_embedded(bp) && !bp_hole(bp) && i < bp_copies(bp); i++)
        assert_int_equal(rangeset_add(b->owned, dva_offset(bp, i),
                                      dva_offset(bp, i) + dva_asize(bp, i)), 0);
}

struct bk_walk {
    struct books *b;
    struct sum s;
};

static inline int bk_walk_block(void *arg, const struct blkptr *bp, const struct bookmark *bm)
{
    struct bk_walk *w = arg;

    bk_add(w->b, &w->s, bp);
    bk_own(w->b, bp);
    return 0;
}

static inline struct sum bk_tree_from(struct books *b, const struct blkptr *bp, uint64_t since,
                                      const struct bookmark *from)
{
    struct bk_walk w = {.b = b};

    if (!bp_hole(bp))
        assert_int_equal(objset_walk_from(&b->t->t.pool, 0, bp, since, from, bk_walk_block, &w), 0);
    return w.s;
}

static inline struct sum bk_tree(struct books *b, const struct blkptr *bp, uint64_t since)
{
    return bk_tree_from(b, bp, since, NULL);
}

static inline void bk_bp(struct books *b, uint64_t ds, struct blkptr *bp)
{
    for (unsigned i = 0; i < 16; i++)
        bp->w[i] = bk_word(b, ds, 16 + i);
}

/* Sums of a block list from its entries; births in (lo, hi]. */
static inline struct sum bk_bpobj(struct books *b, uint64_t object, uint64_t lo, uint64_t hi)
{
    struct sum s = {0};
    uint64_t count = bk_word(b, object, 0), subs = bk_word(b, object, 4), nsub = bk_word(b, object, 5);
    struct dnode *dn;

    assert_int_equal(dnode_hold(b->t->mos, object, &dn), 0);
    for (uint64_t i = 0; i < count; i++) {
        unsigned char bytes[128];
        struct blkptr bp;

        assert_int_equal(dnode_read(dn, i * 128, bytes, 128), 0);
        bp_decode(&bp, bytes, false);
        assert_true(bp_alloc_birth(&bp) > lo && bp_alloc_birth(&bp) <= hi);
        bk_add(b, &s, &bp);
        bk_own(b, &bp);
    }
    dnode_rele(dn);
    for (uint64_t i = 0; i < nsub; i++) {
        uint64_t sub;
        struct sum t;

        assert_int_equal(dnode_hold(b->t->mos, subs, &dn), 0);
        assert_int_equal(dnode_read(dn, i * 8, &sub, 8), 0);
        dnode_rele(dn);
        t = bk_bpobj(b, sub, lo, hi);
        s.d += t.d;
        s.p += t.p;
        s.u += t.u;
    }
    assert_int_equal(s.d, bk_word(b, object, 1));
    assert_int_equal(s.p, bk_word(b, object, 2));
    assert_int_equal(s.u, bk_word(b, object, 3));
    return s;
}

struct dl {
    size_t n;
    uint64_t key[512];
    struct sum s[512];
    struct sum total;
};

/* Invariant 12. */
static inline void bk_deadlist(struct books *b, uint64_t object, uint64_t prev_txg, struct dl *out)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *dn;
    uint64_t lists[512];

    memset(out, 0, sizeof *out);
    assert_int_equal(dnode_hold(b->t->mos, object, &dn), 0);
    assert_int_equal(dnode_type(dn), OT_DEADLIST);
    zap_cursor_init(&c, dn, 0);
    while (zap_cursor_next(&c, &e) == 0) {
        uint64_t key = strtoull(e.name, NULL, 16);
        size_t at = out->n++;

        assert_true(out->n < 512);
        for (; at > 0 && out->key[at - 1] > key; at--) {
            out->key[at] = out->key[at - 1];
            lists[at] = lists[at - 1];
        }
        out->key[at] = key;
        lists[at] = e.first;
    }
    dnode_rele(dn);
    for (size_t i = 0; i < out->n; i++) {
        uint64_t hi = i + 1 < out->n ? out->key[i + 1] : UINT64_MAX;

        if (lists[i] == b->empty)
            b->refs[FEATURE_EMPTY_BPOBJ]++;
        out->s[i] = bk_bpobj(b, lists[i], out->key[i], hi < prev_txg ? hi : prev_txg);
        out->total.d += out->s[i].d;
        out->total.p += out->s[i].p;
        out->total.u += out->s[i].u;
    }
    assert_int_equal(out->total.d, bk_word(b, object, 0));
    assert_int_equal(out->total.p, bk_word(b, object, 1));
    assert_int_equal(out->total.u, bk_word(b, object, 2));
}

static inline struct sum bk_space(const struct dl *l, uint64_t lo, uint64_t hi)
{
    struct sum s = {0};

    for (size_t i = 0; i < l->n; i++) {
        if (l->key[i] < lo || l->key[i] >= hi)
            continue;
        s.d += l->s[i].d;
        s.p += l->s[i].p;
        s.u += l->s[i].u;
    }
    return s;
}

static inline void bk_features(struct books *b, uint64_t object)
{
    struct dnode *dn;

    assert_int_equal(dnode_hold(b->t->mos, object, &dn), 0);
    if (dnode_type(dn) == OT_ZAP_METADATA) {
        b->zapified++;
        for (int f = 0; f < FEATURE_COUNT; f++) {
            unsigned size;
            size_t count;

            if ((feature_info(f)->flags & FEATURE_DATASET) &&
                zap_length(dn, feature_info(f)->guid, &size, &count) == 0)
                b->refs[f]++;
        }
    }
    dnode_rele(dn);
}

/* A head or snapshot: its tree, its deadlist. */
static inline void bk_dataset(struct books *b, uint64_t ds, struct dl *l)
{
    struct blkptr bp;
    struct sum s;

    bk_features(b, ds);
    bk_bp(b, ds, &bp);
    s = bk_tree(b, &bp, 0);
    assert_int_equal(s.d, bk_word(b, ds, 9));
    assert_int_equal(s.p, bk_word(b, ds, 10));
    assert_int_equal(s.u, bk_word(b, ds, 11));
    bk_deadlist(b, bk_word(b, ds, 8), bk_word(b, ds, 2), l);
}

static inline uint64_t bk_zap_count(struct books *b, uint64_t object)
{
    struct dnode *dn;
    uint64_t n;

    if (object == 0)
        return 0;
    assert_int_equal(dnode_hold(b->t->mos, object, &dn), 0);
    assert_int_equal(zap_count(dn, &n), 0);
    dnode_rele(dn);
    return n;
}

/* Invariants 9 and 10 of a snapshot, given the deadlist of what follows it. */
static inline void bk_snapshot(struct books *b, uint64_t s, const struct dl *next)
{
    assert_int_equal(bk_word(b, s, 12), bk_space(next, bk_word(b, s, 2), UINT64_MAX).d);
    assert_int_equal(bk_word(b, s, 5), 1 + bk_zap_count(b, bk_word(b, s, 32)));
}

struct bk_marks {
    struct books *b;
    struct dataset *head;
    struct blkptr bp;
    uint64_t origin_txg;
};

/* What was written since a bookmark is what the tree has that is younger. */
static inline int bk_mark(void *arg, const struct bookmark_stats *s)
{
    struct bk_marks *m = arg;
    uint64_t written;

    m->b->refs[FEATURE_BOOKMARK_WRITTEN] += s->sized;
    m->b->refs[FEATURE_BOOKMARK_V2] += s->sized;
    if (s->sized && s->creation_txg > m->origin_txg) {
        assert_int_equal(dataset_written_since(m->head, strchr(s->name, '#'), &written), 0);
        assert_int_equal(written, bk_tree(m->b, &m->bp, s->creation_txg).d);
    }
    return 0;
}

static inline void bk_bookmarks(struct books *b, uint64_t head, uint64_t origin_txg)
{
    struct bk_marks m = {.b = b, .origin_txg = origin_txg};
    struct dnode *dn;
    uint64_t zap;

    assert_int_equal(dnode_hold(b->t->mos, head, &dn), 0);
    if (dnode_type(dn) == OT_ZAP_METADATA && zap_lookup(dn, "com.delphix:bookmarks", 8, 1, &zap) == 0) {
        assert_true(bk_zap_count(b, zap) > 0);
        b->refs[FEATURE_BOOKMARKS]++;
        assert_int_equal(dataset_hold_object(b->t->dsl, head, &m.head), 0);
        bk_bp(b, head, &m.bp);
        assert_int_equal(bookmark_each(m.head, bk_mark, &m), 0);
        dataset_rele(m.head);
    }
    dnode_rele(dn);
}

/* Snapshots of a dir and its head: invariants 4 to 9. */
static inline struct sum bk_head(struct books *b, uint64_t dir, uint64_t head)
{
    uint64_t origin = bk_word(b, dir, 3), o = 0, x, used[5], r = 0, snaps = 0;
    struct sum snap = {0}, old = {0}, own = {0};
    static struct dl l, next;

    if (origin != b->origin && origin != 0)
        o = bk_word(b, origin, 7);
    for (int i = 0; i < 5; i++)
        used[i] = bk_word(b, dir, 13 + i);
    for (x = head; x != 0 && bk_word(b, x, 0) == dir; x = bk_word(b, x, 1)) {
        struct sum s, t;

        bk_dataset(b, x, &l);
        s = bk_space(&l, o, UINT64_MAX);
        t = bk_space(&l, 0, o);
        snap.d += s.d;
        snap.p += s.p;
        snap.u += s.u;
        old.d += t.d;
        old.p += t.p;
        old.u += t.u;
        if (x != head) {
            bk_snapshot(b, x, &next);
            snaps++;
        } else if (bk_word(b, x, 1) != 0) {
            assert_int_equal(bk_word(b, x, 12),
                             bk_word(b, x, 9) - (bk_word(b, bk_word(b, x, 1), 9) - l.total.d));
        }
        next = l;
    }
    assert_int_equal(snaps, bk_zap_count(b, bk_word(b, head, 4)));
    bk_bookmarks(b, head, o);
    own.d = bk_word(b, head, 9);
    own.p = bk_word(b, head, 10);
    own.u = bk_word(b, head, 11);
    if (o != 0) {
        own.d += old.d - bk_word(b, origin, 9);
        own.p += old.p - bk_word(b, origin, 10);
        own.u += old.u - bk_word(b, origin, 11);
    }
    zap_get_u64(b->t->mos, bk_word(b, dir, 10), "refreservation", &r);
    assert_int_equal(used[0], own.d);
    assert_int_equal(used[1], snap.d);
    assert_int_equal(used[4], r > bk_word(b, head, 12) ? r - bk_word(b, head, 12) : 0);
    own.p += snap.p;
    own.u += snap.u;
    return own;
}

static inline struct sum bk_mos(struct books *b)
{
    return bk_tree(b, &b->t->root, 0);
}

static inline uint64_t bk_mos_key(struct books *b, const char *key)
{
    uint64_t v = 0;

    zap_get_u64(b->t->mos, 1, key, &v);
    return v;
}

/* $FREE: free_bpobj and what the bptree still holds (invariant 13). */
static inline struct sum bk_free(struct books *b)
{
    struct sum s = bk_bpobj(b, b->free_bpobj, 0, UINT64_MAX), tree = {0};
    struct dnode *dn;

    if (b->bptree == 0)
        return s;
    b->refs[FEATURE_ASYNC_DESTROY] = 1;
    assert_int_equal(dnode_hold(b->t->mos, b->bptree, &dn), 0);
    for (uint64_t i = bk_word(b, b->bptree, 0); i < bk_word(b, b->bptree, 1); i++) {
        unsigned char e[168];
        struct blkptr bp;
        struct bookmark from;
        struct sum t;

        assert_int_equal(dnode_read(dn, i * 168, e, 168), 0);
        bp_decode(&bp, e, false);
        from = (struct bookmark){0, get_le64(e + 144), (int64_t)get_le64(e + 152), get_le64(e + 160)};
        t = bk_tree_from(b, &bp, get_le64(e + 128), get_le64(e + 136) ? &from : NULL);
        tree.d += t.d;
        tree.p += t.p;
        tree.u += t.u;
    }
    dnode_rele(dn);
    assert_int_equal(tree.d, bk_word(b, b->bptree, 2));
    assert_int_equal(tree.p, bk_word(b, b->bptree, 3));
    assert_int_equal(tree.u, bk_word(b, b->bptree, 4));
    s.d += tree.d;
    s.p += tree.p;
    s.u += tree.u;
    return s;
}

static inline void bk_dir(struct books *b, uint64_t dir, const char *name)
{
    uint64_t children = bk_word(b, dir, 4), head = bk_word(b, dir, 1), child = 0, rsrv = 0, sum = 0;
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *dn;
    struct sum own = {0};

    bk_features(b, dir);
    if (head)
        own = bk_head(b, dir, head);
    assert_int_equal(dnode_hold(b->t->mos, children, &dn), 0);
    zap_cursor_init(&c, dn, 0);
    while (zap_cursor_next(&c, &e) == 0) {
        uint64_t used = bk_word(b, e.first, 5), reserved = bk_word(b, e.first, 9);

        assert_int_equal(bk_word(b, e.first, 2), dir);
        bk_dir(b, e.first, e.name);
        child += used;
        rsrv += reserved > used ? reserved - used : 0;
        own.p += bk_word(b, e.first, 6);
        own.u += bk_word(b, e.first, 7);
    }
    dnode_rele(dn);
    if (strcmp(name, "$MOS") == 0)
        own = bk_mos(b);
    if (strcmp(name, "$FREE") == 0)
        own = bk_free(b);
    for (int i = 0; i < 5; i++)
        sum += bk_word(b, dir, 13 + i);
    assert_int_equal(bk_word(b, dir, 5), sum);
    assert_int_equal(bk_word(b, dir, 15), child);
    assert_int_equal(bk_word(b, dir, 16), rsrv);
    assert_int_equal(bk_word(b, dir, 6), own.p);
    assert_int_equal(bk_word(b, dir, 7), own.u);
    if (!head)
        assert_int_equal(bk_word(b, dir, 13), own.d);
}

/* Every allocated object of the MOS must be known to somebody (what zdb calls leaked). Here: counted. */
static inline void bk_features_end(struct books *b)
{
    b->refs[FEATURE_EXTENSIBLE_DATASET] = b->zapified;
    for (int f = 0; f < FEATURE_COUNT; f++) {
        uint64_t refs = 0;
        bool counted = (feature_info(f)->flags & FEATURE_DATASET) || f == FEATURE_EXTENSIBLE_DATASET ||
                       f == FEATURE_EMPTY_BPOBJ || f == FEATURE_ASYNC_DESTROY ||
                       f == FEATURE_BOOKMARKS || f == FEATURE_BOOKMARK_WRITTEN || f == FEATURE_BOOKMARK_V2;

        zap_get_u64(b->t->mos,
                    bk_mos_key(b, feature_info(f)->flags & FEATURE_READONLY_OK ? "features_for_write"
                                                                              : "features_for_read"),
                    feature_info(f)->guid, &refs);
        assert_int_equal(refs, feature_refs(b->t->dsl, f));
        if (counted)
            assert_int_equal(refs, b->refs[f]);
    }
}

static void check_books(struct dsl_test *p)
{
    struct books b = {.t = p, .owned = rangeset_new()};

    b.root = bk_mos_key(&b, "root_dataset");
    b.free_bpobj = bk_mos_key(&b, "free_bpobj");
    b.bptree = bk_mos_key(&b, "bptree_obj");
    b.empty = bk_mos_key(&b, "empty_bpobj");
    b.origin = bk_word(&b, b.root, 3);
    bk_dir(&b, b.root, "");
    bk_features_end(&b);
    assert_int_equal(rangeset_total(b.owned), test_allocated(&p->t));
    rangeset_free(b.owned);
}

#endif
