/*
 * zpool import: looks for pools on devices and files, lists them, or starts a process for one or
 * all. What is found is only what labels say; the process checks everything again when it opens the
 * pool.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/import_impl.h"
#include "cli/key_impl.h"
#include "cli/zpool_impl.h"
#include "dsl/dataset.h"
#include "dsl/feature.h"
#include "nvlist/nvlist.h"
#include "pool/pool.h"
#include "server/client.h"
#include "server/json.h"
#include "server/server.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/label.h"
#include "vdev/scan.h"

#define PATHS_MAX 64

/* A pool that has a process already. */
struct served {
    uint64_t guid;
    char name[DATASET_NAME_MAX];
};

struct importing {
    bool bad_readonly;
    const char *paths[PATHS_MAX]; /* allocated */
    size_t npaths;
    bool all, destroyed, rewind, dry_run, load_keys, no_mount;
    struct json_object *props; /* to be set once the pool is open */
    struct server_options server;
    struct spa_open_args open;
    struct served *served;
    size_t nserved;
};

static void free_scan(struct scan **s)
{
    scan_free(*s);
}

/* ---- Which pools have a process already ---- */

#define ANSWER_SECONDS 5

static int note_served(const char *name, struct client *c, void *arg)
{
    struct importing *im = arg;
    struct json_object *pong;
    struct served *more = realloc(im->served, (im->nserved + 1) * sizeof *more);
    if (!more)
        return 0;
    im->served = more;
    /* A process that hangs must not keep other pools from being imported; its own devices are
     * locked. */
    client_limit(c, ANSWER_SECONDS);
    if (client_call(c, "pool.ping", NULL, NULL, NULL, &pong) != 0)
        return 0;
    more += im->nserved++;
    more->guid = json_unsigned(pong, "guid");
    snprintf(more->name, sizeof more->name, "%s", name);
    json_object_put(pong);
    return 0;
}

static const struct served *find_served(const struct importing *im, uint64_t guid)
{
    for (size_t i = 0; i < im->nserved; i++)
        if (im->served[i].guid == guid)
            return &im->served[i];
    return NULL;
}

static bool name_in_use(const char *name)
{
    struct client *c;
    if (client_open(&c, name) != 0)
        return false;
    client_close(c);
    return true;
}

static bool candidate(const struct importing *im, const struct scan_pool *p)
{
    return (p->state == POOL_STATE_DESTROYED) == im->destroyed && !find_served(im, p->guid);
}

/* ---- Listing ---- */

static int compare_pools(const void *a, const void *b)
{
    const struct scan_pool *x = *(const struct scan_pool *const *)a,
                           *y = *(const struct scan_pool *const *)b;
    return (x->guid > y->guid) - (x->guid < y->guid);
}

/* Those that may be imported, by guid; the array is the caller's. */
static size_t candidates(const struct importing *im, const struct scan *s,
                         const struct scan_pool ***out)
{
    size_t n = 0;
    *out = calloc(s->pools ? s->pools : 1, sizeof **out);
    for (size_t i = 0; *out && i < s->pools; i++)
        if (candidate(im, &s->pool[i]))
            (*out)[n++] = &s->pool[i];
    if (n > 1)
        qsort(*out, n, sizeof **out, compare_pools);
    return n;
}

static int list_pools(const struct importing *im, const struct scan *s)
{
    CLEANUP_FREE const struct scan_pool **list = NULL;
    size_t n = candidates(im, s, &list);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            putchar('\n');
        import_print(list[i], spa_host_id());
    }
    if (n > 0)
        return 0;
    fprintf(stderr, "no pools available to import\n");
    if (s->denied > 0)
        fprintf(stderr, "(permission to read %u of the devices is missing)\n", s->denied);
    return 0;
}

/* ---- Importing one ---- */

static int set_props(const struct importing *im, const char *name)
{
    struct client *c;
    if (!im->props || json_object_object_length(im->props) == 0)
        return 0;
    if (!(c = open_named_pool(name)))
        return 1;
    struct json_object *args = json_object_new_object();
    json_object_object_add(args, "props", json_object_get(im->props));
    int rc = call_simple(c, "pool.set", args);
    client_close(c);
    return rc ? fail(rc, "cannot set property for '%s'", name) : 0;
}

/* -l: the mounts wait for the keys. */
static int keys_and_mounts(const struct importing *im, const char *name)
{
    struct key_loading l = {0};
    struct client *c = open_named_pool(name);
    if (!c)
        return 1;
    int missed = key_load_below(c, name, &l) ? 1 : 0;
    if (l.tried > 0)
        printf("%u / %u keys successfully loaded\n", l.loaded, l.tried);
    int rc = im->no_mount ? 0 : call_simple(c, "zfs.mount", NULL);
    client_close(c);
    if (rc != 0)
        fprintf(stderr, "%s\n", err_text(rc));
    return rc ? 1 : missed;
}

