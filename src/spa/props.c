/*
 * Pool properties (spec 01 16): computed ones, stored ones (in the pool_props ZAP or the configuration),
 * feature@ ones, and user properties.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/tx.h"
#include "dmu/zap.h"
#include "dsl/props.h"
#include "pool/txg.h"
#include "spa/scan.h"
#include "spa/spa_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/vdev.h"

enum { COMPUTED, STORED_WORD, STORED_NUMBER, CONFIG_TEXT };

struct pool_prop {
    const char *name;
    int kind;
    const char *words;   /* STORED_WORD: the words for 0, 1, 2, "a|b|c" */
    uint64_t number;     /* default */
    uint64_t low, high;  /* STORED_NUMBER: the range */
};

static const struct pool_prop table[] = {
    {.name = "size"},
    {.name = "capacity"},
    {.name = "altroot"},
    {.name = "health"},
    {.name = "guid"},
    {.name = "version"},
    {.name = "bootfs"},
    {.name = "delegation", .kind = STORED_WORD, .words = "off|on", .number = 1},
    {.name = "autoreplace", .kind = STORED_WORD, .words = "off|on"},
    {.name = "cachefile"},
    {.name = "failmode", .kind = STORED_WORD, .words = "wait|continue|panic"},
    {.name = "listsnapshots", .kind = STORED_WORD, .words = "off|on"},
    {.name = "autoexpand", .kind = STORED_WORD, .words = "off|on"},
    {.name = "dedupratio"},
    {.name = "free"},
    {.name = "allocated"},
    {.name = "readonly"},
    {.name = "ashift", .kind = STORED_NUMBER, .low = VDEV_ASHIFT_MIN, .high = VDEV_ASHIFT_MAX},
    {.name = "comment", .kind = CONFIG_TEXT},
    {.name = "expandsize"},
    {.name = "freeing"},
    {.name = "fragmentation"},
    {.name = "leaked"},
    {.name = "multihost"},
    {.name = "checkpoint"},
    {.name = "load_guid"},
    {.name = "autotrim", .kind = STORED_WORD, .words = "off|on"},
    {.name = "compatibility", .kind = CONFIG_TEXT},
    {.name = "bcloneused"},
    {.name = "bclonesaved"},
    {.name = "bcloneratio"},
    {.name = "dedup_table_size"},
    {.name = "dedup_table_quota"},
    {.name = "last_scrubbed_txg"},
    {.name = "tarn:pid"},
};

static const char *const aliases[][2] = {{"cap", "capacity"}, {"alloc", "allocated"},
                                         {"frag", "fragmentation"}, {"dedup", "dedupratio"},
                                         {"expandsz", "expandsize"}};

static const struct pool_prop *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (strcmp(aliases[i][0], name) == 0)
            name = aliases[i][1];
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static const char *names[ARRAY_LEN(table) + FEATURE_COUNT];
static size_t name_count;

static void make_names(void)
{
    static char features[FEATURE_COUNT][64];
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strcmp(table[i].name, "tarn:pid") != 0)
            names[name_count++] = table[i].name;
    for (unsigned f = 0; f < FEATURE_COUNT; f++) {
        snprintf(features[f], sizeof features[f], "feature@%s", feature_info(f)->name);
        names[name_count++] = features[f];
    }
}

const char *const *spa_prop_names(size_t *n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_names);
    *n = name_count;
    return names;
}

/* ---- Reading ---- */

static void size_text(uint64_t bytes, bool exact, char *value, size_t cap)
{
    char text[16];
    if (exact) {
        snprintf(value, cap, "%" PRIu64, bytes);
        return;
    }
    prop_format_size(bytes, text);
    text[strcspn(text, "B")] = 0; /* pools show plain bytes without a unit */
    snprintf(value, cap, "%s", text);
}

static void percent_text(unsigned percent, bool exact, char *value, size_t cap)
{
    if (percent == ~0u)
        snprintf(value, cap, "-");
    else
        snprintf(value, cap, exact ? "%u" : "%u%%", percent);
}

