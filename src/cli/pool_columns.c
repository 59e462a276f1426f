/* Pool properties as columns of zpool list; the names zpool get and set accept. */
#include <ctype.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "cli/command_impl.h"
#include "cli/zpool_impl.h"
#include "dsl/feature.h"
#include "dsl/props.h"
#include "util/bytes.h"

struct known {
    const char *name, *head, *alias;
    bool left;
    size_t width;
};

static const struct known known[] = {
    {"name", "NAME", NULL, true, 0},
    {"size", "SIZE", NULL, false, 5},
    {"capacity", "CAP", "cap", false, 5},
    {"altroot", "ALTROOT", NULL, true, 0},
    {"health", "HEALTH", NULL, false, 8},
    {"guid", "GUID", NULL, false, 0},
    {"version", "VERSION", NULL, false, 0},
    {"bootfs", "BOOTFS", NULL, true, 0},
    {"delegation", "DELEGATION", NULL, true, 0},
    {"autoreplace", "REPLACE", "replace", true, 0},
    {"cachefile", "CACHEFILE", NULL, true, 0},
    {"failmode", "FAILMODE", NULL, true, 8},
    {"listsnapshots", "LISTSNAPS", "listsnaps", true, 0},
    {"autoexpand", "EXPAND", "expand", true, 0},
    {"dedupratio", "DEDUP", "dedup", false, 5},
    {"free", "FREE", NULL, false, 5},
    {"allocated", "ALLOC", "alloc", false, 5},
    {"readonly", "RDONLY", "rdonly", true, 0},
    {"ashift", "ASHIFT", NULL, false, 0},
    {"comment", "COMMENT", NULL, true, 0},
    {"expandsize", "EXPANDSZ", "expandsz", false, 0},
    {"freeing", "FREEING", NULL, false, 0},
    {"fragmentation", "FRAG", "frag", false, 5},
    {"leaked", "LEAKED", NULL, false, 0},
    {"multihost", "MULTIHOST", NULL, true, 0},
    {"checkpoint", "CKPOINT", "ckpoint", false, 0},
    {"load_guid", "LOAD_GUID", NULL, false, 0},
    {"autotrim", "AUTOTRIM", NULL, true, 0},
    {"compatibility", "COMPATIBILITY", NULL, true, 0},
    {"bcloneused", "BCLONE_USED", "bclone_used", false, 0},
    {"bclonesaved", "BCLONE_SAVED", "bclone_saved", false, 0},
    {"bcloneratio", "BCLONE_RATIO", "bclone_ratio", false, 0},
    {"dedup_table_size", "DDTSIZE", "ddtsize", false, 0},
    {"dedup_table_quota", "DDTQUOTA", "ddtquota", false, 0},
    {"last_scrubbed_txg", "LAST_SCRUBBED_TXG", NULL, false, 0},
    {"tarn:pid", "TARN:PID", NULL, true, 0},
};

static const struct known *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(name, known[i].name) == 0 ||
            (known[i].alias && strcmp(name, known[i].alias) == 0))
            return &known[i];
    return NULL;
}

const char *pool_prop_name(const char *name)
{
    const struct known *k = find(name);
    if (k)
        return k->name;
    if (strncmp(name, "feature@", 8) == 0)
        return feature_by_name(name + 8) != FEATURE_COUNT ? name : NULL;
    return prop_user_name(name) ? name : NULL;
}

void pool_column(const char *name, struct report_column *c)
{
    const struct known *k = find(name);
    *c = (struct report_column){.prop = k ? k->name : name, .left = true};
    snprintf(c->head, sizeof c->head, "%s", k ? k->head : name);
    for (char *p = c->head; !k && *p; p++)
        *p = (char)toupper((unsigned char)*p);
    if (k) {
        c->left = k->left;
        c->width = k->width;
    }
}

size_t pool_columns(const char *text, struct report_column *columns)
{
    static struct json_object *list; /* the names live as long as the program */
    size_t n = 0;
    list = split_list(text);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(list, i));
        const char *full = pool_prop_name(name);
        if (!full) {
            usage_error("bad property list: invalid property '%s'", name);
            return 0;
        }
        if (n == REPORT_COLUMNS_MAX) {
            usage_error("too many columns");
            return 0;
        }
        pool_column(full, &columns[n++]);
    }
    if (n == 0)
        usage_error("bad property list: it is empty");
    return n;
}

size_t pool_columns_all(struct report_column *columns)
{
    static char features[FEATURE_COUNT][64];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(known[i].name, "tarn:pid") != 0)
            pool_column(known[i].name, &columns[n++]);
    for (size_t f = 0; f < FEATURE_COUNT && n < REPORT_COLUMNS_MAX; f++) {
        snprintf(features[f], sizeof features[f], "feature@%s",
                 feature_info((enum feature_id)f)->name);
        pool_column(features[f], &columns[n++]);
    }
    return n;
}
