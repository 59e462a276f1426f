/* zpool export, destroy, sync, history */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/zpool_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

struct ending {
    const char *op, *verb;
    bool force;
};

static int end_pool(const char *name, struct client *c, void *arg)
{
    struct ending *e = arg;
    struct json_object *args = json_object_new_object();
    put_flag(args, "force", e->force);
    put_string(args, "command", command_line()); /* recorded when nothing can refuse it any more */
    int rc = call_simple(c, e->op, args);
    if (rc == 0)
        return 0;
    fail(rc, "cannot %s '%s'", e->verb, name);
    if (rc == -EBUSY && strcmp(e->verb, "destroy") == 0)
        fprintf(stderr, "could not destroy '%s': could not unmount datasets\n", name);
    return 1;
}

int zpool_export(int argc, char **argv)
{
    struct ending e = {.op = "pool.export", .verb = "export"};
    bool all = false;
    int opt;
    while ((opt = getopt(argc, argv, ":afF")) != -1) {
        if (opt == 'a')
            all = true;
        else if (opt == 'f')
            e.force = true;
        else if (opt == 'F')
            return unsupported("option -F");
        else
            return usage_option(opt);
    }
    if (all && optind < argc)
        return usage_error("too many arguments");
    if (!all && optind == argc)
        return usage_error("missing pool argument");
    return each_pool(argc - optind, argv + optind, NULL, end_pool, &e);
}

int zpool_destroy(int argc, char **argv)
{
    struct ending e = {.op = "pool.destroy", .verb = "destroy"};
    int opt;
    while ((opt = getopt(argc, argv, ":f")) != -1) {
        if (opt != 'f')
            return usage_option(opt);
        e.force = true;
    }
    if (optind == argc)
        return usage_error("missing pool argument");
    if (argc - optind > 1)
        return usage_error("too many arguments");
    return each_pool(1, argv + optind, NULL, end_pool, &e);
}

static int sync_pool(const char *name, struct client *c, void *arg)
{
    int rc = call_simple(c, "pool.sync", NULL);
    return rc ? fail(rc, "sync '%s' failed", name) : 0;
}

int zpool_sync(int argc, char **argv)
{
    int opt;
    while ((opt = getopt(argc, argv, ":f")) != -1)
        if (opt != 'f')
            return usage_option(opt);
    return each_pool(argc - optind, argv + optind, NULL, sync_pool, NULL);
}

/* ---- history ---- */

struct history {
    bool internal, longer;
};

/* " [user 0 (root) on host:zone]" */
static void print_who(struct json_object *row)
{
    const char *host = json_text(row, "host", ""), *zone = json_text(row, "zone", "");
    if (json_member(row, "uid")) {
        struct passwd *who = getpwuid((uid_t)json_number(row, "uid", 0));
        printf(" [user %lld", json_number(row, "uid", 0));
        if (who)
            printf(" (%s)", who->pw_name);
        printf(" on %s%s%s]", host, *zone ? ":" : "", zone);
    } else {
        printf(" [on %s]", host);
    }
}

static int history_row(void *arg, struct json_object *row)
{
    struct history *h = arg;
    char when[64];
    time_t t = (time_t)json_number(row, "time", 0);
    struct tm tm;
    localtime_r(&t, &tm);
    strftime(when, sizeof when, "%F.%T", &tm);
    printf("%s ", when);
    if (json_flag(row, "internal") && json_member(row, "txg")) {
        printf("[txg:%lld] %s ", json_number(row, "txg", 0), json_text(row, "name", ""));
        if (*json_text(row, "dsname", ""))
            printf("%s (%lld) ", json_text(row, "dsname", ""), json_number(row, "dsid", 0));
    }
    printf("%s", json_text(row, "text", ""));
    if (h->longer)
        print_who(row);
    putchar('\n');
    return 0;
}

static int history_pool(const char *name, struct client *c, void *arg)
{
    struct history *h = arg;
    struct json_object *args = json_object_new_object();
    put_flag(args, "internal", h->internal);
    printf("History for '%s':\n", name);
    int rc = client_call(c, "pool.history", args, history_row, h, NULL);
    if (rc != 0)
        return fail(rc, "cannot show history for pool '%s'", name);
    putchar('\n');
    return 0;
}

int zpool_history(int argc, char **argv)
{
    struct history h = {0};
    int opt;
    while ((opt = getopt(argc, argv, ":il")) != -1) {
        if (opt == 'i')
            h.internal = true;
        else if (opt == 'l')
            h.longer = true;
        else
            return usage_option(opt);
    }
    return each_pool(argc - optind, argv + optind, "no pools available", history_pool, &h);
}
