/* zpool add, attach, replace: devices that join a pool */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/vdev_spec_impl.h"
#include "cli/zpool_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

#define LIBRARY_FAILURE 255 /* of commands that end with what the reference's library returns */

/* What is wrong with a device, under the heading of the reference. */
static int refuse_device(int rc, bool force)
{
    fprintf(stderr, "invalid vdev specification\n%s\n%s\n",
            force ? "the following errors must be manually repaired:"
                  : "use '-f' to override the following errors:",
            err_text(rc));
    return 1;
}

static int refuse_content(const char *path, bool force)
{
    const char *content = force ? NULL : device_content(path);
    if (!content)
        return 0;
    return refuse_device(err_set(EBUSY, "%s contains a filesystem of type '%s'", path, content), false);
}

/* -o ashift=N, the only property of a new device. 0, 1 or 2 after a message. */
static int ashift_option(const char *text, unsigned *ashift)
{
    char *end;
    if (strncmp(text, "ashift=", 7) != 0)
        return usage_shown();
    unsigned long n = strtoul(text + 7, &end, 10);
    if (*end || end == text + 7) {
        fprintf(stderr, "ashift must be a number.\n");
        return 1;
    }
    if (n != 0 && (n < 9 || n > 16)) {
        fprintf(stderr, "invalid '%s' property: only values between 9 and 16 are allowed.\n", text);
        return 1;
    }
    *ashift = (unsigned)n;
    return 0;
}

/* ---- add ---- */

struct add {
    bool force, dry_run;
    unsigned ashift;
    struct vdev_naming naming;
};

static int parse_add(struct add *a, int argc, char **argv)
{
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt(argc, argv, ":fgLnPo:")) != -1) {
        if (opt == 'f')
            a->force = true;
        else if (opt == 'g')
            a->naming.guid = true;
        else if (opt == 'L')
            a->naming.follow = true;
        else if (opt == 'P')
            a->naming.full = true;
        else if (opt == 'n')
            a->dry_run = true;
        else if (opt == 'o')
            rc = ashift_option(optarg, &a->ashift);
        else
            rc = usage_option(opt);
    }
    return rc;
}

static struct json_object *add_args(const struct add *a, const struct vdev_spec *spec)
{
    struct json_object *args = json_object_new_object(), *vdevs = json_object_new_array();
    for (size_t i = 0; i < spec->n; i++) {
        struct json_object *one = json_object_new_object(), *paths = json_object_new_array();
        for (size_t k = 0; k < spec->group[i].n; k++)
            json_object_array_add(paths, json_object_new_string(spec->group[i].path[k]));
        if (spec->group[i].type)
            put_string(one, "type", spec->group[i].type);
        json_object_object_add(one, "paths", paths);
        json_object_array_add(vdevs, one);
    }
    json_object_object_add(args, "vdevs", vdevs);
    json_object_object_add(args, "ashift", json_object_new_int((int)a->ashift));
    put_flag(args, "force", a->force);
    put_flag(args, "dry_run", a->dry_run);
    return args;
}

static int check_devices(const struct add *a, const struct vdev_spec *spec, struct json_object *tree)
{
    for (size_t i = 0; i < spec->n; i++)
        for (size_t k = 0; k < spec->group[i].n; k++)
            if (refuse_content(spec->group[i].path[k], a->force) != 0)
                return 1;
    int rc = a->force ? 0 : vdev_spec_check_replication(spec);
    if (rc == 0 && !a->force)
        rc = vdev_spec_check_against(spec, tree);
    return rc ? refuse_device(rc, a->force) : 0;
}

static void print_present(const struct add *a, struct json_object *vdev, int indent)
{
    char buf[4096];
    struct json_object *list = vdev_children(vdev);
    printf("\t%*s%s\n", indent, "", vdev_name(&a->naming, vdev, buf, sizeof buf));
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        print_present(a, json_object_array_get_idx(list, i), indent + 2);
}

static void print_result(const struct add *a, const char *pool, const struct vdev_spec *spec,
                         struct json_object *tree)
{
    printf("would update '%s' to the following configuration:\n\n\t%s\n", pool, pool);
    for (const struct vdev_section *s = vdev_sections; s->class || s->member; s++) {
        struct json_object *list = vdev_section(tree, s, false);
        size_t n = json_object_array_length(list);
        if (n > 0 && s->list_title)
            printf("\t%s\n", s->list_title);
        for (size_t i = 0; i < n; i++)
            print_present(a, json_object_array_get_idx(list, i), 2);
        json_object_put(list);
        if (!s->list_title)
            vdev_spec_print_data(spec);
    }
}

