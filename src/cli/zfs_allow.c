/* zfs allow and zfs unallow; what is delegated is printed by zfs_allow_print.c */
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <json-c/json.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/allow_impl.h"
#include "cli/zfs_impl.h"
#include "server/client.h"
#include "util/err.h"

struct allowing {
    bool remove;
    bool local, below, user, group, everyone, create, set, recursive;
    struct json_object *to; /* array */
};

/* ---- Who ---- */

static void add_to(struct allowing *a, const char *kind, const char *who)
{
    struct json_object *o = json_object_new_object();
    put_string(o, "kind", kind);
    put_string(o, "who", who);
    json_object_array_add(a->to, o);
}

static bool number(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && n <= 10 && strspn(text, "0123456789") == n &&
           strtoull(text, NULL, 10) < UINT32_MAX;
}

/* A user before a group of the same name, unless an option says which; numbers are users. */
static bool add_named(struct allowing *a, const char *name)
{
    char id[16];
    struct passwd *pw = a->group ? NULL : getpwnam(name);
    struct group *gr = a->user || pw ? NULL : getgrnam(name);
    if (!a->user && !a->group && strcmp(name, "everyone") == 0) {
        add_to(a, "everyone", "");
        return true;
    }
    if (pw || gr)
        snprintf(id, sizeof id, "%u", pw ? (unsigned)pw->pw_uid : (unsigned)gr->gr_gid);
    else if (number(name))
        snprintf(id, sizeof id, "%llu", strtoull(name, NULL, 10));
    else
        return false;
    add_to(a, gr || a->group ? "group" : "user", id);
    return true;
}

static int add_list(struct allowing *a, const char *list)
{
    for (const char *p = list; *p;) {
        char name[256];
        size_t n = strcspn(p, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        if (n >= sizeof name || (n > 0 && !add_named(a, name)))
            return usage_error("invalid user/group %s", name);
        p += n + (p[n] == ',');
    }
    return 0;
}

static int find_whom(struct allowing *a, const char *who)
{
    if (a->everyone)
        add_to(a, "everyone", "");
    else if (a->create)
        add_to(a, "create", "");
    else if (a->set && who[0] != '@')
        return usage_error("invalid set name: missing '@' prefix");
    else if (a->set)
        add_to(a, "set", who);
    else
        return add_list(a, who);
    return 0;
}

/* ---- The command ---- */

static int options(struct allowing *a, int argc, char **argv)
{
    int opt;
    while ((opt = getopt(argc, argv, a->remove ? ":cdeghlrsu" : ":cdeghlsu")) != -1) {
        if (opt == 'h') {
            usage_shown();
            return -1;
        }
        bool *flag = opt == 'c'   ? &a->create
                     : opt == 'd' ? &a->below
                     : opt == 'e' ? &a->everyone
                     : opt == 'g' ? &a->group
                     : opt == 'l' ? &a->local
                     : opt == 'r' ? &a->recursive
                     : opt == 's' ? &a->set
                     : opt == 'u' ? &a->user
                                  : NULL;
        if (!flag)
            return usage_option(opt);
        *flag = true;
    }
    if (a->user + a->group + a->everyone > 1)
        return usage_error("-u, -g, and -e are mutually exclusive");
    bool whom = a->user || a->group || a->everyone || a->local || a->below;
    if (a->create && (whom || a->set))
        return usage_error("invalid options combined with -c");
    if (a->set && whom)
        return usage_error("invalid options combined with -s");
    return 0;
}

static int ask(struct allowing *a, const char *perms, const char *name)
{
    struct client *c = open_pool(name);
    if (!c)
        return 1;
    struct json_object *args = json_object_new_object();
    put_string(args, "name", name);
    put_flag(args, "local", a->local);
    put_flag(args, "descendents", a->below);
    put_flag(args, "recursive", a->recursive);
    json_object_object_add(args, "to", json_object_get(a->to));
    json_object_object_add(args, "perms", split_list(perms));
    int rc = call_simple(c, a->remove ? "zfs.unallow" : "zfs.allow", args);
    if (rc == -ENOENT)
        fail(rc, "cannot open '%s'", name);
    else if (rc != 0)
        fail(rc, "cannot %s permissions on '%s'", a->remove ? "remove" : "set", name);
    else
        record_command(c, name);
    client_close(c);
    return rc ? 1 : 0;
}

static int change(struct allowing *a, int argc, char **argv)
{
    int rc = options(a, argc, argv), n = argc - optind;
    int whom = !a->everyone && !a->create; /* is an argument */
    if (rc != 0)
        return rc < 0 ? 0 : rc;
    if (!a->remove && n == 1 && optind == 1)
        return allow_print(argv[optind]);
    if (n != whom + 2 && (!a->remove || n != whom + 1))
        return usage_error("wrong number of parameters");
    rc = find_whom(a, argv[optind]);
    return rc ? rc : ask(a, n == whom + 2 ? argv[argc - 2] : "", argv[argc - 1]);
}

static int run(bool remove, int argc, char **argv)
{
    struct allowing a = {.remove = remove, .to = json_object_new_array()};
    int rc = change(&a, argc, argv);
    json_object_put(a.to);
    return rc;
}

int zfs_allow(int argc, char **argv)
{
    return run(false, argc, argv);
}

int zfs_unallow(int argc, char **argv)
{
    return run(true, argc, argv);
}
