/* zpool offline, online, clear, reopen, detach */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/zpool_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

/* Of commands that fail with what the reference's library returns. */
#define LIBRARY_FAILURE 255

static struct json_object *device_args(const char *device)
{
    struct json_object *args = json_object_new_object();
    put_string(args, "device", device);
    return args;
}

static struct client *open_for_devices(const char *pool)
{
    struct client *c = open_named_pool(pool);
    if (!c)
        fprintf(stderr, "failed to open pool \"%s\"", pool);
    return c;
}

/* ---- offline, online ---- */

typedef int device_fn(struct client *c, const char *pool, const char *device, bool flag);

/* Each device by itself; what failed does not keep the others from being tried. */
static int each_device(int argc, char **argv, device_fn *fn, bool flag)
{
    int rc = 0;
    if (optind == argc)
        return usage_error("missing pool name");
    if (argc - optind < 2)
        return usage_error("missing device name");
    const char *pool = argv[optind];
    struct client *c = open_for_devices(pool);
    if (!c)
        return 1;
    bool any = false;
    for (int i = optind + 1; i < argc; i++) {
        int one = fn(c, pool, argv[i], flag);
        any |= one == 0;
        rc = one ? 1 : rc;
    }
    if (any)
        record_command(c, pool);
    client_close(c);
    return rc;
}

static int offline(struct client *c, const char *pool, const char *device, bool temporary)
{
    struct json_object *args = device_args(device);
    put_flag(args, "temporary", temporary);
    int rc = call_simple(c, "device.offline", args);
    return rc ? fail(rc, "cannot offline %s", device) : 0;
}

int zpool_offline(int argc, char **argv)
{
    bool temporary = false;
    int opt;
    while ((opt = getopt(argc, argv, ":ft")) != -1) {
        if (opt == 't')
            temporary = true;
        else if (opt == 'f')
            return unsupported("option -f");
        else
            return usage_option(opt);
    }
    return each_device(argc, argv, offline, temporary);
}

static int online(struct client *c, const char *pool, const char *device, bool flag)
{
    struct json_object *ok = NULL;
    int rc = client_call(c, "device.online", device_args(device), NULL, NULL, &ok);
    if (rc == -ENODEV) {
        fprintf(stderr, "couldn't find device \"%s\" in pool \"%s\"\n", device, pool);
        return 1;
    }
    if (rc != 0) {
        fail(rc, "cannot online %s", device);
        fprintf(stderr, "Failed to online \"%s\" in pool \"%s\": -1\n", device, pool);
        return 1;
    }
    if (strcmp(json_text(ok, "state", "?"), "ONLINE") != 0) {
        printf("warning: device '%s' onlined, but remains in faulted state\n", device);
        printf("use 'zpool replace' to replace devices that are no longer present\n");
    }
    json_object_put(ok);
    return 0;
}

int zpool_online(int argc, char **argv)
{
    int opt;
    while ((opt = getopt(argc, argv, ":e")) != -1) {
        if (opt == 'e')
            return unsupported("option -e");
        return usage_option(opt);
    }
    return each_device(argc, argv, online, false);
}

/* ---- clear, reopen ---- */

int zpool_clear(int argc, char **argv)
{
    int opt;
    while ((opt = getopt(argc, argv, ":nF")) != -1) {
        if (opt == 'n' || opt == 'F')
            return unsupported("option -%c", opt);
        return usage_option(opt);
    }
    if (optind == argc)
        return usage_error("missing pool name");
    if (argc - optind > 2)
        return usage_error("too many arguments");
    const char *pool = argv[optind], *device = argv[optind + 1];
    struct client *c = open_named_pool(pool);
    if (!c)
        return 1;
    int rc = call_simple(c, "device.clear", device ? device_args(device) : NULL);
    if (rc == 0)
        record_command(c, pool);
    else
        fail(rc, "cannot clear errors for %s", device ? device : pool);
    client_close(c);
    return rc ? 1 : 0;
}

static int reopen(const char *name, struct client *c, void *arg)
{
    int rc = call_simple(c, "device.reopen", NULL);
    if (rc == -EROFS)
        return 0; /* its devices are as they were when it was imported */
    if (rc != 0)
        return fail(rc, "cannot reopen '%s'", name);
    record_command(c, name);
    return 0;
}

int zpool_reopen(int argc, char **argv)
{
    int opt;
    while ((opt = getopt(argc, argv, ":n")) != -1)
        if (opt != 'n') /* a scrub goes on in any case */
            return usage_option(opt);
    return each_pool(argc - optind, argv + optind, NULL, reopen, NULL);
}

/* ---- detach ---- */

int zpool_detach(int argc, char **argv)
{
    int opt = getopt(argc, argv, ":");
    if (opt != -1)
        return usage_option(opt);
    if (optind == argc)
        return usage_error("missing pool name argument");
    if (argc - optind < 2)
        return usage_error("missing <device> specification");
    const char *pool = argv[optind], *device = argv[optind + 1];
    struct client *c = open_named_pool(pool);
    if (!c)
        return 1;
    int rc = call_simple(c, "device.detach", device_args(device));
    if (rc == 0)
        record_command(c, pool);
    else
        fail(rc, "cannot detach %s", device);
    client_close(c);
    return rc ? LIBRARY_FAILURE : 0;
}
