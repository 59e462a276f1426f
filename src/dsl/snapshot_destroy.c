/* Destroying snapshots (spec 04 9.3). Step numbers are the spec's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

/* The snapshot, its neighbours, and its directory's head. */
struct around {
    struct dataset *snap, *next, *prev, *head;
    bool branch; /* prev is the origin of a clone, whose oldest snapshot this is */
    bool keep;   /* a bookmark still needs the key of the snapshot's txg */
};

static void around_rele(struct around *a)
{
    ds_rele(a->next);
    ds_rele(a->prev);
    ds_rele(a->head);
}

static int around_hold(struct dataset *snap, struct around *a)
{
    struct dsl *dsl = snap->dsl;
    int rc;

    *a = (struct around){.snap = snap};
    rc = ds_hold(dsl, snap->w[DS_NEXT], &a->next);
    if (rc == 0)
        rc = ds_hold(dsl, snap->w[DS_PREV], &a->prev);
    if (rc == 0)
        rc = ds_hold(dsl, snap->dir->w[DIR_HEAD], &a->head);
    if (rc == 0)
        a->branch = a->prev->w[DS_NEXT] != snap->object;
    return rc;
}

/* Steps 3 to 5. */
static int relink(struct around *a, struct tx *tx)
{
    struct dsl *dsl = a->snap->dsl;
    struct space s;
    int rc = 0;

    if (a->branch) {
        rc = zap_int_del(dsl->mos, a->prev->w[DS_NEXT_CLONES], a->snap->object, tx);
        if (rc == 0)
            rc = dsl_set_add(dsl, &a->prev->w[DS_NEXT_CLONES], OT_NEXT_CLONES, a->next->object, tx);
    } else {
        a->prev->w[DS_NEXT] = a->next->object;
        rc = deadlist_space(dsl, a->next->w[DS_DEADLIST], a->prev->w[DS_PREV_TXG],
                            a->snap->w[DS_PREV_TXG], &s);
        a->prev->w[DS_UNIQUE] += (uint64_t)s.used;
    }
    a->next->w[DS_PREV] = a->prev->object;
    a->next->w[DS_PREV_TXG] = a->snap->w[DS_PREV_TXG];
    ds_dirty(a->prev);
    ds_dirty(a->next);
    return rc;
}

/* Steps 6 and 7: what only the snapshot had is freed, the rest of its deadlist goes to the next one. */
static int move_blocks(struct around *a, struct tx *tx)
{
    struct dsl *dsl = a->snap->dsl;
    uint64_t from = a->snap->w[DS_PREV_TXG];
    struct space u, minus = {0};
    int rc = deadlist_space(dsl, a->next->w[DS_DEADLIST], from, KEY_MAX, &u);

    if (rc == 0)
        rc = deadlist_move(dsl, a->next->w[DS_DEADLIST], from, dsl->free_bpobj, tx);
    if (rc != 0)
        return rc;
    space_add(&minus, &u, -1);
    dir_use(a->snap->dir, USED_SNAP, &minus);
    dir_use(dsl->free_dir, USED_HEAD, &u);
    dsl->free_pending = true;
    rc = deadlist_merge(dsl, a->next->w[DS_DEADLIST], a->snap->w[DS_DEADLIST], tx);
    return rc ? rc : deadlist_free(dsl, a->snap->w[DS_DEADLIST], tx);
}

/* Directories still to be looked at: clones of clones may be nested deeper than a stack goes. */
struct todo {
    struct dir **dir; /* held */
    size_t n, cap;
};

static int todo_add(struct todo *t, struct dir *d)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 16;
        struct dir **more = realloc(t->dir, cap * sizeof *more);

        if (!more)
            return -ENOMEM;
        t->dir = more;
        t->cap = cap;
    }
    dir_ref(d);
    t->dir[t->n++] = d;
    return 0;
}

static void todo_end(struct todo *t)
{
    while (t->n > 0)
        dir_rele(t->dir[--t->n]);
    free(t->dir);
}