/* Read-write if the pool can be kept right, else read-only, which is said. */
static int open_either_way(const struct importing *im, const struct spa_open_args *open,
                           const char *name, char **warning)
{
    int rc = server_import(open, &im->server, warning);
    if (rc != -EROFS || open->readonly)
        return rc;
    char why[2048];
    snprintf(why, sizeof why, "%s", err_text(rc));
    struct spa_open_args again = *open;
    again.readonly = true;
    rc = server_import(&again, &im->server, warning);
    if (rc == 0)
        fprintf(stderr, "'%s' was imported read-only: %s\n", name, why);
    return rc;
}

/* The reference's sentence, and below it what exactly. */
static int refused(const struct importing *im, const char *name, int rc)
{
    const char *kind = rc == -ENXIO     ? "one or more devices is currently unavailable"
                       : rc == -ENOTSUP ? "unsupported version or feature"
                                        : NULL;
    if (kind)
        fprintf(stderr, "cannot import '%s': %s\n%s\n", name, kind, err_text(rc));
    else
        fail(rc, "cannot import '%s'", name);
    if (im->rewind && (rc == -EIO || rc == -EBADE))
        fprintf(stderr,
                "going back to an older txg is only supported read-only: "
                "'zpool import -o readonly=on -T TXG %s'\n",
                name);
    return 1;
}

/* The labels list what is needed to read the pool's own tables. */
static int check_features(const struct scan_pool *p)
{
    struct nvlist *features;
    if (nvlist_get_nvlist(p->config, "features_for_read", &features) != 0)
        return 0;
    return feature_check_label(features);
}

static int import_pool(const struct importing *im, const struct scan_pool *p, const char *new_name)
{
    CLEANUP_FREE char *warning = NULL;
    struct spa_open_args open = im->open;
    const char *name = new_name ? new_name : p->name;
    if (!p->config) {
        fprintf(stderr, "cannot import '%s': the labels of its devices contradict each other\n",
                p->name);
        return 1;
    }
    if (name_in_use(name)) {
        if (new_name)
            fprintf(stderr, "cannot import '%s' as '%s': pool already exists\n", p->name, new_name);
        else
            fprintf(stderr, "cannot import '%s': pool already exists\n", p->name);
        return 1;
    }
    open.config = p->config;
    open.new_name = name; /* the label's may be newer than the pool's own */
    int rc = check_features(p);
    if (rc == 0)
        rc = open_either_way(im, &open, name, &warning);
    if (rc != 0)
        return refused(im, name, rc);
    rc = set_props(im, name);
    if (im->load_keys)
        rc |= keys_and_mounts(im, name);
    if (warning)
        fprintf(stderr, "%s\n", warning);
    return warning ? 1 : rc;
}

static int import_all(const struct importing *im, const struct scan *s)
{
    CLEANUP_FREE const struct scan_pool **list = NULL;
    size_t n = candidates(im, s, &list);
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        rc |= import_pool(im, list[i], NULL);
    if (n == 0 && im->destroyed)
        fprintf(stderr, "no pools available to import\n");
    return rc;
}

/* By name or guid. */
static int import_named(const struct importing *im, const struct scan *s, const char *text,
                        const char *new_name)
{
    const struct scan_pool *p, *found = NULL;
    const struct served *served = NULL;
    bool several = false;
    if (!new_name && name_in_use(text)) {
        fprintf(stderr,
                "cannot import '%s': a pool with that name already exists\n"
                "use the form 'zpool import <pool | id> <newpool>' to give it a new name\n",
                text);
        return 1;
    }
    for (size_t i = 0; (p = scan_find(s, text, i)) != NULL; i++) {
        if (!candidate(im, p)) {
            served = served ? served : find_served(im, p->guid);
            continue;
        }
        several |= found != NULL;
        found = p;
    }
    if (several) {
        fprintf(stderr,
                "cannot import '%s': more than one matching pool\nimport by numeric ID instead\n",
                text);
        return 1;
    }
    if (!found && served) {
        fprintf(stderr, "cannot import '%s': it is in use: already imported as '%s'\n", text,
                served->name);
        return 1;
    }
    if (!found) {
        fprintf(stderr, "cannot import '%s': no such pool available\n", text);
        return 1;
    }
    return import_pool(im, found, new_name);
}

/* ---- Options ---- */

/* -o NAME=VALUE is a property of the pool; without '=' it would be mount options. */
static int one_option(struct importing *im, const char *text)
{
    const char *eq = strchr(text, '=');
    char name[256];
    if (!eq)
        return unsupported("mount options of an import ('-o %s')", text);
    snprintf(name, sizeof name, "%.*s", (int)(eq - text), text);
    if (strcmp(name, "readonly") == 0) {
        im->bad_readonly = strcmp(eq + 1, "on") != 0 && strcmp(eq + 1, "off") != 0;
        im->open.readonly = strcmp(eq + 1, "on") == 0;
        return 0;
    }
    if (strcmp(name, "altroot") == 0) {
        im->server.altroot = eq + 1;
        return 0;
    }
    if (strcmp(name, "cachefile") == 0)
        return 0; /* there is no cache file: always as with "none" */
    if (!pool_prop_name(name)) {
        fprintf(stderr, "property '%s' is not a valid pool or vdev property\n", name);
        return 1;
    }
    return add_assignment(im->props, text) ? 0 : 1;
}

