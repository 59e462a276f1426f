/* zpool create */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/compat_impl.h"
#include "cli/vdev_spec_impl.h"
#include "cli/zpool_impl.h"
#include "dsl/props.h"
#include "nvlist/nvlist.h"
#include "pool/pool.h"
#include "server/server.h"
#include "util/cleanup.h"
#include "util/err.h"

struct options {
    struct spa_create_args args;
    struct server_options server;
    struct nvlist *pool_props, *fs_props;
    bool dry_run;
};

/* ---- Options ---- */

/* "name=value" in place; NULL after a message if there is no '='. */
static char *split(char *text, char opt)
{
    char *eq = strchr(text, '=');
    if (!eq)
        fprintf(stderr, "missing '=' for -%c option\n", opt);
    else
        *eq = 0;
    return eq ? eq + 1 : NULL;
}

static int put_once(struct nvlist *l, const char *name, const char *value)
{
    if (nvlist_exists(l, name)) {
        fprintf(stderr, "property '%s' specified multiple times\n", name);
        return 1;
    }
    return nvlist_add_string(l, name, value) ? 1 : 0;
}

static int one_ashift(struct options *o, const char *value)
{
    char *end;
    unsigned long n = strtoul(value, &end, 10);
    if (*end || end == value) {
        fprintf(stderr, "ashift must be a number.\n");
        return 1;
    }
    if (n != 0 && (n < 9 || n > 16)) {
        fprintf(stderr, "invalid 'ashift=%s' property: only values between 9 and 16 are allowed.\n",
                value);
        return 1;
    }
    o->args.ashift = (unsigned)n;
    return n == 0 ? 0 : put_once(o->pool_props, "ashift", value);
}

static int pool_property(struct options *o, const char *name, const char *value)
{
    const char *full = pool_prop_name(name);
    if (strncmp(name, "feature@", 8) == 0)
        return put_once(o->pool_props, name, value);
    if (!full || prop_user_name(name)) {
        fprintf(stderr, "property '%s' is not a valid pool or vdev property\n", name);
        return 1;
    }
    if (strcmp(full, "ashift") == 0)
        return one_ashift(o, value);
    if (strcmp(full, "altroot") == 0)
        o->server.altroot = value;
    else if (strcmp(full, "cachefile") != 0) /* there is no cache file */
        return put_once(o->pool_props, full, value);
    return 0;
}

static int fs_property(struct options *o, const char *name, const char *value)
{
    const struct prop_info *info = prop_info(name);
    if (!prop_user_name(name) && !(info && (info->flags & PROP_FILESYSTEM))) {
        fprintf(stderr, "property '%s' is not a valid filesystem property\n", name);
        return 1;
    }
    return put_once(o->fs_props, info ? info->name : name, value);
}

static int one_property(struct options *o, char opt, char *text)
{
    char *value = split(text, opt);
    if (!value)
        return 1;
    int rc = opt == 'o' ? pool_property(o, text, value) : fs_property(o, text, value);
    value[-1] = '='; /* the command line goes into the history */
    return rc;
}

static int parse(struct options *o, int argc, char **argv)
{
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt(argc, argv, ":fndR:m:o:O:t:")) != -1) {
        if (opt == 'f')
            o->args.force = true;
        else if (opt == 'n')
            o->dry_run = true;
        else if (opt == 'd')
            o->args.no_features = true;
        else if (opt == 'R')
            o->server.altroot = optarg;
        else if (opt == 'm')
            rc = put_once(o->fs_props, "mountpoint", optarg);
        else if (opt == 'o' || opt == 'O')
            rc = one_property(o, (char)opt, optarg);
        else if (opt == 't')
            rc = unsupported("option -t");
        else
            rc = usage_option(opt);
    }
    return rc;
}

/* ---- Features: -o feature@x, -o compatibility ---- */

