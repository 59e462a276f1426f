/* zpool labelclear */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/zpool_impl.h"
#include "device/device.h"
#include "nvlist/nvlist.h"
#include "util/err.h"
#include "vdev/label.h"

static const char *const states[] = {"potentially active", "exported", "destroyed", "spare",
                                     "L2ARC"};

/* Whether the label on the device forbids clearing it; says so. */
static bool member_of_pool(struct device *d, const char *path, bool in_use, bool force)
{
    struct label_set set;
    bool refused = false;
    if (label_read(d, &set) != 0)
        return false;
    const struct label *l = label_best(&set, UINT64_MAX);
    const char *pool = l ? nvlist_string_or(l->config, "name", "?") : "";
    if (l && in_use) {
        fprintf(stderr, "%s is a member (ACTIVE) of pool \"%s\"\n", path, pool);
        refused = true;
    } else if (l && !force && l->state != POOL_STATE_DESTROYED) {
        fprintf(
            stderr, "use '-f' to override the following error:\n%s is a member of %s pool \"%s\"\n",
            path, l->state < sizeof states / sizeof *states ? states[l->state] : "unknown", pool);
        refused = true;
    }
    label_set_free(&set);
    return refused;
}

static int clear(const char *path, bool force)
{
    struct device *d;
    int rc = label_open_device(&d, path, DEVICE_OPEN_WRITE);
    bool in_use = rc == -EBUSY;
    if (in_use && label_open_device(&d, path, DEVICE_OPEN_NOLOCK) != 0)
        return fail(err_set(EBUSY, "%s is in use", path), "failed to clear label for %s", path);
    if (rc != 0 && !in_use) {
        fprintf(stderr, "failed to open %s: %s\n", path, strerror(-rc));
        return 1;
    }
    if (member_of_pool(d, path, in_use, force)) {
        device_close(d);
        return 1;
    }
    rc = in_use ? err_set(EBUSY, "it is in use") : label_clear(d);
    device_close(d);
    if (rc == -ENOENT) {
        fprintf(stderr, "failed to clear label for %s\n", path);
        return 255;
    }
    return rc ? fail(rc, "failed to clear label for %s", path) : 0;
}

int zpool_labelclear(int argc, char **argv)
{
    bool force = false;
    int opt;
    while ((opt = getopt(argc, argv, ":f")) != -1) {
        if (opt != 'f')
            return usage_option(opt);
        force = true;
    }
    if (optind == argc)
        return usage_error("missing vdev name");
    if (argc - optind > 1)
        return usage_error("too many arguments");
    return clear(argv[optind], force);
}
