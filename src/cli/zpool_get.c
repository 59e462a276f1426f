/* zpool get, zpool set */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/zpool_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/bytes.h"
#include "util/err.h"

struct getting {
    struct report report;
    struct report_lines lines;
};

static int get_pool(const char *name, struct client *c, void *arg)
{
    struct getting *g = arg;
    struct json_object *props = json_object_new_array();
    for (size_t i = 0; i < g->lines.nprops && !g->lines.all; i++)
        json_object_array_add(props, json_object_new_string(g->lines.props[i]));
    if (g->lines.all)
        json_object_array_add(props, json_object_new_string("all"));
    return take_pool_row(name, c, &g->report, props);
}

static int print_json(struct getting *g)
{
    struct json_object *out = report_json_begin("zpool get"), *pools = json_object_new_object();
    for (size_t k = 0; k < g->report.n; k++) {
        struct json_object *row = g->report.rows[k], *o = report_json_pool(&g->report.style, row);
        report_json_lines(&g->report, row, o, &g->lines);
        json_object_object_add(pools, report_json_key(&g->report.style, row), o);
    }
    json_object_object_add(out, "pools", pools);
    return report_json_end(out);
}

/* The value column is at least as wide as the heading and words of each property would make it. */
static void fit_value(struct report_lines *l, const char *prop)
{
    struct report_column c;
    pool_column(prop, &c);
    size_t head = strlen(c.head);
    l->value_width = MAX(l->value_width, MAX(head, c.width));
}

static int choose(struct report_lines *l, const char *text)
{
    struct report_column columns[REPORT_COLUMNS_MAX];
    l->all = strcmp(text, "all") == 0;
    l->nprops = l->all ? pool_columns_all(columns) : pool_columns(text, columns);
    for (size_t i = 0; i < l->nprops; i++) {
        l->props[i] = columns[i].prop;
        fit_value(l, columns[i].prop);
    }
    return l->nprops > 0 ? 0 : 2;
}

static int parse(struct getting *g, int argc, char **argv)
{
    struct report_style *s = &g->report.style;
    int opt, rc = report_fields(&g->lines, "name,property,value,source", false);
    while (rc == 0 && (opt = getopt_long(argc, argv, ":Hpjo:", json_options, NULL)) != -1) {
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
        else if (opt == 'o')
            rc = report_fields(&g->lines, optarg, false);
        else
            rc = usage_option(opt);
    }
    return rc ? rc : json_style_check(s);
}

/* The first name is a pool's; what follows may be more pools. */
static int get_pools(struct getting *g, int argc, char **argv)
{
    struct client *c;
    for (int i = 0; i < argc; i++) {
        int rc = client_open(&c, argv[i]);
        if (rc == 0)
            client_close(c);
        else if (i > 0)
            return unsupported("getting properties of devices ('%s' is no pool)", argv[i]);
        else if (rc == -ENOENT)
            return fprintf(stderr, "Cannot get properties of %s: no such pool available.\n",
                           argv[i]),
                   1;
    }
    return each_pool(argc, argv, NULL, get_pool, g);
}

int zpool_get(int argc, char **argv)
{
    static struct getting g;
    int rc = parse(&g, argc, argv);
    if (rc != 0)
        return rc;
    if (optind == argc)
        return usage_error("missing property argument");
    rc = choose(&g.lines, argv[optind]);
    if (rc != 0)
        return rc;
    rc = get_pools(&g, argc - optind - 1, argv + optind + 1);
    if (g.report.style.json)
        print_json(&g);
    else
        report_print_lines(&g.report, &g.lines);
    report_free(&g.report);
    return rc;
}

int zpool_set(int argc, char **argv)
{
    if (getopt(argc, argv, ":") != -1)
        return usage_option('?');
    int n = argc - optind;
    if (n < 2)
        return usage_error(n < 1 ? "missing property=value argument" : "missing pool name");
    if (n > 3)
        return usage_error("too many pool names");
    if (!strchr(argv[optind], '='))
        return usage_error("missing value in property=value argument");
    if (n == 3)
        return unsupported("setting properties of devices");
    struct json_object *props = json_object_new_object(), *args = json_object_new_object();
    json_object_object_add(args, "props", props);
    add_assignment(props, argv[optind]);
    struct client *c = open_named_pool(argv[optind + 1]);
    if (!c) {
        json_object_put(args);
        return 1;
    }
    int rc = call_simple(c, "pool.set", args);
    if (rc == 0)
        record_command(c, argv[optind + 1]);
    else
        fail(rc, "cannot set property for '%s'", argv[optind + 1]);
    client_close(c);
    return rc ? 1 : 0;
}
