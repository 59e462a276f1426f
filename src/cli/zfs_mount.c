/* zfs mount, zfs unmount, and mount.tarn for fstab */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/key_impl.h"
#include "cli/zfs_impl.h"
#include "cli/zpool_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/cleanup.h"
#include "util/err.h"

/* ---- What is mounted ---- */

static int print_mount(void *arg, struct json_object *row)
{
    printf("%-30s  %s\n", json_text(row, "name", "?"), json_text(row, "mountpoint", "?"));
    return 0;
}

static int add_mount(void *arg, struct json_object *row)
{
    struct json_object *o = json_object_new_object();
    put_string(o, "filesystem", json_text(row, "name", "?"));
    put_string(o, "mountpoint", json_text(row, "mountpoint", "?"));
    json_object_object_add(arg, json_text(row, "name", "?"), o);
    return 0;
}

static int show_mounts(const char *name, struct client *c, void *arg)
{
    int rc = client_call(c, "zfs.mounts", NULL, arg ? add_mount : print_mount, arg, NULL);
    return rc ? fail(rc, "cannot list mounts of '%s'", name) : 0;
}

static int show_json(void)
{
    struct json_object *out = report_json_begin("zfs mount"), *all = json_object_new_object();
    int rc = each_pool(0, NULL, NULL, show_mounts, all);
    json_object_object_add(out, "datasets", all);
    return report_json_end(out) ? 1 : rc;
}

/* ---- mount ---- */

struct mounting {
    const char *options; /* "ro,noexec" */
    bool overlay, load_keys;
};

static struct json_object *mount_args(const struct mounting *m)
{
    struct json_object *args = json_object_new_object();
    if (m->options)
        put_string(args, "options", m->options);
    put_flag(args, "overlay", m->overlay);
    return args;
}

static int mount_pool(const char *name, struct client *c, void *arg)
{
    struct mounting *m = arg;
    struct key_loading l = {0};
    int missed = m->load_keys && key_load_below(c, name, &l) ? 1 : 0;
    int rc = call_simple(c, "zfs.mount", mount_args(m));
    if (rc == 0)
        return missed;
    fprintf(stderr, "%s\n", err_text(rc));
    return 1;
}

bool refuse_bookmark(const char *name)
{
    if (!strchr(name, '#'))
        return false;
    fprintf(stderr, "cannot open '%s': bookmark delimiter '#' is not expected here\n", name);
    return true;
}

bool refuse_snapshot(const char *name)
{
    if (!strchr(name, '@'))
        return false;
    fprintf(stderr, "cannot open '%s': snapshot delimiter '@' is not expected here\n", name);
    return true;
}

static int mount_one(const struct mounting *m, const char *name, const char *target)
{
    struct client *c = refuse_snapshot(name) ? NULL : open_pool(name);
    struct key_loading l = {0};
    if (c && m->load_keys && key_load_for(c, name, &l) != 0) {
        client_close(c);
        return 1;
    }
    if (!c)
        return 1;
    struct json_object *args = mount_args(m);
    put_string(args, "name", name);
    if (target)
        put_string(args, "target", target);
    int rc = call_simple(c, "zfs.mount", args);
    client_close(c);
    if (rc == 0)
        return 0;
    bool cannot_open = rc == -ENOENT || rc == -ENOTSUP;
    return fail(rc, cannot_open ? "cannot open '%s'" : "cannot mount '%s'", name);
}

