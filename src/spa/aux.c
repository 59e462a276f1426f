/* Spares and cache devices (spec 01 15): lists in the MOS. No data depends on them, so whatever is
 * wrong with them is shown and nothing else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "dmu/zap.h"
#include "nvlist/nvlist.h"
#include "spa/spa_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"
#include "vdev/scan.h"
#include "vdev/vdev.h"

static const char *const key[SPA_AUX_KINDS] = {"spares", "l2cache"};

static void free_nvlist(struct nvlist **l)
{
    nvlist_free(*l);
}

/* ---- Loading ---- */

static const char *found_path(const struct nvlist *config, uint64_t guid)
{
    struct nvlist **list;
    size_t n;
    if (nvlist_get_nvlist_array(config, SCAN_KEY_AUX, &list, &n) != 0)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (nvlist_uint64_or(list[i], "guid", 0) == guid)
            return nvlist_string_or(list[i], "path", NULL);
    return NULL;
}

static bool has_label(const char *path, uint64_t guid, uint64_t *psize)
{
    struct label_set set;
    struct device *d;
    if (label_open_device(&d, path, DEVICE_OPEN_NOLOCK) != 0)
        return false;
    bool ok = label_read(d, &set) == 0;
    device_close(d);
    if (!ok)
        return false;
    const struct label *l = label_best(&set, UINT64_MAX);
    ok = l && l->guid == guid;
    *psize = set.psize;
    label_set_free(&set);
    return ok;
}

/* A device that is no child of the tree, with path and whether it is there. */
static int look(struct nvlist *entry, const struct nvlist *config)
{
    uint64_t guid = nvlist_uint64_or(entry, "guid", 0), psize = 0;
    const char *path = found_path(config, guid);
    if (!path)
        path = nvlist_string_or(entry, "path", NULL);
    bool there = path && has_label(path, guid, &psize);
    int rc = path ? nvlist_add_string(entry, "path", path) : 0;
    rc = rc ? rc : nvlist_add_uint64(entry, "psize", psize);
    return rc || !there ? rc : nvlist_add_boolean(entry, "there");
}

static int load(struct spa *spa, unsigned kind, const struct nvlist *config)
{
    CLEANUP(free_nvlist) struct nvlist *l = NULL;
    struct nvlist **list;
    uint64_t object;
    size_t n = 0;
    int rc = zap_get_u64(spa->mos, MOS_DIRECTORY, key[kind], &object);
    if (rc == 0)
        rc = spa_packed_read(spa->mos, object, key[kind], &l);
    if (rc == 0)
        rc = nvlist_get_nvlist_array(l, key[kind], &list, &n);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (strcmp(nvlist_string_or(list[i], "type", ""), "dspare") != 0)
            rc = look(list[i], config);
    if (rc == 0)
        spa->aux[kind] = STEAL(l);
    return rc;
}

void spa_aux_load(struct spa *spa, const struct nvlist *config)
{
    for (unsigned i = 0; i < SPA_AUX_KINDS; i++) {
        int rc = load(spa, i, config);
        if (rc != 0 && rc != -ENOENT)
            log_warn("pool %s: the list of %s cannot be read: %s", spa->pool.name, key[i],
                     err_text(rc));
    }
}

int spa_aux_config(struct spa *spa, struct nvlist *config)
{
    struct nvlist **list;
    size_t n;
    int rc = 0;
    for (unsigned i = 0; i < SPA_AUX_KINDS && rc == 0; i++)
        if (spa->aux[i] && nvlist_get_nvlist_array(spa->aux[i], key[i], &list, &n) == 0 && n > 0)
            rc = nvlist_add_nvlist_array(config, key[i], list, n);
    return rc;
}

/* ---- Showing ---- */

/* The leaf in the tree that a spare is at present. */
struct search {
    uint64_t guid;
    const struct vdev *found;
};

static int match(struct vdev *leaf, void *arg)
{
    struct search *s = arg;
    if (leaf->guid == s->guid)
        s->found = leaf;
    return s->found != NULL;
}

/* A distributed spare is as good as its draid. */
static const struct vdev *draid_of(struct spa *spa, uint64_t guid)
{
    const struct vdev *root = spa->pool.root;
    for (unsigned i = 0; i < root->children; i++)
        if (root->child[i]->guid == guid)
            return root->child[i];
    return NULL;
}

struct condition {
    const char *state, *why;
    uint64_t psize;
};

static struct condition condition(struct spa *spa, unsigned kind, const struct nvlist *entry)
{
    struct search s = {.guid = nvlist_uint64_or(entry, "guid", 0)};
    struct condition c = {"UNAVAIL", "cannot open", nvlist_uint64_or(entry, "psize", 0)};
    bool there = nvlist_exists(entry, "there");
    if (strcmp(nvlist_string_or(entry, "type", ""), "dspare") == 0) {
        const struct vdev *top = draid_of(spa, nvlist_uint64_or(entry, "top_guid", 0));
        there = top && vdev_readable(top);
        for (unsigned i = 0; top && i < top->children && c.psize == 0; i++)
            c.psize = top->child[i]->psize;
    }
    if (kind == SPA_AUX_SPARES)
        vdev_each_leaf(spa->pool.root, match, &s);
    if (s.found && vdev_readable(s.found))
        return (struct condition){"INUSE", "currently in use",
                                  s.found->psize ? s.found->psize : c.psize};
    if (there)
        return (struct condition){kind == SPA_AUX_SPARES ? "AVAIL" : "ONLINE", "", c.psize};
    return c;
}

static int describe(struct spa *spa, unsigned kind, const struct nvlist *entry, struct nvlist **out)
{
    CLEANUP(free_nvlist) struct nvlist *l = nvlist_new();
    struct condition c = condition(spa, kind, entry);
    const char *path = nvlist_string_or(entry, "path", "?");
    if (!l || nvlist_add_string(l, "name", path) || nvlist_add_string(l, "path", path) ||
        nvlist_add_string(l, "type", nvlist_string_or(entry, "type", "?")) ||
        nvlist_add_uint64(l, "guid", nvlist_uint64_or(entry, "guid", 0)) ||
        nvlist_add_string(l, "state", c.state) || nvlist_add_string(l, "why", c.why) ||
        nvlist_add_uint64(l, "psize", c.psize) ||
        nvlist_add_string(l, "class", kind == SPA_AUX_SPARES ? "spare" : "l2cache"))
        return -ENOMEM;
    *out = STEAL(l);
    return 0;
}

static int list_kind(struct spa *spa, unsigned kind, struct nvlist *root)
{
    struct nvlist **entry;
    size_t n, made = 0;
    if (!spa->aux[kind] || nvlist_get_nvlist_array(spa->aux[kind], key[kind], &entry, &n) != 0 ||
        n == 0)
        return 0;
    CLEANUP_FREE struct nvlist **list = calloc(n, sizeof *list);
    int rc = list ? 0 : -ENOMEM;
    while (rc == 0 && made < n) {
        rc = describe(spa, kind, entry[made], &list[made]);
        made += rc == 0;
    }
    if (rc == 0)
        rc = nvlist_add_nvlist_array(root, key[kind], list, n);
    for (size_t i = 0; i < made; i++)
        nvlist_free(list[i]);
    return rc;
}

int spa_aux_list(struct spa *spa, struct nvlist *root)
{
    int rc = 0;
    for (unsigned i = 0; i < SPA_AUX_KINDS && rc == 0; i++)
        rc = list_kind(spa, i, root);
    return rc;
}
