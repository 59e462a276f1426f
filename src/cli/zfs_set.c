/* zfs set, zfs inherit */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/zfs_impl.h"
#include "dsl/props.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

#define BAD_VALUE 255 /* the reference's exit status for a property that was refused */

/* One change of one dataset: 0, 1 if it cannot be opened, or the status of a refusal. */
static int change(const char *name, const char *op, struct json_object *args, const char *cannot,
                  int refused)
{
    struct json_object *ok = NULL;
    struct client *c = refuse_bookmark(name) ? NULL : open_pool(name);
    if (!c) {
        json_object_put(args);
        return 1;
    }
    put_string(args, "name", name);
    int rc = client_call(c, op, args, NULL, NULL, &ok);
    if (rc == 0)
        record_command(c, name);
    else if (rc == -ENOENT)
        fail(rc, "cannot open '%s'", name);
    else
        fail(rc, "%s '%s'", cannot, name);
    if (*json_text(ok, "warning", ""))
        fprintf(stderr, "%s\n", json_text(ok, "warning", ""));
    json_object_put(ok);
    client_close(c);
    return rc == 0 ? 0 : rc == -ENOENT ? 1 : refused;
}

int zfs_set(int argc, char **argv)
{
    struct json_object *props = json_object_new_object();
    bool keep = false;
    int rc = 0, opt;
    while (rc == 0 && (opt = getopt(argc, argv, ":u")) != -1) {
        keep |= opt == 'u';
        rc = opt == 'u' ? 0 : usage_option(opt);
    }
    if (rc == 0 && argc - optind < 1)
        rc = usage_error("missing arguments");
    else if (rc == 0 && argc - optind < 2)
        rc = usage_error(strchr(argv[optind], '=') ? "missing dataset name(s)"
                                                   : "missing property=value argument(s)");
    int i = optind;
    for (; rc == 0 && i < argc && strchr(argv[i], '='); i++)
        rc = add_assignment(props, argv[i]) ? 0 : BAD_VALUE;
    if (rc == 0 && i == argc)
        rc = usage_error("missing dataset name(s)");
    json_object_object_foreach(props, prop, value)
    {
        if (rc == 0 && strncmp(prop, "written@", 8) == 0) {
            fprintf(stderr, "cannot set property for '%s': '%s' is readonly\n", argv[i], prop);
            rc = BAD_VALUE;
        }
    }
    for (; rc != 2 && rc != BAD_VALUE && i < argc; i++) {
        struct json_object *args = json_object_new_object();
        json_object_object_add(args, "props", json_object_get(props));
        put_flag(args, "keep_mounts", keep);
        int k = change(argv[i], "zfs.set", args, "cannot set property for", BAD_VALUE);
        rc = k ? k : rc;
    }
    json_object_put(props);
    return rc;
}

/* ---- inherit ---- */

/* Why a property cannot be inherited whatever the dataset is. */
static int refuse_inherit(const char *name, bool received)
{
    const struct prop_info *p = prop_info(name);
    if (!p)
        return prop_user_name(name) ? 0 : usage_error("invalid property '%s'", name);
    if (p->flags & (PROP_READONLY | PROP_ONETIME)) {
        fprintf(stderr, "%s property is read-only\n", p->name);
        return 1;
    }
    if ((p->flags & PROP_INHERIT) || received)
        return 0;
    fprintf(stderr, "'%s' property cannot be inherited\n", p->name);
    if (strncmp(p->name, "default", 7) == 0)
        return 1;
    if (strstr(p->name, "quota") || strstr(p->name, "reservation"))
        fprintf(stderr,
                "use 'zfs set %s=none' to clear\n"
                "use 'zfs inherit -S %s' to revert to received value\n",
                p->name, p->name);
    return 1;
}

int zfs_inherit(int argc, char **argv)
{
    bool recursive = false, received = false;
    int opt;
    while ((opt = getopt(argc, argv, ":rS")) != -1) {
        if (opt == 'r')
            recursive = true;
        else if (opt == 'S')
            received = true;
        else
            return usage_option(opt);
    }
    if (optind == argc)
        return usage_error("missing property argument");
    if (argc - optind < 2)
        return usage_error("missing dataset argument");
    const struct prop_info *info = prop_info(argv[optind]);
    const char *prop = info ? info->name : argv[optind];
    int rc = refuse_inherit(prop, received);
    char cannot[320];
    snprintf(cannot, sizeof cannot, "cannot inherit %s for", prop);
    for (int i = optind + 1; i < argc && rc != 2; i++) {
        if (rc != 0 && i == optind + 1)
            break;
        struct json_object *args = json_object_new_object();
        put_string(args, "prop", prop);
        put_flag(args, "recursive", recursive);
        put_flag(args, "received", received);
        rc |= change(argv[i], "zfs.inherit", args, cannot, 1);
    }
    return rc;
}
