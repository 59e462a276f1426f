/* zfs.clone, zfs.promote, zfs.rename, zfs.rollback */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/bookmark.h"
#include "dsl/dataset.h"
#include "dsl/props.h"
#include "nvlist/nvlist.h"
#include "server/calls_impl.h"
#include "server/dependents_impl.h"
#include "server/destroy_impl.h"
#include "server/op_zfs_impl.h"
#include "server/permissions_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static struct dsl *dsl_of(struct call *c)
{
    return spa_dsl(c->s->spa);
}

static int need_text(struct call *c, const char *key, const char **out)
{
    *out = json_text(c->args, key, NULL);
    return *out ? 0 : err_set(EINVAL, "'%s' is missing", key);
}

static void note_clone(struct call *c, const char *origin, const struct nvlist *props)
{
    struct nvlist *in = nvlist_new();
    if (in && nvlist_add_string(in, "origin", origin) == 0)
        (void)nvlist_add_nvlist(in, "props", props);
    call_note(c, "clone", in, NULL);
}

int op_zfs_clone(struct call *c)
{
    CLEANUP_NVLIST struct nvlist *props = NULL;
    const char *name, *origin;
    int rc = need_name(c, &name);
    if (rc == 0)
        rc = need_text(c, "origin", &origin);
    if (rc == 0)
        rc = props_encoded(c, &props);
    if (rc == 0)
        rc = permission_need(c, origin, "clone");
    if (rc == 0)
        rc = permission_need_new(c, name);
    if (rc == 0)
        rc = permission_need_props(c, name, props);
    if (rc == 0 && json_flag(c->args, "parents")) {
        rc = create_parents(c, name);
        if (rc == 0)
            rc = permission_need_props(c, name, props);
    }
    if (rc == 0)
        rc = dataset_clone(dsl_of(c), origin, name, props, c->uid);
    if (rc == 0)
        note_clone(c, origin, props);
    if (rc == 0)
        mount_new(c, name);
    if (rc == 0)
        warn_of_kept(c, props);
    return rc;
}

/* Of the clone, and of the file system that gives its snapshots away. */
static int may_promote(struct call *c, const char *name)
{
    struct prop_value v = {0};
    struct dataset *ds;
    int rc = permission_need(c, name, "promote");
    if (rc == 0)
        rc = permission_need(c, name, "mount");
    if (rc != 0 || c->trusted || (rc = dataset_hold(dsl_of(c), name, &ds)) != 0)
        return rc;
    if (prop_get(ds, "origin", &v) == 0 && v.string && strchr(v.string, '@')) {
        rc = permission_need(c, v.string, "promote");
        if (rc == 0)
            rc = permission_need(c, v.string, "mount");
    }
    dataset_rele(ds);
    prop_value_clear(&v);
    return rc;
}

int op_zfs_promote(struct call *c)
{
    const char *name;
    int rc = need_name(c, &name);
    if (rc == 0)
        rc = may_promote(c, name);
    if (rc == 0)
        rc = dataset_promote(dsl_of(c), name, c->uid);
    if (rc == 0)
        mounts_snapshots_changed(c->s);
    return rc;
}

/* ---- rename ---- */

static int may_rename_snapshot(struct call *c, const char *fs)
{
    CLEANUP(names_free) struct names l = {0};
    if (c->trusted)
        return 0;
    int rc = dataset_each(dsl_of(c), fs, json_flag(c->args, "recursive") ? -1 : 0, false,
                          names_collect, &l);
    return rc ? rc : permission_need_all(c, &l, "rename");
}

