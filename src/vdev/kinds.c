/* The table of vdev kinds. */
#include <string.h>

#include "vdev/vdev_impl.h"

const struct vdev_kind *const vdev_kinds[] = {
    &vdev_kind_root,
    &vdev_kind_file,
    &vdev_kind_disk,
    &vdev_kind_mirror,
    &vdev_kind_raidz,
    &vdev_kind_draid,
    &vdev_kind_spare,
    &vdev_kind_replacing,
    &vdev_kind_dspare,
    &vdev_kind_indirect,
    &vdev_kind_hole,
    &vdev_kind_missing,
    NULL,
};

const struct vdev_kind *vdev_kind_find(const char *type)
{
    for (const struct vdev_kind *const *k = vdev_kinds; *k; k++)
        if (strcmp((*k)->type, type) == 0)
            return *k;
    return NULL;
}