static int computed(struct spa *spa, const char *name, bool exact, char *value, size_t cap, char *source)
{
    struct spa_stats st;
    spa_stats(spa, &st);
    const struct {
        const char *name;
        uint64_t bytes;
    } sizes[] = {{"size", st.size},         {"free", st.free},     {"allocated", st.alloc},
                 {"freeing", st.freeing},   {"leaked", 0},         {"bcloneused", 0},
                 {"bclonesaved", 0},        {"dedup_table_size", 0}};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        if (strcmp(name, sizes[i].name) == 0) {
            size_text(sizes[i].bytes, exact, value, cap);
            return 0;
        }
    }
    if (strcmp(name, "capacity") == 0)
        percent_text(st.size ? (unsigned)(st.alloc * 100 / st.size) : 0, exact, value, cap);
    else if (strcmp(name, "fragmentation") == 0)
        percent_text(st.fragmentation, exact, value, cap);
    else if (strcmp(name, "health") == 0)
        snprintf(value, cap, "%s", st.suspended ? "SUSPENDED" : vdev_state_name(spa->pool.root->state));
    else if (strcmp(name, "guid") == 0 || strcmp(name, "load_guid") == 0)
        snprintf(value, cap, "%" PRIu64, st.guid);
    else if (strcmp(name, "readonly") == 0)
        snprintf(value, cap, "%s", spa->readonly ? "on" : "off");
    else if (strcmp(name, "dedupratio") == 0 || strcmp(name, "bcloneratio") == 0)
        snprintf(value, cap, exact ? "1.00" : "1.00x");
    else if (strcmp(name, "version") == 0 && spa->version != SPA_VERSION)
        snprintf(value, cap, "%" PRIu64, spa->version);
    else if (strcmp(name, "multihost") == 0)
        snprintf(value, cap, "off");
    else if (strcmp(name, "dedup_table_quota") == 0)
        snprintf(value, cap, "auto");
    else if (strcmp(name, "checkpoint") == 0 && spa->pool.checkpoint_bytes > 0)
        size_text(spa->pool.checkpoint_bytes, exact, value, cap);
    else if (strcmp(name, "last_scrubbed_txg") == 0)
        snprintf(value, cap, "%" PRIu64, spa_last_scrubbed(spa));
    else
        snprintf(value, cap, "-");
    static const char *const with_default[] = {"version", "bootfs", "cachefile", "multihost",
                                               "dedup_table_quota"};
    for (size_t i = 0; i < ARRAY_LEN(with_default); i++)
        if (strcmp(name, with_default[i]) == 0)
            strcpy(source, i == 0 && spa->version != SPA_VERSION ? "local" : "default");
    return 0;
}

/* The n-th of "a|b|c". */
static void word_text(const char *words, uint64_t n, char *value, size_t cap)
{
    while (n-- > 0) {
        const char *bar = strchr(words, '|');
        if (!bar) {
            snprintf(value, cap, "?");
            return;
        }
        words = bar + 1;
    }
    snprintf(value, cap, "%.*s", (int)strcspn(words, "|"), words);
}

static int stored(struct spa *spa, const struct pool_prop *p, char *value, size_t cap, char *source)
{
    uint64_t n = p->number;
    int rc = spa->pool_props ? zap_get_u64(spa->mos, spa->pool_props, p->name, &n) : -ENOENT;
    if (rc != 0 && rc != -ENOENT)
        return rc;
    strcpy(source, rc == 0 ? "local" : "default");
    if (p->kind == STORED_WORD)
        word_text(p->words, n, value, cap);
    else
        snprintf(value, cap, "%" PRIu64, n);
    return 0;
}

static int config_text(struct spa *spa, const char *name, char *value, size_t cap, char *source)
{
    bool compatibility = strcmp(name, "compatibility") == 0;
    pthread_mutex_lock(&spa->lock);
    const char *text = compatibility ? spa->compatibility : spa->comment;
    strcpy(source, text[0] ? "local" : "default");
    snprintf(value, cap, "%s", text[0] ? text : compatibility ? "off" : "-");
    pthread_mutex_unlock(&spa->lock);
    return 0;
}

static int feature_text(struct spa *spa, const char *name, char *value, size_t cap, char *source)
{
    enum feature_id f = feature_by_name(name);
    if (f == FEATURE_COUNT)
        return err_set(ENOENT, "invalid property 'feature@%s'", name);
    bool on = feature_enabled(spa->dsl, f);
    snprintf(value, cap, "%s", !on ? "disabled" : feature_refs(spa->dsl, f) > 0 ? "active" : "enabled");
    strcpy(source, "local");
    return 0;
}