static int rename_snapshot(struct call *c, const char *from, const char *to)
{
    char fs[DATASET_NAME_MAX], old[DATASET_NAME_MAX];
    size_t n = strcspn(from, "@");
    const char *at = strchr(to, '@');
    snprintf(fs, sizeof fs, "%.*s", (int)n, from);
    snprintf(old, sizeof old, "%s", from + n + 1);
    if (at && (size_t)(at - to) == n && strncmp(from, to, n) == 0)
        to = at + 1;
    else if (at || strchr(to, '/'))
        return err_set(EINVAL, "snapshots must be part of same dataset");
    int rc = may_rename_snapshot(c, fs);
    if (rc != 0)
        return rc;
    rc = dataset_snapshot_rename(dsl_of(c), fs, old, to, json_flag(c->args, "recursive"));
    if (rc == 0)
        mounts_snapshots_changed(c->s);
    return rc;
}

static int rename_dataset(struct call *c, const char *from, const char *to)
{
    struct moves *moves = NULL;
    char *warning = NULL, why[ERR_TEXT_MAX];
    int rc = permission_need(c, from, "rename");
    if (rc == 0)
        rc = permission_need(c, from, "mount");
    if (rc == 0)
        rc = permission_need_new(c, to);
    if (rc == 0 && json_flag(c->args, "parents"))
        rc = create_parents(c, to);
    if (rc == 0 && c->trusted && !json_flag(c->args, "keep_mounts"))
        rc = moves_begin(&moves, c->s, from, false, json_flag(c->args, "force"));
    if (rc != 0)
        return rc;
    rc = dataset_rename(dsl_of(c), from, to, c->uid);
    snprintf(why, sizeof why, "%s", err_text(rc));
    if (rc == 0)
        moves_renamed(moves, from, to);
    moves_end(moves, rc == 0, &warning);
    put_warning(c, warning);
    return rc ? err_set(-rc, "%s", why) : 0;
}

int op_zfs_rename(struct call *c)
{
    const char *name, *to;
    int rc = need_name(c, &name);
    if (rc == 0)
        rc = need_text(c, "to", &to);
    if (rc != 0)
        return rc;
    return strchr(name, '@') ? rename_snapshot(c, name, to) : rename_dataset(c, name, to);
}

/* ---- rollback ---- */

/* Snapshots newer than one, and the clones made of them. */
struct newer {
    struct call *c;
    const char *snapshot;
    bool after;
    struct names snaps, marks;
    uint64_t txg;
    char *clones; /* "a,b", or NULL */
};

static void newer_free(struct newer *n)
{
    names_free(&n->snaps);
    names_free(&n->marks);
    free(n->clones);
}

static int add_clones(struct newer *n, struct dataset *ds)
{
    struct prop_value v = {0};
    char *both;
    int rc = 0;
    if (prop_get(ds, "clones", &v) == 0 && v.string && *v.string) {
        if (asprintf(&both, "%s%s%s", n->clones ? n->clones : "", n->clones ? "," : "", v.string) <
            0)
            rc = -ENOMEM;
        else {
            free(n->clones);
            n->clones = both;
        }
    }
    prop_value_clear(&v);
    return rc;
}

static int look_at(void *arg, struct dataset *ds)
{
    struct newer *n = arg;
    char name[DATASET_NAME_MAX];
    int rc = 0;
    dataset_name(ds, name);
    if (n->after && strchr(name, '@')) {
        rc = names_collect(&n->snaps, ds);
        if (rc == 0)
            rc = add_clones(n, ds);
    }
    if (strcmp(name, n->snapshot) == 0) {
        n->after = true;
        n->txg = prop_get_number(ds, "createtxg");
    }
    return rc;
}

static int look_at_bookmark(void *arg, const struct bookmark_stats *b)
{
    struct newer *n = arg;
    return b->creation_txg > n->txg ? names_add(&n->marks, b->name) : 0;
}

static int look_at_bookmarks(struct newer *n, const char *fs)
{
    struct dataset *ds;
    int rc = dataset_hold(dsl_of(n->c), fs, &ds);
    if (rc != 0)
        return rc;
    rc = bookmark_each(ds, look_at_bookmark, n);
    dataset_rele(ds);
    return rc;
}

