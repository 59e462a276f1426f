/* zpool import without a name: what could be imported. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/import_impl.h"
#include "dsl/feature.h"
#include "nvlist/nvlist.h"
#include "spa/spa.h"
#include "util/bytes.h"
#include "util/err.h"
#include "vdev/label.h"
#include "vdev/scan.h"

#define NAME_WIDTH 10 /* at least */

struct advice {
    const char *state, *why; /* of the root: "insufficient replicas" */
    const char *status, *action;
};

/* ---- The tree ---- */

static const char *leaf_name(const struct nvlist *v)
{
    return nvlist_string_or(v, "path", nvlist_string_or(v, "type", "?"));
}

/* "raidz1-0"; leaves are called by their path. */
static void vdev_label(const struct nvlist *v, char *out, size_t cap)
{
    const char *type = nvlist_string_or(v, "type", "?");
    uint64_t parity = nvlist_uint64_or(v, "nparity", 0), id = nvlist_uint64_or(v, "id", 0);
    struct nvlist **child;
    size_t n = 0;
    bool group = nvlist_get_nvlist_array(v, "children", &child, &n) == 0;
    if (!group && strcmp(type, "missing") != 0)
        snprintf(out, cap, "%s", leaf_name(v));
    else if (strcmp(type, "raidz") == 0)
        snprintf(out, cap, "%s%" PRIu64 "-%" PRIu64, type, parity, id);
    else if (strcmp(type, "draid") == 0)
        snprintf(out, cap, "%s%" PRIu64 ":%" PRIu64 "d:%zuc:%" PRIu64 "s-%" PRIu64, type, parity,
                 nvlist_uint64_or(v, "draid_ndata", 0), n, nvlist_uint64_or(v, "draid_nspares", 0),
                 id);
    else
        snprintf(out, cap, "%s-%" PRIu64, type, id);
}

static int widest(const struct nvlist *v, int indent)
{
    char name[4200];
    struct nvlist **child;
    size_t n;
    vdev_label(v, name, sizeof name);
    int w = indent + (int)strlen(name);
    if (nvlist_get_nvlist_array(v, "children", &child, &n) != 0)
        return w;
    for (size_t i = 0; i < n; i++)
        w = MAX(w, widest(child[i], indent + 2));
    return w;
}

static void print_vdev(const struct nvlist *v, int indent, int width)
{
    char name[4200];
    struct nvlist **child;
    size_t n;
    const char *type = nvlist_string_or(v, "type", "?");
    uint64_t state = nvlist_uint64_or(v, SCAN_KEY_STATE, SCAN_VDEV_OK);
    if (strcmp(type, "hole") == 0)
        return;
    bool group = nvlist_get_nvlist_array(v, "children", &child, &n) == 0;
    if (strcmp(type, "missing") == 0)
        state = SCAN_VDEV_MISSING;
    vdev_label(v, name, sizeof name);
    printf("\t%*s%-*s  %s", indent, "", width - indent, name,
           nvlist_uint64_or(v, "offline", 0)   ? "OFFLINE"
           : nvlist_uint64_or(v, "faulted", 0) ? "FAULTED"
           : state == SCAN_VDEV_OK             ? "ONLINE"
           : state == SCAN_VDEV_DEGRADED       ? "DEGRADED"
                                               : "UNAVAIL");
    if (state == SCAN_VDEV_MISSING)
        printf("  %s", group && n > 0 ? "insufficient replicas" : "cannot open");
    putchar('\n');
    for (size_t i = 0; group && i < n; i++)
        print_vdev(child[i], indent + 2, width);
}

static const char *class_of(const struct nvlist *top)
{
    const char *other = nvlist_uint64_or(top, "is_log", 0) ? "log" : "normal";
    return nvlist_string_or(top, SPA_KEY_CLASS, other);
}

static bool shown(const struct nvlist *top, const char *class)
{
    return strcmp(class_of(top), class) == 0 &&
           strcmp(nvlist_string_or(top, "type", ""), "hole") != 0;
}

static void print_class(const char *title, const char *class, struct nvlist **child, size_t n,
                        int width)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (!shown(child[i], class))
            continue;
        if (!any && title)
            printf("\t%s\n", title);
        any = true;
        print_vdev(child[i], 2, width);
    }
}

