/* The vdev tree to and from configuration lists (spec 01 5). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/vdev_impl.h"

#define KEY_ZAP_TOP  "com.delphix:vdev_zap_top"
#define KEY_ZAP_LEAF "com.delphix:vdev_zap_leaf"
#define KEY_ZAP_ROOT "com.klarasystems:vdev_zap_root"

#define DEPTH_MAX 8 /* raidz, spare, replacing and a disk are 4 */

/* Keys that the struct holds; all others are kept in vdev.other. */
static const char *const known[] = {
    "type",       "id",          "guid",           "create_txg",     "children",
    "path",       "whole_disk",  "metaslab_array", "metaslab_shift", "ashift",
    "asize",      "min_alloc",   "is_log",         "non_allocating", "removing",
    "DTL",        "not_present", "is_spare",       "offline",        "faulted",
    "is_hole",    "vdev_stats",  "scan_stats",     KEY_ZAP_TOP,      KEY_ZAP_LEAF,
    KEY_ZAP_ROOT, "resilver_txg",
};

/* Keys of the MOS's configuration that labels do not have. */
static const char *const mos_only[] = {"com.datto:resilver_defer"};

static void cleanup_vdev(struct vdev **v)
{
    vdev_free(*v);
}

static int keep_other(struct vdev *v, const struct nvlist *config)
{
    struct nvlist *other = nvlist_dup(config);

    if (!other)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        nvlist_remove(other, known[i]);
    if (nvlist_count(other) > 0)
        v->other = other;
    else
        nvlist_free(other);
    return 0;
}

static int parse_top(struct vdev *v, const struct nvlist *c)
{
    uint64_t ashift = nvlist_uint64_or(c, "ashift", 0);
    uint64_t shift = nvlist_uint64_or(c, "metaslab_shift", 0);

    if (ashift != 0 && (ashift < VDEV_ASHIFT_MIN || ashift > VDEV_ASHIFT_MAX))
        return err_set(EINVAL, "vdev %u has the impossible ashift %llu", v->id,
                       (unsigned long long)ashift);
    if (shift >= 64 || (shift != 0 && shift < ashift))
        return err_set(EINVAL, "vdev %u has the impossible metaslab_shift %llu", v->id,
                       (unsigned long long)shift);
    v->ashift = (unsigned)ashift;
    v->metaslab_shift = (unsigned)shift;
    v->metaslab_array = nvlist_uint64_or(c, "metaslab_array", 0);
    v->asize = nvlist_uint64_or(c, "asize", 0);
    v->is_log = nvlist_uint64_or(c, "is_log", 0) != 0;
    if (v->is_log)
        v->class = VDEV_CLASS_LOG;
    v->non_allocating = nvlist_uint64_or(c, "non_allocating", 0) != 0;
    v->removing = nvlist_uint64_or(c, "removing", 0) != 0;
    return 0;
}

static int parse_leaf(struct vdev *v, const struct nvlist *c)
{
    const char *path = nvlist_string_or(c, "path", NULL);

    if (path && !(v->path = strdup(path)))
        return -ENOMEM;
    v->whole_disk = nvlist_uint64_or(c, "whole_disk", 0) != 0;
    v->dtl_object = nvlist_uint64_or(c, "DTL", 0);
    v->resilver_txg = nvlist_uint64_or(c, "resilver_txg", 0);
    v->not_present = nvlist_uint64_or(c, "not_present", 0) != 0;
    v->is_spare = nvlist_uint64_or(c, "is_spare", 0) != 0;
    v->offline = nvlist_uint64_or(c, "offline", 0) != 0;
    v->faulted = nvlist_uint64_or(c, "faulted", 0) != 0;
    v->faulted_by_hand = strcmp(nvlist_string_or(c, "aux_state", ""), "external") == 0;
    return 0;
}

static int parse_vdev(struct vdev **out, const struct nvlist *config, unsigned id, unsigned depth);

