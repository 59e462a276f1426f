/* Which datasets a command is about: names, mount points, types, depth. */
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/zfs_impl.h"
#include "cli/zpool_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/bytes.h"
#include "util/err.h"

int select_depth(struct selection *s, const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end)
        return usage_error("%s is not an integer", text);
    if (n < 0)
        return usage_error("Depth can not be negative.");
    s->depth = (int)MIN(n, 1000);
    s->recursive = true;
    return 0;
}

/* ---- Types ---- */

static const char *const type_names[][2] = {
    {"filesystem", "fs"}, {"volume", "vol"}, {"snapshot", "snap"}, {"bookmark", "bookmark"}};

static int add_type(struct json_object *types, const char *word)
{
    bool all = strcmp(word, "all") == 0, known = all;
    for (size_t k = 0; k < ARRAY_LEN(type_names); k++) {
        if (!all && strcmp(word, type_names[k][0]) != 0 && strcmp(word, type_names[k][1]) != 0)
            continue;
        known = true;
        json_object_array_add(types, json_object_new_string(type_names[k][0]));
    }
    return known ? 0 : usage_error("invalid type '%s'", word);
}

static int type_list(const char *text, struct json_object **out)
{
    struct json_object *list = split_list(text);
    int rc = 0;
    *out = json_object_new_array();
    for (size_t i = 0; i < json_count(list) && rc == 0; i++)
        rc = add_type(*out, json_item(list, i));
    json_object_put(list);
    return rc;
}

static bool has_type(struct json_object *types, const char *word)
{
    for (size_t i = 0; i < json_count(types); i++)
        if (strcmp(json_item(types, i), word) == 0)
            return true;
    return false;
}

/* ---- Mount points as arguments ---- */

struct by_path {
    dev_t dev;
    char *name;
};

static int match_mount(void *arg, struct json_object *row)
{
    struct by_path *b = arg;
    struct stat st;
    if (stat(json_text(row, "mountpoint", ""), &st) == 0 && st.st_dev == b->dev)
        snprintf(b->name, 256, "%s", json_text(row, "name", ""));
    return 0;
}

static int search_mounts(const char *pool, struct client *c, void *arg)
{
    client_call(c, "zfs.mounts", NULL, match_mount, arg, NULL);
    return 0;
}

static struct client *open_path(const char *path, char name[256], const char *cannot)
{
    struct stat st;
    struct by_path b = {.name = name};
    *name = 0;
    if (stat(path, &st) != 0) {
        fprintf(stderr, "cannot open '%s': %s\n", path, strerror(errno));
        return NULL;
    }
    b.dev = st.st_dev;
    each_pool(0, NULL, NULL, search_mounts, &b);
    if (*name)
        return open_pool(name);
    fprintf(stderr, "%s'%s': not a ZFS filesystem\n", cannot, path);
    return NULL;
}

struct client *open_by_path(const char *path, char name[256])
{
    return open_path(path, name, "");
}

struct client *open_mounted(const char *path, char name[256])
{
    return open_path(path, name, "cannot unmount ");
}

/* ---- Asking ---- */

struct asking {
    const struct selection *s;
    struct json_object *types;
    int depth;
    struct report *r;
};

static int ask(struct asking *a, const char *name, struct client *c)
{
    struct json_object *args = json_object_new_object(), *names = json_object_new_array();
    json_object_array_add(names, json_object_new_string(name));
    json_object_object_add(args, "names", names);
    json_object_object_add(args, "depth", json_object_new_int(a->depth));
    if (a->types)
        json_object_object_add(args, "types", json_object_get(a->types));
    json_object_object_add(args, "props", json_object_get(a->s->props));
    put_flag(args, "user", a->s->user);
    put_flag(args, "names_only", a->s->names_only);
    put_flag(args, "ordered", a->s->ordered);
    int rc = client_call(c, "zfs.list", args, report_take, a->r, NULL);
    return rc ? fail(rc, "cannot open '%s'", name) : 0;
}

static int ask_pool(const char *name, struct client *c, void *arg)
{
    return ask(arg, name, c);
}

static int ask_argument(struct asking *a, const char *arg)
{
    char name[256];
    bool path = arg[0] == '/' || arg[0] == '.';
    if (!path && strchr(arg, '@') && a->types && !has_type(a->types, "snapshot")) {
        fprintf(stderr, "cannot open '%s': snapshot delimiter '@' is not expected here\n", arg);
        return 1;
    }
    if (!path && strchr(arg, '#') &&
        (a->s->types ? !has_type(a->types, "bookmark") : !a->s->otherwise)) {
        fprintf(stderr, "cannot open '%s': bookmark delimiter '#' is not expected here\n", arg);
        return 1;
    }
    struct client *c = path ? open_by_path(arg, name) : open_pool(arg);
    if (!c)
        return 1;
    int rc = ask(a, path ? name : arg, c);
    client_close(c);
    return rc;
}

/* ---- The order of rows: by dataset, behind it its snapshots from the oldest on, then its bookmarks ---- */

static int compare_rows(const void *a, const void *b)
{
    struct json_object *x = *(struct json_object *const *)a, *y = *(struct json_object *const *)b;
    const char *p = json_text(x, "name", ""), *q = json_text(y, "name", "");
    size_t m = strcspn(p, "@#"), n = strcspn(q, "@#");
    int c = strncmp(p, q, MIN(m, n));
    if (c == 0)
        c = (m > n) - (m < n);
    if (c != 0)
        return c;
    if (p[m] != q[n]) /* NUL, '@', '#' */
        return p[m] == '#' ? 1 : q[n] == '#' ? -1 : p[m] - q[n];
    if (p[m] == '#')
        return strcmp(p, q);
    unsigned long long t = json_unsigned(x, "createtxg"), u = json_unsigned(y, "createtxg");
    return t != u ? (t > u) - (t < u) : strcmp(p, q);
}

static void sort_and_unite(struct report *r)
{
    size_t kept = 0;
    if (r->n > 1)
        qsort(r->rows, r->n, sizeof *r->rows, compare_rows);
    for (size_t i = 0; i < r->n; i++) {
        if (kept > 0 && compare_rows(&r->rows[kept - 1], &r->rows[i]) == 0)
            json_object_put(r->rows[i]);
        else
            r->rows[kept++] = r->rows[i];
    }
    r->n = kept;
}

/* Without -r a list of snapshots only is one of the named file systems' own snapshots. */
static int choose_depth(const struct selection *s, int argc, struct json_object *types)
{
    if (argc == 0 || s->recursive)
        return s->depth;
    bool below = s->types && !has_type(types, "filesystem") && !has_type(types, "volume");
    return below ? 1 : 0;
}

int select_datasets(const struct selection *s, int argc, char **argv, struct report *r)
{
    struct asking a = {.s = s, .r = r};
    const char *types = s->types ? s->types : argc > 0 && !s->recursive ? "all" : s->otherwise;
    int rc = types ? type_list(types, &a.types) : 0;
    a.depth = choose_depth(s, argc, a.types);
    if (rc == 0 && argc == 0)
        rc = each_pool(0, NULL, NULL, ask_pool, &a);
    /* Named without -t: whatever it is, but below it only what is listed without names. */
    for (int i = 0; i < argc && rc != 2; i++)
        rc |= ask_argument(&a, argv[i]);
    sort_and_unite(r);
    json_object_put(a.types);
    return rc;
}