/* Spares and cache devices have only names here. */
static void print_names(const char *title, const char *key, const struct nvlist *config)
{
    struct nvlist **list;
    size_t n;
    if (!config || nvlist_get_nvlist_array(config, key, &list, &n) != 0 || n == 0)
        return;
    printf("\t%s\n", title);
    for (size_t i = 0; i < n; i++)
        printf("\t  %s\n", leaf_name(list[i]));
}

static void print_tree(const struct scan_pool *p, const struct advice *a)
{
    struct nvlist *tree, **child;
    size_t n = 0;
    int width = MAX((int)strlen(p->name), NAME_WIDTH);
    if (!p->config || nvlist_get_nvlist(p->config, "vdev_tree", &tree) != 0 ||
        nvlist_get_nvlist_array(tree, "children", &child, &n) != 0)
        n = 0;
    for (size_t i = 0; i < n; i++)
        width = MAX(width, widest(child[i], 2));
    printf("\t%-*s  %s", width, p->name, a->state);
    if (a->why)
        printf("  %s", a->why);
    putchar('\n');
    print_class(NULL, "normal", child, n, width);
    print_names("cache", "l2cache", p->config);
    print_names("spares", "spares", p->config);
    print_class("dedup\t", "dedup", child, n, width);
    print_class("special\t", "special", child, n, width);
    print_class("logs\t", "log", child, n, width);
}

/* ---- What can be done ---- */

static struct advice importable(const struct scan_pool *p, uint64_t own_hostid)
{
    bool foreign = p->state == POOL_STATE_ACTIVE && p->hostid != 0 && p->hostid != own_hostid;
    struct advice a = {.state = p->status == SCAN_DEGRADED ? "DEGRADED" : "ONLINE"};
    a.action = "The pool can be imported using its name or numeric identifier.";
    if (p->status == SCAN_DEGRADED) {
        a.status = "One or more devices are missing from the system.";
        a.action =
            "The pool can be imported without them; it then has fewer copies of\nwhat it holds, "
            "or none to spare.";
    }
    if (foreign) {
        a.status = "The pool was last accessed by another system.";
        a.action = "If that system does not use it any more, import it with '-f'.";
    }
    return a;
}

static struct advice judge(const struct scan_pool *p, uint64_t own_hostid)
{
    static char features[1024];
    struct nvlist *l;
    int rc = 0;
    if (p->status == SCAN_VERSION)
        return (struct advice){"UNAVAIL", "newer version",
                               "The pool is of a version that is not known here.",
                               "Import it where that version is known."};
    if (p->status == SCAN_CORRUPT)
        return (struct advice){"FAULTED", "corrupted data",
                               "The labels of its devices contradict each other "
                               "or point nowhere.",
                               "Restore the pool from a copy."};
    if (p->status == SCAN_MISSING)
        return (struct advice){"UNAVAIL", "insufficient replicas",
                               "One or more devices are missing from the system.",
                               "Attach the missing devices, or say with '-d' where they are."};
    if (p->config && nvlist_get_nvlist(p->config, "features_for_read", &l) == 0)
        rc = feature_check_label(l);
    if (rc != 0) {
        snprintf(features, sizeof features, "%s", err_text(rc));
        return (struct advice){"UNAVAIL", "unsupported feature(s)", features,
                               "Import it with a program that supports them."};
    }
    return importable(p, own_hostid);
}

/* Later lines of advice stand below the first. */
static void print_line(const char *label, int width, const char *text)
{
    if (!text)
        return;
    printf("%*s: ", width, label);
    for (; *text; text++) {
        putchar(*text);
        if (*text == '\n')
            putchar('\t');
    }
    putchar('\n');
}

void import_print(const struct scan_pool *p, uint64_t own_hostid)
{
    struct advice a = judge(p, own_hostid);
    const char *comment = p->config ? nvlist_string_or(p->config, "comment", NULL) : NULL;
    char state[64], guid[32];
    int width = comment ? 7 : 6;
    snprintf(state, sizeof state, "%s%s", a.state,
             p->state == POOL_STATE_DESTROYED ? " (DESTROYED)" : "");
    snprintf(guid, sizeof guid, "%" PRIu64, p->guid);
    print_line("pool", width, p->name);
    print_line("id", width, guid);
    print_line("state", width, state);
    print_line("status", width, a.status);
    print_line("action", width, a.action);
    print_line("comment", width, comment);
    printf("%*s:\n\n", width, "config");
    print_tree(p, &a);
}
