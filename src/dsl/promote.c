/* Promoting a clone: it takes over the snapshots up to its origin (spec 04 9.10, step numbers as there). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

/* A row of datasets, each the previous of the one before; all held. */
struct chain {
    struct dataset **ds;
    size_t n;
};

struct promote {
    struct dsl *dsl;
    struct dataset *clone, *head; /* C and Hp */
    struct dir *c, *p;
    struct dataset *origin;       /* O */
    struct dataset *older;        /* OO, p's own origin */
    struct chain moved, ours, theirs; /* M, K, L */
};

static void chain_rele(struct chain *l)
{
    for (size_t i = 0; i < l->n; i++)
        ds_rele(l->ds[i]);
    free(l->ds);
}

static void promote_rele(struct promote *p)
{
    chain_rele(&p->moved);
    chain_rele(&p->ours);
    chain_rele(&p->theirs);
    ds_rele(p->clone);
    ds_rele(p->head);
    ds_rele(p->origin);
    ds_rele(p->older);
}

static int chain_add(struct chain *l, struct dataset *ds)
{
    struct dataset **more = realloc(l->ds, (l->n + 1) * sizeof *more);

    if (!more)
        return -ENOMEM;
    l->ds = more;
    ds_ref(ds);
    l->ds[l->n++] = ds;
    return 0;
}

/* From ds (itself first) back while it belongs to d and is not `end`; *stop, held, is what comes then. */
static int chain_walk(struct dataset *ds, const struct dir *d, const struct dataset *end, struct chain *l,
                      struct dataset **stop)
{
    int rc = 0;

    ds_ref(ds);
    while (rc == 0 && ds != end && ds->dir == d) {
        struct dataset *prev = NULL;

        rc = chain_add(l, ds);
        if (rc == 0)
            rc = ds_hold(ds->dsl, ds->w[DS_PREV], &prev);
        if (rc != 0)
            break;
        ds_rele(ds);
        ds = prev;
    }
    if (rc == 0 && stop)
        *stop = ds;
    else
        ds_rele(ds);
    return rc;
}

struct promotion {
    const char *name;
    uint32_t uid;
};

static int promote_hold(struct dsl *dsl, const char *name, struct promote *p)
{
    int rc = ds_hold_name(dsl, name, &p->clone);

    p->dsl = dsl;
    if (rc != 0)
        return rc;
    p->c = p->clone->dir;
    if (ds_is_snapshot(p->clone) || p->c->w[DIR_ORIGIN] == 0 || p->c->w[DIR_ORIGIN] == dsl->origin->object)
        return err_set(EINVAL, "not a cloned filesystem");
    rc = ds_hold(dsl, p->c->w[DIR_ORIGIN], &p->origin);
    if (rc != 0)
        return rc;
    p->p = p->origin->dir;
    rc = ds_hold(dsl, p->p->w[DIR_HEAD], &p->head);
    if (rc == 0)
        rc = chain_walk(p->origin, p->p, NULL, &p->moved, &p->older);
    if (rc == 0)
        rc = chain_walk(p->clone, p->c, p->origin, &p->ours, NULL);
    return rc ? rc : chain_walk(p->head, p->p, p->origin, &p->theirs, NULL);
}

/* ---- Sums ---- */

static int chain_space(const struct chain *l, uint64_t from, int64_t *sum)
{
    int rc = 0;

    for (size_t i = 0; i < l->n && rc == 0; i++) {
        struct space s;

        rc = deadlist_space(l->ds[i]->dsl, l->ds[i]->w[DS_DEADLIST], from, KEY_MAX, &s);
        *sum += rc == 0 ? s.used : 0;
    }
    return rc;
}

/* What the clone's directory will be charged with. */
static int moved_space(const struct promote *p, struct space *out)
{
    int rc = 0;

    *out = (struct space){(int64_t)(p->origin->w[DS_REF] - p->older->w[DS_REF]),
                          (int64_t)(p->origin->w[DS_COMP] - p->older->w[DS_COMP]),
                          (int64_t)(p->origin->w[DS_UNCOMP] - p->older->w[DS_UNCOMP])};
    for (size_t i = 0; i < p->moved.n && rc == 0; i++) {
        struct space s;

        rc = deadlist_totals(p->dsl, p->moved.ds[i]->w[DS_DEADLIST], &s);
        if (rc == 0)
            space_add(out, &s, 1);
    }
    return rc;
}

/* ---- Check ---- */

static int check_names(const struct promote *p)
{
    for (size_t i = 0; i < p->moved.n; i++) {
        const char *name = p->moved.ds[i]->snapname;
        char full[DATASET_NAME_MAX];
        uint64_t object;
        int rc = zap_get_u64(p->dsl->mos, p->clone->w[DS_SNAPNAMES], name, &object);

        if (rc == 0)
            return err_set(EEXIST, "conflicting snapshot '%s' from parent '%s'", name,
                           (ds_name(p->head, full), full));
        if (rc != -ENOENT)
            return rc;
        dir_name(p->c, full);
        if (strlen(full) + strlen(name) + 1 >= DATASET_NAME_MAX)
            return err_set(ENAMETOOLONG, "name of snapshot '%s' would be too long", name);
    }
    return 0;
}

