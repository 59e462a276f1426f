/* zpool status: its options, and the JSON form. */
#ifndef CLI_ZPOOL_STATUS_IMPL_H
#define CLI_ZPOOL_STATUS_IMPL_H

#include "cli/zpool_impl.h"

struct status {
    struct report_style style;
    struct vdev_naming naming;
    bool unhealthy_only, errors_only, slow, direct, dedup, initialize, trim, verbose, flat;
    int argc;
    char **argv;
    int seen, printed;
    struct json_object *pools; /* with -j: what has been collected */
};

void status_add_json(struct status *p, struct json_object *st);
int status_end_json(struct status *p); /* prints and puts */

#endif