int zfs_mount(int argc, char **argv)
{
    static const struct option longer[] = {{"json", no_argument, NULL, 'j'}, {0}};
    struct mounting m = {0};
    bool all = false, json = false;
    char options[1024] = "";
    int opt;
    while ((opt = getopt_long(argc, argv, ":ajvOlo:", longer, NULL)) != -1) {
        if (opt == 'a')
            all = true;
        else if (opt == 'j')
            json = true;
        else if (opt == 'O')
            m.overlay = true;
        else if (opt == 'o')
            snprintf(options + strlen(options), sizeof options - strlen(options), "%s%s",
                     *options ? "," : "", optarg);
        else if (opt == 'l')
            m.load_keys = true;
        else if (opt != 'v')
            return usage_option(opt);
    }
    m.options = *options ? options : NULL;
    argc -= optind;
    argv += optind;
    if (argc > (all ? 0 : 1))
        return usage_error("too many arguments");
    if (all)
        return each_pool(0, NULL, NULL, mount_pool, &m);
    if (argc == 0)
        return json ? show_json() : each_pool(0, NULL, NULL, show_mounts, NULL);
    return mount_one(&m, argv[0], NULL);
}

/* mount(8) makes the path of a file of it if there happens to be one of that name in the current
 * folder. */
static const char *dataset_argument(const char *source)
{
    char here[PATH_MAX];
    size_t n;
    if (source[0] != '/' || !getcwd(here, sizeof here))
        return source;
    n = strcmp(here, "/") == 0 ? 0 : strlen(here);
    return strncmp(source, here, n) == 0 && source[n] == '/' ? source + n + 1 : source;
}

/* mount(8) calls it as: mount.tarn DATASET DIR [-sfnv] [-N namespace] [-o options] [-t type] */
int mount_tarn(int argc, char **argv)
{
    struct mounting m = {.overlay = true};
    char target[PATH_MAX];
    bool fake = false;
    int opt;
    opterr = 0;
    while ((opt = getopt(argc, argv, "sfnvN:o:t:")) != -1) {
        if (opt == 'o')
            m.options = optarg;
        fake |= opt == 'f';
        if (opt == '?')
            optind = argc + 1;
    }
    if (argc - optind != 2) {
        fprintf(stderr, "usage: mount.tarn DATASET DIRECTORY [-o OPTIONS]\n");
        return 1;
    }
    if (!realpath(argv[optind + 1], target)) {
        fprintf(stderr, "cannot mount '%s' on '%s': %s\n", argv[optind], argv[optind + 1],
                strerror(errno));
        return 1;
    }
    return fake ? 0 : mount_one(&m, dataset_argument(argv[optind]), target) ? 32 : 0;
}

/* ---- unmount ---- */

static int unmount_pool(const char *name, struct client *c, void *arg)
{
    struct json_object *args = json_object_new_object();
    put_flag(args, "force", *(bool *)arg);
    int rc = call_simple(c, "zfs.unmount", args);
    if (rc == 0)
        return 0;
    fprintf(stderr, "%s\n", err_text(rc));
    return 1;
}

static int unmount_one(const char *what, bool force)
{
    char name[256];
    bool path = what[0] == '/';
    struct client *c = path                    ? open_mounted(what, name)
                       : refuse_snapshot(what) ? NULL
                                               : open_pool(what);
    if (!c)
        return 1;
    struct json_object *args = json_object_new_object();
    put_string(args, "name", path ? name : what);
    put_flag(args, "force", force);
    int rc = call_simple(c, "zfs.unmount", args);
    client_close(c);
    if (rc == 0)
        return 0;
    bool cannot_open = rc == -ENOENT || rc == -ENOTSUP;
    return fail(rc, cannot_open ? "cannot open '%s'" : "cannot unmount '%s'", what);
}

int zfs_unmount(int argc, char **argv)
{
    bool all = false, force = false;
    int opt;
    while ((opt = getopt(argc, argv, ":afu")) != -1) {
        if (opt == 'a')
            all = true;
        else if (opt == 'f')
            force = true;
        else if (opt != 'u')
            return usage_option(opt);
    }
    argc -= optind;
    argv += optind;
    if (all)
        return argc ? usage_error("too many arguments")
                    : each_pool(0, NULL, NULL, unmount_pool, &force);
    if (argc != 1)
        return usage_error(argc ? "too many arguments" : "missing filesystem argument");
    return unmount_one(argv[0], force);
}