static int check_deadlists(const struct promote *p)
{
    const struct chain *all[] = {&p->moved, &p->ours, &p->theirs};
    int rc = 0;

    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < all[k]->n && rc == 0; i++)
            rc = deadlist_check(p->dsl, all[k]->ds[i]->w[DS_DEADLIST]);
    return rc;
}

static int check_unsupported(const struct promote *p)
{
    uint64_t key;
    int rc = 0;

    if (dir_zap_get(p->c, KEY_CRYPTO, &key) == 0)
        return err_set(ENOTSUP, "the dataset is encrypted, which this version cannot promote");
    for (size_t i = 0; i < p->moved.n && rc == 0; i++)
        if (ds_zap_get(p->moved.ds[i], KEY_REMAP, &key) == 0)
            return err_set(ENOTSUP, "the pool has removed devices, which this version cannot keep track of");
    return rc;
}

static int promote_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    const struct promotion *a = arg;
    CLEANUP(promote_rele) struct promote p = {0};
    struct space space;
    int rc = promote_hold(dsl, a->name, &p);

    if (rc != 0)
        return rc;
    if (p.clone->w[DS_FLAGS] & DS_FLAG_NOPROMOTE)
        return err_set(EXDEV, "the dataset cannot be promoted");
    rc = check_unsupported(&p);
    if (rc == 0)
        rc = check_names(&p);
    if (rc == 0)
        rc = bookmarks_conflict(p.head, p.clone, p.origin->w[DS_CTXG]);
    if (rc == 0)
        rc = check_deadlists(&p);
    if (rc == 0)
        rc = moved_space(&p, &space);
    if (rc == 0 && space.used > 0)
        rc = dir_transfer_possible(p.p, p.c, (uint64_t)space.used, a->uid ? p.moved.n : 0);
    return rc;
}

/* ---- Doing it ---- */

static int set_del(struct dsl *dsl, uint64_t set, uint64_t value, struct tx *tx)
{
    int rc = set ? zap_int_del(dsl->mos, set, value, tx) : 0;

    return rc == -ENOENT ? 0 : rc; /* old pools lack entries */
}

/* 1: the clone's oldest dataset comes next behind the origin; what came next is a clone now. */
static int swap_next(struct promote *p, struct tx *tx)
{
    struct dataset *o = p->origin;
    uint64_t first = p->ours.ds[p->ours.n - 1]->object, old = o->w[DS_NEXT];
    int rc = set_del(p->dsl, o->w[DS_NEXT_CLONES], first, tx);

    if (rc == 0)
        rc = dsl_set_add(p->dsl, &o->w[DS_NEXT_CLONES], OT_NEXT_CLONES, old, tx);
    o->w[DS_NEXT] = first;
    ds_dirty(o);
    return rc;
}

/* 2 and 3. */
static int swap_origins(struct promote *p, struct tx *tx)
{
    struct dsl *dsl = p->dsl;
    struct dir *older = p->older->dir;
    int rc = set_del(dsl, p->p->w[DIR_CLONES], p->clone->object, tx);

    if (rc == 0)
        rc = dsl_set_add(dsl, &older->w[DIR_CLONES], OT_DSL_CLONES, p->clone->object, tx);
    if (rc == 0)
        rc = set_del(dsl, older->w[DIR_CLONES], p->head->object, tx);
    if (rc == 0)
        rc = dsl_set_add(dsl, &p->c->w[DIR_CLONES], OT_DSL_CLONES, p->head->object, tx);
    p->c->w[DIR_ORIGIN] = p->p->w[DIR_ORIGIN];
    p->p->w[DIR_ORIGIN] = p->origin->object;
    p->c->origin_txg = p->p->origin_txg;
    p->p->origin_txg = p->origin->w[DS_CTXG];
    dir_dirty(older);
    dir_dirty(p->c);
    dir_dirty(p->p);
    return rc;
}

