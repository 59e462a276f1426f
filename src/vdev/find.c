/* Vdevs by what people call them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vdev/change.h"
#include "vdev/vdev_impl.h"

struct vdev *vdev_find_guid(struct vdev *v, uint64_t guid)
{
    struct vdev *found = v->guid == guid ? v : NULL;

    for (unsigned i = 0; i < v->children && !found; i++)
        found = vdev_find_guid(v->child[i], guid);
    return found;
}

/* A path is given whole, or without the folder that devices are in. */
static bool has_path(const struct vdev *v, const char *name)
{
    static const char *const folders[] = {"/dev/", "/dev/disk/by-id/", "/dev/mapper/"};
    size_t skip;

    if (!v->path || name[0] == '/')
        return v->path && strcmp(v->path, name) == 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        skip = strlen(folders[i]);
        if (strncmp(v->path, folders[i], skip) == 0 && strcmp(v->path + skip, name) == 0)
            return true;
    }
    return false;
}

static bool is_called(const struct vdev *v, const char *name)
{
    char own[4096];

    if (v->kind->leaf)
        return has_path(v, name);
    vdev_print_name(v, own, sizeof own);
    return strcmp(own, name) == 0;
}

static struct vdev *find_name(struct vdev *v, const char *name)
{
    struct vdev *found = v->parent && is_called(v, name) ? v : NULL;

    for (unsigned i = 0; i < v->children && !found; i++)
        found = find_name(v->child[i], name);
    return found;
}

struct vdev *vdev_find(struct vdev *root, const char *name)
{
    char *end;
    unsigned long long guid;

    errno = 0;
    guid = strtoull(name, &end, 0);
    if (guid != 0 && *end == '\0' && errno == 0)
        return vdev_find_guid(root, guid);
    return find_name(root, name);
}