static int user_text(struct spa *spa, const char *name, char *value, size_t cap, char *source)
{
    struct dnode *zap;
    unsigned size;
    size_t n;
    snprintf(value, cap, "-");
    strcpy(source, "-");
    if (spa->pool_props == 0)
        return 0;
    int rc = dnode_hold(spa->mos, spa->pool_props, &zap);
    if (rc != 0)
        return rc;
    rc = zap_length(zap, name, &size, &n);
    if (rc == 0 && size == 1 && n > 0 && n <= cap && (rc = zap_lookup(zap, name, 1, n, value)) == 0) {
        value[n - 1] = 0;
        strcpy(source, "local");
    }
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

int spa_prop_user_each(struct spa *spa, int (*fn)(void *arg, const char *name), void *arg)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    if (spa->pool_props == 0)
        return 0;
    int rc = dnode_hold(spa->mos, spa->pool_props, &zap), found = 0;
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while (found == 0 && (rc = zap_cursor_next(&c, &e)) == 0)
        if (strchr(e.name, ':'))
            found = fn(arg, e.name);
    dnode_rele(zap);
    return found ? found : rc == -ENOENT ? 0 : rc;
}

int spa_prop_get(struct spa *spa, const char *name, bool exact, char *value, size_t cap, char source[16])
{
    strcpy(source, "-");
    if (strncmp(name, "feature@", 8) == 0)
        return feature_text(spa, name + 8, value, cap, source);
    const struct pool_prop *p = find(name);
    if (!p && prop_user_name(name))
        return user_text(spa, name, value, cap, source);
    if (!p)
        return err_set(ENOENT, "invalid property '%s'", name);
    if (p->kind == COMPUTED)
        return computed(spa, p->name, exact, value, cap, source);
    return p->kind == CONFIG_TEXT ? config_text(spa, p->name, value, cap, source)
                                  : stored(spa, p, value, cap, source);
}

/* ---- Setting ---- */

/* Position of text among "a|b|c", or -1. */
static int word_number(const char *words, const char *text)
{
    for (int i = 0;; i++) {
        size_t n = strcspn(words, "|");
        if (strlen(text) == n && strncmp(words, text, n) == 0)
            return i;
        if (words[n] == 0)
            return -1;
        words += n + 1;
    }
}

static int bad_word(const struct pool_prop *p)
{
    char list[128] = "";
    const char *words = strcmp(p->words, "off|on") == 0 ? "on|off" : p->words;
    for (const char *w = words; *w; w++)
        snprintf(list + strlen(list), sizeof list - strlen(list), *w == '|' ? " | " : "%c", *w);
    return err_set(EINVAL, "'%s' must be one of '%s'", p->name, list);
}

static int parse_number(const struct pool_prop *p, const char *text, uint64_t *n)
{
    char *end;
    errno = 0;
    *n = strtoull(text, &end, 10);
    if (errno != 0 || *end || end == text)
        return err_set(EINVAL, "bad numeric value '%s'", text);
    if ((*n < p->low || *n > p->high) && *n != p->number)
        return err_set(EINVAL, "property '%s' number %s is invalid, only values between %" PRIu64
                       " and %" PRIu64 " are allowed.", p->name, text, p->low, p->high);
    return 0;
}

int spa_props_check(struct spa *spa, const char *name, const char *value)
{
    uint64_t n;
    if (strncmp(name, "feature@", 8) == 0) {
        if (feature_by_name(name + 8) == FEATURE_COUNT)
            return err_set(EINVAL, "feature '%s' unsupported", name + 8);
        if (spa && strcmp(value, "disabled") == 0)
            return err_set(EINVAL, "property '%s' can only be set to 'disabled' at creation time", name);
        return strcmp(value, "enabled") == 0 || (!spa && strcmp(value, "disabled") == 0)
                   ? 0
                   : err_set(EINVAL, "property '%s' can only be set to 'enabled'%s", name,
                             spa ? "" : " or 'disabled'");
    }
    const struct pool_prop *p = find(name);
    if (!p)
        return prop_user_name(name) ? 0
                                    : err_set(EINVAL, "invalid property '%s'", name);
    if (strcmp(p->name, "altroot") == 0)
        return err_set(EINVAL, "property 'altroot' can only be set during pool creation or import");
    if (strcmp(p->name, "readonly") == 0)
        return err_set(EINVAL, "property 'readonly' can only be set at import time");
    if (p->kind == COMPUTED) {
        bool later = strcmp(name, "multihost") == 0 || strcmp(name, "bootfs") == 0 ||
                     strcmp(name, "cachefile") == 0 || strcmp(name, "version") == 0 ||
                     strcmp(name, "dedup_table_quota") == 0;
        return later ? err_set(ENOTSUP, "property '%s' is not supported yet", name)
                     : err_set(EINVAL, "'%s' is readonly", name);
    }
    if (p->kind == STORED_WORD)
        return word_number(p->words, value) >= 0 ? 0 : bad_word(p);
    if (p->kind == STORED_NUMBER)
        return parse_number(p, value, &n);
    if (strcmp(name, "comment") == 0 && strlen(value) >= 33)
        return err_set(EINVAL, "comment must not exceed 32 characters");
    return strlen(value) < sizeof spa->compatibility ? 0 : err_set(EINVAL, "the value is too long");
}