/* The clones of a snapshot that moves belong to the other directory's set. */
static int move_clones(struct promote *p, struct dataset *snap, struct tx *tx)
{
    struct dsl *dsl = p->dsl;
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc, failed = 0; /* a clone that is missing is not the end of the list */

    if (snap->w[DS_NEXT_CLONES] == 0)
        return 0;
    rc = dnode_hold(dsl->mos, snap->w[DS_NEXT_CLONES], &zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while (failed == 0 && (rc = zap_cursor_next(&c, &e)) == 0) {
        CLEANUP_DS struct dataset *x = NULL;

        failed = ds_hold(dsl, e.first, &x);
        if (failed != 0 || x->dir == p->p || x->dir == p->c)
            continue;
        failed = set_del(dsl, p->p->w[DIR_CLONES], x->dir->w[DIR_HEAD], tx);
        if (failed == 0)
            failed = dsl_set_add(dsl, &p->c->w[DIR_CLONES], OT_DSL_CLONES, x->dir->w[DIR_HEAD], tx);
    }
    dnode_rele(zap);
    return failed ? failed : rc == -ENOENT ? 0 : rc;
}

/* 5. */
static int move_snapshot(struct promote *p, struct dataset *snap, struct tx *tx)
{
    struct dsl *dsl = p->dsl;
    struct dir *old = snap->dir;
    int rc = zap_del(dsl->mos, p->head->w[DS_SNAPNAMES], snap->snapname, tx);

    if (rc == 0)
        rc = zap_add_u64(dsl->mos, p->clone->w[DS_SNAPNAMES], snap->snapname, snap->object, tx);
    if (rc == 0 && snap->snapname[0] != '%') {
        rc = dir_count(p->p, KEY_SNAP_COUNT, -1, tx);
        if (rc == 0)
            rc = dir_count(p->c, KEY_SNAP_COUNT, 1, tx);
    }
    if (rc == 0)
        rc = move_clones(p, snap, tx);
    if (rc != 0)
        return rc;
    dir_ref(p->c);
    snap->dir = p->c;
    snap->w[DS_DIR] = p->c->object;
    ds_dirty(snap);
    dir_rele(old);
    return 0;
}

/* 6. */
static void move_space(struct promote *p, const struct space *moved, int64_t snap_c, int64_t snap_p)
{
    int64_t more = snap_c - (int64_t)p->c->w[DIR_BREAKDOWN + USED_SNAP];
    int64_t less = snap_p - (int64_t)p->p->w[DIR_BREAKDOWN + USED_SNAP];
    struct space to_c = {.used = more}, to_p = {.used = less};
    struct space head_c = {moved->used - more, moved->comp, moved->uncomp};
    struct space head_p = {-moved->used - less, -moved->comp, -moved->uncomp};

    dir_use(p->c, USED_SNAP, &to_c);
    dir_use(p->c, USED_HEAD, &head_c);
    dir_use(p->p, USED_SNAP, &to_p);
    dir_use(p->p, USED_HEAD, &head_p);
}

static int promote_locked(struct promote *p, struct tx *tx)
{
    struct dataset *first = p->ours.ds[p->ours.n - 1];
    int64_t snap_c = 0, snap_p = 0;
    struct space moved, unique, freed;
    int rc = moved_space(p, &moved);

    if (rc == 0)
        rc = chain_space(&p->moved, p->p->origin_txg, &snap_c);
    if (rc == 0)
        rc = chain_space(&p->ours, p->p->origin_txg, &snap_c);
    if (rc == 0)
        rc = chain_space(&p->theirs, p->origin->w[DS_CTXG], &snap_p);
    if (rc == 0)
        rc = deadlist_space(p->dsl, first->w[DS_DEADLIST], p->origin->w[DS_PREV_TXG], KEY_MAX, &unique);
    if (rc == 0)
        rc = deadlist_totals(p->dsl, first->w[DS_DEADLIST], &freed);
    if (rc == 0)
        rc = swap_next(p, tx);
    if (rc == 0)
        rc = swap_origins(p, tx);
    if (rc == 0) /* 4 */
        rc = bookmarks_move(p->head, p->clone, p->origin->w[DS_CTXG], &freed, tx);
    for (size_t i = 0; i < p->moved.n && rc == 0; i++)
        rc = move_snapshot(p, p->moved.ds[i], tx);
    if (rc != 0)
        return rc;
    move_space(p, &moved, snap_c, snap_p);
    p->origin->w[DS_UNIQUE] = (uint64_t)unique.used; /* 7 */
    rc = dir_drop_livelist(p->c, tx);
    if (rc == 0)
        rc = dir_drop_livelist(p->p, tx);
    ds_acct_reset(p->clone);
    ds_acct_reset(p->head);
    dir_changed_snapshots(p->c, tx);
    dir_changed_snapshots(p->p, tx);
    return rc;
}

static int promote_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    const struct promotion *a = arg;
    CLEANUP(promote_rele) struct promote p = {0};
    int rc = promote_hold(dsl, a->name, &p);

    if (rc == 0)
        rc = promote_locked(&p, tx);
    if (rc == 0)
        dsl_event(dsl, "promote", p.clone, tx, " ");
    return rc;
}

int dataset_promote(struct dsl *dsl, const char *name, uint32_t uid)
{
    struct promotion p = {name, uid};
    int rc = dataset_name_check(name);

    return rc ? rc : dsl_task(dsl, promote_check, promote_sync, &p, DSL_SPACE_RESERVED);
}
