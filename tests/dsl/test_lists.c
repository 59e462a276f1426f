/* Block lists, deadlists, livelists and bookmarks, with numbers and bytes of the spec where it has some. */
#include "dsl_test.h"

#include "dmu/tx.h"
#include "util/err.h"

static struct dsl_test p;

static int setup(void **state)
{
    dsl_test_new(&p, 256 << 20, 9, NULL);
    return 0;
}

static int teardown(void **state)
{
    dsl_test_free(&p);
    return 0;
}

/* Runs fn in the sync thread. */
static void in_sync(dsl_task_fn *fn, void *arg)
{
    bool check = p.check;

    p.check = false; /* lists that no dataset has */
    assert_int_equal(dsl_task(p.dsl, NULL, fn, arg, DSL_SPACE_NONE), 0);
    p.check = check;
}

/* A pointer that is nowhere: D = asize on this pool. */
static struct blkptr fake(uint64_t birth, uint64_t n)
{
    struct blkptr bp = {0};

    dva_set(&bp, 0, 0, (1 << 20) + n * 512, 512, false);
    bp.w[6] = 0x8013070200000000ull; /* little endian, plain file, fletcher4, 512 bytes, off */
    bp.w[10] = birth;
    bp.w[11] = 1;
    bp.w[12] = bp.w[15] = n;
    return bp;
}

static uint64_t word(uint64_t object, unsigned i)
{
    uint64_t w[40] = {0};
    struct dnode *dn;
    size_t len;

    assert_int_equal(dnode_hold(p.mos, object, &dn), 0);
    assert_int_equal(dnode_bonus_get(dn, w, sizeof w, &len), 0);
    dnode_rele(dn);
    return w[i];
}

static void entry(uint64_t object, uint64_t i, uint64_t w[16])
{
    struct dnode *dn;

    assert_int_equal(dnode_hold(p.mos, object, &dn), 0);
    assert_int_equal(dnode_read(dn, i * 128, w, 128), 0);
    dnode_rele(dn);
}

/* ---- Entries (04 6.1, 19.5) ---- */

static int stored_form(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct blkptr plain = {0}, embedded = {0};
    uint64_t list, w[16];

    plain.w[0] = 1;
    plain.w[1] = 0xe3a;
    plain.w[6] = 0x801a070200000000ull;
    plain.w[10] = 0x2f;
    plain.w[11] = 1;
    plain.w[12] = 77;
    embedded.w[0] = 0x1234;
    embedded.w[6] = 0x80138f0f00000000ull | 1ull << 39 | 511 | 20ull << 25;
    embedded.w[10] = 0x30;
    assert_true(bp_embedded(&embedded));
    assert_int_equal(bpobj_create(dsl, 0, tx, &list), 0);
    assert_int_equal(bpobj_append(dsl, list, &plain, 1, tx), 0);
    assert_int_equal(bpobj_append(dsl, list, &embedded, 1, tx), 0);
    entry(list, 0, w);
    assert_int_equal(w[0], 1);
    assert_int_equal(w[1], 0xe3a);
    assert_int_equal(w[6], 0x801a070200000000ull);
    assert_int_equal(w[10], 0x2f);
    for (int i = 11; i < 16; i++)
        assert_int_equal(w[i], 0);
    entry(list, 1, w);
    assert_int_equal(w[0], 0);
    assert_int_equal(w[6], embedded.w[6]);
    assert_int_equal(w[10], 0x30);
    assert_int_equal(word(list, 0), 2);
    assert_int_equal(word(list, 1), 512); /* D of the first only */
    assert_int_equal(word(list, 2), 512);
    assert_int_equal(bpobj_free(dsl, list, tx), 0);
    return 0;
}

static void entries_are_stored_as_in_the_spec(void **state)
{
    in_sync(stored_form, NULL);
}

/* ---- Nested lists ---- */

