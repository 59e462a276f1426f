/* zfs.hold, zfs.release, zfs.holds */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "dsl/dsl.h"
#include "nvlist/nvlist.h"
#include "server/calls_impl.h"
#include "server/names_impl.h"
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

struct descending {
    struct dsl *dsl;
    const char *snap; /* behind the '@' */
    struct names *out;
};

static int add_existing(void *arg, struct dataset *ds)
{
    struct descending *d = arg;
    struct dataset *snap;
    char fs[DATASET_NAME_MAX], name[2 * DATASET_NAME_MAX];
    dataset_name(ds, fs);
    snprintf(name, sizeof name, "%s@%s", fs, d->snap);
    if (strlen(name) >= DATASET_NAME_MAX || dataset_hold(d->dsl, name, &snap) != 0)
        return 0;
    dataset_rele(snap);
    return names_add(d->out, name);
}

/* args.name, or with args.recursive the snapshots of that name in all descendants. */
static int named_snapshots(struct call *c, struct names *out)
{
    char head[DATASET_NAME_MAX];
    struct dataset *ds;
    const char *name;
    int rc = need_name(c, &name);
    const char *at = rc == 0 ? strchr(name, '@') : NULL;
    if (rc == 0 && !at)
        rc = err_set(EINVAL, "'%s' is not a snapshot", name);
    if (rc != 0)
        return rc;
    struct descending d = {dsl_of(c), at + 1, out};
    snprintf(head, sizeof head, "%.*s", (int)(at - name), name);
    rc = dataset_hold(d.dsl, head, &ds);
    if (rc != 0)
        return err_set(-rc, "cannot open '%s': %s", head,
                       rc == -ENOENT ? "dataset does not exist" : err_text(rc));
    dataset_rele(ds);
    if (!json_flag(c->args, "recursive"))
        return names_add(out, name);
    return dataset_each(d.dsl, head, -1, false, add_existing, &d);
}

static int change(struct call *c,
                  int (*fn)(struct dsl *, const char *const *, size_t, const char *),
                  const struct names *l)
{
    CLEANUP_FREE const char **list = calloc(l->n + 1, sizeof *list);
    const char *tag = json_text(c->args, "tag", NULL);
    if (!tag)
        return err_set(EINVAL, "no tag is named");
    for (size_t i = 0; list && i < l->n; i++)
        list[i] = l->name[i];
    return !list ? -ENOMEM : fn(dsl_of(c), list, l->n, tag);
}

/* hold: {holds: {name: tag}}; release: {name: {tag}} */
static void note(struct call *c, bool release, const struct names *l)
{
    CLEANUP_NVLIST struct nvlist *in = nvlist_new(), *inner = nvlist_new();
    const char *tag = json_text(c->args, "tag", "");
    int rc = in && inner ? 0 : -ENOMEM;
    if (rc == 0 && release)
        rc = nvlist_add_boolean(inner, tag);
    for (size_t i = 0; i < l->n && rc == 0; i++)
        rc = release ? nvlist_add_nvlist(in, l->name[i], inner)
                     : nvlist_add_string(inner, l->name[i], tag);
    if (rc == 0 && !release)
        rc = nvlist_add_nvlist(in, "holds", inner);
    if (rc == 0)
        call_note(c, release ? "release" : "hold", STEAL(in), NULL);
}

int op_zfs_hold(struct call *c)
{
    CLEANUP(names_free) struct names l = {0};
    int rc = named_snapshots(c, &l);
    if (rc == 0 && l.n == 0)
        rc = err_set(ENOENT, "dataset does not exist");
    if (rc == 0)
        rc = permission_need_all(c, &l, "hold");
    if (rc == 0)
        rc = change(c, dataset_userref_add, &l);
    if (rc == 0)
        note(c, false, &l);
    return rc;
}

/* Those that would be destroyed then are let go of by .zfs first; if they are in use, they stay. */
int op_zfs_release(struct call *c)
{
    CLEANUP(names_free) struct names l = {0};
    int rc = named_snapshots(c, &l);
    if (rc == 0 && l.n == 0)
        rc = err_set(ENOENT, "dataset does not exist");
    if (rc == 0)
        rc = permission_need_all(c, &l, "release");
    for (size_t i = 0; i < l.n && rc == 0; i++)
        mounts_release_snapshot(c->s, l.name[i], false);
    if (rc == 0)
        rc = change(c, dataset_userref_remove, &l);
    if (rc == 0)
        note(c, true, &l);
    if (rc == 0)
        mounts_snapshots_changed(c->s);
    return rc;
}

struct tags {
    struct call *c;
    const char *name;
};

static int tag_row(void *arg, const char *tag, uint64_t when)
{
    struct tags *t = arg;
    struct json_object *row = json_object_new_object();
    put_text(row, "name", t->name);
    put_text(row, "tag", tag);
    put_number(row, "time", when);
    return call_row(t->c, row);
}

int op_zfs_holds(struct call *c)
{
    CLEANUP(names_free) struct names l = {0};
    int rc = named_snapshots(c, &l);
    put_number(c->ok, "snapshots", l.n);
    for (size_t i = 0; i < l.n && rc == 0; i++) {
        struct tags t = {c, l.name[i]};
        struct dataset *snap;
        rc = dataset_hold(dsl_of(c), l.name[i], &snap);
        if (rc != 0)
            break;
        rc = dataset_userref_each(snap, tag_row, &t);
        dataset_rele(snap);
    }
    return rc;
}
