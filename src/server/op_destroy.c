/* zfs.destroy: what would go is listed first (rows), then it goes, from the end of the tree. */
#include <errno.h>
#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/bookmark.h"
#include "dsl/dsl.h"
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

int destroy_rows(struct call *c, const struct names *l)
{
    int rc = 0;
    for (size_t i = 0; i < l->n && rc == 0; i++) {
        struct json_object *row = json_object_new_object();
        put_text(row, "name", l->name[i]);
        rc = call_row(c, row);
    }
    return rc;
}

int refuse_listed(const struct names *l, const char *what)
{
    char text[3500] = "";
    size_t used = 0;
    for (size_t i = 0; i < l->n && used < sizeof text - 400; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "\n%s", l->name[i]);
    return err_set(EEXIST, "%s%s", what, text);
}

/* ---- File systems and volumes ---- */

/* A run of snapshots, all at once. */
static int destroy_run(struct call *c, const struct names *order, size_t *i)
{
    size_t end = *i;
    while (end < order->n && strchr(order->name[end], '@'))
        end++;
    const struct names run = {.name = order->name + *i, .n = end - *i};
    *i = end;
    return destroy_snapshots(c, &run);
}

/* How far it goes: to the first snapshot that is held. What comes after it stays, mounted as it is. */
static size_t first_held(struct call *c, const struct names *order)
{
    for (size_t i = 0; i < order->n; i++) {
        const char *name = order->name[i];
        if (strchr(name, '@') && dataset_snapshot_held(dsl_of(c), &name, 1) != 0)
            return i;
    }
    return order->n;
}

static int may_destroy(struct call *c, const struct names *order)
{
    int rc = permission_need_all(c, order, "destroy");
    for (size_t i = 0; i < order->n && rc == 0; i++)
        if (!strchr(order->name[i], '@')) {
            rc = permission_need(c, order->name[i], "mount");
            if (rc == 0)
                rc = permission_need_unmounted(c, order->name[i]);
        }
    return rc;
}

int destroy_in_order(struct call *c, const struct names *order, bool force)
{
    int rc = may_destroy(c, order);
    size_t end = rc == 0 ? first_held(c, order) : 0;
    for (size_t i = 0; i < end && rc == 0; i++)
        if (!strchr(order->name[i], '@'))
            rc = mounts_unmount_below(c->s, order->name[i], force, true);
    for (size_t i = 0; i < order->n && rc == 0;) {
        const char *name = order->name[i];
        if (strchr(name, '@')) {
            rc = destroy_run(c, order, &i);
            continue;
        }
        rc = dataset_destroy(dsl_of(c), name);
        if (rc != 0)
            rc = err_set(-rc, "cannot destroy '%s': %s", name, err_text(rc));
        i++;
    }
    return rc;
}

static bool below(const char *name, const char *top)
{
    size_t n = strlen(top);
    return strncmp(name, top, n) == 0 && (name[n] == '/' || name[n] == '@');
}

static const char *kind_of(struct call *c, const char *name)
{
    struct dataset *ds;
    bool volume = false;
    if (dataset_hold(dsl_of(c), name, &ds) == 0) {
        volume = dataset_type(ds) == OBJSET_ZVOL;
        dataset_rele(ds);
    }
    return volume ? "volume" : "filesystem";
}

/* Without -r nothing may be below it, without -R nothing may have been cloned from it elsewhere.
 * The last one of the order is the dataset itself. */
static int refuse_dependents(struct call *c, const char *name, const struct names *order)
{
    bool recursive = json_flag(c->args, "recursive");
    struct names in_the_way = {0};
    char what[200];
    int rc = 0;
    for (size_t i = 0; i + 1 < order->n && rc == 0; i++)
        if (below(order->name[i], name) != recursive)
            rc = names_add(&in_the_way, order->name[i]);
    snprintf(what, sizeof what,
             "%s has %s\nuse '%s' to destroy the following datasets:", kind_of(c, name),
             recursive ? "dependent clones" : "children", recursive ? "-R" : "-r");
    if (rc == 0 && in_the_way.n > 0)
        rc = refuse_listed(&in_the_way, what);
    names_free(&in_the_way);
    return rc;
}

static int destroy_tree(struct call *c, const char *name)
{
    bool root = strcmp(name, spa_name(c->s->spa)) == 0, clones = json_flag(c->args, "clones");
    CLEANUP(names_free) struct names top = {0}, order = {0};
    struct dataset *ds;
    if (root && !clones && !json_flag(c->args, "recursive"))
        return err_set(EINVAL,
                       "operation does not apply to pools\nuse 'zfs destroy -r %s' to destroy all "
                       "datasets in the pool\nuse 'zpool destroy %s' to destroy the pool itself",
                       name, name);
    int rc = dataset_hold(dsl_of(c), name, &ds);
    if (rc != 0)
        return rc;
    dataset_rele(ds);
    rc = permission_need(c, name, "destroy"); /* before anything is looked for and shown */
    if (rc == 0)
        rc = names_add(&top, name);
    if (rc == 0)
        rc = dependents_order(dsl_of(c), &top, &order);
    if (rc == 0 && !clones)
        rc = refuse_dependents(c, name, &order);
    if (rc == 0)
        rc = destroy_rows(c, &order);
    if (rc != 0 || json_flag(c->args, "dry_run"))
        return rc;
    if (root)
        order.n--; /* the pool itself stays */
    return destroy_in_order(c, &order, json_flag(c->args, "force"));
}

/* ---- Bookmarks ---- */

static int destroy_bookmark(struct call *c, const char *name)
{
    int rc = permission_need(c, name, "destroy");
    if (rc != 0 || json_flag(c->args, "dry_run"))
        return rc;
    rc = bookmark_destroy(dsl_of(c), &name, 1);
    if (rc == 0) {
        CLEANUP(names_free) struct names l = {0};
        if (names_add(&l, name) == 0)
            call_note(c, "destroy_bookmarks", call_names(NULL, &l), NULL);
    }
    return rc;
}

int op_zfs_destroy(struct call *c)
{
    const char *name;
    char why[ERR_TEXT_MAX];
    int rc = need_name(c, &name);
    if (rc == 0)
        rc = strchr(name, '@')   ? destroy_matching(c, name)
             : strchr(name, '#') ? destroy_bookmark(c, name)
                                 : destroy_tree(c, name);
    snprintf(why, sizeof why, "%s", err_text(rc));
    mounts_snapshots_changed(c->s);
    return rc ? err_set(-rc, "%s", why) : 0;
}
