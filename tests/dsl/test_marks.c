/* Holds and bookmarks as the DSL keeps them (spec 04 12, 13). */
#include "dsl_test.h"

#include "dsl/bookmark_impl.h"
#include "util/err.h"

static void fill(struct dsl_test *p)
{
    dsl_test_new(p, 256 << 20, 12, NULL);
    assert_int_equal(dataset_create(p->dsl, "tank/f", NULL, 0, 0), 0);
    snapshot(p, "tank/f@a");
}

static void add_hold(struct dsl_test *p, const char *snap, const char *tag)
{
    assert_int_equal(dataset_userref_add(p->dsl, &snap, 1, tag), 0);
}

/* ---- Holds ---- */

static int try_lock(void *arg, const char *tag, uint64_t when)
{
    struct dsl_test *p = arg;

    assert_int_equal(pthread_rwlock_trywrlock(&p->dsl->lock), 0);
    pthread_rwlock_unlock(&p->dsl->lock);
    return strcmp(tag, "one") == 0 || strcmp(tag, "two") == 0 ? 0 : -EINVAL;
}

/* Who lists holds may be slow: the sync thread does not wait for that. */
static void holds_are_told_without_the_lock(void **state)
{
    struct dsl_test p;
    fill(&p);
    add_hold(&p, "tank/f@a", "one");
    add_hold(&p, "tank/f@a", "two");
    struct dataset *snap = hold(&p, "tank/f@a");
    wait_txg(&p);
    assert_int_equal(dataset_userref_each(snap, try_lock, &p), 0);
    dataset_rele(snap);
    dsl_test_free(&p);
}

/* So many are refused that not all lines have room: those that have are whole. */
static void refusals_are_whole_lines(void **state)
{
    static const char line[] =
        "cannot release hold from snapshot 'tank/f@a': no such tag on this dataset";
    const char *names[100], *text;
    size_t n = strlen(line);
    struct dsl_test p;
    fill(&p);
    for (size_t i = 0; i < 100; i++)
        names[i] = "tank/f@a";
    assert_int_equal(dataset_userref_remove(p.dsl, names, 100, "one"), -ESRCH);
    text = err_text(-ESRCH);
    assert_true(strlen(text) > 3000);
    for (;; text += n + 1) {
        assert_memory_equal(text, line, n);
        if (text[n] == 0)
            break;
        assert_int_equal(text[n], '\n');
    }
    dsl_test_free(&p);
}

/* ---- Bookmarks ---- */

static void a_source_has_a_delimiter(void **state)
{
    struct dsl_test p;
    fill(&p);
    assert_int_equal(bookmark_create(p.dsl, "tank/f#x", "tank/f"), -EINVAL);
    assert_string_equal(err_text(-EINVAL), "'tank/f' is neither a snapshot nor a bookmark");
    assert_int_equal(bookmark_create(p.dsl, "tank/f#x", "tank/f@a"), 0);
    assert_int_equal(bookmark_create(p.dsl, "tank/f#y", "tank/f#x"), 0);
    dsl_test_free(&p);
}

#define LONG_WORDS 14 /* a newer version's entry */

static int lengthen(struct dsl *dsl, void *arg, struct tx *tx)
{
    CLEANUP_DS struct dataset *head = NULL;
    uint64_t w[LONG_WORDS] = {0}, object;
    struct dnode *zap;

    w[12] = w[13] = UINT64_MAX;
    assert_int_equal(ds_hold_name(dsl, "tank/f", &head), 0);
    assert_int_equal(ds_zap_get(head, KEY_BOOKMARKS, &object), 0);
    assert_int_equal(dnode_hold(dsl->mos, object, &zap), 0);
    assert_int_equal(zap_lookup(zap, arg, 8, BM_WORDS, w), 0);
    assert_int_equal(zap_update(zap, arg, 8, LONG_WORDS, w, tx), 0);
    dnode_rele(zap);
    return 0;
}

static void same_bookmark(struct dsl_test *p, const char *name, const struct bookmark_stats *want)
{
    struct bookmark_stats got;

    assert_int_equal(bookmark_stats(p->dsl, name, &got), 0);
    assert_int_equal(got.guid, want->guid);
    assert_true(got.sized);
    assert_int_equal(got.uncompressed, want->uncompressed);
}

