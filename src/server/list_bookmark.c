/* The rows of bookmarks. */
#include <json-c/json.h>
#include <string.h>

#include "dsl/bookmark.h"
#include "dsl/props.h"
#include "server/list_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/bytes.h"

#define TYPE_BOOKMARK 32 /* as a value of the property "type" */

static int add_properties(const struct bookmark_stats *b, struct json_object *asked,
                          struct json_object *into)
{
    const struct {
        const char *name;
        uint64_t value;
        bool known;
    } rows[] = {{"type", TYPE_BOOKMARK, true},
                {"creation", b->creation_time, true},
                {"referenced", b->referenced, b->sized},
                {"createtxg", b->creation_txg, true},
                {"guid", b->guid, true},
                {"logicalreferenced", b->uncompressed, b->sized}};
    int rc = 0;
    for (size_t k = 0; k < json_count(asked); k++) {
        const char *name = json_item(asked, k);
        bool all = strcmp(name, "all") == 0;
        const struct prop_info *info = all ? NULL : prop_info(name);
        for (size_t i = 0; i < ARRAY_LEN(rows) && rc == 0; i++) {
            struct prop_value v = {.number = rows[i].value, .source = SOURCE_NONE};
            if (rows[i].known && (all || (info && strcmp(info->name, rows[i].name) == 0)))
                rc = add_text(prop_info(rows[i].name), rows[i].name, &v, into);
        }
    }
    return rc;
}

int bookmark_row(struct call *c, const struct bookmark_stats *b, struct json_object *props)
{
    struct json_object *row = json_object_new_object(), *values = json_object_new_object();
    put_text(row, "name", b->name);
    put_text(row, "type", "bookmark");
    put_text(row, "pool", spa_name(c->s->spa));
    put_number(row, "createtxg", b->creation_txg);
    json_object_object_add(row, "props", values);
    int rc = add_properties(b, props, values);
    if (rc == 0)
        return call_row(c, row);
    json_object_put(row);
    return rc;
}
