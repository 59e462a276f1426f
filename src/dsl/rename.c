/* Renaming datasets and snapshots (spec 04 9.4). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

/* ---- Can the space of a directory move elsewhere in the tree? ---- */

static struct dir *common_ancestor(struct dir *a, struct dir *b)
{
    for (; a; a = a->parent)
        for (struct dir *d = b; d; d = d->parent)
            if (d == a)
                return a;
    return NULL;
}

/* What is available to d, not counting the limits of `above` and what is above it. */
static uint64_t available_below(struct dir *d, const struct dir *above)
{
    uint64_t parent, quota = d->quota ? d->quota : UINT64_MAX, used = d->used;

    if (d == above)
        return UINT64_MAX;
    parent = available_below(d->parent, above);
    if (d->reserved > used && parent != UINT64_MAX)
        parent += d->reserved - used;
    return used > quota ? 0 : parent < quota - used ? parent : quota - used;
}

int dir_transfer_possible(struct dir *from, struct dir *to, uint64_t space, uint64_t snapshots)
{
    struct dir *above = common_ancestor(from, to);

    if (space > available_below(to, above))
        return err_set(ENOSPC, "out of space");
    return limits_check(to, above, 0, snapshots);
}

/* ---- Datasets ---- */

struct rename {
    const char *from, *to;
    uint32_t uid;
};

/* Both ends: the dataset, its new parent, its new last name. */
struct ends {
    struct dataset *head, *parent;
    const char *last;
};

static void ends_rele(struct ends *e)
{
    ds_rele(e->head);
    ds_rele(e->parent);
}

static int ends_hold(struct dsl *dsl, const struct rename *r, struct ends *e)
{
    char path[DATASET_NAME_MAX];
    const char *slash = strrchr(r->to, '/');
    int rc = ds_hold_name(dsl, r->from, &e->head);

    if (rc != 0)
        return rc;
    e->last = slash + 1;
    snprintf(path, sizeof path, "%.*s", (int)(slash - r->to), r->to);
    rc = ds_hold_name(dsl, path, &e->parent);
    return rc == -ENOENT ? err_set(ENOENT, "parent does not exist") : rc;
}

static bool is_above(const struct dir *above, const struct dir *d)
{
    for (; d; d = d->parent)
        if (d == above)
            return true;
    return false;
}

struct longest {
    size_t name;    /* bytes below the renamed one */
    unsigned depth;
};

static int measure(struct dir *d, size_t base, unsigned depth, struct longest *l);

struct measuring {
    size_t base;
    unsigned depth;
    struct longest *l;
};

static int measure_child(void *arg, struct dir *child)
{
    struct measuring *m = arg;

    return measure(child, m->base + strlen(child->name) + 1, m->depth + 1, m->l);
}

static int longest_snapshot(struct dir *d, size_t *longest)
{
    CLEANUP_DS struct dataset *head = NULL;
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc = ds_hold(d->dsl, d->w[DIR_HEAD], &head);

    *longest = 0;
    if (rc == 0)
        rc = dnode_hold(d->dsl->mos, head->w[DS_SNAPNAMES], &zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0)
        if (strlen(e.name) + 1 > *longest)
            *longest = strlen(e.name) + 1;
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

static int measure(struct dir *d, size_t base, unsigned depth, struct longest *l)
{
    struct measuring m = {base, depth, l};
    size_t snap;
    int rc = depth > DIR_DEPTH_MAX ? err_set(EBADE, "datasets are nested too deep") : 0;

    if (rc == 0)
        rc = longest_snapshot(d, &snap);
    if (rc != 0)
        return rc;
    if (base + snap > l->name)
        l->name = base + snap;
    if (depth > l->depth)
        l->depth = depth;
    return dir_each_child(d, true, false, measure_child, &m);
}

static int check_lengths(const struct ends *e, const char *to)
{
    struct longest l = {0};
    unsigned depth = 0;
    int rc = measure(e->head->dir, 0, 0, &l);

    for (const char *p = to; *p; p++)
        depth += *p == '/';
    if (rc == 0 && strlen(to) + l.name >= DATASET_NAME_MAX)
        rc = err_set(ENAMETOOLONG, "a descendant's name would be too long");
    if (rc == 0 && depth + l.depth >= DIR_DEPTH_MAX)
        rc = err_set(ENAMETOOLONG, "a descendant would be nested too deep");
    return rc;
}

static int check_move(const struct ends *e, uint32_t uid)
{
    struct dir *d = e->head->dir;
    uint64_t space = d->w[DIR_USED] > d->w[DIR_RESERVED] ? d->w[DIR_USED] : d->w[DIR_RESERVED];
    uint64_t filesystems = 0, snapshots = 0, key;
    int rc = 0;

    if (d->parent == e->parent->dir)
        return 0;
    if (dir_zap_get(d, KEY_CRYPTO, &key) == 0 || dir_zap_get(e->parent->dir, KEY_CRYPTO, &key) == 0)
        return err_set(ENOTSUP, "an encrypted dataset cannot be given another parent by this version");
    if (uid != 0 && feature_refs(d->dsl, FEATURE_FILESYSTEM_LIMITS) > 0)
        rc = limits_counts(d, &filesystems, &snapshots);
    if (rc == 0)
        rc = dir_transfer_possible(d->parent, e->parent->dir, space, 0);
    if (rc != 0 || uid == 0)
        return rc;
    return limits_check(e->parent->dir, common_ancestor(d->parent, e->parent->dir),
                        filesystems + 1, snapshots);
}

static int rename_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct rename *r = arg;
    CLEANUP(ends_rele) struct ends e = {0};
    uint64_t object;
    int rc = ends_hold(dsl, r, &e);

    if (rc != 0)
        return rc;
    if (e.head->dir == dsl->root)
        return err_set(EINVAL, "operation does not apply to pools");
    rc = zap_get_u64(dsl->mos, e.parent->dir->w[DIR_CHILDREN], e.last, &object);
    if (rc != -ENOENT)
        return rc ? rc : err_set(EEXIST, "dataset already exists");
    if (is_above(e.head->dir, e.parent->dir))
        return err_set(EINVAL, "New dataset name cannot be a descendant of current dataset name");
    if (dataset_type(e.parent) != OBJSET_ZPL)
        return err_set(EINVAL, "parent is not a filesystem");
    rc = check_lengths(&e, r->to);
    return rc ? rc : check_move(&e, r->uid);
}