static int refuse_newer(struct newer *n)
{
    int rc = 0;
    for (size_t i = 0; i < n->marks.n && rc == 0; i++)
        rc = names_add(&n->snaps, n->marks.name[i]);
    return rc ? rc
              : refuse_listed(&n->snaps,
                              "more recent snapshots or bookmarks exist\nuse '-r' to force "
                              "deletion of the following snapshots and bookmarks:");
}

static int destroy_bookmarks(struct newer *n)
{
    int rc = 0;
    for (size_t i = 0; i < n->marks.n && rc == 0; i++) {
        const char *name = n->marks.name[i];
        rc = bookmark_destroy(dsl_of(n->c), &name, 1);
    }
    if (rc == 0 && n->marks.n > 0)
        call_note(n->c, "destroy_bookmarks", call_names(NULL, &n->marks), NULL);
    return rc;
}

static int refuse_clones(const struct newer *n)
{
    for (char *p = n->clones; *p; p++)
        *p = *p == ',' ? '\n' : *p;
    return err_set(EEXIST,
                   "clones of previous snapshots exist\n"
                   "use '-R' to force deletion of the following clones and dependents:\n%s",
                   n->clones);
}

static int destroy_clones(struct newer *n)
{
    CLEANUP(names_free) struct names tops = {0}, order = {0};
    char *save = NULL;
    int rc = 0;
    for (char *p = strtok_r(n->clones, ",", &save); p && rc == 0; p = strtok_r(NULL, ",", &save))
        rc = names_add(&tops, p);
    if (rc == 0)
        rc = dependents_order(dsl_of(n->c), &tops, &order);
    return rc ? rc : destroy_in_order(n->c, &order, json_flag(n->c->args, "force"));
}

static int destroy_newer(struct newer *n)
{
    bool clones = json_flag(n->c->args, "clones");
    if (!clones && !json_flag(n->c->args, "recursive"))
        return refuse_newer(n);
    int rc = permission_need_all(n->c, &n->snaps, "destroy");
    if (rc == 0)
        rc = permission_need_all(n->c, &n->marks, "destroy");
    if (rc == 0 && n->clones)
        rc = clones ? destroy_clones(n) : refuse_clones(n);
    if (rc != 0)
        return rc;
    if (n->snaps.n > 0)
        rc = destroy_snapshots(n->c, &n->snaps);
    return rc ? rc : destroy_bookmarks(n);
}

static void note_rollback(struct call *c, const char *snapshot)
{
    struct nvlist *in = nvlist_new(), *out = nvlist_new();
    if (in && out && nvlist_add_string(in, "target", snapshot) == 0)
        (void)nvlist_add_string(out, "target", snapshot);
    call_note(c, "rollback", in, out);
}

int op_zfs_rollback(struct call *c)
{
    CLEANUP(newer_free) struct newer n = {.c = c};
    char head[DATASET_NAME_MAX];
    int rc = need_name(c, &n.snapshot);
    if (rc == 0 && !strchr(n.snapshot, '@'))
        rc = err_set(EINVAL, "missing '@' delimiter in snapshot name");
    if (rc != 0)
        return rc;
    snprintf(head, sizeof head, "%.*s", (int)strcspn(n.snapshot, "@"), n.snapshot);
    rc = permission_need(c, head, "rollback");
    if (rc == 0)
        rc = dataset_each(dsl_of(c), head, 0, true, look_at, &n);
    if (rc == 0 && !n.after)
        rc = err_set(ENOENT, "dataset does not exist");
    if (rc == 0)
        rc = look_at_bookmarks(&n, head);
    if (rc == 0 && n.snaps.n + n.marks.n > 0)
        rc = destroy_newer(&n);
    if (rc == 0)
        rc = mounts_rollback(c->s, n.snapshot);
    if (rc == 0)
        note_rollback(c, n.snapshot);
    if (rc == 0)
        mounts_snapshots_changed(c->s);
    return rc;
}