static uint64_t make_list(struct dsl *dsl, uint64_t n, uint64_t first, struct tx *tx)
{
    struct blkptr *bps = calloc(n, sizeof *bps);
    uint64_t list;

    for (uint64_t i = 0; i < n; i++)
        bps[i] = fake(10, first + i);
    assert_int_equal(bpobj_create(dsl, 0, tx, &list), 0);
    assert_int_equal(bpobj_append(dsl, list, bps, n, tx), 0);
    free(bps);
    return list;
}

static int count_entry(void *arg, const struct blkptr *bp, bool freed)
{
    ++*(uint64_t *)arg;
    return 0;
}

struct eater {
    uint64_t seen, calls, stop_after;
    bool place[8192];
};

static int eat(void *arg, const struct blkptr *bp, bool freed)
{
    struct eater *e = arg;
    uint64_t n = (dva_offset(bp, 0) - (1 << 20)) / 512;

    assert_false(e->place[n]);
    e->place[n] = true;
    e->seen++;
    return 0;
}

static bool eat_stop(void *arg)
{
    struct eater *e = arg;

    return ++e->calls > e->stop_after;
}

static int nested(struct dsl *dsl, void *arg, struct tx *tx)
{
    static struct eater e;
    uint64_t top = make_list(dsl, 10, 0, tx), n = 10;
    uint64_t deep = make_list(dsl, 1500, 10, tx), deeper = make_list(dsl, 1100, 1510, tx);
    uint64_t small = make_list(dsl, 7, 2610, tx), count = 0;
    struct space s;
    bool empty;

    assert_int_equal(bpobj_enqueue(dsl, deep, deeper, tx), 0); /* too long: linked */
    assert_int_equal(word(deep, 5), 1);
    assert_int_equal(bpobj_enqueue(dsl, top, small, tx), 0); /* copied */
    assert_int_equal(word(top, 5), 0);
    assert_int_equal(word(top, 0), 17);
    assert_int_equal(bpobj_enqueue(dsl, top, deep, tx), 0); /* its list of lists is copied */
    assert_int_equal(word(top, 5), 2);
    n += 7 + 1500 + 1100;
    assert_int_equal(bpobj_space(dsl, top, &s), 0);
    assert_int_equal(s.used, n * 512);
    assert_int_equal(bpobj_each(dsl, top, count_entry, &count), 0);
    assert_int_equal(count, n);
    memset(&e, 0, sizeof e);
    for (e.stop_after = 1; e.seen < n; e.calls = 0)
        assert_int_equal(bpobj_consume(dsl, top, eat, eat_stop, &e, tx), 0);
    e.stop_after = 1000;
    assert_int_equal(bpobj_consume(dsl, top, eat, eat_stop, &e, tx), 0);
    assert_int_equal(bpobj_empty(dsl, top, &empty), 0);
    assert_true(empty);
    assert_int_equal(bpobj_space(dsl, top, &s), 0);
    assert_int_equal(s.used | s.comp | s.uncomp, 0);
    assert_int_equal(bpobj_free(dsl, top, tx), 0);
    return 0;
}

static void lists_of_lists_are_eaten_from_the_end(void **state)
{
    in_sync(nested, NULL);
}

/* ---- Deadlists (04 6.3) ---- */

static uint64_t space(struct dsl *dsl, uint64_t list, uint64_t lo, uint64_t hi)
{
    struct space s;

    assert_int_equal(deadlist_space(dsl, list, lo, hi, &s), 0);
    return (uint64_t)s.used / 512;
}