/* The counts of 04 11.4: the dataset itself and what is below it. */
static int move_counts(struct dir *d, struct dir *to, struct tx *tx)
{
    uint64_t fs = 0, snaps = 0;
    int rc = 0;

    if (feature_refs(d->dsl, FEATURE_FILESYSTEM_LIMITS) == 0)
        return 0;
    rc = limits_count_from_now(d, tx);
    if (rc == 0)
        rc = limits_counts(d, &fs, &snaps);
    if (rc == 0)
        rc = dir_count(d->parent, KEY_FS_COUNT, -(int64_t)(fs + 1), tx);
    if (rc == 0)
        rc = dir_count(d->parent, KEY_SNAP_COUNT, -(int64_t)snaps, tx);
    if (rc == 0)
        rc = dir_count(to, KEY_FS_COUNT, (int64_t)(fs + 1), tx);
    return rc ? rc : dir_count(to, KEY_SNAP_COUNT, (int64_t)snaps, tx);
}

static void move_space(struct dir *d, struct dir *to)
{
    struct space s = {(int64_t)d->w[DIR_USED], (int64_t)d->w[DIR_COMP], (int64_t)d->w[DIR_UNCOMP]};
    struct space minus = {-s.used, -s.comp, -s.uncomp};
    int64_t over = (int64_t)(d->w[DIR_RESERVED] - d->w[DIR_USED]);
    struct space less = {.used = -over}, more = {.used = over};

    dir_use(d->parent, USED_CHILD, &minus);
    dir_use(to, USED_CHILD, &s);
    if (d->w[DIR_RESERVED] > d->w[DIR_USED]) {
        dir_use(d->parent, USED_CHILD_RSRV, &less);
        dir_use(to, USED_CHILD_RSRV, &more);
    }
}

/* Transactions may be on their way up through the old parent: it stays in memory as long as d. */
static int set_parent(struct dir *d, struct dir *to)
{
    struct former *f = malloc(sizeof *f);

    if (!f)
        return -ENOMEM;
    *f = (struct former){d->former, d->parent};
    dir_ref(to);
    d->former = f;
    d->parent = to;
    d->w[DIR_PARENT] = to->object;
    dir_dirty(d);
    return 0;
}

static int move(struct dir *d, struct dir *to, struct tx *tx)
{
    int rc;

    if (d->parent == to)
        return 0;
    rc = move_counts(d, to, tx);
    if (rc != 0)
        return rc;
    move_space(d, to);
    return set_parent(d, to);
}

static int rename_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct rename *r = arg;
    CLEANUP(ends_rele) struct ends e = {0};
    struct dir *d;
    char *name;
    int rc = ends_hold(dsl, r, &e);

    if (rc != 0)
        return rc;
    name = strdup(e.last);
    if (!name)
        return -ENOMEM;
    d = e.head->dir;
    dsl_event(dsl, "rename", e.head, tx, "-> %s", r->to);
    rc = zap_del(dsl->mos, d->parent->w[DIR_CHILDREN], d->name, tx);
    if (rc == 0)
        rc = move(d, e.parent->dir, tx);
    if (rc == 0)
        rc = zap_add_u64(dsl->mos, d->parent->w[DIR_CHILDREN], name, d->object, tx);
    if (rc != 0) {
        free(name);
        return rc;
    }
    free(d->name);
    d->name = name;
    return 0;
}

