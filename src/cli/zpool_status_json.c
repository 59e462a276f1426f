/* zpool status -j */
#include <json-c/json.h>
#include <limits.h>
#include <string.h>

#include "cli/zpool_status_impl.h"
#include "dsl/props.h"
#include "server/json.h"

#define LABELS_TOTAL 0x480000ull /* bytes of a leaf that labels take */

static void add_size(const struct status *p, struct json_object *o, const char *key, uint64_t n)
{
    char text[16];
    if (n == 0)
        return;
    if (p->style.exact || p->style.json_int) {
        report_json_number(&p->style, o, key, n);
        return;
    }
    prop_format_size(n, text);
    json_object_object_add(o, key, json_object_new_string(text));
}

static void add_numbers(const struct status *p, struct json_object *o, struct json_object *v,
                        struct json_object *st)
{
    bool root = strcmp(json_text(v, "type", ""), "root") == 0, leaf = !root && !vdev_children(v);
    struct json_object *space = root ? st : v; /* the root's is the pool's */
    uint64_t size = json_unsigned(space, "size");
    add_size(p, o, "alloc_space", json_unsigned(space, "alloc"));
    add_size(p, o, "total_space", size);
    add_size(p, o, "def_space", json_unsigned(space, "dspace"));
    if (!root)
        add_size(p, o, "rep_dev_size",
                 size ? size + (leaf ? LABELS_TOTAL : 0) : json_unsigned(v, "psize"));
    if (leaf)
        add_size(p, o, "phys_space", json_unsigned(v, "psize"));
    static const char *const counters[] = {"read_errors", "write_errors", "checksum_errors",
                                           "slow_ios"};
    for (int i = 0; i < (leaf ? 4 : 3); i++)
        report_json_number(&p->style, o, counters[i], json_unsigned(v, counters[i]));
    if (*json_text(v, "why", ""))
        json_object_object_add(o, "aux", json_object_new_string(json_text(v, "why", "")));
}

static struct json_object *vdev_json(const struct status *p, struct json_object *v,
                                     const char *parent, struct json_object *st)
{
    struct json_object *o = json_object_new_object(), *list = vdev_children(v);
    char buf[PATH_MAX], own[PATH_MAX];
    const char *name = vdev_name(&p->naming, v, own, sizeof own);
    vdev_json_head(&p->style, o, name, v, p->flat ? parent : NULL);
    add_numbers(p, o, v, st);
    if (!list)
        return o;
    struct json_object *below = json_object_new_object();
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *child = json_object_array_get_idx(list, i);
        json_object_object_add(below, vdev_name(&p->naming, child, buf, sizeof buf),
                               vdev_json(p, child, name, st));
    }
    json_object_object_add(o, "vdevs", below);
    return o;
}

/* --json-flat-vdevs: all of them, children before parents, in one object. */
static void add_flat(const struct status *p, struct json_object *into, struct json_object *v,
                     const char *parent, struct json_object *st)
{
    struct json_object *list = vdev_children(v);
    char own[PATH_MAX];
    const char *name = vdev_name(&p->naming, v, own, sizeof own);
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        add_flat(p, into, json_object_array_get_idx(list, i), name, st);
    json_object_object_add(into, name, vdev_json(p, v, parent, st));
}

static void add_text(struct json_object *o, struct json_object *st, const char *key)
{
    const char *text = json_text(st, key, "");
    if (*text)
        json_object_object_add(o, key, json_object_new_string(text));
}

void status_add_json(struct status *p, struct json_object *st)
{
    struct json_object *o = json_object_new_object(), *vdevs = json_object_new_object();
    struct json_object *tree = json_member(st, "vdevs");
    const char *name = json_text(st, "name", "?");
    json_object_object_add(o, "name", json_object_new_string(name));
    json_object_object_add(o, "state", json_object_new_string(json_text(st, "state", "?")));
    report_json_number(&p->style, o, "pool_guid", json_unsigned(st, "guid"));
    report_json_number(&p->style, o, "txg", json_unsigned(st, "txg"));
    report_json_number(&p->style, o, "spa_version", json_unsigned(st, "version"));
    report_json_number(&p->style, o, "zpl_version", 5);
    add_text(o, st, "status");
    add_text(o, st, "action");
    if (p->flat)
        add_flat(p, vdevs, tree, NULL, st);
    else
        json_object_object_add(vdevs, name, vdev_json(p, tree, NULL, st));
    json_object_object_add(o, "vdevs", vdevs);
    report_json_number(&p->style, o, "error_count", json_unsigned(st, "error_count"));
    json_object_object_add(p->pools, report_json_key(&p->style, st), o);
}

int status_end_json(struct status *p)
{
    struct json_object *out = report_json_begin("zpool status");
    json_object_object_add(out, "pools", p->pools);
    p->pools = NULL;
    return report_json_end(out);
}
