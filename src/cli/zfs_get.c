/* zfs get */
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/zfs_impl.h"
#include "dsl/props.h"
#include "server/json.h"
#include "util/bytes.h"

struct getting {
    struct report report;
    struct report_lines lines;
    struct selection select;
};

/* The value column is at least as wide as the property's heading and longest word. */
static void fit_value(struct report_lines *l, const struct report_column *c)
{
    size_t head = strlen(c->head);
    l->value_width = MAX(l->value_width, MAX(head, c->left ? c->width : 0));
}

static int choose_all(struct getting *g)
{
    size_t n;
    struct report_column c;
    const struct prop_info *table = prop_table(&n);
    g->lines.all = g->select.user = true;
    for (size_t i = 0; i < n; i++)
        if (zfs_column(table[i].name, &c) == 0)
            fit_value(&g->lines, &c);
    json_object_array_add(g->select.props, json_object_new_string("all"));
    return 0;
}

static int choose(struct getting *g, const char *text)
{
    static struct json_object *list; /* the names live as long as the program */
    struct report_column c;
    int rc = 0;
    g->select.props = json_object_new_array();
    if (strcmp(text, "all") == 0)
        return choose_all(g);
    list = split_list(text);
    for (size_t i = 0; i < json_count(list) && rc == 0; i++) {
        rc = zfs_column(json_item(list, i), &c);
        if (rc == 0 && g->lines.nprops == REPORT_COLUMNS_MAX)
            rc = usage_error("too many properties");
        if (rc != 0)
            break;
        g->lines.props[g->lines.nprops++] = c.prop;
        fit_value(&g->lines, &c);
        if (strcmp(c.prop, "name") != 0)
            json_object_array_add(g->select.props, json_object_new_string(c.prop));
    }
    if (rc == 0 && g->lines.nprops == 0)
        rc = usage_error("bad property list: it is empty");
    return rc;
}

static int print_json(struct getting *g)
{
    struct json_object *out = report_json_begin("zfs get"), *all = json_object_new_object();
    for (size_t k = 0; k < g->report.n; k++) {
        struct json_object *row = g->report.rows[k],
                           *o = report_json_dataset(&g->report.style, row);
        report_json_lines(&g->report, row, o, &g->lines);
        if (json_object_object_length(json_member(o, "properties")) > 0)
            json_object_object_add(all, json_text(row, "name", "?"), o);
        else
            json_object_put(o);
    }
    json_object_object_add(out, "datasets", all);
    return report_json_end(out);
}

static int parse(struct getting *g, int argc, char **argv)
{
    static const struct option longer[] = {
        {"json", no_argument, NULL, 'j'}, {"json-int", no_argument, NULL, 'J'}, {0}};
    struct report_style *s = &g->report.style;
    int opt, rc = report_fields(&g->lines, "name,property,value,source", true);
    while (rc == 0 && (opt = getopt_long(argc, argv, ":Hprjo:t:s:d:", longer, NULL)) != -1) {
        if (opt == 'H')
            s->scripted = true;
        else if (opt == 'p')
            s->exact = true;
        else if (opt == 'r')
            g->select.recursive = true;
        else if (opt == 'j')
            s->json = true;
        else if (opt == 'J')
            s->json_int = true;
        else if (opt == 'o')
            rc = report_fields(&g->lines, optarg, true);
        else if (opt == 't')
            g->select.types = optarg;
        else if (opt == 's')
            rc = report_sources(&g->lines, optarg);
        else if (opt == 'd')
            rc = select_depth(&g->select, optarg);
        else
            rc = usage_option(opt);
    }
    if (rc == 0 && s->json_int && !s->json)
        rc = usage_error("'--json-int' only works with '-j' option");
    return rc;
}

int zfs_get(int argc, char **argv)
{
    static struct getting g = {.select = {.depth = -1, .otherwise = "all"}};
    int rc = parse(&g, argc, argv);
    if (rc == 0 && optind == argc)
        rc = usage_error("missing property argument");
    if (rc == 0)
        rc = choose(&g, argv[optind]);
    if (rc == 0)
        rc = select_datasets(&g.select, argc - optind - 1, argv + optind + 1, &g.report);
    if (rc != 2 && g.report.style.json)
        print_json(&g);
    else if (rc != 2)
        report_print_lines(&g.report, &g.lines);
    json_object_put(g.select.props);
    report_free(&g.report);
    return rc;
}
