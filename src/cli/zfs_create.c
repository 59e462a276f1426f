/* zfs create, zfs snapshot */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/zfs_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

struct creating {
    struct json_object *props;
    bool parents, unmounted, verbose, parsable, dry;
};

/* The pool must be open, but the parent's absence has its own sentence. */
static struct client *open_parent(const char *name)
{
    char pool[256];
    struct client *c;
    snprintf(pool, sizeof pool, "%.*s", (int)strcspn(name, "/@#"), name);
    if (client_open(&c, pool) == 0)
        return c;
    if (name[0] == '/')
        fprintf(stderr, "cannot create '%s': leading slash in name\n", name);
    else if (!strchr(name, '/'))
        fprintf(stderr, "cannot create '%s': missing dataset name\n", name);
    else
        fprintf(stderr, "cannot create '%s': no such pool '%s'\n", name, pool);
    return NULL;
}

/* -v, -P and -n: what is going to be done. */
static void announce(const struct creating *o, const char *name)
{
    const char *create = o->dry ? "would create" : "create";
    if (o->parsable) {
        printf("create\t%s\n", name);
    } else if (o->verbose) {
        if (o->parents)
            printf("%s ancestors of %s\n", create, name);
        printf("%s %s\n", create, name);
    }
    if (!o->parsable && !o->verbose)
        return;
    json_object_object_foreach(o->props, prop, value)
    {
        printf(o->parsable ? "property\t%s\t%s\n" : "\t%s=%s\n", prop,
               json_object_get_string(value));
    }
}

static int create(const struct creating *o, const char *name)
{
    struct json_object *args = json_object_new_object(), *ok = NULL;
    struct client *c = open_parent(name);
    if (!c) {
        json_object_put(args);
        return 1;
    }
    put_string(args, "name", name);
    json_object_object_add(args, "props", json_object_get(o->props));
    put_flag(args, "parents", o->parents);
    put_flag(args, "mount", !o->unmounted);
    put_flag(args, "dry_run", o->dry);
    announce(o, name);
    int rc = client_call(c, "zfs.create", args, NULL, NULL, &ok);
    if (rc != 0)
        fail(rc, "cannot create '%s'", name);
    else if (!o->dry && !json_flag(ok, "unchanged"))
        record_command(c, name);
    if (*json_text(ok, "warning", ""))
        fprintf(stderr, "%s\n", json_text(ok, "warning", ""));
    json_object_put(ok);
    client_close(c);
    return rc ? 1 : 0;
}

static int parse_create(struct creating *o, int argc, char **argv)
{
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt(argc, argv, ":o:pvnuPV:sb:")) != -1) {
        if (opt == 'o')
            rc = add_assignment(o->props, optarg) ? 0 : 1;
        else if (opt == 'p')
            o->parents = true;
        else if (opt == 'u')
            o->unmounted = true;
        else if (opt == 'v')
            o->verbose = true;
        else if (opt == 'P')
            o->parsable = true;
        else if (opt == 'n')
            o->dry = true;
        else if (opt == 'V' || opt == 's' || opt == 'b')
            rc = unsupported("creating a volume");
        else
            rc = usage_option(opt);
    }
    return rc;
}

int zfs_create(int argc, char **argv)
{
    struct creating o = {.props = json_object_new_object()};
    int rc = parse_create(&o, argc, argv);
    if (rc == 0 && optind == argc)
        rc = usage_error("missing filesystem argument");
    if (rc == 0 && argc - optind > 1)
        rc = usage_error("too many arguments");
    if (rc == 0)
        rc = create(&o, argv[optind]);
    json_object_put(o.props);
    return rc;
}

/* ---- snapshot ---- */

static int snapshot(struct json_object *props, bool recursive, int argc, char **argv)
{
    struct json_object *args = json_object_new_object(), *names = json_object_new_array();
    char head[256];
    for (int i = 0; i < argc; i++)
        json_object_array_add(names, json_object_new_string(argv[i]));
    json_object_object_add(args, "names", names);
    json_object_object_add(args, "props", json_object_get(props));
    put_flag(args, "recursive", recursive);
    snprintf(head, sizeof head, "%.*s", (int)strcspn(argv[0], "@"), argv[0]);
    struct client *c = open_pool(head);
    if (!c) {
        json_object_put(args);
        return usage_shown();
    }
    int rc = call_simple(c, "zfs.snapshot", args);
    if (rc == 0)
        record_command(c, argv[0]);
    else
        fail(rc, "cannot create snapshot '%s'", argv[0]);
    client_close(c);
    return rc == 0 ? 0 : rc == -ENOENT ? usage_shown() : 1;
}

int zfs_snapshot(int argc, char **argv)
{
    struct json_object *props = json_object_new_object();
    bool recursive = false;
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt(argc, argv, ":ro:")) != -1) {
        if (opt == 'r')
            recursive = true;
        else if (opt == 'o')
            rc = add_assignment(props, optarg) ? 0 : 1;
        else
            rc = usage_option(opt);
    }
    argc -= optind;
    argv += optind;
    if (rc == 0 && argc == 0)
        rc = usage_error("missing snapshot argument");
    for (int i = 0; i < argc && rc == 0; i++)
        if (!strchr(argv[i], '@'))
            rc = usage_shown();
    for (int i = 1; i < argc && rc == 0; i++)
        if (strcspn(argv[i], "/@") != strcspn(argv[0], "/@") ||
            strncmp(argv[i], argv[0], strcspn(argv[0], "/@")) != 0)
            rc = unsupported("taking snapshots in several pools at once");
    if (rc == 0)
        rc = snapshot(props, recursive, argc, argv);
    json_object_put(props);
    return rc;
}