/* Entries longer than this version's: their first words count, wherever they go. */
static void words_that_nobody_knows(void **state)
{
    static char mark[] = "b";
    struct bookmark_stats want;
    struct dsl_test p;
    fill(&p);
    struct dataset *ds = hold(&p, "tank/f");
    uint64_t object = make_object(&p, ds, 131072);
    write_object(&p, ds, object, 0, 1 << 20, true);
    snapshot(&p, "tank/f@b");
    assert_int_equal(bookmark_create(p.dsl, "tank/f#b", "tank/f@b"), 0);
    assert_int_equal(bookmark_stats(p.dsl, "tank/f#b", &want), 0);
    assert_int_equal(dsl_task(p.dsl, NULL, lengthen, mark, DSL_SPACE_NORMAL), 0);
    assert_int_equal(bookmark_create(p.dsl, "tank/f#copy", "tank/f#b"), 0);
    same_bookmark(&p, "tank/f#copy", &want);
    write_object(&p, ds, object, 0, 1 << 19, true); /* frees what the snapshot has */
    wait_txg(&p);
    uint64_t freed = 0;
    assert_int_equal(dataset_written_since(ds, "#b", &freed), 0);
    assert_true(freed >= 1 << 19);
    assert_int_equal(dsl_task(p.dsl, NULL, lengthen, mark, DSL_SPACE_NORMAL), 0);
    assert_int_equal(dataset_clone(p.dsl, "tank/f@b", "tank/c", NULL, 0), 0);
    assert_int_equal(dataset_promote(p.dsl, "tank/c", 0), 0);
    same_bookmark(&p, "tank/c#b", &want);
    dataset_rele(ds);
    dsl_test_free(&p);
}

/* Pools made before $ORIGIN was kept. */
static void a_pool_without_origin(void **state)
{
    uint64_t bytes = 1;
    struct dsl_test p;
    fill(&p);
    assert_int_equal(dataset_clone(p.dsl, "tank/f@a", "tank/c", NULL, 0), 0);
    struct dataset *ds = hold(&p, "tank/c"), *origin = p.dsl->origin;
    p.dsl->origin = NULL;
    assert_int_equal(dataset_written_since(ds, "tank/f@a", &bytes), 0);
    assert_int_equal(dataset_written_since(ds, "@a", &bytes), -ENOENT);
    p.dsl->origin = origin;
    dataset_rele(ds);
    dsl_test_free(&p);
}

static void defer(struct dsl_test *p, const char *snap)
{
    assert_int_equal(dataset_snapshot_destroy(p->dsl, &snap, 1, true), 0);
}

static void the_last_hold_of_one_in_use(void **state)
{
    const char *name = "tank/f@a";
    struct dataset *snap;
    struct dsl_test p;
    fill(&p);
    add_hold(&p, name, "one");
    add_hold(&p, name, "two");
    defer(&p, name);
    snap = hold(&p, name);
    assert_int_equal(dataset_own(snap, &p), 0);
    assert_int_equal(dataset_userref_remove(p.dsl, &name, 1, "one"), 0);
    assert_int_equal(dataset_userref_remove(p.dsl, &name, 1, "two"), -EBUSY);
    assert_string_equal(err_text(-EBUSY),
                        "cannot release hold from snapshot 'tank/f@a': dataset is busy");
    dataset_disown(snap, &p);
    assert_int_equal(dataset_userref_remove(p.dsl, &name, 1, "two"), 0);
    dataset_rele(snap);
    assert_int_equal(dataset_hold(p.dsl, name, &snap), -ENOENT);
    dsl_test_free(&p);
}

static int forget_change(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct dataset *ds = arg;

    return zap_remove(ds->dir->dn, KEY_SNAPSHOTS_CHANGED, tx);
}

static void a_deferred_end_is_a_change(void **state)
{
    const char *name = "tank/f@a";
    uint64_t when[2] = {0};
    struct dsl_test p;
    fill(&p);
    add_hold(&p, name, "one");
    defer(&p, name);
    struct dataset *ds = hold(&p, "tank/f");
    assert_int_equal(dsl_task(p.dsl, NULL, forget_change, ds, DSL_SPACE_NORMAL), 0);
    assert_int_equal(dataset_userref_remove(p.dsl, &name, 1, "one"), 0);
    assert_int_equal(zap_lookup(ds->dir->dn, KEY_SNAPSHOTS_CHANGED, 8, 2, when), 0);
    assert_true(when[0] > 0 || when[1] > 0);
    dataset_rele(ds);
    dsl_test_free(&p);
}

/* ---- Histories ---- */

static int rename_m(struct dsl *dsl, void *arg, struct tx *tx)
{
    CLEANUP_DS struct dataset *head = NULL;
    uint64_t object, *map = arg;

    assert_int_equal(ds_hold_name(dsl, "tank/f", &head), 0);
    if (*map != 0) {
        assert_int_equal(zap_add_u64(dsl->mos, head->w[DS_SNAPNAMES], "m", *map, tx), 0);
        return 0;
    }
    assert_int_equal(zap_get_u64(dsl->mos, head->w[DS_SNAPNAMES], "m", &object), 0);
    *map = object;
    return zap_del(dsl->mos, head->w[DS_SNAPNAMES], "m", tx);
}

/* To find a snapshot's name the whole map is read: where only its words count that is not done,
 * which is seen when there is no name. */