static int parse_children(struct vdev *v, const struct nvlist *config, unsigned depth)
{
    struct nvlist **list;
    size_t n;
    int rc = nvlist_get_nvlist_array(config, "children", &list, &n);

    if (rc == -ENOENT)
        return 0;
    if (rc)
        return err_set(EINVAL, "the children of a %s vdev are malformed", v->kind->type);
    for (size_t i = 0; i < n; i++) {
        struct vdev *child;
        rc = parse_vdev(&child, list[i], (unsigned)i, depth + 1);
        if (rc)
            return rc;
        rc = vdev_add_child(v, child);
        if (rc) {
            vdev_free(child);
            return rc;
        }
    }
    return 0;
}

static int parse_common(struct vdev *v, const struct nvlist *config, unsigned id)
{
    bool may_lack_guid = v->kind == &vdev_kind_hole || v->kind == &vdev_kind_missing;

    /* Lists of spares and cache devices have no id. */
    if (nvlist_uint64_or(config, "id", id) != id)
        return err_set(EINVAL, "a %s vdev at position %u says it is number %llu", v->kind->type, id,
                       (unsigned long long)nvlist_uint64_or(config, "id", id));
    v->id = id;
    v->guid = nvlist_uint64_or(config, "guid", 0);
    if (v->guid == 0 && !may_lack_guid)
        return err_set(EINVAL, "a %s vdev at position %u has no guid", v->kind->type, id);
    v->create_txg = nvlist_uint64_or(config, "create_txg", 0);
    v->zap_top = nvlist_uint64_or(config, KEY_ZAP_TOP, 0);
    v->zap_leaf = nvlist_uint64_or(config, KEY_ZAP_LEAF, 0);
    v->zap_root = nvlist_uint64_or(config, KEY_ZAP_ROOT, 0);
    return keep_other(v, config);
}

/* depth: 0 for the root, 1 for top-level vdevs. */
static int parse_vdev(struct vdev **out, const struct nvlist *config, unsigned id, unsigned depth)
{
    const char *type = nvlist_string_or(config, "type", NULL);
    const struct vdev_kind *kind;
    struct vdev *v CLEANUP(cleanup_vdev) = NULL;
    int rc;

    if (!type)
        return err_set(EINVAL, "a vdev at position %u has no type", id);
    kind = vdev_kind_find(type);
    if (!kind)
        return err_set(ENOTSUP, "vdevs of type '%s' are not supported", type);
    if ((kind == &vdev_kind_root) != (depth == 0) || depth > DEPTH_MAX ||
        (kind == &vdev_kind_indirect && depth > 1))
        return err_set(EINVAL, "a vdev of type '%s' is in the wrong place", type);
    v = vdev_new(kind);
    if (!v)
        return -ENOMEM;
    rc = parse_common(v, config, id);
    if (rc == 0 && depth == 1)
        rc = parse_top(v, config);
    if (rc == 0 && kind->leaf)
        rc = parse_leaf(v, config);
    if (rc == 0 && kind->parse)
        rc = kind->parse(v, config);
    if (rc == 0 && !kind->leaf)
        rc = parse_children(v, config, depth);
    if (rc == 0 && kind->check)
        rc = kind->check(v);
    if (rc == 0)
        *out = STEAL(v);
    return rc;
}

int vdev_tree_parse(struct vdev **root, const struct nvlist *config)
{
    return parse_vdev(root, config, 0, 0);
}

static int add_flag(struct nvlist *l, const char *name, bool value)
{
    return value ? nvlist_add_uint64(l, name, 1) : 0;
}

static int add_nonzero(struct nvlist *l, const char *name, uint64_t value)
{
    return value ? nvlist_add_uint64(l, name, value) : 0;
}