static int add(const struct add *a, const char *pool, const struct vdev_spec *spec, struct client *c)
{
    struct json_object *st = NULL;
    int rc = client_call(c, "pool.status", NULL, NULL, NULL, &st);
    if (rc != 0)
        return fail(rc, "cannot add to '%s'", pool);
    struct json_object *tree = json_member(st, "vdevs");
    int failed = check_devices(a, spec, tree);
    if (failed == 0) {
        rc = call_simple(c, "device.add", add_args(a, spec));
        if (rc == -EOVERFLOW)
            rc = err_set(EOVERFLOW, "one or more devices is less than the minimum size (64M)");
        failed = rc == -EBUSY ? refuse_device(rc, a->force)
                 : rc         ? fail(rc, "cannot add to '%s'", pool)
                              : 0;
    }
    if (failed == 0 && a->dry_run)
        print_result(a, pool, spec, tree);
    else if (failed == 0)
        record_command(c, pool);
    json_object_put(st);
    return failed;
}

int zpool_add(int argc, char **argv)
{
    struct add a = {.force = false};
    struct vdev_spec spec;
    int rc = parse_add(&a, argc, argv);
    if (rc != 0)
        return rc;
    if (optind == argc)
        return usage_error("missing pool name argument");
    if (argc - optind < 2)
        return usage_error("missing vdev specification");
    const char *pool = argv[optind];
    struct client *c = open_named_pool(pool);
    if (!c)
        return 1;
    rc = vdev_spec_parse(&spec, argc - optind - 1, argv + optind + 1);
    const char *later = rc == 0 ? vdev_spec_unsupported(&spec) : NULL;
    if (later)
        rc = unsupported("adding vdevs of type '%s'", later);
    if (rc == 0)
        rc = add(&a, pool, &spec, c);
    vdev_spec_free(&spec);
    client_close(c);
    return rc;
}

/* ---- attach, replace ---- */

struct attach {
    bool replace, force;
    unsigned ashift;
    const char *pool, *device, *path; /* path: as it is given to the pool */
};

static int parse_attach(struct attach *a, int argc, char **argv)
{
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt(argc, argv, ":fswo:")) != -1) {
        if (opt == 'f')
            a->force = true;
        else if (opt == 's' || opt == 'w')
            rc = unsupported("option -%c", opt);
        else if (opt == 'o')
            rc = ashift_option(optarg, &a->ashift);
        else
            rc = usage_option(opt);
    }
    return rc;
}

static int report(const struct attach *a, int rc)
{
    if (rc == -EBUSY)
        return refuse_device(rc, a->force);
    if (a->replace)
        fail(rc, "cannot replace %s with %s", a->device, a->path);
    else
        fail(rc, "cannot attach %s to %s", a->path, a->device);
    return LIBRARY_FAILURE;
}

static int attach(const struct attach *a)
{
    struct client *c = open_named_pool(a->pool);
    if (!c)
        return 1;
    struct json_object *args = json_object_new_object();
    put_string(args, "device", a->device);
    put_string(args, "path", a->path);
    put_flag(args, "replace", a->replace);
    put_flag(args, "force", a->force);
    json_object_object_add(args, "ashift", json_object_new_int((int)a->ashift));
    int rc = call_simple(c, "device.attach", args);
    if (rc == 0)
        record_command(c, a->pool);
    client_close(c);
    return rc ? report(a, rc) : 0;
}

/* The new device may be a device of its own, or what stands where the old one was. */
static int run_attach(struct attach *a, int argc, char **argv)
{
    struct vdev_spec spec;
    int rc = parse_attach(a, argc, argv), n = argc - optind;
    if (rc != 0)
        return rc;
    if (n < 1)
        return usage_error("missing pool name argument");
    if (n < 2)
        return usage_error("missing <device> specification");
    if (n < 3 && !a->replace)
        return usage_error("missing <new_device> specification");
    if (n > 3)
        return usage_error("too many arguments");
    a->pool = argv[optind];
    a->device = argv[optind + 1];
    rc = vdev_spec_parse(&spec, 1, argv + optind + (n > 2 ? 2 : 1));
    if (rc == 0 && (spec.n != 1 || spec.group[0].type || spec.group[0].n != 1))
        rc = usage_error("a single device is needed");
    if (rc == 0) {
        a->path = spec.group[0].path[0];
        rc = refuse_content(a->path, a->force);
    }
    if (rc == 0)
        rc = attach(a);
    vdev_spec_free(&spec);
    return rc;
}

int zpool_attach(int argc, char **argv)
{
    struct attach a = {.replace = false};
    return run_attach(&a, argc, argv);
}

int zpool_replace(int argc, char **argv)
{
    struct attach a = {.replace = true};
    return run_attach(&a, argc, argv);
}