static int one_feature(struct options *o, const char *name, const char *value)
{
    enum feature_id f = feature_by_name(name + strlen("feature@"));
    bool on = strcmp(value, "enabled") == 0;
    if (f == FEATURE_COUNT)
        return err_set(EINVAL, "feature '%s' unsupported", name + strlen("feature@"));
    if (!on && strcmp(value, "disabled") != 0)
        return err_set(EINVAL, "property '%s' can only be set to 'enabled' or 'disabled'", name);
    if (on && !(feature_info(f)->flags & FEATURE_CAN_WRITE))
        return err_set(ENOTSUP, "feature '%s' is not supported yet", feature_info(f)->name);
    o->args.feature[f] = on ? SPA_FEATURE_ON : SPA_FEATURE_OFF;
    return 0;
}

static int choose_features(struct options *o)
{
    bool allowed[FEATURE_COUNT];
    const char *sets = nvlist_string_or(o->pool_props, "compatibility", NULL);
    int rc = 0;
    if (sets && compat_features(sets, allowed) != 0) {
        fprintf(stderr, "Error: could not read/parse feature file(s): %s\n", sets);
        return 1;
    }
    for (unsigned f = 0; sets && f < FEATURE_COUNT; f++)
        if (!allowed[f])
            o->args.feature[f] = SPA_FEATURE_OFF;
    for (const struct nvpair *p = nvlist_first(o->pool_props); p && rc == 0;
         p = nvlist_after(o->pool_props, p))
        if (strncmp(nvpair_name(p), "feature@", 8) == 0)
            rc = one_feature(o, nvpair_name(p), nvpair_string(p, 0));
    return rc ? fail(rc, "cannot create '%s'", o->args.name) : 0;
}

/* ---- Making it ---- */

/* Sentences of the reference for what the layers below found. */
static int explain(const struct options *o, int rc)
{
    if (rc == -EBUSY) {
        fprintf(stderr, "invalid vdev specification\n%s\n%s\n",
                o->args.force ? "the following errors must be manually repaired:"
                              : "use '-f' to override the following errors:",
                err_text(rc));
        return 1;
    }
    if (rc == -EOVERFLOW)
        err_set(EOVERFLOW, "one or more devices is less than the minimum size (64M)");
    return fail(rc, "cannot create '%s'", o->args.name);
}

static int check_content(const struct options *o)
{
    for (size_t i = 0; i < o->args.npaths && !o->args.force; i++) {
        const char *content = device_content(o->args.paths[i]);
        if (!content)
            continue;
        return err_set(EBUSY, "%s contains a filesystem of type '%s'", o->args.paths[i], content);
    }
    return 0;
}

/* Where the root file system is going to be mounted: NULL if nowhere. */
static const char *mount_point(const struct options *o, char buf[PATH_MAX])
{
    const char *given = nvlist_string_or(o->fs_props, "mountpoint", NULL);
    const char *altroot = o->server.altroot ? o->server.altroot : "";
    const char *canmount = nvlist_string_or(o->fs_props, "canmount", "on");
    if (strcmp(canmount, "on") != 0 || (given && given[0] != '/'))
        return NULL;
    snprintf(buf, PATH_MAX, "%s%s%s", altroot, given ? "" : "/", given ? given : o->args.name);
    return buf;
}

static bool is_empty(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e = NULL;
    while (d && (e = readdir(d)) && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0))
        ;
    if (d)
        closedir(d);
    return e == NULL;
}

static int check_mount_point_name(const struct options *o)
{
    const char *given = nvlist_string_or(o->fs_props, "mountpoint", "/");
    if (given[0] == '/' || strcmp(given, "none") == 0 || strcmp(given, "legacy") == 0)
        return 0;
    fprintf(stderr, "invalid mountpoint '%s': must be an absolute path, 'legacy', or 'none'\n",
            given);
    return 1;
}

static int check_mount_point_free(const struct options *o)
{
    char buf[PATH_MAX];
    const char *path = mount_point(o, buf);
    if (!path || is_empty(path))
        return 0;
    fprintf(stderr,
            "mountpoint '%s' exists and is not empty\n"
            "use '-m' option to provide a different default\n",
            path);
    return 1;
}

static int check_name(const char *name)
{
    int rc = pool_name_check(name);
    if (rc == 0)
        return 0;
    fail(rc, "cannot create '%s'", name);
    fprintf(stderr, strchr(name, '/') ? "use 'zfs create' to create a dataset\n"
                                      : "pool name may have been omitted\n");
    return 1;
}

