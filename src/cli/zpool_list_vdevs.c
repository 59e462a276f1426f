/* Vdevs in zpool list -v: their numbers as text and as JSON. */
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/zpool_impl.h"
#include "cli/zpool_list_impl.h"
#include "dsl/props.h"
#include "server/json.h"

#define UNKNOWN (~0u) /* fragmentation */

static bool has_space(struct json_object *vdev)
{
    return json_unsigned(vdev, "size") > 0;
}

static const char *bytes(const struct report_style *s, unsigned long long n, char buf[32])
{
    if (s->exact || s->json_int)
        snprintf(buf, 32, "%llu", n);
    else
        prop_format_size(n, buf);
    buf[strcspn(buf, "B")] = 0; /* plain bytes have no unit here */
    return buf;
}

/* Three significant digits of a percentage, as the reference does for vdevs (not for pools). */
static const char *capacity(const struct report_style *s, struct json_object *vdev, char buf[32])
{
    double size = (double)json_unsigned(vdev, "size"), alloc = (double)json_unsigned(vdev, "alloc");
    double percent = alloc * 100 / size;
    if (s->exact || s->json_int)
        snprintf(buf, 32, "%d", (int)percent);
    else
        snprintf(buf, 32, "%.*f%%", percent < 10 ? 2 : percent < 100 ? 1 : 0, percent);
    return buf;
}

static const char *fragmentation(const struct report_style *s, struct json_object *vdev,
                                 char buf[32])
{
    unsigned long long f = json_unsigned(vdev, "frag");
    if (f >= UNKNOWN)
        return "-";
    snprintf(buf, 32, s->exact || s->json_int ? "%llu" : "%llu%%", f);
    return buf;
}

const char *vdev_cell(const struct report_style *s, struct json_object *vdev, const char *prop,
                      char buf[32])
{
    bool leaf = vdev_children(vdev) == NULL;
    unsigned long long size = json_unsigned(vdev, "size"), alloc = json_unsigned(vdev, "alloc");
    if (strcmp(prop, "size") == 0) {
        /* A device is as large as it is; a group as what it offers. */
        unsigned long long n = leaf ? json_unsigned(vdev, "psize") : size;
        return n ? bytes(s, n, buf) : "-";
    }
    if (strcmp(prop, "health") == 0)
        return json_text(vdev, "state", "-");
    if (!has_space(vdev))
        return "-";
    if (strcmp(prop, "allocated") == 0)
        return bytes(s, alloc, buf);
    if (strcmp(prop, "free") == 0)
        return bytes(s, size - alloc, buf);
    if (strcmp(prop, "fragmentation") == 0)
        return fragmentation(s, vdev, buf);
    return strcmp(prop, "capacity") == 0 ? capacity(s, vdev, buf) : "-";
}

static struct json_object *properties(const struct report *r, struct json_object *vdev,
                                      const struct report_column *columns, size_t n)
{
    struct json_object *row = json_object_new_object(), *props = json_object_new_object();
    char buf[32];
    for (size_t i = 0; i < n; i++) {
        struct json_object *p = json_object_new_object();
        json_object_object_add(
            p, "value", json_object_new_string(vdev_cell(&r->style, vdev, columns[i].prop, buf)));
        json_object_object_add(props, columns[i].prop, p);
    }
    json_object_object_add(row, "props", props);
    struct json_object *out = json_object_new_object();
    report_json_columns(r, row, out, columns, n);
    json_object_put(row);
    return out;
}

static struct json_object *one_vdev(const struct report *r, const struct vdev_naming *how,
                                    struct json_object *vdev, const struct report_column *columns,
                                    size_t n)
{
    struct json_object *o = json_object_new_object(), *props = properties(r, vdev, columns, n);
    char buf[PATH_MAX];
    vdev_json_head(&r->style, o, vdev_name(how, vdev, buf, sizeof buf), vdev, NULL);
    json_object_object_add(o, "properties", json_object_get(json_member(props, "properties")));
    json_object_put(props);
    if (vdev_children(vdev))
        json_object_object_add(o, "vdevs", list_vdevs_json(r, how, vdev, columns, n));
    return o;
}

struct json_object *list_vdevs_json(const struct report *r, const struct vdev_naming *how,
                                    struct json_object *vdev, const struct report_column *columns,
                                    size_t n)
{
    struct json_object *out = json_object_new_object(), *list = vdev_children(vdev);
    char buf[PATH_MAX];
    for (size_t k = 0; list && k < json_object_array_length(list); k++) {
        struct json_object *child = json_object_array_get_idx(list, k);
        json_object_object_add(out, vdev_name(how, child, buf, sizeof buf),
                               one_vdev(r, how, child, columns, n));
    }
    return out;
}
