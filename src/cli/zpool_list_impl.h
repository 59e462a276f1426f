/* Vdevs in zpool list -v. */
#ifndef CLI_ZPOOL_LIST_IMPL_H
#define CLI_ZPOOL_LIST_IMPL_H

#include <stddef.h>

struct json_object;
struct report;
struct report_column;
struct report_style;
struct vdev_naming;

#define VDEV_NAME_WIDTH 9 /* the name column is at least this wide */

/* What column prop shows for a vdev of pool.status. */
const char *vdev_cell(const struct report_style *s, struct json_object *vdev, const char *prop,
                      char buf[32]);
/* {NAME: {"name", "vdev_type", ..., "properties", "vdevs"}} of the vdevs below one. */
struct json_object *list_vdevs_json(const struct report *r, const struct vdev_naming *how,
                                    struct json_object *vdev, const struct report_column *columns,
                                    size_t n);

#endif
