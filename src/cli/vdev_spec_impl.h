/* The devices of zpool create: "raidz2 A B C D log E cache F". */
#ifndef CLI_VDEV_SPEC_IMPL_H
#define CLI_VDEV_SPEC_IMPL_H

#include <stdbool.h>
#include <stddef.h>

struct vdev_group {
    const char *type;    /* "mirror", "raidz2", ...; NULL: each device by itself */
    const char *heading; /* "logs", "cache", "spares", "special", "dedup"; NULL: data */
    char **path;         /* absolute */
    size_t n;
};

struct vdev_spec {
    struct vdev_group *group;
    size_t n;
};

/* 0, or 1 after a message. The spec is to be freed in both cases. */
int vdev_spec_parse(struct vdev_spec *s, int argc, char **argv);
void vdev_spec_free(struct vdev_spec *s);
/* "would create ...": what zpool create -n shows. */
void vdev_spec_print(const struct vdev_spec *s, const char *pool);
/* Its data vdevs, as they stand in such a list. */
void vdev_spec_print_data(const struct vdev_spec *s);
/* -EBUSY with the reference's sentence: its data vdevs are not equally redundant, or the devices of one
 * are of different sizes or kinds. */
int vdev_spec_check_replication(const struct vdev_spec *s);
/* The same of new vdevs against those that a pool has: its tree, as pool.status tells it. */
struct json_object;
int vdev_spec_check_against(const struct vdev_spec *s, struct json_object *tree);
/* The first word that this version cannot make, or NULL. */
const char *vdev_spec_unsupported(const struct vdev_spec *s);

/* What a block device holds that a new pool would destroy ("ext4"), or NULL (device_content.c). */
const char *device_content(const char *path);

#endif