static int unparse_top(const struct vdev *v, struct nvlist *l)
{
    int rc = nvlist_add_uint64(l, "metaslab_array", v->metaslab_array);

    rc = rc ? rc : nvlist_add_uint64(l, "metaslab_shift", v->metaslab_shift);
    rc = rc ? rc : nvlist_add_uint64(l, "ashift", v->ashift);
    rc = rc ? rc : nvlist_add_uint64(l, "asize", v->asize);
    if (v->kind != &vdev_kind_hole && v->kind != &vdev_kind_missing)
        rc = rc ? rc : nvlist_add_uint64(l, "min_alloc", vdev_min_alloc(v));
    rc = rc ? rc : nvlist_add_uint64(l, "is_log", v->is_log);
    rc = rc ? rc : add_flag(l, "non_allocating", v->non_allocating);
    return rc ? rc : add_flag(l, "removing", v->removing);
}

static int unparse_leaf(const struct vdev *v, struct nvlist *l)
{
    int rc = v->path ? nvlist_add_string(l, "path", v->path) : 0;

    if (v->kind == &vdev_kind_disk)
        rc = rc ? rc : nvlist_add_uint64(l, "whole_disk", v->whole_disk);
    rc = rc ? rc : add_nonzero(l, "DTL", v->dtl_object);
    rc = rc ? rc : add_nonzero(l, "resilver_txg", v->resilver_txg);
    rc = rc ? rc : add_flag(l, "not_present", v->not_present);
    rc = rc ? rc : add_flag(l, "is_spare", v->is_spare);
    rc = rc ? rc : add_flag(l, "offline", v->offline);
    return rc ? rc : add_flag(l, "faulted", v->faulted);
}

static int unparse_mos(const struct vdev *v, struct nvlist *l)
{
    int rc = add_nonzero(l, KEY_ZAP_ROOT, v->zap_root);

    rc = rc ? rc : add_nonzero(l, KEY_ZAP_TOP, v->zap_top);
    return rc ? rc : add_nonzero(l, KEY_ZAP_LEAF, v->zap_leaf);
}

static int unparse_children(const struct vdev *v, enum vdev_config_form form, struct nvlist *l)
{
    struct nvlist **list = calloc(v->children + 1, sizeof *list);
    int rc = list ? 0 : -ENOMEM;

    for (unsigned i = 0; i < v->children && rc == 0; i++)
        rc = vdev_tree_config(v->child[i], form, &list[i]);
    if (rc == 0)
        rc = nvlist_add_nvlist_array(l, "children", list, v->children);
    for (unsigned i = 0; list && i < v->children; i++)
        nvlist_free(list[i]);
    free(list);
    return rc;
}

/* The list to start with: what was read and not understood, so that it is written again. */
static struct nvlist *start_list(const struct vdev *v, enum vdev_config_form form)
{
    struct nvlist *l = v->other ? nvlist_dup(v->other) : nvlist_new();

    for (size_t i = 0; l && form == VDEV_CONFIG_LABEL && i < ARRAY_LEN(mos_only); i++)
        nvlist_remove(l, mos_only[i]);
    return l;
}

int vdev_tree_config(const struct vdev *v, enum vdev_config_form form, struct nvlist **out)
{
    struct nvlist *l CLEANUP_NVLIST = start_list(v, form);
    bool top = v->parent && v->parent->kind == &vdev_kind_root;
    int rc;

    if (!l)
        return -ENOMEM;
    rc = nvlist_add_string(l, "type", v->kind->type);
    rc = rc ? rc : nvlist_add_uint64(l, "id", v->id);
    rc = rc ? rc : nvlist_add_uint64(l, "guid", v->guid);
    if (v->kind->leaf)
        rc = rc ? rc : unparse_leaf(v, l);
    if (v->kind == &vdev_kind_hole)
        rc = rc ? rc : nvlist_add_uint64(l, "is_hole", 1);
    if (top)
        rc = rc ? rc : unparse_top(v, l);
    rc = rc ? rc : add_nonzero(l, "create_txg", v->create_txg);
    if (form == VDEV_CONFIG_MOS)
        rc = rc ? rc : unparse_mos(v, l);
    if (v->kind->unparse)
        rc = rc ? rc : v->kind->unparse(v, l);
    if (!v->kind->leaf)
        rc = rc ? rc : unparse_children(v, form, l);
    if (rc == 0)
        *out = STEAL(l);
    return rc;
}
