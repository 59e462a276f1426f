/* zpool list */
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/table_impl.h"
#include "cli/zpool_impl.h"
#include "cli/zpool_list_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

static const char default_columns[] =
    "name,size,allocated,free,checkpoint,expandsize,fragmentation,"
    "capacity,dedupratio,health,altroot";

struct listing {
    struct report report;
    struct report_column columns[REPORT_COLUMNS_MAX];
    size_t n;
    struct vdev_naming naming;
    bool vdevs; /* -v */
    int argc;
    char **argv;
};

int take_pool_row(const char *name, struct client *c, struct report *r, struct json_object *props)
{
    struct json_object *args = json_object_new_object();
    json_object_object_add(args, "props", props);
    int rc = client_call(c, "pool.get", args, report_take, r, NULL);
    return rc ? fail(rc, "cannot get properties of '%s'", name) : 0;
}

static int list_pool(const char *name, struct client *c, void *arg)
{
    struct listing *l = arg;
    struct json_object *props = json_object_new_array(), *status;
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->columns[i].prop, "name") != 0)
            json_object_array_add(props, json_object_new_string(l->columns[i].prop));
    int rc = take_pool_row(name, c, &l->report, props);
    if (rc != 0 || !l->vdevs)
        return rc;
    rc = client_call(c, "pool.status", NULL, NULL, NULL, &status);
    if (rc != 0)
        return fail(rc, "cannot get the devices of '%s'", name);
    json_object_object_add(l->report.rows[l->report.n - 1], "vdevs",
                           json_object_get(json_member(status, "vdevs")));
    json_object_put(status);
    return 0;
}

/* ---- Text ---- */

static int add_vdev_rows(struct listing *l, struct table *t, struct json_object *list, int indent);

static int add_vdev_row(struct listing *l, struct table *t, struct json_object *vdev, int indent)
{
    char name[PATH_MAX + 64], buf[PATH_MAX], text[REPORT_COLUMNS_MAX][32];
    const char *cells[REPORT_COLUMNS_MAX];
    snprintf(name, sizeof name, l->report.style.scripted ? "\t%*s%s" : "%*s%s",
             l->report.style.scripted ? 0 : indent, "",
             vdev_name(&l->naming, vdev, buf, sizeof buf));
    for (size_t i = 0; i < l->n; i++)
        cells[i] = strcmp(l->columns[i].prop, "name") == 0
                       ? name
                       : vdev_cell(&l->report.style, vdev, l->columns[i].prop, text[i]);
    int rc = table_add_right(t, cells);
    return rc ? rc : add_vdev_rows(l, t, vdev_children(vdev), indent + 2);
}

static int add_vdev_rows(struct listing *l, struct table *t, struct json_object *list, int indent)
{
    int rc = 0;
    for (size_t k = 0; list && k < json_object_array_length(list) && rc == 0; k++)
        rc = add_vdev_row(l, t, json_object_array_get_idx(list, k), indent);
    return rc;
}

static int add_heading(struct listing *l, struct table *t, const char *title)
{
    const char *cells[REPORT_COLUMNS_MAX];
    for (size_t i = 0; i < l->n; i++)
        cells[i] = strcmp(l->columns[i].prop, "name") == 0 ? title : "-";
    return table_add_right(t, cells);
}

/* A row per vdev below the pool's own. */
static int add_all_vdevs(struct listing *l, struct table *t, struct json_object *root)
{
    int rc = 0;
    for (const struct vdev_section *s = vdev_sections; rc == 0 && (s->class || s->member); s++) {
        struct json_object *list = vdev_section(root, s, true);
        if (s->list_title && json_object_array_length(list) > 0)
            rc = add_heading(l, t, s->list_title);
        rc = rc ? rc : add_vdev_rows(l, t, list, 2);
        json_object_put(list);
    }
    return rc;
}

