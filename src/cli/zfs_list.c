/* zfs list */
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/zfs_impl.h"
#include "dsl/props.h"
#include "server/json.h"

#define SORT_KEYS_MAX 16

static const char default_columns[] = "name,used,available,referenced,mountpoint";
static const char space_columns[] = "name,available,used,usedbysnapshots,usedbydataset,"
                                    "usedbyrefreservation,usedbychildren";

struct listing {
    struct report report;
    struct report_column columns[REPORT_COLUMNS_MAX];
    size_t n;
    struct report_sort keys[SORT_KEYS_MAX];
    size_t nkeys;
    struct selection select;
    const char *fields;
};

static int add_column(struct listing *l, const char *name)
{
    if (l->n == REPORT_COLUMNS_MAX)
        return usage_error("too many columns");
    return zfs_column(name, &l->columns[l->n++]);
}

static int add_space(struct listing *l)
{
    static struct json_object *list; /* as in choose_columns() */
    int rc = 0;
    if (!list)
        list = split_list(space_columns);
    for (size_t i = 0; i < json_count(list) && rc == 0; i++)
        rc = add_column(l, json_item(list, i));
    return rc;
}

static int choose_columns(struct listing *l)
{
    static struct json_object *list; /* the names live as long as the program */
    const char *text = l->fields;
    int rc = 0;
    size_t n;
    if (strcmp(text, "all") == 0) {
        const struct prop_info *table = prop_table(&n);
        rc = add_column(l, "name");
        for (size_t i = 0; i < n && rc == 0; i++)
            if (strcmp(table[i].name, "redacted") != 0)
                rc = add_column(l, table[i].name);
        return rc;
    }
    list = split_list(text);
    for (size_t i = 0; i < json_count(list) && rc == 0; i++)
        rc = strcmp(json_item(list, i), "space") == 0 ? add_space(l) : add_column(l, json_item(list, i));
    if (rc == 0 && l->n == 0)
        rc = usage_error("bad property list: it is empty");
    return rc;
}

static int add_key(struct listing *l, const char *name, bool reverse)
{
    const struct prop_info *info = prop_info(name);
    if (!info && strcmp(name, "name") != 0 && !prop_user_name(name))
        return usage_error("invalid property '%s'", name);
    if (l->nkeys < SORT_KEYS_MAX)
        l->keys[l->nkeys++] = (struct report_sort){info ? info->name : name, reverse};
    return 0;
}

/* What the server is asked for: the columns, and what is sorted by. */
static struct json_object *wanted(const struct listing *l)
{
    struct json_object *props = json_object_new_array();
    for (size_t i = 0; i < l->n + l->nkeys; i++) {
        const char *name = i < l->n ? l->columns[i].prop : l->keys[i - l->n].prop;
        if (strcmp(name, "name") != 0) /* every row has it */
            json_object_array_add(props, json_object_new_string(name));
    }
    return props;
}

static int print_json(struct listing *l)
{
    struct json_object *out = report_json_begin("zfs list"), *all = json_object_new_object();
    for (size_t k = 0; k < l->report.n; k++) {
        struct json_object *row = l->report.rows[k],
                           *o = report_json_dataset(&l->report.style, row);
        report_json_columns(&l->report, row, o, l->columns, l->n);
        json_object_object_add(all, json_text(row, "name", "?"), o);
    }
    json_object_object_add(out, "datasets", all);
    return report_json_end(out);
}

static int parse(struct listing *l, int argc, char **argv)
{
    static const struct option longer[] = {
        {"json", no_argument, NULL, 'j'}, {"json-int", no_argument, NULL, 'J'}, {0}};
    struct report_style *s = &l->report.style;
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt_long(argc, argv, ":HpPrjo:t:s:S:d:", longer, NULL)) != -1) {
        if (opt == 'H')
            s->scripted = true;
        else if (opt == 'p')
            s->exact = true;
        else if (opt == 'r')
            l->select.recursive = true;
        else if (opt == 'j')
            s->json = true;
        else if (opt == 'J')
            s->json_int = true;
        else if (opt == 'o')
            l->fields = optarg;
        else if (opt == 't')
            l->select.types = optarg;
        else if (opt == 's' || opt == 'S')
            rc = add_key(l, optarg, opt == 'S');
        else if (opt == 'd')
            rc = select_depth(&l->select, optarg);
        else if (opt != 'P')
            rc = usage_option(opt);
    }
    if (rc == 0 && s->json_int && !s->json)
        rc = usage_error("'--json-int' only works with '-j' option");
    return rc ? rc : choose_columns(l);
}

int zfs_list(int argc, char **argv)
{
    static struct listing l = {.fields = default_columns, .select = {.depth = -1}};
    int rc = parse(&l, argc, argv);
    if (rc != 0)
        return rc;
    l.select.props = wanted(&l);
    l.select.names_only =
        json_object_array_length(l.select.props) == 0 && !l.report.style.json;
    l.select.ordered = l.nkeys == 0; /* any order but that of their names: when were they made? */
    rc = select_datasets(&l.select, argc - optind, argv + optind, &l.report);
    json_object_put(l.select.props);
    if (rc == 2)
        return rc;
    if (l.nkeys > 0)
        report_sort(&l.report, l.keys, l.nkeys);
    if (l.report.style.json)
        print_json(&l);
    else if (l.report.n > 0)
        report_columns(&l.report, l.columns, l.n);
    else if (rc == 0 && !l.report.style.scripted)
        fprintf(stderr, "no datasets available\n");
    report_free(&l.report);
    return rc;
}