int spa_prop_check(const char *name, const char *value)
{
    return spa_props_check(NULL, name, value);
}

static int props_object(struct spa *spa, struct tx *tx)
{
    if (spa->pool_props != 0)
        return 0;
    int rc = zap_create_simple(spa->mos, OT_POOL_PROPS, 0, tx, &spa->pool_props);
    return rc ? rc : zap_add_u64(spa->mos, MOS_DIRECTORY, "pool_props", spa->pool_props, tx);
}

static int write_user(struct spa *spa, const char *name, const char *value, struct tx *tx)
{
    struct dnode *zap;
    int rc = props_object(spa, tx);
    if (rc == 0)
        rc = dnode_hold(spa->mos, spa->pool_props, &zap);
    if (rc != 0)
        return rc;
    rc = *value ? zap_update(zap, name, 1, strlen(value) + 1, value, tx) : zap_remove(zap, name, tx);
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

static int write_text(struct spa *spa, const char *name, const char *value)
{
    pthread_mutex_lock(&spa->lock);
    if (strcmp(name, "comment") == 0)
        snprintf(spa->comment, sizeof spa->comment, "%s", value);
    else
        snprintf(spa->compatibility, sizeof spa->compatibility, "%s",
                 strcmp(value, "off") == 0 ? "" : value);
    pthread_mutex_unlock(&spa->lock);
    spa->config_dirty = true;
    return 0;
}

static int write_prop(struct spa *spa, const char *name, const char *value, uint64_t n, struct tx *tx)
{
    if (strncmp(name, "feature@", 8) == 0)
        return spa->creating ? 0 : feature_enable(spa->dsl, feature_by_name(name + 8), tx);
    const struct pool_prop *p = find(name);
    if (!p)
        return write_user(spa, name, value, tx);
    if (p->kind == CONFIG_TEXT)
        return write_text(spa, name, value);
    int rc = props_object(spa, tx);
    return rc ? rc : zap_set_u64(spa->mos, spa->pool_props, name, n, tx);
}

/* Syncing context; the value has been checked. Features given at creation are already on. */
int spa_props_write(struct spa *spa, const char *name, const char *value, struct tx *tx)
{
    bool feature = strncmp(name, "feature@", 8) == 0;
    const struct pool_prop *p = feature ? NULL : find(name);
    bool number = p && p->kind != CONFIG_TEXT;
    char text[4500];
    uint64_t n = 0;
    if (number && p->kind == STORED_WORD)
        n = (uint64_t)word_number(p->words, value);
    else if (number)
        parse_number(p, value, &n);
    int rc = write_prop(spa, name, value, n, tx);
    if (number)
        snprintf(text, sizeof text, "%s=%llu", name, (unsigned long long)n);
    else
        snprintf(text, sizeof text, "%s=%s", name, value);
    if (rc == 0 && !(feature && spa->creating)) /* noted with the others */
        spa_history_event(spa, "set", NULL, 0, text, tx);
    return rc;
}

void spa_props_apply(struct spa *spa)
{
    char value[16] = "", source[16];
    atomic_store(&spa->pool.autotrim,
                 spa_prop_get(spa, "autotrim", true, value, sizeof value, source) == 0 &&
                     strcmp(value, "on") == 0);
}

struct setting {
    struct spa *spa;
    const char *name, *value;
};

static int set_task(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct setting *s = arg;
    int rc = spa_props_write(s->spa, s->name, s->value, tx);
    spa_load_features(s->spa);
    spa_props_apply(s->spa);
    return rc;
}

int spa_prop_set(struct spa *spa, const char *name, const char *value)
{
    struct setting s = {spa, name, value};
    int rc = spa_props_check(spa, name, value);
    if (rc == 0 && spa->readonly)
        rc = err_set(EROFS, "pool is read-only");
    return rc ? rc : dsl_task(spa->dsl, NULL, set_task, &s, DSL_SPACE_RESERVED);
}
