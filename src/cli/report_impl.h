/*
 * What list and get show. The server sends one row per pool or dataset:
 *
 *   {"name", "type", ..., "props": {NAME: {"value", "raw", "number", "source", "from"}}}
 *
 * (docs/control-protocol.md); a report keeps these rows and prints them as columns, as a line per
 * property, or as JSON.
 */
#ifndef CLI_REPORT_IMPL_H
#define CLI_REPORT_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#define REPORT_COLUMNS_MAX 128

struct json_object;

struct report_column {
    const char *prop; /* "name" is the row's name */
    char head[64];
    bool left;
    size_t width; /* at least */
};

/* How values are written, and the JSON forms. */
struct report_style {
    bool scripted; /* -H */
    bool exact;    /* -p */
    bool json;     /* -j */
    bool json_int; /* --json-int: implies exact */
    bool key_guid; /* --json-pool-key-guid: pools are keyed by guid */
};

struct report {
    struct report_style style;
    struct json_object **rows;
    size_t n;
};

/* A client_row_fn; arg is the report. Keeps the row. */
int report_take(void *arg, struct json_object *row);
void report_free(struct report *r);

/* A property of a row: its object or NULL; its text as style.exact says, "-" if it has none. */
struct json_object *report_prop(struct json_object *row, const char *name);
const char *report_value(const struct report *r, struct json_object *row, const char *name);

/* ---- list: a line per row ---- */

struct report_sort {
    const char *prop;
    bool reverse;
};
void report_sort(struct report *r, const struct report_sort *keys, size_t n);
int report_columns(const struct report *r, const struct report_column *columns, size_t n);

/* ---- get: a line per property ---- */

enum report_field { FIELD_NAME, FIELD_PROPERTY, FIELD_VALUE, FIELD_RECEIVED, FIELD_SOURCE, FIELDS };

struct report_lines {
    enum report_field field[FIELDS]; /* what is shown, in this order */
    size_t nfields;
    const char *props[REPORT_COLUMNS_MAX];
    size_t nprops;
    bool all;           /* all the server sent instead of props */
    unsigned sources;   /* a bit per source word; 0: all */
    size_t value_width; /* at least */
};

/* "name,value" or "all" into fields; 0 or 2 after a message. */
int report_fields(struct report_lines *l, const char *text, bool with_received);
/* "local,inherited" into sources; 0 or 2 after a message. */
int report_sources(struct report_lines *l, const char *text);
bool report_source_wanted(const struct report_lines *l, struct json_object *prop);
int report_print_lines(const struct report *r, const struct report_lines *l);

/* ---- JSON ---- */

/* An object that has {"output_version": ...} of this command; and its end: printed and put. */
struct json_object *report_json_begin(const char *command);
int report_json_end(struct json_object *o);
/* A number, or its text, as the style says. */
void report_json_number(const struct report_style *s, struct json_object *o, const char *key,
                        unsigned long long n);
/* "properties": {NAME: {"value", "source": {"type", "data"}}} into o. */
void report_json_columns(const struct report *r, struct json_object *row, struct json_object *o,
                         const struct report_column *columns, size_t n);
void report_json_lines(const struct report *r, struct json_object *row, struct json_object *o,
                       const struct report_lines *l);
/* What comes before the properties of a pool and of a dataset. */
struct json_object *report_json_pool(const struct report_style *s, struct json_object *row);
struct json_object *report_json_dataset(const struct report_style *s, struct json_object *row);
/* The key of a pool among "pools": its name or guid. */
const char *report_json_key(const struct report_style *s, struct json_object *row);

#endif
