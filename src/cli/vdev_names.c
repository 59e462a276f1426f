/* How vdevs are called in list and status. */
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/zpool_impl.h"
#include "server/json.h"

const struct option json_options[] = {
    {"json", no_argument, NULL, 'j'},
    {"json-int", no_argument, NULL, OPT_JSON_INT},
    {"json-pool-key-guid", no_argument, NULL, OPT_KEY_GUID},
    {"json-flat-vdevs", no_argument, NULL, OPT_FLAT_VDEVS},
    {0},
};

int json_style_check(const struct report_style *s)
{
    if (s->json_int && !s->json)
        return usage_error("'--json-int' only works with '-j' option");
    return s->key_guid && !s->json
               ? usage_error("'--json-pool-key-guid' only works with '-j' option")
               : 0;
}

void vdev_json_head(const struct report_style *s, struct json_object *o, const char *name,
                    struct json_object *vdev, const char *parent)
{
    const char *path = json_text(vdev, "path", "");
    json_object_object_add(o, "name", json_object_new_string(name));
    json_object_object_add(o, "vdev_type", json_object_new_string(json_text(vdev, "type", "?")));
    report_json_number(s, o, "guid", json_unsigned(vdev, "guid"));
    if (*path)
        json_object_object_add(o, "path", json_object_new_string(path));
    json_object_object_add(o, "class", json_object_new_string(json_text(vdev, "class", "normal")));
    json_object_object_add(o, "state", json_object_new_string(json_text(vdev, "state", "?")));
    if (parent)
        json_object_object_add(o, "parent", json_object_new_string(parent));
}

struct json_object *vdev_children(struct json_object *vdev)
{
    struct json_object *c = json_member(vdev, "children");
    return c && json_object_is_type(c, json_type_array) ? c : NULL;
}

/* Disks below /dev are called by their last part; files by their path. */
static const char *short_path(const char *type, const char *path)
{
    if (strcmp(type, "disk") != 0 || strncmp(path, "/dev/", 5) != 0)
        return path;
    const char *slash = strrchr(path, '/');
    return strncmp(path, "/dev/disk/", 10) == 0 ? slash + 1 : path + 5;
}

const char *vdev_name(const struct vdev_naming *how, struct json_object *vdev, char *buf,
                      size_t cap)
{
    const char *name = json_text(vdev, "name", "?"), *type = json_text(vdev, "type", "?");
    char real[PATH_MAX];
    if (strcmp(type, "root") == 0)
        return name;
    bool missing = strcmp(json_text(vdev, "state", ""), "UNAVAIL") == 0 && name[0] == '/';
    if (how->guid || (missing && json_flag(vdev, "not_present"))) {
        snprintf(buf, cap, "%llu", json_unsigned(vdev, "guid"));
        return buf;
    }
    if (how->follow && name[0] == '/' && realpath(name, real)) {
        snprintf(buf, cap, "%s", real);
        name = buf;
    }
    return how->full ? name : short_path(type, name);
}

static int widest_of(const struct vdev_naming *how, struct json_object *list, int indent)
{
    int w = 0;
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        int k = vdev_widest(how, json_object_array_get_idx(list, i), indent);
        w = k > w ? k : w;
    }
    return w;
}

int vdev_widest(const struct vdev_naming *how, struct json_object *vdev, int indent)
{
    char buf[PATH_MAX];
    int w = indent + (int)strlen(vdev_name(how, vdev, buf, sizeof buf));
    bool root = strcmp(json_text(vdev, "type", ""), "root") == 0;
    for (const struct vdev_section *s = vdev_sections; root && (s->class || s->member); s++) {
        struct json_object *list = vdev_section(vdev, s, false);
        int k = widest_of(how, list, indent + 2);
        w = k > w ? k : w;
        json_object_put(list);
    }
    if (root)
        return w;
    int k = widest_of(how, vdev_children(vdev), indent + 2);
    return k > w ? k : w;
}