/* The clones of one directory; they are made later than what they are made of, so in no circle. */
static int forget_in(struct dir *d, uint64_t txg, struct todo *t, struct tx *tx)
{
    struct dsl *dsl = d->dsl;
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc;

    if (d->w[DIR_CLONES] == 0)
        return 0;
    rc = dnode_hold(dsl->mos, d->w[DIR_CLONES], &zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        CLEANUP_DS struct dataset *clone = NULL;

        rc = ds_hold(dsl, e.first, &clone);
        if (rc == 0 && clone->dir->origin_txg > txg) {
            if (clone->dir->origin_txg <= d->origin_txg)
                rc = err_set(EBADE, "clones of clones are nested in a circle");
            if (rc == 0)
                rc = deadlist_remove_key(dsl, clone->w[DS_DEADLIST], txg, tx);
            if (rc == 0)
                rc = todo_add(t, clone->dir);
        }
        if (rc != 0)
            break;
    }
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

int deadlists_forget(struct dsl *dsl, struct dir *d, uint64_t txg, struct tx *tx)
{
    CLEANUP(todo_end) struct todo t = {0};
    int rc = todo_add(&t, d);

    while (rc == 0 && t.n > 0) {
        struct dir *next = t.dir[--t.n];

        rc = forget_in(next, txg, &t, tx);
        dir_rele(next);
    }
    return rc;
}

/* Step 10. */
static int fix_unique(struct around *a, struct tx *tx)
{
    struct dsl *dsl = a->snap->dsl;
    struct dataset *next = a->next;
    struct space s;
    int rc;

    if (ds_is_snapshot(next)) {
        CLEANUP_DS struct dataset *after = NULL;

        rc = ds_hold(dsl, next->w[DS_NEXT], &after);
        if (rc == 0)
            rc = deadlist_space(dsl, after->w[DS_DEADLIST], a->snap->w[DS_PREV_TXG],
                                a->snap->w[DS_CTXG], &s);
        if (rc == 0)
            next->w[DS_UNIQUE] += (uint64_t)s.used;
        if (rc == 0 && !a->keep)
            rc = deadlist_remove_key(dsl, a->head->w[DS_DEADLIST], a->snap->w[DS_CTXG], tx);
        return rc;
    }
    rc = deadlist_totals(dsl, next->w[DS_DEADLIST], &s);
    if (rc != 0)
        return rc;
    int64_t r = (int64_t)next->dir->refreservation, old = (int64_t)next->w[DS_UNIQUE];
    int64_t unique = (int64_t)(next->w[DS_REF] - (a->prev->w[DS_REF] - (uint64_t)s.used));

    next->w[DS_UNIQUE] = (uint64_t)unique;
    if (old < r) {
        int64_t less = unique - old < r - old ? unique - old : r - old;
        struct space minus = {.used = -less};

        dir_use(next->dir, USED_REFRSRV, &minus);
    }
    return 0;
}

/* Steps 11 and 12. */
static int remove_objects(struct around *a, struct tx *tx)
{
    static const int zaps[] = {DS_NEXT_CLONES, DS_PROPS, DS_USERREFS};
    struct dataset *snap = a->snap;
    struct dsl *dsl = snap->dsl;
    int rc = zap_del(dsl->mos, a->head->w[DS_SNAPNAMES], snap->snapname, tx);

    if (rc == 0 && snap->snapname[0] != '%')
        rc = dir_count(snap->dir, KEY_SNAP_COUNT, -1, tx);
    for (int i = 0; i < 3 && rc == 0; i++)
        if (snap->w[zaps[i]] != 0)
            rc = zap_destroy(dsl->mos, snap->w[zaps[i]], tx);
    if (rc == 0)
        rc = zapified_free(dsl, snap->dn, tx);
    if (rc == 0)
        rc = object_free(snap->dn, tx);
    ds_forget(snap);
    return rc;
}

int ds_snapshot_destroy(struct dataset *snap, struct tx *tx)
{
    CLEANUP(around_rele) struct around a;
    struct dsl *dsl = snap->dsl;
    int rc = around_hold(snap, &a);

    if (rc == 0) /* 1 */
        rc = bookmarks_snapshot_gone(a.head, snap, a.next->w[DS_DEADLIST], &a.keep, tx);
    if (rc == 0) /* 2 */
        rc = ds_features_drop(snap, tx);
    if (rc == 0)
        rc = relink(&a, tx);
    if (rc == 0)
        lineage_snapshot_gone(dsl, snap->object, a.next->object);
    if (rc == 0)
        rc = move_blocks(&a, tx);
    if (rc == 0 && !a.keep)
        rc = deadlists_forget(dsl, snap->dir, snap->w[DS_CTXG], tx); /* 9 */
    if (rc == 0)
        rc = fix_unique(&a, tx);
    if (rc == 0)
        rc = remove_objects(&a, tx);
    if (a.next)
        ds_acct_reset(a.next);
    if (a.head)
        ds_acct_reset(a.head);
    return rc;
}

/* ---- zfs destroy of snapshots ---- */

struct destroy {
    const char *const *names;
    size_t n;
    bool defer;
    bool held_only; /* of the check */
};

static int check_deadlists(struct dataset *snap)
{
    CLEANUP(around_rele) struct around a;
    struct dsl *dsl = snap->dsl;
    int rc = around_hold(snap, &a);

    if (rc == 0)
        rc = deadlist_check(dsl, snap->w[DS_DEADLIST]);
    if (rc == 0)
        rc = deadlist_check(dsl, a.next->w[DS_DEADLIST]);
    return rc ? rc : deadlist_check(dsl, a.head->w[DS_DEADLIST]);
}

static int check_held(struct dataset *snap)
{
    char name[DATASET_NAME_MAX];
    uint64_t refs;
    int rc = ds_userrefs(snap, &refs);

    if (rc != 0 || refs == 0)
        return rc;
    ds_name(snap, name);
    return err_set(EBUSY, "it's being held. Run 'zfs holds -r %s' to see holders.", name);
}

int ds_snapshot_destroy_check(struct dataset *snap)
{
    uint64_t key;
    int rc;

    if (!ds_is_snapshot(snap))
        return err_set(EINVAL, "not a snapshot");
    if (snap == snap->dsl->origin)
        return err_set(EINVAL, "the pool's own origin snapshot cannot be destroyed");
    if (ds_busy(snap))
        return err_set(EBUSY, "dataset is busy");
    if (snap->w[DS_CHILDREN] > 1)
        return err_set(EEXIST, "snapshot has dependent clones");
    rc = check_held(snap);
    if (rc != 0)
        return rc;
    if (ds_zap_get(snap, KEY_REMAP, &key) == 0)
        return err_set(ENOTSUP, "the pool has removed devices, which this version cannot keep track of");
    return check_deadlists(snap);
}

/* Has it holds or clones, whose last will take it away? */
static bool needed(struct dataset *snap)
{
    uint64_t refs;

    return ds_is_snapshot(snap) && snap != snap->dsl->origin &&
           (snap->w[DS_CHILDREN] > 1 || ds_userrefs(snap, &refs) != 0 || refs > 0);
}

static int check_one(struct dsl *dsl, const struct destroy *d, const char *name)
{
    CLEANUP_DS struct dataset *snap = NULL;
    int rc = ds_hold_name(dsl, name, &snap);

    if (rc == 0 && d->held_only)
        return check_held(snap);
    return rc || (d->defer && needed(snap)) ? rc : ds_snapshot_destroy_check(snap);
}

/* A line for each that is refused. */
static int destroy_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct destroy *d = arg;
    char text[ERR_TEXT_MAX] = "";
    size_t used = 0;
    int first = 0;

    for (size_t i = 0; i < d->n; i++) {
        int rc = check_one(dsl, d, d->names[i]);

        if (rc != 0 && used + ERR_LINE_MAX < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%scannot destroy snapshot %s: %s",
                                     used ? "\n" : "", d->names[i], err_text(rc));
        first = first ? first : rc;
    }
    return first ? err_set(-first, "%s", text) : 0;
}

