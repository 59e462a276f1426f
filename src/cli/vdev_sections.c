/* The order in which the vdevs of a pool are shown: data, then each other class under its heading.
 */
#include <json-c/json.h>
#include <string.h>

#include "cli/zpool_impl.h"
#include "server/json.h"

const struct vdev_section vdev_sections[] = {
    {NULL, NULL, "normal", NULL},
    {"dedup", "dedup\t", "dedup", NULL},
    {"special", "special\t", "special", NULL},
    {"logs", "logs\t", "log", NULL},
    {"cache", "cache", NULL, "l2cache"},
    {"spare", "spares", NULL, "spares"},
    {0},
};

static bool belongs(const struct vdev_section *s, struct json_object *vdev, bool removed)
{
    const char *type = json_text(vdev, "type", "");
    if (strcmp(type, "hole") == 0 || (strcmp(type, "indirect") == 0 && !removed))
        return false;
    return strcmp(json_text(vdev, "class", "normal"), s->class) == 0;
}

struct json_object *vdev_section(struct json_object *root, const struct vdev_section *s,
                                 bool removed)
{
    struct json_object *all = s->class ? vdev_children(root) : json_member(root, s->member);
    struct json_object *out = json_object_new_array();
    bool array = all && json_object_is_type(all, json_type_array);
    for (size_t i = 0; array && i < json_object_array_length(all); i++) {
        struct json_object *v = json_object_array_get_idx(all, i);
        if (!s->class || belongs(s, v, removed))
            json_object_array_add(out, json_object_get(v));
    }
    return out;
}
