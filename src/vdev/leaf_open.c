/* The device of a leaf: where it is, whether it is the right one, how large it is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvlist/nvlist.h"
#include "util/err.h"
#include "vdev/change.h"
#include "vdev/label.h"
#include "vdev/leaf_impl.h"
#include "vdev/size.h"
#include "vdev/vdev_impl.h"

static const char *reason(int rc)
{
    switch (rc) {
    case -ENOENT:
        return "cannot open: no such file or device";
    case -EACCES:
    case -EPERM:
        return "cannot open: permission denied";
    case -EBUSY:
        return "cannot open: in use by another process";
    case -EROFS:
        return "cannot open: read-only file system";
    case -ENODEV:
        return "cannot open: neither a file nor a block device";
    case -EOVERFLOW:
        return "the device is too small";
    default:
        return "cannot open";
    }
}

static void fail(struct vdev *v, const char *why)
{
    v->kind->close(v);
    vdev_set_state(v, VDEV_CANT_OPEN, why);
}

/* NULL if the label on d is that of the leaf with this guid, in this pool. */
static const char *check_label(struct device *d, uint64_t guid, uint64_t pool_guid)
{
    struct label_set set;
    const struct label *best;
    const char *why = "the label is missing or damaged";

    if (label_read(d, &set) != 0)
        return why;
    best = label_best(&set, UINT64_MAX);
    if (best && best->guid != guid)
        why = "the label belongs to another device";
    else if (best && nvlist_uint64_or(best->config, "pool_guid", 0) != pool_guid)
        why = "the label belongs to another pool";
    else if (best)
        why = NULL;
    label_set_free(&set);
    return why;
}

static int open_device(struct vdev *v, unsigned flags)
{
    unsigned how = flags & VDEV_OPEN_WRITE ? DEVICE_OPEN_WRITE | DEVICE_OPEN_DIRECT
                                           : DEVICE_OPEN_SHARED | DEVICE_OPEN_STREAM;

    if (v->device) /* a new leaf has its device already */
        return 0;
    if (!v->path)
        return -ENOENT;
    return label_open_device(&v->device, v->path, how);
}

int vdev_open_device(const char *path, uint64_t guid, uint64_t pool_guid, uint64_t least,
                     struct vdev_opened *out)
{
    unsigned how = DEVICE_OPEN_WRITE | DEVICE_OPEN_DIRECT;
    struct device_info info;
    int rc = label_open_device(&out->device, path, how);

    out->why = NULL;
    if (rc) {
        out->device = NULL;
        out->why = reason(rc);
        return rc == -EBUSY || rc == -ENOMEM ? rc : err_set(ENXIO, "%s", err_text(rc));
    }
    device_info(out->device, &info);
    out->psize = size_psize(info.size);
    out->why = check_label(out->device, guid, pool_guid);
    if (!out->why && size_leaf(out->psize) < least)
        out->why = "the device is smaller than it was";
    if (!out->why)
        return 0;
    vdev_opened_close(out);
    return err_set(ENXIO, "%s: %s", path, out->why);
}

bool vdev_device_there(const char *path, uint64_t guid, uint64_t pool_guid)
{
    struct device *d;
    bool there;

    if (label_open_device(&d, path, DEVICE_OPEN_NOLOCK) != 0)
        return false;
    there = check_label(d, guid, pool_guid) == NULL;
    device_close(d);
    return there;
}

void vdev_opened_close(struct vdev_opened *o)
{
    if (o->device)
        device_close(o->device);
    o->device = NULL;
}

void leaf_open(struct vdev *v, unsigned flags, uint64_t pool_guid)
{
    struct device_info info;
    const char *why;
    int rc = open_device(v, flags);

    free(v->in_use);
    v->in_use = rc == -EBUSY ? strdup(err_text(rc)) : NULL;
    if (rc) {
        v->device = NULL;
        vdev_set_state(v, VDEV_CANT_OPEN, reason(rc));
        return;
    }
    device_info(v->device, &info);
    if (leaf_measure(v, info.size) != 0) {
        fail(v, reason(-EOVERFLOW));
        return;
    }
    why = flags & VDEV_OPEN_ANY_GUID ? NULL : check_label(v->device, v->guid, pool_guid);
    if (why)
        fail(v, why);
    else if (!v->private && leaf_queue_new(v) != 0)
        fail(v, "out of memory");
    else
        vdev_set_state(v, VDEV_HEALTHY, NULL);
}

int leaf_in_use(struct device *d, bool open)
{
    struct label_set set;
    const struct label *best;
    const char *name;
    int rc = 0;

    if (label_read(d, &set) != 0)
        return 0;
    best = label_best(&set, UINT64_MAX);
    name = best ? nvlist_string_or(best->config, "name", "?") : NULL;
    if (best && best->state == POOL_STATE_SPARE)
        rc = err_set(EBUSY, "%s is reserved as a hot spare", d->path);
    else if (best && best->state == POOL_STATE_L2CACHE)
        rc = err_set(EBUSY, "%s is a cache device of a pool", d->path);
    else if (best && best->state != POOL_STATE_DESTROYED)
        rc = err_set(EBUSY, "%s is part of %s pool '%s'", d->path,
                     best->state == POOL_STATE_EXPORTED ? "exported"
                     : open                             ? "active"
                                                        : "potentially active",
                     name);
    label_set_free(&set);
    return rc;
}
