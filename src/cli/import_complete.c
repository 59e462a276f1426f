/*
 * What no label tells: a top-level vdev whose devices are all missing, or that was removed, has no
 * label; classes, spares and cache devices are known to the pool's own tables only. These can be
 * read as long as one copy of each of their blocks can.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/import_impl.h"
#include "nvlist/nvlist.h"
#include "spa/spa.h"
#include "util/cleanup.h"
#include "vdev/scan.h"

static void mark_missing(struct nvlist *vdev)
{
    struct nvlist **child;
    size_t n;
    nvlist_add_uint64(vdev, SCAN_KEY_STATE, SCAN_VDEV_MISSING);
    if (nvlist_get_nvlist_array(vdev, "children", &child, &n) != 0)
        return;
    for (size_t i = 0; i < n; i++)
        mark_missing(child[i]);
}

static bool is_type(const struct nvlist *vdev, const char *type)
{
    return strcmp(nvlist_string_or(vdev, "type", ""), type) == 0;
}

/* A child as it is to be shown: the one that was found, or the one that the pool knows. */
static struct nvlist *merge(const struct nvlist *found, const struct nvlist *known)
{
    bool fill = is_type(found, "missing") && known;
    struct nvlist *l = nvlist_dup(fill ? known : found);
    if (l && fill && !is_type(l, "missing") && !is_type(l, "indirect"))
        mark_missing(l);
    if (l && known)
        nvlist_add_string(l, SPA_KEY_CLASS, nvlist_string_or(known, SPA_KEY_CLASS, "normal"));
    return l;
}

/* Puts what the pool knows into the tree. *lost, *logs: top-level vdevs that cannot be read, and
 * how many of them are logs. */
static void fill_in(struct nvlist *tree, struct nvlist **known, size_t known_count, unsigned *lost,
                    unsigned *logs)
{
    struct nvlist **child;
    size_t n;
    if (nvlist_get_nvlist_array(tree, "children", &child, &n) != 0)
        return;
    CLEANUP_FREE struct nvlist **merged = calloc(n, sizeof *merged);
    bool complete = merged != NULL;
    for (size_t i = 0; complete && i < n; i++) {
        merged[i] = merge(child[i], i < known_count ? known[i] : NULL);
        complete = merged[i] != NULL;
        if (!complete ||
            nvlist_uint64_or(merged[i], SCAN_KEY_STATE, SCAN_VDEV_OK) != SCAN_VDEV_MISSING)
            continue;
        ++*lost;
        *logs += strcmp(nvlist_string_or(merged[i], SPA_KEY_CLASS, ""), "log") == 0;
    }
    if (complete)
        nvlist_add_nvlist_array(tree, "children", merged, n);
    for (size_t i = 0; merged && i < n; i++)
        nvlist_free(merged[i]);
}

static void copy_list(struct nvlist *to, const struct nvlist *from, const char *key)
{
    struct nvlist **list;
    size_t n;
    if (nvlist_get_nvlist_array(from, key, &list, &n) == 0)
        nvlist_add_nvlist_array(to, key, list, n);
}

void import_complete(struct scan_pool *p)
{
    CLEANUP_NVLIST struct nvlist *config = NULL;
    struct nvlist *tree, *known, **child;
    unsigned lost = 0, logs = 0;
    size_t n;
    if (p->status > SCAN_MISSING || !p->config || spa_peek(p->config, &config) != 0)
        return;
    if (nvlist_get_nvlist(p->config, "vdev_tree", &tree) != 0 ||
        nvlist_get_nvlist(config, "vdev_tree", &known) != 0 ||
        nvlist_get_nvlist_array(known, "children", &child, &n) != 0)
        return;
    fill_in(tree, child, n, &lost, &logs);
    copy_list(p->config, config, "spares");
    copy_list(p->config, config, "l2cache");
    if (lost > 0) /* the pool can be opened without its logs */
        p->status = lost > logs ? SCAN_MISSING : SCAN_DEGRADED;
}