int dataset_rename(struct dsl *dsl, const char *from, const char *to, uint32_t uid)
{
    struct rename r = {from, to, uid};
    int rc = dataset_name_check(to);

    if (rc == 0 && strcspn(from, "/") != strcspn(to, "/"))
        rc = err_set(EXDEV, "datasets must be within same pool");
    if (rc == 0 && strncmp(from, to, strcspn(from, "/")) != 0)
        rc = err_set(EXDEV, "datasets must be within same pool");
    if (rc == 0 && (strchr(to, '@') || !strchr(to, '/')))
        rc = err_set(EINVAL, "the new name is no name of a file system or volume");
    if (rc == 0 && strpbrk(to, "%$"))
        rc = err_set(EINVAL, "invalid character %c in name", *strpbrk(to, "%$"));
    return rc ? rc : dsl_task(dsl, rename_check, rename_sync, &r, DSL_SPACE_RESERVED);
}

/* ---- Snapshots ---- */

struct snap_rename {
    const char *fs, *from, *to;
    bool recursive;
    bool check; /* else do */
    struct tx *tx;
    size_t n;
};

static int check_snapshot(struct dataset *head, const struct snap_rename *r)
{
    char name[DATASET_NAME_MAX];
    uint64_t object;
    int rc = zap_get_u64(head->dsl->mos, head->w[DS_SNAPNAMES], r->to, &object);

    ds_name(head, name);
    if (rc == 0)
        return err_set(EEXIST, "cannot rename to '%s@%s': dataset already exists", name, r->to);
    if (rc == -ENOENT && strlen(name) + strlen(r->to) + 1 >= DATASET_NAME_MAX)
        return err_set(ENAMETOOLONG, "cannot rename to '%s@%s': name is too long", name, r->to);
    return rc == -ENOENT ? 0 : rc;
}

static int do_snapshot(struct dataset *head, struct dataset *snap, const struct snap_rename *r)
{
    char *name = strdup(r->to), *old;
    int rc = name ? zap_del(head->dsl->mos, head->w[DS_SNAPNAMES], r->from, r->tx) : -ENOMEM;

    if (rc == 0)
        rc = zap_add_u64(head->dsl->mos, head->w[DS_SNAPNAMES], r->to, snap->object, r->tx);
    if (rc != 0) {
        free(name);
        return rc;
    }
    dsl_event(head->dsl, "rename", snap, r->tx, "-> @%s", r->to);
    old = snap->snapname;
    snap->snapname = name;
    free(old);
    dir_changed_snapshots(head->dir, r->tx);
    return 0;
}

static int rename_in(void *arg, struct dir *d)
{
    CLEANUP_DS struct dataset *head = NULL, *snap = NULL;
    struct snap_rename *r = arg;
    int rc = ds_hold(d->dsl, d->w[DIR_HEAD], &head);

    if (rc == 0)
        rc = ds_hold_snapshot(head, r->from, &snap);
    if (rc == 0) {
        r->n++;
        rc = r->check ? check_snapshot(head, r) : do_snapshot(head, snap, r);
    } else if (rc == -ENOENT) {
        rc = 0;
    }
    return rc || !r->recursive ? rc : dir_each_child(d, false, true, rename_in, r);
}

static int run(struct dsl *dsl, struct snap_rename *r, bool check, struct tx *tx)
{
    CLEANUP_DS struct dataset *head = NULL;
    int rc = ds_hold_name(dsl, r->fs, &head);

    r->check = check;
    r->tx = tx;
    r->n = 0;
    if (rc == 0)
        rc = rename_in(r, head->dir);
    return rc == 0 && r->n == 0 ? err_set(ENOENT, "dataset does not exist") : rc;
}

static int snap_rename_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    return run(dsl, arg, true, tx);
}

static int snap_rename_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    return run(dsl, arg, false, tx);
}

int dataset_snapshot_rename(struct dsl *dsl, const char *fs, const char *from, const char *to,
                            bool recursive)
{
    struct snap_rename r = {.fs = fs, .from = from, .to = to, .recursive = recursive};
    char name[2 * DATASET_NAME_MAX];
    int rc;

    snprintf(name, sizeof name, "%s@%s", fs, to);
    rc = dataset_name_check(name);
    if (rc == 0 && to[0] == '%')
        rc = err_set(EINVAL, "invalid character %% in name");
    return rc ? rc : dsl_task(dsl, snap_rename_check, snap_rename_sync, &r, DSL_SPACE_RESERVED);
}