static int print_table(struct listing *l)
{
    struct column heads[REPORT_COLUMNS_MAX];
    const char *cells[REPORT_COLUMNS_MAX];
    struct table t;
    int rc = 0;
    for (size_t i = 0; i < l->n; i++) {
        heads[i] = (struct column){l->columns[i].head, l->columns[i].left, l->columns[i].width};
        if (l->vdevs && strcmp(l->columns[i].prop, "name") == 0)
            heads[i].width = VDEV_NAME_WIDTH;
    }
    table_init(&t, heads, l->n);
    for (size_t k = 0; k < l->report.n && rc == 0; k++) {
        struct json_object *row = l->report.rows[k];
        for (size_t i = 0; i < l->n; i++)
            cells[i] = report_value(&l->report, row, l->columns[i].prop);
        rc = table_add(&t, cells);
        if (rc == 0)
            rc = add_all_vdevs(l, &t, json_member(row, "vdevs"));
    }
    if (rc == 0 && l->report.n > 0)
        table_print(&t, l->report.style.scripted);
    table_free(&t);
    return rc ? fail(rc, "cannot print the list") : 0;
}

/* ---- JSON ---- */

static int print_json(struct listing *l)
{
    struct json_object *out = report_json_begin("zpool list"), *pools = json_object_new_object();
    for (size_t k = 0; k < l->report.n; k++) {
        struct json_object *row = l->report.rows[k], *o = report_json_pool(&l->report.style, row);
        report_json_columns(&l->report, row, o, l->columns, l->n);
        if (l->vdevs)
            json_object_object_add(o, "vdevs",
                                   list_vdevs_json(&l->report, &l->naming,
                                                   json_member(row, "vdevs"), l->columns, l->n));
        json_object_object_add(pools, report_json_key(&l->report.style, row), o);
    }
    json_object_object_add(out, "pools", pools);
    return report_json_end(out);
}

static int list_once(void *arg)
{
    struct listing *l = arg;
    /* As in the reference, a missing pool is a failure only if there is no other. */
    int missing = 0, rc = l->argc > 0 ? each_named_pool(l->argc, l->argv, list_pool, l, &missing)
                                      : each_pool(0, NULL, NULL, list_pool, l);
    rc = missing > 0 && l->report.n == 0 ? 1 : rc;
    if (l->report.style.json)
        print_json(l);
    else if (l->report.n > 0)
        print_table(l);
    else if (rc == 0 && !l->report.style.scripted)
        printf("no pools available\n");
    report_free(&l->report);
    return rc;
}

static int parse(struct listing *l, struct repeat *r, int argc, char **argv, const char **columns)
{
    struct report_style *s = &l->report.style;
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt_long(argc, argv, ":gHLpPvjo:T:", json_options, NULL)) != -1) {
        if (opt == 'H')
            s->scripted = true;
        else if (opt == 'p')
            s->exact = true;
        else if (opt == 'j')
            s->json = true;
        else if (opt == OPT_JSON_INT)
            s->json_int = true;
        else if (opt == OPT_KEY_GUID)
            s->key_guid = true;
        else if (opt == 'g')
            l->naming.guid = true;
        else if (opt == 'L')
            l->naming.follow = true;
        else if (opt == 'P')
            l->naming.full = true;
        else if (opt == 'v')
            l->vdevs = true;
        else if (opt == 'o')
            *columns = optarg;
        else if (opt == 'T')
            rc = repeat_stamp(r, optarg);
        else
            rc = usage_option(opt);
    }
    return rc;
}

int zpool_list(int argc, char **argv)
{
    static struct listing l;
    struct repeat r = {0};
    const char *columns = default_columns;
    int rc = parse(&l, &r, argc, argv, &columns);
    if (rc == 0)
        rc = json_style_check(&l.report.style);
    if (rc != 0)
        return rc;
    l.n = strcmp(columns, "all") == 0 ? pool_columns_all(l.columns)
                                      : pool_columns(columns, l.columns);
    if (l.n == 0)
        return 2;
    l.argv = argv + optind;
    l.argc = repeat_parse(&r, argc - optind, l.argv);
    return repeat(&r, list_once, &l);
}
