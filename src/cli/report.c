/* Rows, as columns and as lines; JSON is in report_json.c. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command_impl.h"
#include "cli/report_impl.h"
#include "cli/table_impl.h"
#include "server/json.h"
#include "util/bytes.h"

int report_take(void *arg, struct json_object *row)
{
    struct report *r = arg;
    struct json_object **more = realloc(r->rows, (r->n + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    r->rows = more;
    r->rows[r->n++] = json_object_get(row);
    return 0;
}

void report_free(struct report *r)
{
    for (size_t i = 0; i < r->n; i++)
        json_object_put(r->rows[i]);
    free(r->rows);
    r->rows = NULL;
    r->n = 0;
}

struct json_object *report_prop(struct json_object *row, const char *name)
{
    return json_member(json_member(row, "props"), name);
}

static const char *value_text(const struct report *r, struct json_object *prop)
{
    const char *text = json_text(prop, "value", "-");
    return r->style.exact || r->style.json_int ? json_text(prop, "raw", text) : text;
}

const char *report_value(const struct report *r, struct json_object *row, const char *name)
{
    if (strcmp(name, "name") == 0)
        return json_text(row, "name", "?");
    return value_text(r, report_prop(row, name));
}

/* ---- Columns ---- */

static const struct report_sort *sort_keys;
static size_t sort_count;

static int compare_texts(const char *p, const char *q)
{
    return p && q ? strcmp(p, q) : 0;
}

static int compare_by(struct json_object *x, struct json_object *y, const struct report_sort *key)
{
    struct json_object *p = report_prop(x, key->prop), *q = report_prop(y, key->prop);
    int c;
    if (strcmp(key->prop, "name") == 0)
        c = compare_texts(json_text(x, "name", NULL), json_text(y, "name", NULL));
    else if (!p || !q)
        return (p == NULL) - (q == NULL); /* what has no value comes last, in both directions */
    else if (json_member(p, "number") && json_member(q, "number"))
        c = (json_unsigned(p, "number") > json_unsigned(q, "number")) -
            (json_unsigned(p, "number") < json_unsigned(q, "number"));
    else
        c = compare_texts(json_text(p, "value", NULL), json_text(q, "value", NULL));
    return key->reverse ? -c : c;
}

static int compare_rows(const void *a, const void *b)
{
    struct json_object *x = *(struct json_object *const *)a, *y = *(struct json_object *const *)b;
    for (size_t i = 0; i < sort_count; i++) {
        int c = compare_by(x, y, &sort_keys[i]);
        if (c != 0)
            return c;
    }
    /* As they were: names in order, snapshots by age. */
    return (int)(json_number(x, "order", 0) - json_number(y, "order", 0));
}

void report_sort(struct report *r, const struct report_sort *keys, size_t n)
{
    for (size_t i = 0; i < r->n; i++)
        json_object_object_add(r->rows[i], "order", json_object_new_int((int)i));
    sort_keys = keys;
    sort_count = n;
    if (r->n > 1)
        qsort(r->rows, r->n, sizeof *r->rows, compare_rows);
}

int report_columns(const struct report *r, const struct report_column *columns, size_t n)
{
    struct column heads[REPORT_COLUMNS_MAX];
    const char *cells[REPORT_COLUMNS_MAX];
    struct table t;
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        heads[i] = (struct column){columns[i].head, columns[i].left, columns[i].width};
    table_init(&t, heads, n);
    for (size_t k = 0; k < r->n && rc == 0; k++) {
        for (size_t i = 0; i < n; i++)
            cells[i] = report_value(r, r->rows[k], columns[i].prop);
        rc = table_add(&t, cells);
    }
    if (rc == 0 && r->n > 0)
        table_print(&t, r->style.scripted);
    table_free(&t);
    return rc;
}

/* ---- Lines ---- */

static const char *const field_names[FIELDS] = {"name", "property", "value", "received", "source"};
static const char *const field_heads[FIELDS] = {"NAME", "PROPERTY", "VALUE", "RECEIVED", "SOURCE"};
static const char *const source_names[] = {"none",      "default",  "local",
                                           "inherited", "received", "temporary"};

