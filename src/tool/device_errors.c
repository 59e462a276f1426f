/* What was wrong with devices while a command read from them: every tool says so, as what is mended on
 * the way (another copy, parity) is to be seen nowhere else. */
#include <json-c/json.h>
#include <string.h>

#include "pool/pool.h"
#include "spa/spa.h"
#include "tool/tool_impl.h"
#include "vdev/vdev.h"

static int add_row(struct vdev *leaf, void *rows)
{
    struct vdev_stats st;
    struct json_object *o = json_object_new_object();
    char name[512];
    vdev_stats_read(leaf, &st);
    vdev_print_name(leaf, name, sizeof name);
    json_put_name(o, "name", name);
    json_put_number(o, "guid", leaf->guid);
    json_put_text(o, "state", vdev_state_name(leaf->state));
    json_put_number(o, "read_errors", st.read_errors);
    json_put_number(o, "checksum_errors", st.checksum_errors);
    json_object_array_add(rows, o);
    return 0;
}

struct json_object *tool_device_rows(struct pool *pool)
{
    struct json_object *rows = json_object_new_array();
    vdev_each_leaf(pool->root, add_row, rows);
    return rows;
}

static int note(struct vdev *leaf, void *arg)
{
    struct vdev_stats st;
    char name[512];
    vdev_stats_read(leaf, &st);
    if (st.read_errors == 0 && st.checksum_errors == 0)
        return 0;
    vdev_print_name(leaf, name, sizeof name);
    fprintf(stderr, "note: %s had %llu read errors and %llu wrong checksums\n", name,
            (unsigned long long)st.read_errors, (unsigned long long)st.checksum_errors);
    return 0;
}

void tool_device_errors(struct tool *t)
{
    for (struct tool_pool *p = t->pools; p; p = p->next) {
        if (!t->told_devices)
            vdev_each_leaf(spa_pool(p->spa)->root, note, NULL);
        if (!t->json)
            continue;
        if (!t->devices)
            t->devices = json_object_new_object();
        json_object_object_add(t->devices, p->name, tool_device_rows(spa_pool(p->spa)));
    }
}
