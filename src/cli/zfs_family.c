/* zfs clone, zfs promote, zfs rename, zfs rollback */
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

static struct client *open_for(const char *name)
{
    char head[256];
    snprintf(head, sizeof head, "%.*s", (int)strcspn(name, "@"), name);
    return open_pool(head);
}

/* The call, with its warning printed and its success recorded. */
static int call(struct client *c, const char *op, struct json_object *args, const char *name)
{
    struct json_object *ok = NULL;
    int rc = client_call(c, op, args, NULL, NULL, &ok);
    if (rc == 0)
        record_command(c, name);
    if (*json_text(ok, "warning", ""))
        fprintf(stderr, "%s\n", json_text(ok, "warning", ""));
    json_object_put(ok);
    return rc;
}

static bool missing(int rc)
{
    return rc == -ENOENT && strcmp(err_text(rc), "dataset does not exist") == 0;
}

/* Ends a command: the reference's sentence if it failed, the connection closed. */
static int finish(struct client *c, int rc, const char *opened, const char *what, const char *name)
{
    if (missing(rc))
        fail(rc, "cannot open '%s'", opened);
    else if (rc != 0)
        fail(rc, "cannot %s '%s'", what, name);
    client_close(c);
    return rc ? 1 : 0;
}

static int need_two(int given)
{
    return given == 0   ? usage_error("missing source dataset argument")
           : given == 1 ? usage_error("missing target dataset argument")
           : given > 2  ? usage_error("too many arguments")
                        : 0;
}

/* ---- clone ---- */

static int clone(struct json_object *args, const char *origin, const char *name)
{
    struct client *c;
    int rc;
    if (!strchr(origin, '@')) {
        fprintf(stderr, "cannot open '%s': missing '@' delimiter in snapshot name\n", origin);
        return 1;
    }
    if (!(c = open_for(origin)))
        return 1;
    put_string(args, "origin", origin);
    put_string(args, "name", name);
    rc = call(c, "zfs.clone", json_object_get(args), name);
    return finish(c, rc, origin, "create", name);
}

int zfs_clone(int argc, char **argv)
{
    struct json_object *args = json_object_new_object(), *props = json_object_new_object();
    bool parents = false, unmounted = false;
    int opt, rc = 0;
    json_object_object_add(args, "props", props);
    while (rc == 0 && (opt = getopt(argc, argv, ":o:pu")) != -1) {
        if (opt == 'o')
            rc = add_assignment(props, optarg) ? 0 : 1;
        else if (opt == 'p')
            parents = true;
        else if (opt == 'u')
            unmounted = true;
        else
            rc = usage_option(opt);
    }
    put_flag(args, "parents", parents);
    put_flag(args, "mount", !unmounted);
    if (rc == 0)
        rc = need_two(argc - optind);
    if (rc == 0)
        rc = clone(args, argv[optind], argv[optind + 1]);
    json_object_put(args);
    return rc;
}

/* ---- promote ---- */

int zfs_promote(int argc, char **argv)
{
    struct json_object *args;
    struct client *c;
    int rc;
    if (argc > 1 && argv[1][0] == '-')
        return usage_error("invalid option '%c'", argv[1][1]);
    if (argc < 2)
        return usage_error("missing clone filesystem argument");
    if (argc > 2)
        return usage_error("too many arguments");
    if (!(c = open_for(argv[1])))
        return 1;
    args = json_object_new_object();
    put_string(args, "name", argv[1]);
    rc = call(c, "zfs.promote", args, argv[1]);
    return finish(c, rc, argv[1], "promote", argv[1]);
}

/* ---- rename ---- */

/* The new name must be in the same pool; one that is not imported has its own sentence. */
static bool same_pool(const char *from, const char *to)
{
    size_t n = strcspn(from, "/@"), m = strcspn(to, "/@");
    struct client *other;
    char pool[256];
    if (to[0] == '@' || (n == m && strncmp(from, to, n) == 0))
        return true;
    snprintf(pool, sizeof pool, "%.*s", (int)m, to);
    if (client_open(&other, pool) == 0) {
        client_close(other);
        fprintf(stderr, "cannot rename '%s': datasets must be within same pool\n", from);
    } else {
        fprintf(stderr, "cannot create '%s': no such pool '%s'\n", to, pool);
    }
    return false;
}

static int rename_it(struct json_object *args, const char *from, const char *to)
{
    struct client *c;
    int rc;
    if (refuse_bookmark(from) || !same_pool(from, to) || !(c = open_for(from)))
        return 1;
    put_string(args, "name", from);
    put_string(args, "to", to[0] == '@' ? to + 1 : to);
    rc = call(c, "zfs.rename", json_object_get(args), from);
    return finish(c, rc, from, "rename", from);
}

int zfs_rename(int argc, char **argv)
{
    struct json_object *args = json_object_new_object();
    bool recursive = false;
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt(argc, argv, ":fpru")) != -1) {
        if (opt == 'f')
            put_flag(args, "force", true);
        else if (opt == 'p')
            put_flag(args, "parents", true);
        else if (opt == 'u')
            put_flag(args, "keep_mounts", true);
        else if (opt == 'r')
            recursive = true;
        else
            rc = usage_option(opt);
    }
    put_flag(args, "recursive", recursive);
    if (rc == 0)
        rc = need_two(argc - optind);
    if (rc == 0 && recursive && !strchr(argv[optind], '@'))
        rc = usage_error("source dataset for recursive rename must be a snapshot");
    if (rc == 0)
        rc = rename_it(args, argv[optind], argv[optind + 1]);
    json_object_put(args);
    return rc;
}

/* ---- rollback ---- */

int zfs_rollback(int argc, char **argv)
{
    struct json_object *args = json_object_new_object();
    struct client *c = NULL;
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt(argc, argv, ":rRf")) != -1) {
        if (opt == 'r')
            put_flag(args, "recursive", true);
        else if (opt == 'R')
            put_flag(args, "clones", true);
        else if (opt == 'f')
            put_flag(args, "force", true);
        else
            rc = usage_option(opt);
    }
    if (rc == 0 && optind == argc)
        rc = usage_error("missing dataset argument");
    if (rc == 0 && argc - optind > 1)
        rc = usage_error("too many arguments");
    if (rc == 0 && !(c = open_for(argv[optind])))
        rc = 1;
    if (rc != 0) {
        json_object_put(args);
        return rc;
    }
    put_string(args, "name", argv[optind]);
    rc = call(c, "zfs.rollback", args, argv[optind]);
    if (missing(rc) || (rc != 0 && !strchr(argv[optind], '@')))
        fail(rc, "cannot open '%s'", argv[optind]);
    else if (rc != 0)
        fail(rc, "cannot rollback to '%s'", argv[optind]);
    client_close(c);
    return rc ? 1 : 0;
}