static void a_history_is_walked_without_names(void **state)
{
    const char *a = "tank/f@a";
    uint64_t bytes, want, m = 0;
    struct dsl_test p;
    fill(&p);
    struct dataset *ds = hold(&p, "tank/f");
    uint64_t object = make_object(&p, ds, 131072);
    write_object(&p, ds, object, 0, 1 << 20, true);
    snapshot(&p, "tank/f@m");
    write_object(&p, ds, object, 0, 1 << 20, true);
    snapshot(&p, "tank/f@b");
    assert_int_equal(dataset_clone(p.dsl, "tank/f@b", "tank/c", NULL, 0), 0);
    assert_int_equal(dataset_written_since(ds, "@a", &want), 0);
    assert_true(want >= 1 << 20);
    p.check = false;
    assert_int_equal(dsl_task(p.dsl, NULL, rename_m, &m, DSL_SPACE_NORMAL), 0);
    assert_int_equal(dataset_written_since(ds, "@a", &bytes), 0);
    assert_int_equal(bytes, want);
    assert_int_equal(bookmark_create(p.dsl, "tank/f#of-a", a), 0);
    assert_int_equal(bookmark_create(p.dsl, "tank/c#of-a", a), 0);
    assert_int_equal(dataset_snapshot_space(p.dsl, &a, 1, &bytes), 0);
    assert_int_equal(dsl_task(p.dsl, NULL, rename_m, &m, DSL_SPACE_NORMAL), 0);
    p.check = true;
    dataset_rele(ds);
    dsl_test_free(&p);
}

/* Destroying a snapshot looks at all clones made after it, and at theirs. */
static void clones_nested_deep(void **state)
{
    const char *a = "tank/f@a";
    char from[64] = "tank/f@b", clone[32], snap[64];
    struct dsl_test p;
    fill(&p);
    p.check = false; /* the books have no room for so many */
    snapshot(&p, from);
    for (int i = 0; i < 1010; i++) {
        snprintf(clone, sizeof clone, "tank/c%d", i);
        snprintf(snap, sizeof snap, "%s@s", clone);
        assert_int_equal(dataset_clone(p.dsl, from, clone, NULL, 0), 0);
        snapshot(&p, snap);
        strcpy(from, snap);
    }
    assert_int_equal(dataset_snapshot_destroy(p.dsl, &a, 1, false), 0);
    wait_txg(&p);
    dsl_test_free(&p);
}

static bool exists(struct dsl_test *p, const char *name)
{
    struct dataset *ds;
    int rc = dataset_hold(p->dsl, name, &ds);
    if (rc == 0)
        dataset_rele(ds);
    return rc == 0;
}

static uint64_t temporary_holds(struct dsl_test *p)
{
    uint64_t list, n = 0;
    struct dnode *zap;
    if (zap_get_u64(p->dsl->mos, 1, "tmp_userrefs", &list) != 0)
        return 0;
    assert_int_equal(dnode_hold(p->dsl->mos, list, &zap), 0);
    assert_int_equal(zap_count(zap, &n), 0);
    dnode_rele(zap);
    return n;
}

/* It goes with its tag, or when the pool is opened again after a crash. */
static void a_temporary_snapshot(void **state)
{
    const char *name = "tank/f@temp";
    struct dsl_test p;
    fill(&p);
    assert_int_equal(dataset_snapshot_temporary(p.dsl, name, "%diff-1"), 0);
    assert_true(exists(&p, name));
    assert_int_equal(temporary_holds(&p), 1);
    assert_int_equal(dataset_userref_remove(p.dsl, &name, 1, "%diff-1"), 0);
    assert_false(exists(&p, name));
    assert_int_equal(temporary_holds(&p), 0);
    assert_int_equal(dataset_snapshot_temporary(p.dsl, name, "%diff-1"), 0);
    assert_int_equal(dataset_snapshot_temporary(p.dsl, "tank/f@other", "%diff-2"), 0);
    dsl_test_reopen(&p);
    assert_true(exists(&p, name));
    assert_int_equal(dsl_start(p.dsl), 0);
    assert_false(exists(&p, name));
    assert_false(exists(&p, "tank/f@other"));
    assert_true(exists(&p, "tank/f@a"));
    assert_int_equal(temporary_holds(&p), 0);
    dsl_test_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_are_told_without_the_lock),
        cmocka_unit_test(refusals_are_whole_lines),
        cmocka_unit_test(a_source_has_a_delimiter),
        cmocka_unit_test(words_that_nobody_knows),
        cmocka_unit_test(a_pool_without_origin),
        cmocka_unit_test(the_last_hold_of_one_in_use),
        cmocka_unit_test(a_deferred_end_is_a_change),
        cmocka_unit_test(a_history_is_walked_without_names),
        cmocka_unit_test(clones_nested_deep),
        cmocka_unit_test(a_temporary_snapshot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
