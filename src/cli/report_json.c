/* Rows as JSON, in the reference's shape (version 0.1 of its output). */
#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_impl.h"
#include "server/json.h"

struct json_object *report_json_begin(const char *command)
{
    struct json_object *o = json_object_new_object(), *v = json_object_new_object();
    json_object_object_add(v, "command", json_object_new_string(command));
    json_object_object_add(v, "vers_major", json_object_new_int(0));
    json_object_object_add(v, "vers_minor", json_object_new_int(1));
    json_object_object_add(o, "output_version", v);
    return o;
}

int report_json_end(struct json_object *o)
{
    puts(
        json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(o);
    return 0;
}

void report_json_number(const struct report_style *s, struct json_object *o, const char *key,
                        unsigned long long n)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", n);
    json_object_object_add(o, key,
                           s->json_int ? json_object_new_uint64(n) : json_object_new_string(text));
}

static struct json_object *value_json(const struct report *r, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (r->style.json_int && isdigit((unsigned char)*text) && *end == 0 && errno == 0)
        return json_object_new_uint64(n);
    return json_object_new_string(text);
}

static void add_prop(const struct report *r, struct json_object *row, struct json_object *into,
                     const char *name)
{
    struct json_object *v = json_object_new_object(), *s = json_object_new_object();
    struct json_object *prop = report_prop(row, name);
    const char *word = json_text(prop, "source", "-");
    char type[32];
    snprintf(type, sizeof type, "%s", strcmp(word, "-") == 0 ? "none" : word);
    for (char *p = type; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    json_object_object_add(v, "value", value_json(r, report_value(r, row, name)));
    json_object_object_add(s, "type", json_object_new_string(type));
    json_object_object_add(s, "data", json_object_new_string(json_text(prop, "from", "-")));
    json_object_object_add(v, "source", s);
    json_object_object_add(into, name, v);
}

void report_json_columns(const struct report *r, struct json_object *row, struct json_object *o,
                         const struct report_column *columns, size_t n)
{
    struct json_object *props = json_object_new_object();
    for (size_t i = 0; i < n; i++)
        if (strcmp(columns[i].prop, "name") != 0)
            add_prop(r, row, props, columns[i].prop);
    json_object_object_add(o, "properties", props);
}

void report_json_lines(const struct report *r, struct json_object *row, struct json_object *o,
                       const struct report_lines *l)
{
    struct json_object *props = json_object_new_object(), *sent = json_member(row, "props");
    if (l->all) {
        json_object_object_foreach(sent, name, prop)
        {
            if (report_source_wanted(l, prop))
                add_prop(r, row, props, name);
        }
    }
    for (size_t i = 0; !l->all && i < l->nprops; i++)
        if (report_source_wanted(l, report_prop(row, l->props[i])))
            add_prop(r, row, props, l->props[i]);
    json_object_object_add(o, "properties", props);
}

static void add_text(struct json_object *o, const char *key, const char *text)
{
    json_object_object_add(o, key, json_object_new_string(text));
}

struct json_object *report_json_pool(const struct report_style *s, struct json_object *row)
{
    struct json_object *o = json_object_new_object();
    add_text(o, "name", json_text(row, "name", "?"));
    add_text(o, "type", "POOL");
    add_text(o, "state", json_text(row, "state", "?"));
    report_json_number(s, o, "pool_guid", json_unsigned(row, "guid"));
    report_json_number(s, o, "txg", json_unsigned(row, "txg"));
    report_json_number(s, o, "spa_version", json_unsigned(row, "version"));
    report_json_number(s, o, "zpl_version", 5);
    return o;
}

struct json_object *report_json_dataset(const struct report_style *s, struct json_object *row)
{
    struct json_object *o = json_object_new_object();
    char type[32];
    snprintf(type, sizeof type, "%s", json_text(row, "type", "?"));
    for (char *p = type; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    add_text(o, "name", json_text(row, "name", "?"));
    add_text(o, "type", type);
    add_text(o, "pool", json_text(row, "pool", "?"));
    report_json_number(s, o, "createtxg", json_unsigned(row, "createtxg"));
    if (json_member(row, "dataset")) {
        add_text(o, "dataset", json_text(row, "dataset", "?"));
        add_text(o, "snapshot_name", json_text(row, "snapshot_name", "?"));
    }
    return o;
}

const char *report_json_key(const struct report_style *s, struct json_object *row)
{
    static char guid[32];
    if (!s->key_guid)
        return json_text(row, "name", "?");
    snprintf(guid, sizeof guid, "%llu", json_unsigned(row, "guid"));
    return guid;
}
