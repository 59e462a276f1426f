/* zfs load-key and unload-key */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/key_impl.h"
#include "cli/zfs_impl.h"
#include "cli/zpool_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

static int load_pool(const char *name, struct client *c, void *arg)
{
    return key_load_below(c, name, arg);
}

static int load_named(const char *name, bool recursive, struct key_loading *l)
{
    struct client *c = refuse_snapshot(name) ? NULL : open_pool(name);
    if (!c)
        return 1;
    int rc = recursive ? key_load_below(c, name, l) : key_load(c, name, l);
    client_close(c);
    return rc;
}

/* Either one dataset or all. */
static int check_target(int given, bool all)
{
    if (given == 0 && !all)
        return usage_error("Missing dataset argument or -a option");
    if (given > (all ? 0 : 1))
        return usage_error(all ? "Cannot specify dataset with -a option" : "Too many arguments");
    return 0;
}

int zfs_load_key(int argc, char **argv)
{
    struct key_loading l = {0};
    bool all = false, recursive = false;
    int opt;
    while ((opt = getopt(argc, argv, ":anrL:")) != -1) {
        if (opt == 'a')
            all = true;
        else if (opt == 'n')
            l.check_only = true;
        else if (opt == 'r')
            recursive = true;
        else if (opt == 'L')
            l.location = optarg;
        else
            return usage_option(opt);
    }
    argc -= optind;
    argv += optind;
    int bad = check_target(argc, all);
    if (bad != 0)
        return bad;
    if (l.location && (all || recursive) && strcmp(l.location, "prompt") != 0)
        return usage_error("Must use 'prompt' as location when using '-r' or '-a'");
    int rc = all ? each_pool(0, NULL, NULL, load_pool, &l) : load_named(argv[0], recursive, &l);
    if (l.tried > 0 && (all || recursive || l.check_only))
        printf("%u / %u key(s) successfully %s\n", l.loaded, l.tried,
               l.check_only ? "verified" : "loaded");
    return rc;
}

/* ---- unload-key ---- */

struct unloading {
    unsigned tried, unloaded;
    struct json_object *names;
};

static int unload_one(struct client *c, const char *name, struct unloading *u)
{
    struct json_object *args = json_object_new_object();
    put_string(args, "name", name);
    int rc = call_simple(c, "zfs.unload_key", args);
    if (rc == -ENOENT && strncmp(err_text(rc), "Key ", 4) != 0)
        return fail(rc, "cannot open '%s'", name);
    if (rc != 0)
        fprintf(stderr, "Key unload error: %s\n", err_text(rc));
    u->tried++;
    u->unloaded += rc == 0;
    return rc ? KEY_FAILED : 0;
}

/* Roots whose key is loaded. */
static int note_root(void *arg, struct json_object *row)
{
    struct unloading *u = arg;
    struct json_object *props = json_member(row, "props");
    const char *name = json_text(row, "name", "?");
    const char *root = json_text(json_member(props, "encryptionroot"), "value", "");
    if (strcmp(name, root) == 0 &&
        strcmp(json_text(json_member(props, "keystatus"), "value", ""), "available") == 0)
        json_object_array_add(u->names, json_object_new_string(name));
    return 0;
}

static int unload_below(const char *name, struct client *c, void *arg)
{
    struct unloading *u = arg;
    struct json_object *args = json_object_new_object();
    u->names = json_object_new_array();
    json_object_object_add(args, "names", split_list(name));
    json_object_object_add(args, "depth", json_object_new_int(-1));
    json_object_object_add(args, "types", split_list("filesystem,volume"));
    json_object_object_add(args, "props", split_list("keystatus,encryptionroot"));
    int rc = client_call(c, "zfs.list", args, note_root, u, NULL);
    rc = rc ? fail(rc, "cannot open '%s'", name) : 0;
    for (size_t i = 0; i < json_count(u->names); i++)
        rc = unload_one(c, json_item(u->names, i), u) ? KEY_FAILED : rc;
    json_object_put(u->names);
    return rc;
}

int zfs_unload_key(int argc, char **argv)
{
    struct unloading u = {0};
    bool all = false, recursive = false;
    int opt;
    while ((opt = getopt(argc, argv, ":ar")) != -1) {
        if (opt == 'a')
            all = true;
        else if (opt == 'r')
            recursive = true;
        else
            return usage_option(opt);
    }
    argc -= optind;
    argv += optind;
    int bad = check_target(argc, all);
    if (bad != 0)
        return bad;
    struct client *c = all || refuse_snapshot(argv[0]) ? NULL : open_pool(argv[0]);
    if (!all && !c)
        return 1;
    int rc = all         ? each_pool(0, NULL, NULL, unload_below, &u)
             : recursive ? unload_below(argv[0], c, &u)
                         : unload_one(c, argv[0], &u);
    if (c)
        client_close(c);
    if (u.tried > 0 && (all || recursive))
        printf("%u / %u key(s) successfully unloaded\n", u.unloaded, u.tried);
    return rc;
}