/* Absolute, since the pool's process works in the root directory. */
static int add_path(struct importing *im, const char *path)
{
    char *absolute = realpath(path, NULL);
    im->paths[im->npaths] = absolute ? absolute : strdup(path);
    return im->paths[im->npaths++] ? 0 : usage_error("no memory");
}

static int one_letter(struct importing *im, int opt)
{
    char *end;
    switch (opt) {
    case 'a':
        im->all = true;
        return 0;
    case 'D':
        im->destroyed = true;
        return 0;
    case 'f':
        im->open.force = true;
        return 0;
    case 'F':
        im->rewind = true;
        return 0;
    case 'N':
        im->no_mount = true;
        return 0;
    case 'R':
        im->server.altroot = optarg;
        return 0;
    case 'o':
        return one_option(im, optarg);
    case 'd':
        if (im->npaths == PATHS_MAX)
            return usage_error("too many -d options");
        return add_path(im, optarg);
    case 'T':
        im->open.max_txg = strtoull(optarg, &end, 10);
        return *end || im->open.max_txg == 0 ? usage_error("invalid txg value '%s'", optarg) : 0;
    case 'K':
        im->open.checkpoint = true;
        return 0;
    case 'l':
        im->load_keys = true;
        return 0;
    case 'm':
    case 's':
        return 0; /* a missing log is told about anyway; devices are always scanned */
    default:
        return opt == '?' || opt == ':' ? usage_option(opt) : unsupported("option -%c", opt);
    }
}

/* Before anything is opened: may these properties be set, and is the new name one? */
static int check_props(const struct importing *im, const char *pool)
{
    json_object_object_foreach(im->props, name, value)
    {
        int rc = spa_prop_check(name, json_object_get_string(value));
        if (rc != 0)
            return fail(rc, "cannot import pool%s%s%s", pool ? " '" : "", pool ? pool : "",
                        pool ? "'" : "");
    }
    return 0;
}

static int run(struct importing *im, int argc, char **argv)
{
    CLEANUP(free_scan) struct scan *s = NULL;
    int rc = check_props(im, argc > 0 ? argv[0] : NULL);
    if (rc != 0)
        return rc;
    if (argc > 1 && (rc = pool_name_check(argv[1])) != 0)
        return fail(rc, "cannot import '%s'", argv[1]);
    each_pool(0, NULL, NULL, note_served, im);
    rc = scan_run(&s, im->paths, im->npaths);
    if (rc == -ENOENT) {
        fprintf(stderr,
                argc ? "cannot import '%s': no such pool available\n"
                     : "no pools available to import\n",
                argc ? argv[0] : "");
        return argc ? 1 : 0;
    }
    if (rc != 0)
        return fail(rc, "cannot look for pools");
    for (size_t i = 0; i < s->pools; i++)
        if (candidate(im, &s->pool[i]))
            import_complete(&s->pool[i]);
    if (im->all)
        return import_all(im, s);
    return argc == 0 ? list_pools(im, s) : import_named(im, s, argv[0], argc > 1 ? argv[1] : NULL);
}

int zpool_import(int argc, char **argv)
{
    struct importing im = {.props = json_object_new_object(), .server.command = command_line()};
    static const struct option longer[] = {{"rewind-to-checkpoint", no_argument, NULL, 'K'}, {0}};
    int opt, rc = 0;
    while (rc == 0 &&
           (opt = getopt_long(argc, argv, ":aCc:d:DEfFlmnNo:R:stT:VX", longer, NULL)) != -1)
        rc = one_letter(&im, opt);
    argc -= optind;
    argv += optind;
    if (rc == 0 && argc > (im.all ? 0 : 2))
        rc = usage_error("too many arguments");
    if (rc == 0 && im.open.max_txg != 0 && !im.open.readonly) {
        fprintf(stderr,
                "going back to an older txg is only supported read-only: add '-o readonly=on'\n");
        rc = 1;
    }
    if (rc == 0 && im.open.checkpoint && !im.open.readonly) {
        fprintf(stderr,
                "going back to the checkpoint is only supported read-only: add '-o readonly=on'\n");
        rc = 1;
    }
    if (rc == 0 &&
        im.bad_readonly) { /* said with the pool's name, which stands behind the options */
        fprintf(stderr, "cannot import pool '%s': 'readonly' must be one of 'on | off'\n",
                argc ? argv[0] : "");
        rc = 1;
    }
    im.server.no_mount = im.no_mount || im.load_keys;
    if (rc == 0)
        rc = run(&im, argc, argv);
    json_object_put(im.props);
    free(im.served);
    for (size_t i = 0; i < im.npaths; i++)
        free((char *)im.paths[i]);
    return rc;
}