int report_fields(struct report_lines *l, const char *text, bool with_received)
{
    struct json_object *list = split_list(text);
    int rc = 0;
    l->nfields = 0;
    for (size_t i = 0; i < json_object_array_length(list) && rc == 0; i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(list, i));
        int f = 0;
        while (f < FIELDS &&
               (strcmp(name, field_names[f]) != 0 || (f == FIELD_RECEIVED && !with_received)))
            f++;
        if (f < FIELDS && l->nfields == FIELDS)
            rc = usage_error("too many fields given to -o option");
        else if (f < FIELDS)
            l->field[l->nfields++] = (enum report_field)f;
        else if (strcmp(name, "all") != 0)
            rc = usage_error("invalid column name '%s'", name);
        else if (i > 0 || json_object_array_length(list) > 1)
            rc = usage_error("\"all\" conflicts with specific fields given to -o option");
    }
    for (int f = 0; f < FIELDS && rc == 0 && strcmp(text, "all") == 0; f++)
        if (f != FIELD_RECEIVED || with_received)
            l->field[l->nfields++] = (enum report_field)f;
    json_object_put(list);
    return rc;
}

int report_sources(struct report_lines *l, const char *text)
{
    struct json_object *list = split_list(text);
    int rc = 0;
    l->sources = 0;
    for (size_t i = 0; i < json_object_array_length(list) && rc == 0; i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(list, i));
        size_t k = 0;
        while (k < ARRAY_LEN(source_names) && strcmp(name, source_names[k]) != 0)
            k++;
        if (k == ARRAY_LEN(source_names))
            rc = usage_error("invalid source '%s'", name);
        else
            l->sources |= 1u << k;
    }
    json_object_put(list);
    return rc;
}

bool report_source_wanted(const struct report_lines *l, struct json_object *prop)
{
    const char *source = json_text(prop, "source", "-");
    for (size_t k = 0; k < ARRAY_LEN(source_names); k++)
        if (strcmp(source, k == 0 ? "-" : source_names[k]) == 0)
            return l->sources == 0 || (l->sources & (1u << k));
    return true;
}

static int add_line(const struct report *r, const struct report_lines *l, struct table *t,
                    struct json_object *row, const char *name, struct json_object *prop)
{
    char source[600];
    const char *cells[FIELDS], *word = json_text(prop, "source", "-");
    if (!report_source_wanted(l, prop))
        return 0;
    bool inherited = strcmp(word, "inherited") == 0;
    snprintf(source, sizeof source, "%s%s", inherited ? "inherited from " : word,
             inherited ? json_text(prop, "from", "?") : "");
    for (size_t i = 0; i < l->nfields; i++) {
        const char *all[FIELDS] = {json_text(row, "name", "?"), name, value_text(r, prop),
                                   json_text(prop, "received", "-"), source};
        cells[i] = all[l->field[i]];
    }
    return table_add(t, cells);
}

/* Each property that is to be shown of a row: as asked, or all the server sent. */
static int each_line(const struct report *r, const struct report_lines *l, struct table *t,
                     struct json_object *row)
{
    int rc = 0;
    if (l->all) {
        json_object_object_foreach(json_member(row, "props"), name, prop)
        {
            if (rc == 0)
                rc = add_line(r, l, t, row, name, prop);
        }
        return rc;
    }
    for (size_t i = 0; i < l->nprops && rc == 0; i++)
        rc = add_line(r, l, t, row, l->props[i], report_prop(row, l->props[i]));
    return rc;
}

int report_print_lines(const struct report *r, const struct report_lines *l)
{
    struct column heads[FIELDS];
    struct table t;
    int rc = 0;
    for (size_t i = 0; i < l->nfields; i++)
        heads[i] = (struct column){field_heads[l->field[i]], true,
                                   l->field[i] == FIELD_VALUE ? l->value_width : 0};
    table_init(&t, heads, l->nfields);
    for (size_t k = 0; k < r->n && rc == 0; k++)
        rc = each_line(r, l, &t, r->rows[k]);
    if (rc == 0 && t.rows > 0)
        table_print(&t, r->style.scripted);
    table_free(&t);
    return rc;
}