static int deadlists(struct dsl *dsl, void *arg, struct tx *tx)
{
    uint64_t list, other, clone, bpobj;
    struct blkptr bps[6] = {fake(85, 0), fake(86, 1), fake(1, 2), fake(2, 3), fake(200, 4), fake(87, 5)};
    struct space s;

    assert_int_equal(deadlist_create(dsl, tx, &list), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(deadlist_add_key(dsl, list, (const uint64_t[]){0, 1, 85, 86}[i], tx), 0);
    assert_int_equal(deadlist_insert(dsl, list, bps, 6, tx), 0);
    /* A birth equal to a key belongs to the entry before it. */
    assert_int_equal(space(dsl, list, 0, 1), 1);
    assert_int_equal(space(dsl, list, 1, 85), 2);
    assert_int_equal(space(dsl, list, 85, 86), 1);
    assert_int_equal(space(dsl, list, 86, KEY_MAX), 2);
    assert_int_equal(deadlist_clone(dsl, list, 86, tx, &clone), 0);
    assert_int_equal(space(dsl, clone, 0, KEY_MAX), 0);
    assert_int_equal(deadlist_remove_key(dsl, list, 85, tx), 0);
    assert_int_equal(space(dsl, list, 1, 86), 3);
    assert_int_equal(deadlist_remove_key(dsl, list, 4711, tx), 0); /* not there: nothing */
    /* Merging: keys that the other list lacks go to the next lower one. */
    assert_int_equal(deadlist_create(dsl, tx, &other), 0);
    assert_int_equal(deadlist_add_key(dsl, other, 0, tx), 0);
    assert_int_equal(deadlist_add_key(dsl, other, 50, tx), 0);
    bps[0] = fake(60, 10);
    assert_int_equal(deadlist_insert(dsl, other, bps, 1, tx), 0);
    assert_int_equal(deadlist_merge(dsl, list, other, tx), 0);
    assert_int_equal(space(dsl, list, 1, 86), 4);
    assert_int_equal(deadlist_totals(dsl, list, &s), 0);
    assert_int_equal(s.used, 7 * 512);
    assert_int_equal(deadlist_totals(dsl, other, &s), 0);
    assert_int_equal(s.used, 0);
    assert_int_equal(deadlist_free(dsl, other, tx), 0);
    /* Moving the young ones away. */
    assert_int_equal(bpobj_create(dsl, 0, tx, &bpobj), 0);
    assert_int_equal(deadlist_move(dsl, list, 86, bpobj, tx), 0);
    assert_int_equal(bpobj_space(dsl, bpobj, &s), 0);
    assert_int_equal(s.used, 2 * 512);
    assert_int_equal(deadlist_totals(dsl, list, &s), 0);
    assert_int_equal(s.used, 5 * 512);
    assert_int_equal(bpobj_free(dsl, bpobj, tx), 0);
    assert_int_equal(deadlist_free(dsl, list, tx), 0);
    assert_int_equal(deadlist_free(dsl, clone, tx), 0);
    return 0;
}

static void deadlists_by_the_rules(void **state)
{
    uint64_t before = feature_refs(p.dsl, FEATURE_EMPTY_BPOBJ);

    in_sync(deadlists, NULL);
    assert_int_equal(feature_refs(p.dsl, FEATURE_EMPTY_BPOBJ), before);
}

static bool has_key(uint64_t list, uint64_t key)
{
    uint64_t v;

    return zap_int_get(p.mos, list, key, &v) == 0;
}

/* Keys of a head: the previous txgs of all snapshots before it; not its own (04 6.4). */
static void keys_follow_the_snapshots(void **state)
{
    struct dataset *ds, *s;
    struct dataset_stats st;
    uint64_t txg[3], object;
    char name[64];

    assert_int_equal(dataset_create(p.dsl, "tank/k", NULL, 0, 0), 0);
    ds = hold(&p, "tank/k");
    object = make_object(&p, ds, 4096);
    for (unsigned i = 0; i < 3; i++) {
        write_object(&p, ds, object, 0, 20000, true);
        snprintf(name, sizeof name, "tank/k@%u", i);
        snapshot(&p, name);
        s = hold(&p, name);
        assert_int_equal(dataset_stats(s, &st), 0);
        txg[i] = st.creation_txg;
        dataset_rele(s);
    }
    assert_true(has_key(ds->w[DS_DEADLIST], 0));
    assert_true(has_key(ds->w[DS_DEADLIST], 1));
    assert_true(has_key(ds->w[DS_DEADLIST], txg[0]));
    assert_true(has_key(ds->w[DS_DEADLIST], txg[1]));
    assert_false(has_key(ds->w[DS_DEADLIST], txg[2]));
    const char *middle = "tank/k@1";
    assert_int_equal(dataset_snapshot_destroy(p.dsl, &middle, 1, false), 0);
    assert_false(has_key(ds->w[DS_DEADLIST], txg[1]));
    assert_true(has_key(ds->w[DS_DEADLIST], txg[0]));
    dataset_rele(ds);
}

/* ---- Bookmarks (04 12) ---- */

struct mark {
    struct dataset *head, *snap;
    uint64_t zap;
};

static int make_bookmark(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct mark *m = arg;
    struct object_params params = {.type = OT_ZAP_METADATA};
    struct space s = {0};
    struct dnode *zap;

    if (m->head->w[DS_PREV] == m->snap->object)
        assert_int_equal(deadlist_totals(dsl, m->head->w[DS_DEADLIST], &s), 0);
    uint64_t w[12] = {m->snap->w[DS_GUID], m->snap->w[DS_CTXG], m->snap->w[DS_CTIME], 0, 3,
                      m->snap->w[DS_REF], m->snap->w[DS_COMP], m->snap->w[DS_UNCOMP],
                      (uint64_t)s.used, (uint64_t)s.comp, (uint64_t)s.uncomp, 0};

    assert_int_equal(zap_create(dsl->mos, &params, 2, tx, &zap), 0);
    m->zap = dnode_object(zap);
    assert_int_equal(zap_add(zap, "b", 8, 12, w, tx), 0);
    dnode_rele(zap);
    assert_int_equal(zapify(dsl, m->head->dn, tx), 0);
    assert_int_equal(zap_add(m->head->dn, KEY_BOOKMARKS, 8, 1, &m->zap, tx), 0);
    assert_int_equal(feature_change(dsl, FEATURE_BOOKMARKS, 1, tx), 0);
    assert_int_equal(feature_change(dsl, FEATURE_BOOKMARK_V2, 1, tx), 0);
    assert_int_equal(feature_change(dsl, FEATURE_BOOKMARK_WRITTEN, 1, tx), 0);
    ds_acct_reset(m->head);
    return 0;
}

static void bookmark_words(struct mark *m, uint64_t w[12])
{
    struct dnode *zap;

    assert_int_equal(dnode_hold(p.mos, m->zap, &zap), 0);
    assert_int_equal(zap_lookup(zap, "b", 8, 12, w), 0);
    dnode_rele(zap);
}

static void bookmarks_count_what_is_freed(void **state)
{
    struct mark m;
    struct dataset_stats st;
    uint64_t object, w[12];

    assert_int_equal(dataset_create(p.dsl, "tank/m", NULL, 0, 0), 0);
    m.head = hold(&p, "tank/m");
    object = make_object(&p, m.head, 131072);
    write_object(&p, m.head, object, 0, 4 << 17, true);
    snapshot(&p, "tank/m@s");
    m.snap = hold(&p, "tank/m@s");
    in_sync(make_bookmark, &m);
    write_object(&p, m.head, object, 0, 1 << 17, true);
    wait_txg(&p);
    bookmark_words(&m, w);
    assert_int_equal(dataset_stats(m.snap, &st), 0);
    assert_int_equal(w[8], st.used); /* all that was freed, only the snapshot has */
    assert_true(w[8] > 131072);
    /* The snapshot goes, the count and its key stay. */
    dataset_rele(m.snap);
    const char *name = "tank/m@s";
    assert_int_equal(dataset_snapshot_destroy(p.dsl, &name, 1, false), 0);
    bookmark_words(&m, w);
    assert_int_equal(w[4], 1);
    write_object(&p, m.head, object, 1 << 17, 1 << 17, true);
    wait_txg(&p);
    bookmark_words(&m, w);
    assert_true(w[8] > 2 * 131072);
    snapshot(&p, "tank/m@t");
    assert_true(has_key(m.head->w[DS_DEADLIST], w[1]));
    name = "tank/m@t";
    assert_int_equal(dataset_snapshot_destroy(p.dsl, &name, 1, false), 0);
    dataset_rele(m.head);
    assert_int_equal(dataset_destroy(p.dsl, "tank/m"), 0);
    assert_int_equal(feature_refs(p.dsl, FEATURE_BOOKMARKS), 0);
    assert_int_equal(feature_refs(p.dsl, FEATURE_BOOKMARK_WRITTEN), 0);
}

/* ---- Livelists (04 6.6, 9.7) ---- */

#define BLOCKS 40

/* A livelist as a kernel leaves it behind: 40 blocks, of which 15 were freed again. */
static int leave_livelist(struct dsl *dsl, void *arg, struct tx *tx)
{
    uint64_t list, bpobj, set = 0, header[7] = {0};
    struct blkptr bps[BLOCKS];
    struct space all = {0}, s;
    struct dnode *dn;

    assert_int_equal(feature_enable(dsl, FEATURE_LIVELIST, tx), 0);
    assert_int_equal(feature_change(dsl, FEATURE_LIVELIST, 1, tx), 0);
    assert_int_equal(deadlist_create(dsl, tx, &list), 0);
    assert_int_equal(bpobj_create(dsl, 0, tx, &bpobj), 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        memset(&bps[i], 0, sizeof bps[i]);
        assert_int_equal(alloc_blocks(dsl->pool, tx->txg, 512, 1, false, &bps[i]), 0);
        bps[i].w[6] = 0x8013070200000000ull;
        bps[i].w[10] = tx->txg;
        if (i >= 15) {
            space_of_bp(dsl->pool, &bps[i], &s);
            space_add(&all, &s, 1);
        }
    }
    assert_int_equal(dnode_hold(dsl->mos, bpobj, &dn), 0);
    for (unsigned i = 0; i < BLOCKS + 15; i++) {
        struct blkptr bp = bps[i < BLOCKS ? i : i - BLOCKS];

        bp.w[11] = i >= BLOCKS;
        assert_int_equal(dnode_write(dn, i * 128, &bp, 128, tx), 0);
        if (i >= BLOCKS)
            assert_int_equal(block_free(dsl->pool, tx->txg, NULL, &bp), 0);
    }
    header[0] = BLOCKS + 15;
    header[1] = (uint64_t)all.used;
    header[2] = (uint64_t)all.comp;
    header[3] = (uint64_t)all.uncomp;
    header[6] = 15;
    assert_int_equal(dnode_bonus_patch(dn, 0, header, 56, tx), 0);
    dnode_rele(dn);
    assert_int_equal(zap_int_set(dsl->mos, list, tx->txg - 1, bpobj, tx), 0);
    assert_int_equal(dnode_hold(dsl->mos, list, &dn), 0);
    assert_int_equal(dnode_bonus_patch(dn, 0, &header[1], 24, tx), 0);
    dnode_rele(dn);
    assert_int_equal(dsl_set_add(dsl, &set, OT_ZAP_METADATA, list, tx), 0);
    assert_int_equal(zap_add_u64(dsl->mos, 1, KEY_DELETED_CLONES, set, tx), 0);
    dir_use(dsl->free_dir, USED_HEAD, &all);
    deadlist_cache_clear(dsl);
    dsl->deleted_clones = set;
    return 0;
}

static int begin_freeing(struct dsl *dsl, void *arg, struct tx *tx)
{
    dsl->free_pending = true;
    return 0;
}

static void livelists_of_others_are_finished(void **state)
{
    uint64_t v;

    in_sync(leave_livelist, NULL);
    assert_int_equal(dsl_freeing(p.dsl), (BLOCKS - 15) * 512);
    in_sync(begin_freeing, NULL);
    do
        wait_txg(&p);
    while (dsl_freeing(p.dsl) > 0);
    assert_int_equal(feature_refs(p.dsl, FEATURE_LIVELIST), 0);
    assert_int_equal(zap_get_u64(p.mos, 1, KEY_DELETED_CLONES, &v), -ENOENT);
    check_books(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_stored_as_in_the_spec),
        cmocka_unit_test(lists_of_lists_are_eaten_from_the_end),
        cmocka_unit_test(deadlists_by_the_rules),
        cmocka_unit_test(keys_follow_the_snapshots),
        cmocka_unit_test(bookmarks_count_what_is_freed),
        cmocka_unit_test(livelists_of_others_are_finished),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
