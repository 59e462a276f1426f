/* Leaves and root of a pool that is being created (spec 01 10). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/env.h"
#include "util/err.h"
#include "vdev/leaf_impl.h"
#include "vdev/size.h"
#include "vdev/vdev_impl.h"

#define ASHIFT_AUTO_MAX 14 /* larger physical sectors are not followed by themselves */

static void cleanup_vdev(struct vdev **v)
{
    vdev_free(*v);
}

static uint64_t random_guid(struct env *env)
{
    uint64_t guid;

    do
        guid = env->random(env);
    while (guid == 0);
    return guid;
}

static int choose_ashift(struct vdev *v, const struct device_info *info, unsigned ashift)
{
    if (ashift == 0) {
        ashift = info->logical_shift;
        if (info->physical_shift > ashift && info->physical_shift <= ASHIFT_AUTO_MAX)
            ashift = info->physical_shift;
        ashift = MAX(ashift, VDEV_ASHIFT_MIN);
    }
    if (ashift < VDEV_ASHIFT_MIN || ashift > VDEV_ASHIFT_MAX)
        return err_set(EINVAL, "ashift %u is not between 9 and 16", ashift);
    if (ashift < info->logical_shift)
        return err_set(EINVAL, "%s: ashift %u is smaller than the device's sector of %u bytes",
                       v->path, ashift, 1u << info->logical_shift);
    v->ashift = ashift;
    return 0;
}

int vdev_leaf_on_device(struct vdev **out, struct device *device, unsigned ashift, struct env *env)
{
    struct vdev *v CLEANUP(cleanup_vdev) = NULL;
    struct device_info info;
    int rc;

    device_info(device, &info);
    v = vdev_new(info.kind == DEVICE_BLOCK ? &vdev_kind_disk : &vdev_kind_file);
    if (!v) {
        device_close(device);
        return -ENOMEM;
    }
    v->device = device;
    v->path = strdup(device->path);
    if (!v->path)
        return -ENOMEM;
    rc = leaf_measure(v, info.size);
    rc = rc ? rc : choose_ashift(v, &info, ashift);
    rc = rc ? rc : leaf_queue_new(v);
    if (rc)
        return rc;
    v->guid = random_guid(env);
    v->top = v;
    v->asize = v->kind->asize(v);
    v->metaslab_shift = size_metaslab_shift(v->asize);
    v->deflate_ratio = vdev_deflate_ratio(v);
    vdev_set_state(v, VDEV_HEALTHY, NULL);
    *out = STEAL(v);
    return 0;
}

static int open_new(struct device **out, const char *path)
{
    struct device *d;
    int rc = device_open(out, path, DEVICE_OPEN_WRITE | DEVICE_OPEN_DIRECT);

    /* Whoever has it open may be using it as a part of a pool: that says more than a process. */
    if (rc == -EBUSY && device_open(&d, path, DEVICE_OPEN_NOLOCK) == 0) {
        leaf_in_use(d, true);
        device_close(d);
    }
    return rc;
}

int vdev_leaf_new_forced(struct vdev **out, const char *path, unsigned ashift, struct env *env)
{
    struct device *d;
    int rc = open_new(&d, path);

    return rc ? rc : vdev_leaf_on_device(out, d, ashift, env);
}

int vdev_leaf_new(struct vdev **out, const char *path, unsigned ashift, struct env *env)
{
    struct device *d;
    int rc = open_new(&d, path);

    if (rc)
        return rc;
    rc = leaf_in_use(d, false);
    if (rc) {
        device_close(d);
        return rc;
    }
    return vdev_leaf_on_device(out, d, ashift, env);
}

/* The parity in "raidz", "raidz2", ...; 0: not such a word. */
static unsigned raidz_word(const char *word)
{
    if (strncmp(word, "raidz", 5) != 0)
        return 0;
    if (word[5] == '\0')
        return 1;
    return word[5] >= '1' && word[5] <= '3' && word[6] == '\0' ? (unsigned)(word[5] - '0') : 0;
}

int vdev_group_new(struct vdev **out, const char *word, struct env *env)
{
    struct vdev *v CLEANUP(cleanup_vdev) = NULL;
    struct nvlist *config CLEANUP_NVLIST = nvlist_new();
    unsigned nparity = raidz_word(word);
    bool mirror = strcmp(word, "mirror") == 0;
    int rc = 0;

    if (!mirror && nparity == 0)
        return err_set(EINVAL, "new vdevs of type '%s' are not supported", word);
    v = vdev_new(mirror ? &vdev_kind_mirror : &vdev_kind_raidz);
    if (!v || !config)
        return -ENOMEM;
    v->guid = random_guid(env);
    v->top = v;
    if (nparity)
        rc = nvlist_add_uint64(config, "nparity", nparity);
    if (rc == 0 && v->kind->parse)
        rc = v->kind->parse(v, config);
    if (rc == 0 && nparity)
        v->other = STEAL(config);
    if (rc == 0)
        *out = STEAL(v);
    return rc;
}

int vdev_group_finish(struct vdev *v)
{
    int rc = v->kind->check(v);

    if (rc)
        return rc;
    for (unsigned i = 0; i < v->children; i++)
        v->ashift = MAX(v->ashift, v->child[i]->ashift);
    rc = v->kind->open(v, 0);
    if (rc)
        return rc;
    v->asize = v->kind->asize(v);
    v->metaslab_shift = size_metaslab_shift(v->asize);
    v->deflate_ratio = vdev_deflate_ratio(v);
    return 0;
}

int vdev_root_new(struct vdev **out, uint64_t guid)
{
    struct vdev *v = vdev_new(&vdev_kind_root);

    if (!v)
        return -ENOMEM;
    v->guid = guid;
    vdev_set_state(v, VDEV_HEALTHY, NULL);
    *out = v;
    return 0;
}
