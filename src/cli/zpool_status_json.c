/* zpool status -j */
#include <ctype.h>
#include <json-c/json.h>
#include <limits.h>
#include <string.h>
#include <time.h>

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

static void add_time(const struct status *p, struct json_object *o, const char *key, time_t t)
{
    char text[40] = "-";
    struct tm tm;
    if (t != 0 && (p->style.exact || p->style.json_int)) {
        report_json_number(&p->style, o, key, (unsigned long long)t);
        return;
    }
    if (t != 0 && localtime_r(&t, &tm))
        strftime(text, sizeof text, "%a %b %e %H:%M:%S %Z %Y", &tm);
    json_object_object_add(o, key, json_object_new_string(text));
}

static void add_bytes(const struct status *p, struct json_object *o, const char *key, uint64_t n)
{
    if (n != 0 || p->style.exact || p->style.json_int)
        add_size(p, o, key, n);
    if (!json_member(o, key))
        json_object_object_add(o, key, json_object_new_string("0B"));
}

static void add_upper(struct json_object *o, const char *key, const char *text)
{
    char upper[32];
    size_t n = 0;
    for (; text[n] && n + 1 < sizeof upper; n++)
        upper[n] = (char)toupper((unsigned char)text[n]);
    upper[n] = 0;
    json_object_object_add(o, key, json_object_new_string(upper));
}

static void add_scan(const struct status *p, struct json_object *into, struct json_object *s)
{
    struct json_object *o = s ? json_object_new_object() : NULL;
    if (!s)
        return;
    add_upper(o, "function", json_text(s, "kind", ""));
    add_upper(o, "state", json_text(s, "state", ""));
    add_time(p, o, "start_time", (time_t)json_unsigned(s, "start"));
    add_time(p, o, "end_time", (time_t)json_unsigned(s, "end"));
    add_bytes(p, o, "to_examine", json_unsigned(s, "to_examine"));
    add_bytes(p, o, "examined", json_unsigned(s, "examined"));
    add_bytes(p, o, "skipped", json_unsigned(s, "skipped"));
    add_bytes(p, o, "processed", json_unsigned(s, "repaired"));
    report_json_number(&p->style, o, "errors", json_unsigned(s, "errors"));
    add_bytes(p, o, "bytes_per_scan", json_unsigned(s, "pass_examined"));
    report_json_number(&p->style, o, "pass_start", json_unsigned(s, "pass_start"));
    add_time(p, o, "scrub_pause", (time_t)json_unsigned(s, "pause"));
    report_json_number(&p->style, o, "scrub_spent_paused", json_unsigned(s, "paused_seconds"));
    add_bytes(p, o, "issued_bytes_per_scan", json_unsigned(s, "pass_issued"));
    add_bytes(p, o, "issued", json_unsigned(s, "issued"));
    json_object_object_add(into, "scan_stats", o);
}

static void add_change(const struct status *p, struct json_object *into, const char *key,
                       struct json_object *s, bool removal)
{
    struct json_object *o = s ? json_object_new_object() : NULL;
    if (!s)
        return;
    json_object_object_add(o, "name", json_object_new_string(json_text(s, "name", "?")));
    add_upper(o, "state", json_text(s, "state", ""));
    report_json_number(&p->style, o, removal ? "removing_vdev" : "expanding_vdev", json_unsigned(s, "vdev"));
    add_time(p, o, "start_time", (time_t)json_unsigned(s, "start"));
    add_time(p, o, "end_time", (time_t)json_unsigned(s, "end"));
    add_bytes(p, o, removal ? "to_copy" : "to_reflow", json_unsigned(s, "to_copy"));
    add_bytes(p, o, removal ? "copied" : "reflowed", json_unsigned(s, "copied"));
    if (removal)
        add_bytes(p, o, "mapping_memory", json_unsigned(s, "mapping_memory"));
    json_object_object_add(into, key, o);
}

static void add_checkpoint(const struct status *p, struct json_object *into, struct json_object *s)
{
    struct json_object *o = s ? json_object_new_object() : NULL;
    if (!s)
        return;
    json_object_object_add(o, "state", json_object_new_string("EXISTS"));
    add_time(p, o, "start_time", (time_t)json_unsigned(s, "start"));
    add_bytes(p, o, "space", json_unsigned(s, "space"));
    json_object_object_add(into, "checkpoint_stats", o);
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
    struct json_object *shape = json_member(st, "shape");
    add_scan(p, o, json_member(st, "scan_stats"));
    add_change(p, o, "removal_stats", json_member(shape, "removal"), true);
    add_checkpoint(p, o, json_member(shape, "checkpoint"));
    add_change(p, o, "raidz_expand_stats", json_member(shape, "expansion"), false);
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
