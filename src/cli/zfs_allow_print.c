/* zfs allow DATASET: what is delegated, level by level from the dataset upwards. */
#include <errno.h>
#include <grp.h>
#include <json-c/json.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/allow_impl.h"
#include "cli/zfs_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

enum { SETS, CREATE, LOCAL, BELOW, BOTH, SECTIONS };
static const char *const titles[SECTIONS] = {"Permission sets", "Create time permissions",
                                             "Local permissions", "Descendent permissions",
                                             "Local+Descendent permissions"};

/* A permission somebody has; of two that differ only in the place one is made. */
struct grant {
    char from[256], perm[128], name[256];
    int level;         /* 0: the dataset itself */
    int section;
    int rank;         /* users before groups before everyone */
    char id[16];      /* of users and groups: their order is that of these texts */
};

struct grants {
    struct grant *list;
    size_t n, cap;
};

/* ---- Collecting ---- */

static void name_of(const char *kind, const char *id, char out[256])
{
    uint32_t n = (uint32_t)strtoul(id, NULL, 10);
    bool user = strcmp(kind, "user") == 0, group = strcmp(kind, "group") == 0;
    struct passwd *pw = user ? getpwuid(n) : NULL;
    struct group *gr = group ? getgrgid(n) : NULL;
    if (pw || gr)
        snprintf(out, 256, "%s %s", kind, pw ? pw->pw_name : gr->gr_name);
    else if (user || group)
        snprintf(out, 256, "%s (unknown: %s)", kind, id);
    else
        snprintf(out, 256, "%s", strcmp(kind, "everyone") == 0 ? kind : id);
}

static int section_of(const char *kind, const char *scope)
{
    if (strcmp(kind, "set") == 0)
        return SETS;
    if (strcmp(kind, "create") == 0)
        return CREATE;
    return strcmp(scope, "local") == 0 ? LOCAL : BELOW;
}

static int add_row(void *arg, struct json_object *row)
{
    struct grants *g = arg;
    const char *kind = json_text(row, "kind", ""), *from = json_text(row, "name", "");
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 64;
        struct grant *more = realloc(g->list, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        g->list = more;
        g->cap = cap;
    }
    const struct grant *last = g->n ? &g->list[g->n - 1] : NULL;
    int level = !last ? 0 : last->level + (strcmp(last->from, from) != 0);
    struct grant *new = &g->list[g->n++];
    *new = (struct grant){.level = level,
                          .section = section_of(kind, json_text(row, "scope", "")),
                          .rank = kind[0] == 'u' ? 0 : kind[0] == 'g' ? 1 : 2};
    snprintf(new->id, sizeof new->id, "%s", json_text(row, "who", ""));
    snprintf(new->from, sizeof new->from, "%s", from);
    snprintf(new->perm, sizeof new->perm, "%s", json_text(row, "perm", ""));
    name_of(kind, json_text(row, "who", ""), new->name);
    return 0;
}

/* ---- Order ---- */

static int compare(const struct grant *a, const struct grant *b, bool sections)
{
    int d = a->level - b->level;
    if (d == 0 && sections)
        d = a->section - b->section;
    if (d == 0)
        d = a->rank - b->rank;
    if (d == 0)
        d = strcmp(a->id, b->id);
    if (d == 0)
        d = strcmp(a->name, b->name);
    return d ? d : strcmp(a->perm, b->perm);
}

static int by_section(const void *a, const void *b)
{
    return compare(a, b, true);
}

/* What somebody has in one place and in the other stands side by side. */
static int by_holder(const void *a, const void *b)
{
    const struct grant *x = a, *y = b;
    int d = compare(x, y, false);
    return d ? d : x->section - y->section;
}

static void join(struct grants *g)
{
    size_t kept = 0;
    qsort(g->list, g->n, sizeof *g->list, by_holder);
    for (size_t i = 0; i < g->n; i++) {
        struct grant *last = kept ? &g->list[kept - 1] : NULL;
        if (last && last->section == LOCAL && g->list[i].section == BELOW &&
            compare(last, &g->list[i], false) == 0)
            last->section = BOTH;
        else
            g->list[kept++] = g->list[i];
    }
    g->n = kept;
    qsort(g->list, g->n, sizeof *g->list, by_section);
}

/* ---- Printing ---- */

#define RULE_WIDTH 70

static void print_head(const char *name)
{
    int n = printf("---- Permissions on %s ", name);
    while (n++ < RULE_WIDTH)
        putchar('-');
    putchar('\n');
}

static void print(const struct grants *g)
{
    for (size_t i = 0; i < g->n; i++) {
        const struct grant *now = &g->list[i], *last = i ? now - 1 : NULL;
        bool level = !last || last->level != now->level;
        bool section = level || last->section != now->section;
        bool holder = section || strcmp(last->name, now->name) != 0;
        if (i > 0)
            putchar(holder ? '\n' : ',');
        if (level)
            print_head(now->from);
        if (section)
            printf("%s:\n", titles[now->section]);
        if (holder)
            printf("\t%s%s", now->name, *now->name ? " " : "");
        printf("%s", now->perm);
    }
    if (g->n > 0)
        putchar('\n');
}

int allow_print(const char *name)
{
    struct grants g = {0};
    struct json_object *args = json_object_new_object();
    struct client *c = open_pool(name);
    if (!c) {
        json_object_put(args);
        return 255; /* as the reference has it */
    }
    put_string(args, "name", name);
    int rc = client_call(c, "zfs.allowed", args, add_row, &g, NULL);
    client_close(c);
    if (rc != 0) {
        fail(rc, "cannot open '%s'", name);
    } else {
        if (g.n > 0)
            join(&g);
        print(&g);
    }
    free(g.list);
    return rc ? 255 : 0;
}
