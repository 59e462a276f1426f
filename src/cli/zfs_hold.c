/* zfs hold, zfs release, zfs holds */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/table_impl.h"
#include "cli/zfs_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

/* The process of a snapshot's pool, or NULL after a message. */
static struct client *open_snapshot(const char *name)
{
    char head[256];
    if (!strchr(name, '@')) {
        fprintf(stderr, "'%s' is not a snapshot\n", name);
        return NULL;
    }
    snprintf(head, sizeof head, "%.*s", (int)strcspn(name, "@"), name);
    return open_pool(head);
}

static struct json_object *arguments(const char *name, bool recursive)
{
    struct json_object *args = json_object_new_object();
    put_string(args, "name", name);
    put_flag(args, "recursive", recursive);
    return args;
}

/* ---- hold and release ---- */

static int change_one(const char *op, const char *tag, const char *name, bool recursive)
{
    bool release = strcmp(op, "zfs.release") == 0;
    char what[300];
    struct client *c = open_snapshot(name);
    if (!c)
        return 1;
    struct json_object *args = arguments(name, recursive);
    put_string(args, "tag", tag);
    int rc = call_simple(c, op, args);
    snprintf(what, sizeof what, "cannot %s snapshot", release ? "release hold from" : "hold");
    if (rc == 0)
        record_command(c, name);
    else if (strncmp(err_text(rc), what, strlen(what)) == 0)
        fprintf(stderr, "%s\n", err_text(rc));
    else if (strncmp(err_text(rc), "cannot open", 11) == 0)
        fprintf(stderr, "%s\n", err_text(rc));
    else
        fail(rc, "%s '%s'", what, name);
    client_close(c);
    return rc ? 1 : 0;
}

static int change(const char *op, int argc, char **argv)
{
    bool recursive = false;
    int opt, rc = 0;
    while ((opt = getopt(argc, argv, ":r")) != -1) {
        if (opt != 'r')
            return usage_option(opt);
        recursive = true;
    }
    if (argc - optind < 2)
        return usage_shown();
    const char *tag = argv[optind];
    if (tag[0] == '.' && strcmp(op, "zfs.hold") == 0)
        return usage_error("tag may not start with '.'");
    for (int i = optind + 1; i < argc; i++)
        rc |= change_one(op, tag, argv[i], recursive);
    return rc;
}

int zfs_hold(int argc, char **argv)
{
    return change("zfs.hold", argc, argv);
}

int zfs_release(int argc, char **argv)
{
    return change("zfs.release", argc, argv);
}

/* ---- holds ---- */

struct holds {
    struct table table;
    bool exact;
};

static int add_row(void *arg, struct json_object *row)
{
    struct holds *h = arg;
    char when[64];
    time_t t = (time_t)json_number(row, "time", 0);
    struct tm tm;
    if (h->exact)
        snprintf(when, sizeof when, "%lld", (long long)t);
    else
        strftime(when, sizeof when, "%a %b %e %H:%M %Y", localtime_r(&t, &tm));
    const char *const cells[] = {json_text(row, "name", "?"), json_text(row, "tag", "?"), when};
    return table_add(&h->table, cells);
}

/* 0, or 1 after a message. */
static int list_one(struct holds *h, const char *name, bool recursive, bool *found)
{
    struct client *c = open_snapshot(name);
    if (!c)
        return 1;
    struct json_object *ok = NULL;
    int rc = client_call(c, "zfs.holds", arguments(name, recursive), add_row, h, &ok);
    if (rc != 0)
        fail(rc, "cannot open '%s'", name);
    *found |= rc == 0 && json_unsigned(ok, "snapshots") > 0;
    json_object_put(ok);
    client_close(c);
    return rc ? 1 : 0;
}

int zfs_holds(int argc, char **argv)
{
    static const struct column columns[] = {
        {"NAME", true, 0}, {"TAG", true, 0}, {"TIMESTAMP", true, 0}};
    struct holds h = {.exact = false};
    bool recursive = false, scripted = false, found = false;
    int opt, rc = 0;
    while ((opt = getopt(argc, argv, ":rHp")) != -1) {
        if (opt == 'r')
            recursive = true;
        else if (opt == 'H')
            scripted = true;
        else if (opt == 'p')
            h.exact = true;
        else
            return usage_option(opt);
    }
    if (optind == argc)
        return usage_shown();
    table_init(&h.table, columns, 3);
    for (int i = optind; i < argc; i++)
        rc |= list_one(&h, argv[i], recursive, &found);
    table_print(&h.table, scripted);
    table_free(&h.table);
    if (!found)
        fprintf(stderr, "no datasets available\n");
    return rc;
}
