/* The leaves of a tree and the devices that were found for them. */
#include <errno.h>
#include <string.h>

#include "nvlist/nvlist.h"
#include "vdev/scan_impl.h"

static bool has_name(const struct candidate *k, const char *path)
{
    for (size_t i = 0; path && i < k->names; i++)
        if (strcmp(k->name[i], path) == 0)
            return true;
    return false;
}

/* Is a the better device for a leaf whose label tells the path? Both have its guid. The one with
 * the newer uberblock comes first: the other is an old copy, and reading it would give old blocks.
 */
static bool better(const struct candidate *a, const struct candidate *b, const char *path)
{
    if (a->ub_txg != b->ub_txg)
        return a->ub_txg > b->ub_txg;
    if (has_name(a, path) != has_name(b, path))
        return has_name(a, path);
    if (a->good != b->good)
        return a->good > b->good;
    if (a->partition != b->partition)
        return !a->partition;
    return a->order < b->order;
}

static const struct candidate *find_device(const struct candidates *c, uint64_t pool_guid,
                                           uint64_t guid, const char *path)
{
    const struct candidate *best = NULL;
    for (size_t i = 0; i < c->n; i++) {
        const struct candidate *k = &c->item[i];
        if (k->pool_guid != pool_guid || k->damaged || k->label->guid != guid)
            continue;
        if (!best || better(k, best, path))
            best = k;
    }
    return best;
}

static int leaf_path(struct nvlist *leaf, const struct candidates *c, uint64_t pool_guid,
                     struct tree_count *count)
{
    const char *path = nvlist_string_or(leaf, "path", NULL);
    const struct candidate *k = find_device(c, pool_guid, nvlist_uint64_or(leaf, "guid", 0), path);
    count->ok = k != NULL;
    if (!k) {
        count->missing_leaves++;
        return nvlist_add_uint64(leaf, SCAN_KEY_STATE, SCAN_VDEV_MISSING);
    }
    return has_name(k, path) ? 0 : nvlist_add_string(leaf, "path", k->name[0]);
}

/* How many children of a vdev may be missing. */
static uint64_t spare_children(const struct nvlist *vdev, const char *type, size_t children)
{
    uint64_t parity = nvlist_uint64_or(vdev, "nparity", 0);
    if (strcmp(type, "raidz") == 0 || strcmp(type, "draid") == 0)
        return parity;
    return children - 1; /* mirror, replacing, spare: one is enough */
}

int scan_tree_paths(struct nvlist *vdev, const struct candidates *c, uint64_t pool_guid,
                    struct tree_count *count)
{
    const char *type = nvlist_string_or(vdev, "type", "");
    struct nvlist **child;
    size_t n, bad = 0;
    if (strcmp(type, "hole") == 0 || strcmp(type, "indirect") == 0) {
        count->ok = true;
        return 0;
    }
    if (strcmp(type, "missing") == 0 || strcmp(type, "dspare") == 0) {
        count->ok = false; /* a distributed spare is as good as its draid, which we cannot judge */
        return 0;
    }
    if (nvlist_get_nvlist_array(vdev, "children", &child, &n) != 0 || n == 0)
        return leaf_path(vdev, c, pool_guid, count);
    for (size_t i = 0; i < n; i++) {
        int rc = scan_tree_paths(child[i], c, pool_guid, count);
        if (rc)
            return rc;
        bad += !count->ok;
    }
    count->ok = bad <= spare_children(vdev, type, n);
    if (bad == 0)
        return 0;
    return nvlist_add_uint64(vdev, SCAN_KEY_STATE, count->ok ? SCAN_VDEV_DEGRADED : SCAN_VDEV_MISSING);
}
