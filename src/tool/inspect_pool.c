/* tarn inspect config, features, history and spacemaps: the pool as a whole. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <time.h>

#include "dsl/dsl.h"
#include "dsl/feature.h"
#include "nvlist/nvlist.h"
#include "pool/alloc.h"
#include "pool/pool.h"
#include "spa/spa.h"
#include "tool/inspect_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/rangeset.h"
#include "vdev/scan.h"
#include "vdev/vdev.h"

/* Opens the one pool that is named; NULL after a message. */
static struct spa *open_pool(struct inspect *x, int argc, char **argv, struct target *target)
{
    if (argc != 1) {
        tool_usage(x->t, "the name of one pool is wanted");
        return NULL;
    }
    return target_open(x->t, argv[0], TARGET_POOL, target) == 0 ? target->pool->spa : NULL;
}

static int status(const struct inspect *x, int argc)
{
    return argc == 1 ? x->t->status : 2;
}

int inspect_config(struct inspect *x, int argc, char **argv)
{
    struct target target;
    struct spa *spa = open_pool(x, argc, argv, &target);
    struct nvlist *config;
    if (!spa)
        return status(x, argc);
    int rc = spa_peek(target.pool->found->config, &config); /* as it is stored */
    if (rc) {
        tool_error(x->t, rc, "%s", argv[0]);
    } else {
        tool_print_fields(x->t, tool_nvlist_row(config));
        nvlist_free(config);
    }
    target_close(&target);
    return 0;
}

int inspect_features(struct inspect *x, int argc, char **argv)
{
    static const struct tool_column columns[] = {
        {"name", "FEATURE", true, 22},          {"state", "STATE", true, 8},
        {"references", "REFS", false, 6},       {"enabled_txg", "TXG", false, 8},
        {"readonly_compatible", "RO", true, 5}, {"guid", "GUID", true, 10}};
    struct target target;
    struct spa *spa = open_pool(x, argc, argv, &target);
    bool begun = false;
    if (!spa)
        return status(x, argc);
    struct dsl *dsl = spa_dsl(spa);
    for (int f = 0; f < FEATURE_COUNT; f++) {
        const struct feature_info *info = feature_info((enum feature_id)f);
        struct json_object *o = json_object_new_object();
        bool enabled = feature_enabled(dsl, (enum feature_id)f);
        uint64_t refs = feature_refs(dsl, (enum feature_id)f);
        json_put_text(o, "name", info->name);
        json_put_text(o, "state", refs ? "active" : enabled ? "enabled" : "disabled");
        json_put_number(o, "references", refs);
        json_put_number(o, "enabled_txg", feature_enabled_txg(dsl, (enum feature_id)f));
        json_put_bool(o, "readonly_compatible", info->flags & FEATURE_READONLY_OK);
        json_put_bool(o, "can_read", info->flags & FEATURE_CAN_READ);
        json_put_bool(o, "can_write", info->flags & FEATURE_CAN_WRITE);
        json_put_text(o, "guid", info->guid);
        json_put_text(o, "text", info->text);
        inspect_table(x, columns, sizeof columns / sizeof *columns, &begun, o);
    }
    target_close(&target);
    return 0;
}

/* ---- History ---- */

static int history_row(void *arg, const struct nvlist *l)
{
    struct inspect *x = arg;
    if (x->t->json) {
        tool_row(x->t, tool_nvlist_row(l));
        return 0;
    }
    char when[64];
    struct tm tm;
    time_t s = (time_t)nvlist_uint64_or(l, "history time", 0);
    localtime_r(&s, &tm);
    strftime(when, sizeof when, "%Y-%m-%d.%H:%M:%S", &tm);
    printf("%s ", when);
    const char *command = nvlist_string_or(l, "history command", NULL);
    if (command) {
        tool_print_name(x->t, stdout, command);
    } else if (nvlist_exists(l, "internal_name")) {
        printf("[txg:%llu] %s ", (unsigned long long)nvlist_uint64_or(l, "history txg", 0),
               nvlist_string_or(l, "internal_name", ""));
        if (nvlist_exists(l, "dsname"))
            printf("%s (%llu) ", nvlist_string_or(l, "dsname", ""),
                   (unsigned long long)nvlist_uint64_or(l, "dsid", 0));
        tool_print_name(x->t, stdout, nvlist_string_or(l, "history internal str", ""));
    } else {
        printf("ioctl %s", nvlist_string_or(l, "ioctl", "?"));
    }
    printf("\n");
    return 0;
}

int inspect_history(struct inspect *x, int argc, char **argv)
{
    struct target target;
    struct spa *spa = open_pool(x, argc, argv, &target);
    if (!spa)
        return status(x, argc);
    int rc = spa_history_each(spa, history_row, x);
    if (rc)
        tool_error(x->t, rc, "%s", argv[0]);
    target_close(&target);
    return 0;
}

/* ---- Space maps ---- */

static void cleanup_set(struct rangeset **s)
{
    rangeset_free(*s);
}

static void metaslab_row(struct inspect *x, struct spa *spa, struct metaslab *m, bool *begun)
{
    static const struct tool_column columns[] = {
        {"vdev", "VDEV", false, 4},         {"metaslab", "METASLAB", false, 8},
        {"start", "START", false, 14},      {"size", "SIZE", false, 12},
        {"object", "OBJECT", false, 7},     {"length", "LENGTH", false, 9},
        {"allocated", "ALLOC", false, 12},  {"free", "FREE", false, 12},
        {"segments", "SEGMENTS", false, 9}, {"unflushed", "UNFLUSHED", false, 10}};
    CLEANUP(cleanup_set) struct rangeset *set = rangeset_new();
    struct json_object *o = json_object_new_object();
    err_clear();
    int rc = !set ? -ENOMEM : m->object ? spa_metaslab_allocated(spa, m, set) : 0;
    if (rc)
        tool_error(x->t, rc, "metaslab %u of vdev %u", m->id, m->vdev->id);
    json_put_number(o, "vdev", m->vdev->id);
    json_put_number(o, "metaslab", m->id);
    json_put_number(o, "start", m->start);
    json_put_number(o, "size", m->size);
    json_put_number(o, "object", m->object);
    json_put_number(o, "length", m->map_length);
    if (rc == 0) {
        json_put_number(o, "allocated", rangeset_total(set));
        json_put_number(o, "free", m->size - rangeset_total(set));
        json_put_number(o, "segments", rangeset_count(set));
    }
    json_put_signed(o, "unflushed", m->log_alloc);
    inspect_table(x, columns, sizeof columns / sizeof *columns, begun, o);
}

int inspect_spacemaps(struct inspect *x, int argc, char **argv)
{
    struct target target;
    struct spa *spa = open_pool(x, argc, argv, &target);
    bool begun = false;
    if (!spa)
        return status(x, argc);
    struct vdev *root = spa_pool(spa)->root;
    for (unsigned i = 0; i < root->children; i++)
        for (unsigned k = 0; root->child[i]->allocator && k < alloc_metaslab_count(root->child[i]);
             k++)
            metaslab_row(x, spa, alloc_metaslab(root->child[i], k), &begun);
    target_close(&target);
    return 0;
}
