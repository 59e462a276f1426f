/* zfs.destroy of snapshots: fs@a,b%c,... */
#include <errno.h>
#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/dsl.h"
#include "nvlist/nvlist.h"
#include "server/calls_impl.h"
#include "server/dependents_impl.h"
#include "server/destroy_impl.h"
#include "server/permissions_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static struct dsl *dsl_of(struct call *c)
{
    return spa_dsl(c->s->spa);
}

int destroy_snapshots(struct call *c, const struct names *l)
{
    CLEANUP_FREE const char **list = calloc(l->n + 1, sizeof *list);
    bool force = json_flag(c->args, "force");
    int rc = list ? permission_need_all(c, l, "destroy") : -ENOMEM;
    for (size_t i = 0; i < l->n && rc == 0; i++) {
        list[i] = l->name[i];
        if (mounts_release_snapshot(c->s, list[i], force) != 0)
            rc = err_set(EBUSY, "cannot destroy '%s': dataset is busy", list[i]);
    }
    if (rc == 0)
        rc = dataset_snapshot_destroy(dsl_of(c), list, l->n, json_flag(c->args, "defer"));
    if (rc == 0 && l->n > 0) {
        struct nvlist *in = call_names("snaps", l);
        if (in && json_flag(c->args, "defer"))
            (void)nvlist_add_boolean(in, "defer");
        call_note(c, "destroy_snaps", in, NULL);
    }
    return rc;
}

/* ---- Which snapshots a list means ---- */

static size_t position(const struct names *snaps, const char *name, size_t n)
{
    for (size_t i = 0; i < snaps->n; i++) {
        const char *at = strchr(snaps->name[i], '@');
        if (at && strlen(at + 1) == n && strncmp(at + 1, name, n) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* Part of a list: "name", or "from%to", either end of which may be empty; an end that does not
 * exist makes it match nothing. snaps is oldest first; its entry 0 is the file system itself. */
static void match_part(const struct names *snaps, const char *part, size_t n, bool *hit)
{
    const char *percent = memchr(part, '%', n);
    size_t from = percent ? (size_t)(percent - part) : n, to = percent ? n - from - 1 : n;
    size_t first = percent && from == 0 ? 1 : position(snaps, part, from);
    size_t last =
        percent && to == 0 ? snaps->n - 1 : position(snaps, percent ? percent + 1 : part, to);
    if (first == SIZE_MAX || last == SIZE_MAX)
        return;
    for (size_t i = first; i <= last; i++)
        hit[i] = true;
}

/* All snapshots of a file system against one part after the other. */
static int match_snapshots(const struct names *snaps, const char *spec, struct names *out)
{
    CLEANUP_FREE bool *hit = calloc(snaps->n + 1, sizeof *hit);
    int rc = hit ? 0 : -ENOMEM;
    for (const char *p = spec; rc == 0 && *p;) {
        size_t n = strcspn(p, ",");
        if (n > 0)
            match_part(snaps, p, n, hit);
        p += n + (p[n] == ',');
    }
    for (size_t i = 0; i < snaps->n && rc == 0; i++)
        if (hit[i])
            rc = names_add(out, snaps->name[i]);
    return rc;
}

struct descending {
    struct call *c;
    const char *spec;
    struct names *out;
};

static int match_in(void *arg, struct dataset *ds)
{
    struct descending *d = arg;
    CLEANUP(names_free) struct names snaps = {0};
    char name[DATASET_NAME_MAX];
    dataset_name(ds, name);
    int rc = dataset_each(dsl_of(d->c), name, 0, true, names_collect, &snaps);
    if (rc == 0)
        rc = match_snapshots(&snaps, d->spec, d->out);
    return rc == -ENOENT ? 0 : rc;
}

/* ---- Doing it ---- */

static uint64_t reclaimed(struct call *c, const struct names *l)
{
    CLEANUP_FREE const char **list = calloc(l->n + 1, sizeof *list);
    uint64_t bytes = 0;
    for (size_t i = 0; list && i < l->n; i++)
        list[i] = l->name[i];
    return list && dataset_snapshot_space(dsl_of(c), list, l->n, &bytes) == 0 ? bytes : 0;
}

/* Without -R nothing may have been cloned from them. */
static int refuse_clones(struct call *c, const struct names *found)
{
    int rc = 0;
    for (size_t i = 0; i < found->n && rc == 0; i++) {
        CLEANUP(names_free) struct names clones = {0}, order = {0};
        char what[DATASET_NAME_MAX + 200];
        rc = clones_of(dsl_of(c), found->name[i], &clones);
        if (rc == 0)
            rc = dependents_order(dsl_of(c), &clones, &order);
        snprintf(what, sizeof what,
                 "cannot destroy '%s': snapshot has dependent clones\nuse '-R' to destroy the "
                 "following datasets:",
                 found->name[i]);
        if (rc == 0 && order.n > 0)
            rc = refuse_listed(&order, what);
    }
    return rc;
}

/* It takes a while for many snapshots. */
static int reclaim_row(struct call *c, const struct names *l)
{
    if (!json_flag(c->args, "reclaim"))
        return 0;
    struct json_object *row = json_object_new_object();
    put_number(row, "reclaim", reclaimed(c, l));
    return call_row(c, row);
}

/* What else goes with -R. */
static int rows_of_the_rest(struct call *c, const struct names *order, const struct names *found)
{
    CLEANUP(names_free) struct names rest = {0};
    int rc = 0;
    for (size_t i = 0; i < order->n && rc == 0; i++) {
        size_t k = 0;
        while (k < found->n && strcmp(order->name[i], found->name[k]) != 0)
            k++;
        if (k == found->n)
            rc = names_add(&rest, order->name[i]);
    }
    return rc ? rc : destroy_rows(c, &rest);
}

static int find_matching(struct call *c, const char *name, struct names *found)
{
    char head[DATASET_NAME_MAX];
    const char *at = strchr(name, '@');
    struct descending d = {c, at + 1, found};
    snprintf(head, sizeof head, "%.*s", (int)(at - name), name);
    int rc = dataset_each(dsl_of(c), head, json_flag(c->args, "recursive") ? -1 : 0, false,
                          match_in, &d);
    if (rc == 0 && found->n == 0)
        rc = err_set(ESRCH, "could not find any snapshots to destroy; check snapshot names.");
    return rc;
}

int destroy_matching(struct call *c, const char *name)
{
    CLEANUP(names_free) struct names found = {0}, order = {0};
    bool clones = json_flag(c->args, "clones");
    int rc = find_matching(c, name, &found);
    if (rc == 0)
        rc = permission_need_all(c, &found, "destroy");
    if (rc == 0)
        rc = destroy_rows(c, &found);
    if (rc == 0 && !clones && !json_flag(c->args, "defer"))
        rc = refuse_clones(c, &found);
    if (rc == 0)
        rc = reclaim_row(c, &found);
    if (rc == 0 && clones)
        rc = dependents_order(dsl_of(c), &found, &order);
    if (rc == 0 && clones)
        rc = rows_of_the_rest(c, &order, &found);
    if (rc != 0 || json_flag(c->args, "dry_run"))
        return rc;
    return clones ? destroy_in_order(c, &order, json_flag(c->args, "force"))
                  : destroy_snapshots(c, &found);
}