/* Properties that are kept and do nothing yet. */
static void warn_of_kept(const struct nvlist *props)
{
    for (const struct nvpair *p = nvlist_first(props); p; p = nvlist_after(props, p)) {
        const struct prop_info *info = prop_info(nvpair_name(p));
        const char *text = nvpair_string(p, 0);
        uint64_t n = 0;
        if (!info || !(info->flags & PROP_KEPT) || prop_parse(info, text, &n) != 0)
            continue;
        if (info->kind == PROP_STRING ? strcmp(text, info->string) != 0 : n != info->number)
            fprintf(stderr, "property '%s' is kept, but has no effect in this version\n",
                    info->name);
    }
}

static int create(struct options *o, const struct vdev_spec *spec)
{
    CLEANUP_FREE char *warning = NULL;
    const char *later = vdev_spec_unsupported(spec);
    if (later && o->dry_run) {
        vdev_spec_print(spec, o->args.name);
        return 0;
    }
    if (later)
        return unsupported("vdev type '%s'", later);
    int rc = check_content(o);
    if (rc == 0 && !o->args.force)
        rc = vdev_spec_check_replication(spec);
    if (rc == 0)
        rc = spa_create(&o->args, true, NULL, NULL);
    if (rc != 0)
        return explain(o, rc);
    if (check_mount_point_free(o) != 0)
        return 1;
    if (!o->dry_run && (rc = server_create(&o->args, &o->server, &warning)) != 0)
        return explain(o, rc);
    if (o->dry_run)
        vdev_spec_print(spec, o->args.name);
    warn_of_kept(o->fs_props);
    if (warning)
        fprintf(stderr, "%s\n", warning);
    return warning ? 1 : 0;
}

static int collect_paths(struct options *o, const struct vdev_spec *spec, const char ***out,
                         struct spa_create_group **groups)
{
    size_t n = 0;
    for (size_t i = 0; i < spec->n; i++)
        n += spec->group[i].n;
    *out = calloc(n, sizeof **out);
    *groups = calloc(spec->n, sizeof **groups);
    if (!*out || !*groups)
        return 1;
    n = 0;
    for (size_t i = 0; i < spec->n; i++) {
        const struct vdev_group *g = &spec->group[i];
        (*groups)[i] = (struct spa_create_group){g->type, g->n};
        for (size_t k = 0; k < g->n; k++)
            (*out)[n++] = g->path[k];
    }
    o->args.paths = *out;
    o->args.npaths = n;
    o->args.groups = *groups;
    o->args.ngroups = spec->n;
    return 0;
}

static int run(struct options *o, int argc, char **argv)
{
    struct vdev_spec spec;
    const char **paths = NULL;
    struct spa_create_group *groups = NULL;
    o->args.name = argv[0];
    o->args.pool_props = o->pool_props;
    o->args.fs_props = o->fs_props;
    o->args.uid = geteuid();
    o->args.gid = getegid();
    o->args.command = o->server.command = command_line();
    int rc = vdev_spec_parse(&spec, argc - 1, argv + 1);
    if (rc == 0)
        rc = check_name(o->args.name);
    if (rc == 0)
        rc = check_mount_point_name(o);
    if (rc == 0)
        rc = choose_features(o);
    if (rc == 0)
        rc = collect_paths(o, &spec, &paths, &groups);
    if (rc == 0)
        rc = create(o, &spec);
    free(paths);
    free(groups);
    vdev_spec_free(&spec);
    return rc;
}

int zpool_create(int argc, char **argv)
{
    struct options o = {.pool_props = nvlist_new(), .fs_props = nvlist_new()};
    int rc = o.pool_props && o.fs_props ? parse(&o, argc, argv) : 1;
    argc -= optind;
    argv += optind;
    if (rc == 0 && (argc < 1 || argv[0][0] == 0))
        rc = usage_error("missing pool name argument");
    if (rc == 0 && argc < 2)
        rc = usage_error("missing vdev specification");
    if (rc == 0)
        rc = run(&o, argc, argv);
    nvlist_free(o.pool_props);
    nvlist_free(o.fs_props);
    return rc;
}
