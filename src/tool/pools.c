/* Finding and opening pools, in this process, for reading only. */
#include <errno.h>
#include <json-c/json.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "device/device.h"
#include "nvlist/nvlist.h"
#include "spa/spa.h"
#include "tool/tool_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/label.h"
#include "vdev/scan.h"

/* ---- Finding ---- */

/* The pool of this name; destroyed ones only if there is no other, or they are asked for. */
static int choose(const struct tool *t, const struct scan *s, const char *name,
                  const struct scan_pool **out)
{
    const struct scan_pool *best = NULL, *p;
    unsigned same = 0;
    for (size_t i = 0; (p = *name          ? scan_find(s, name, i)
                            : i < s->pools ? &s->pool[i]
                                           : NULL);
         i++) {
        bool gone = p->state == POOL_STATE_DESTROYED;
        if (t->destroyed && !gone)
            continue;
        bool best_gone = best && best->state == POOL_STATE_DESTROYED;
        if (best && gone == best_gone)
            same++;
        if (!best || (best_gone && !gone)) {
            best = p;
            same = 0;
        }
    }
    *out = best;
    if (!best) {
        const char *kind = t->destroyed ? "destroyed " : "";
        return *name ? err_set(ENOENT, "no %spool '%s' was found", kind, name)
                     : err_set(ENOENT, "no %spool was found", kind);
    }
    if (same && *name)
        return err_set(EEXIST, "there are several pools '%s'; say which by its guid, such as %llu",
                       name, (unsigned long long)best->guid);
    if (same)
        return err_set(EEXIST, "there are several pools, such as '%s'; say which", best->name);
    return 0;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

static int scan_for(struct tool *t, const char *location, const char *name, struct scan **scan,
                    const struct scan_pool **found)
{
    const char *paths[2] = {location, NULL};
    int rc = location ? scan_run(scan, paths, 1) : scan_run(scan, t->dirs, t->ndirs);
    if (rc)
        return rc;
    rc = choose(t, *scan, name, found);
    if (rc == -ENOENT && (*scan)->denied)
        rc = err_set(EACCES, "%s (%u devices may not be read by this user)", err_text(rc),
                     (*scan)->denied);
    if (!location || !is_file(location) || (rc == 0 && (*found)->status == SCAN_ONLINE))
        return rc;
    /* One image of several: the others are probably beside it. */
    CLEANUP_FREE char *copy = strdup(location);
    struct scan *wider;
    const struct scan_pool *better;
    paths[1] = copy ? dirname(copy) : NULL;
    if (rc || !copy || scan_run(&wider, paths, 2) != 0)
        return rc;
    char guid[32];
    snprintf(guid, sizeof guid, "%llu", (unsigned long long)(*found)->guid);
    better = scan_find(wider, guid, 0);
    if (!better) {
        scan_free(wider);
        return rc;
    }
    scan_free(*scan);
    *scan = wider;
    *found = better;
    return 0;
}

int tool_pool_find(struct tool *t, const struct target_text *text, struct scan **scan,
                   const struct scan_pool **found, size_t *name_length)
{
    char name[256];
    *scan = NULL;
    *name_length = strcspn(text->name, "/@#:");
    if (*name_length >= sizeof name)
        return err_set(ENAMETOOLONG, "the name of the pool is too long");
    snprintf(name, sizeof name, "%.*s", (int)*name_length, text->name);
    int rc = scan_for(t, text->location, name, scan, found);
    if (rc == 0 || !*scan)
        return rc;
    scan_free(*scan);
    *scan = NULL;
    return rc;
}

/* ---- Opening ---- */

/* Is a leaf of the configuration in use by a process that may write? Its sentence. */
static int check_holders(const struct nvlist *tree, const char *pool, bool live)
{
    struct nvlist **child;
    size_t n;
    char who[300];
    const char *path = nvlist_string_or(tree, "path", NULL);
    int rc = 0;
    if (nvlist_get_nvlist_array(tree, "children", &child, &n) == 0) {
        for (size_t i = 0; i < n && rc == 0; i++)
            rc = check_holders(child[i], pool, live);
        return rc;
    }
    if (!path || device_holder(path, who, sizeof who) != DEVICE_HELD_WRITE)
        return 0;
    if (!live)
        return err_set(EBUSY,
                       "%s is in use by %s: pool '%s' is imported there and may change while it "
                       "is read; --live reads it all the same",
                       path, *who ? who : "another process", pool);
    fprintf(stderr,
            "note: pool '%s' is imported by %s: what is seen is the state of its last txg; what "
            "is overwritten meanwhile is reported as damage\n",
            pool, *who ? who : "another process");
    return 1;
}

/* A tool reads most things once, and fresh memory costs more than what is read again. */
#define CACHE_LIMIT ((size_t)128 << 20)

static int open_found(struct tool *t, struct tool_pool *p)
{
    struct spa_open_args args = {.config = p->found->config,
                                 .readonly = true,
                                 .force = true,
                                 .max_txg = t->txg,
                                 .checkpoint = t->checkpoint,
                                 .in_memory = t->in_memory,
                                 .cache_limit = CACHE_LIMIT};
    struct spa_stats st;
    struct nvlist *tree;
    if (!args.config)
        return err_set(EBADE, "the labels of pool '%s' make no tree of devices", p->found->name);
    if (nvlist_get_nvlist(args.config, "vdev_tree", &tree) == 0) {
        int rc = check_holders(tree, p->found->name, t->live);
        if (rc < 0)
            return rc;
    }
    int rc = tool_spa_open(t, &args, &p->spa);
    if (rc)
        return rc;
    spa_stats(p->spa, &st);
    t->replay_time.tv_sec = (time_t)st.time;
    return 0;
}

static void free_pool(struct tool_pool *p)
{
    if (p->spa)
        spa_close(p->spa, SPA_END_DROP);
    if (p->scan)
        scan_free(p->scan);
    free(p->location);
    free(p);
}

static bool same_location(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static struct tool_pool *opened(struct tool *t, const struct target_text *text)
{
    size_t n = strcspn(text->name, "/@#:");
    for (struct tool_pool *p = t->pools; p; p = p->next)
        if (same_location(p->location, text->location) &&
            (n == 0 || (strlen(p->name) == n && strncmp(p->name, text->name, n) == 0)))
            return p;
    return NULL;
}

int tool_pool_open(struct tool *t, const struct target_text *text, struct tool_pool **out)
{
    size_t n;
    if ((*out = opened(t, text)))
        return 0;
    struct tool_pool *p = calloc(1, sizeof *p);
    if (!p || (text->location && !(p->location = strdup(text->location)))) {
        free(p);
        return -ENOMEM;
    }
    int rc = tool_pool_find(t, text, &p->scan, &p->found, &n);
    if (rc == 0)
        rc = open_found(t, p);
    if (rc) {
        free_pool(p);
        return rc;
    }
    snprintf(p->name, sizeof p->name, "%s", spa_name(p->spa));
    p->next = t->pools;
    t->pools = p;
    *out = p;
    return 0;
}

void tool_close(struct tool *t)
{
    while (t->pools) {
        struct tool_pool *p = t->pools;
        t->pools = p->next;
        free_pool(p);
    }
}
