/* Opening a tree: devices, label checks, sizes and states from the leaves up. */
#include <errno.h>
#include <string.h>

#include "util/bytes.h"
#include "util/err.h"
#include "vdev/leaf_impl.h"
#include "vdev/vdev_impl.h"

struct opening {
    unsigned flags;
    uint64_t pool_guid;
};

static void open_leaf(struct vdev *v, const struct opening *o)
{
    if (v->kind == &vdev_kind_dspare && dspare_usable(v)) {
        vdev_set_state(v, VDEV_HEALTHY, NULL);
        return;
    }
    if (v->kind != &vdev_kind_file && v->kind != &vdev_kind_disk) {
        vdev_set_state(v, VDEV_CANT_OPEN, "no label was found");
        return;
    }
    if (v->offline) {
        vdev_set_state(v, VDEV_OFFLINE, NULL);
        return;
    }
    if (v->faulted) {
        vdev_set_state(v, VDEV_FAULTED, v->faulted_by_hand ? "external device fault" : "too many errors");
        return;
    }
    leaf_open(v, o->flags, o->pool_guid);
}

/* Smallest size that still holds all metaslabs. */
static uint64_t min_asize(const struct vdev *top)
{
    return top->metaslab_shift ? top->asize >> top->metaslab_shift << top->metaslab_shift
                               : top->asize;
}

static unsigned largest_sector_shift(const struct vdev *v)
{
    struct device_info info;
    unsigned shift = 0;

    if (v->device) {
        device_info(v->device, &info);
        shift = info.logical_shift;
    }
    for (unsigned i = 0; i < v->children; i++)
        shift = MAX(shift, largest_sector_shift(v->child[i]));
    return shift;
}

static void finish_top(struct vdev *v)
{
    uint64_t asize;

    if (!vdev_readable(v))
        return;
    asize = v->kind->asize(v);
    if (v->ashift == 0)
        vdev_set_state(v, VDEV_CANT_OPEN, "its ashift is not known");
    else if (asize == 0 || asize < min_asize(v))
        vdev_set_state(v, VDEV_CANT_OPEN, "the device is smaller than it was");
    else if (largest_sector_shift(v) > v->ashift)
        vdev_set_state(v, VDEV_CANT_OPEN, "the device's sectors are larger than its ashift");
    if (!vdev_readable(v))
        return;
    if (v->asize == 0)
        v->asize = asize;
    v->deflate_ratio = vdev_deflate_ratio(v);
}

static void open_vdev(struct vdev *v, const struct opening *o)
{
    if (v->kind == &vdev_kind_hole)
        return;
    if (v->kind->leaf) {
        open_leaf(v, o);
    } else {
        for (unsigned i = 0; i < v->children; i++)
            open_vdev(v->child[i], o);
        if (v->kind->open && v->kind->open(v, o->flags) != 0 && vdev_readable(v))
            vdev_set_state(v, VDEV_CANT_OPEN, "insufficient replicas");
    }
    if (v->parent && v->parent->kind == &vdev_kind_root)
        finish_top(v);
}

/* The first leaf below v that cannot be used. */
static int find_bad_leaf(struct vdev *leaf, void *arg)
{
    if (vdev_readable(leaf) && leaf->state == VDEV_HEALTHY)
        return 0;
    *(struct vdev **)arg = leaf;
    return 1;
}

static int refuse(struct vdev *top)
{
    struct vdev *bad = top;

    if (vdev_each_leaf(top, find_bad_leaf, &bad) && bad->in_use)
        return err_set(EBUSY, "%s", bad->in_use);
    if (bad->path && bad->why)
        return err_set(ENXIO, "%s: %s", bad->path, bad->why);
    return err_set(ENXIO, "top-level vdev %u (guid %llu) is not available%s%s", top->id,
                   (unsigned long long)top->guid, top->why ? ": " : "", top->why ? top->why : "");
}

int vdev_tree_open(struct vdev *root, unsigned flags, uint64_t pool_guid)
{
    struct opening o = {flags, pool_guid};
    struct vdev *unusable = NULL;
    bool degraded = false;

    for (unsigned i = 0; i < root->children; i++) {
        struct vdev *top = root->child[i];
        open_vdev(top, &o);
        if (top->kind == &vdev_kind_hole)
            continue;
        degraded |= top->state != VDEV_HEALTHY;
        if (!vdev_readable(top) && !top->is_log && !unusable)
            unusable = top;
    }
    if (unusable || root->children == 0) {
        vdev_set_state(root, VDEV_CANT_OPEN, "insufficient replicas");
        return unusable ? refuse(unusable) : err_set(ENXIO, "the pool has no vdevs");
    }
    vdev_set_state(root, degraded ? VDEV_DEGRADED : VDEV_HEALTHY, NULL);
    return 0;
}

void vdev_tree_close(struct vdev *v)
{
    for (unsigned i = 0; i < v->children; i++)
        vdev_tree_close(v->child[i]);
    if (v->kind->close)
        v->kind->close(v);
    vdev_set_state(v, VDEV_CLOSED, NULL);
}