static int destroy_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct destroy *d = arg;
    int rc = 0;

    for (size_t i = 0; i < d->n && rc == 0; i++) {
        CLEANUP_DS struct dataset *snap = NULL;

        rc = ds_hold_name(dsl, d->names[i], &snap);
        if (rc != 0)
            break;
        if (d->defer && needed(snap)) {
            dsl_event(dsl, "defer_destroy", snap, tx, " ");
            snap->w[DS_FLAGS] |= DS_FLAG_DEFER_DESTROY;
            ds_dirty(snap);
            continue;
        }
        dsl_event(dsl, "destroy", snap, tx, " ");
        rc = ds_snapshot_destroy(snap, tx);
        dir_changed_snapshots(snap->dir, tx);
    }
    return rc;
}

/* Of neighbours the blocks that several of them share go too: what the next one's deadlist has that was born
 * since the first of the row (04 8.5). */
int dataset_snapshot_space(struct dsl *dsl, const char *const *names, size_t n, uint64_t *bytes)
{
    DSL_READ_GUARD(dsl);
    uint64_t since = 0, last = 0;
    int rc = 0;

    *bytes = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        CLEANUP_DS struct dataset *snap = NULL;
        uint64_t next[DS_WORDS];
        struct space s = {0};

        rc = ds_hold_name(dsl, names[i], &snap);
        if (rc == 0)
            rc = ds_words(dsl, snap->w[DS_NEXT], next);
        if (rc != 0)
            break;
        if (last == 0 || snap->w[DS_PREV] != last)
            since = snap->w[DS_PREV_TXG];
        last = snap->object;
        rc = deadlist_space_read(dsl, next[DS_DEADLIST], since, KEY_MAX, &s);
        *bytes += (uint64_t)s.used;
    }
    return rc;
}

int dataset_snapshot_destroy(struct dsl *dsl, const char *const *names, size_t n, bool defer)
{
    struct destroy d = {.names = names, .n = n, .defer = defer};

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(names[i], names[k]) == 0)
                return err_set(EINVAL, "cannot destroy snapshot %s: it is named twice", names[i]);
    return dsl_task_blocks(dsl, destroy_check, destroy_sync, &d, DSL_SPACE_EXTRA, 0);
}

int dataset_snapshot_held(struct dsl *dsl, const char *const *names, size_t n)
{
    DSL_READ_GUARD(dsl);
    struct destroy d = {.names = names, .n = n, .held_only = true};

    return destroy_check(dsl, &d, NULL);
}
