/* What mirrors and vdevs with parity have in common: states, sizes, who lacks what. */
#include <errno.h>
#include <stdio.h>

#include "util/bytes.h"
#include "vdev/vdev_impl.h"

bool vdev_is_mirror(const struct vdev *v)
{
    return v->kind == &vdev_kind_mirror || v->kind == &vdev_kind_replacing ||
           v->kind == &vdev_kind_spare;
}

unsigned vdev_spare_children(const struct vdev *v)
{
    if (vdev_is_mirror(v))
        return v->children - 1;
    return v->kind == &vdev_kind_raidz   ? raidz_nparity(v)
           : v->kind == &vdev_kind_draid ? draid_nparity(v)
                                         : 0;
}

int redundant_open(struct vdev *v, unsigned flags)
{
    unsigned unreadable = 0, ailing = 0;

    for (unsigned i = 0; i < v->children; i++) {
        unreadable += !vdev_readable(v->child[i]);
        ailing += v->child[i]->state != VDEV_HEALTHY;
    }
    if (unreadable > vdev_spare_children(v)) {
        vdev_set_state(v, VDEV_CANT_OPEN, "insufficient replicas");
        return -ENXIO;
    }
    vdev_set_state(v, ailing ? VDEV_DEGRADED : VDEV_HEALTHY, NULL);
    return 0;
}

uint64_t smallest_child(const struct vdev *v)
{
    uint64_t smallest = UINT64_MAX; /* also what a distributed spare says: it sets no limit */
    bool any = false;

    for (unsigned i = 0; i < v->children; i++) {
        if (!vdev_readable(v->child[i]))
            continue;
        smallest = MIN(smallest, v->child[i]->kind->asize(v->child[i]));
        any = true;
    }
    return any ? smallest : 0;
}

static int leaf_writable(struct vdev *leaf, void *arg)
{
    struct device_info info = {.writable = false};

    if (leaf->device && vdev_readable(leaf))
        device_info(leaf->device, &info);
    return info.writable;
}

bool vdev_mendable(struct vdev *v)
{
    const struct vdev *root = v;

    while (root->parent)
        root = root->parent;
    return root->may_mend && vdev_each_leaf(v, leaf_writable, NULL) != 0;
}

void vdev_count_wrong(struct vdev *v)
{
    __atomic_fetch_add(&v->stats.checksum_errors, 1, __ATOMIC_RELAXED);
}

static int rank(int rc)
{
    return rc == 0 ? 0 : rc == -ENXIO ? 1 : rc == -EBADE || rc == -ESTALE ? 2 : rc == -EIO ? 3 : 4;
}

int vdev_worse(int a, int b)
{
    return rank(b) > rank(a) ? b : a;
}

void vdev_print_name(const struct vdev *v, char *out, size_t cap)
{
    if (v->path)
        snprintf(out, cap, "%s", v->path);
    else if (v->kind == &vdev_kind_raidz)
        snprintf(out, cap, "raidz%u-%u", raidz_nparity(v), v->id);
    else if (v->kind == &vdev_kind_draid)
        draid_print_name(v, out, cap);
    else
        snprintf(out, cap, "%s-%u", v->kind->type, v->id);
}

void vdev_set_reflow(struct vdev *v, uint64_t offset, unsigned state)
{
    if (v->kind == &vdev_kind_raidz)
        raidz_set_reflow(v, offset, state);
    for (unsigned i = 0; i < v->children; i++)
        vdev_set_reflow(v->child[i], offset, state);
}
