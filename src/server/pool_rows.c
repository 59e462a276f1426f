/* What pool.get and pool.status say about the pool. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvlist/nvlist.h"
#include "pool/errors.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "spa/scan.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define VALUE_MAX 8192

void put_text(struct json_object *o, const char *key, const char *text)
{
    json_object_object_add(o, key, json_object_new_string(text ? text : ""));
}

void put_number(struct json_object *o, const char *key, uint64_t n)
{
    json_object_object_add(o, key, json_object_new_uint64(n));
}

#define FEATURE_VERSION 5000 /* of pools with feature flags */

/* ---- pool.get ---- */

/* Properties of the process, not of the pool on disk. */
static bool own_property(struct server *s, const char *name, char *value, size_t cap,
                         char source[16])
{
    bool alt = s->altroot != NULL;
    if (strcmp(name, "tarn:pid") == 0)
        snprintf(value, cap, "%d", (int)getpid());
    else if (strcmp(name, "altroot") == 0)
        snprintf(value, cap, "%s", alt ? s->altroot : "-");
    else if (strcmp(name, "cachefile") == 0)
        snprintf(value, cap, "%s", alt ? "none" : "-");
    else
        return false;
    strcpy(source, strcmp(name, "tarn:pid") == 0 ? "-" : alt ? "local" : "default");
    return true;
}

static int add_property(struct call *c, struct json_object *props, const char *name)
{
    CLEANUP_FREE char *value = malloc(VALUE_MAX), *raw = malloc(VALUE_MAX);
    char source[16] = "-", ignored[16];
    int rc = 0;
    if (!value || !raw)
        return -ENOMEM;
    *raw = 0;
    if (!own_property(c->s, name, value, VALUE_MAX, source)) {
        rc = spa_prop_get(c->s->spa, name, false, value, VALUE_MAX, source);
        if (rc == 0)
            rc = spa_prop_get(c->s->spa, name, true, raw, VALUE_MAX, ignored);
    }
    if (rc != 0)
        return rc;
    if (strchr(name, ':') && strcmp(source, "-") == 0 && strcmp(name, "tarn:pid") != 0)
        strcpy(source, "default"); /* a user property that is not set */
    struct json_object *o = json_object_new_object();
    put_text(o, "value", value);
    if (*raw && strcmp(value, raw) != 0)
        put_text(o, "raw", raw);
    put_text(o, "source", source);
    json_object_object_add(props, name, o);
    return 0;
}

struct adding {
    struct call *c;
    struct json_object *props;
};

static int add_user(void *arg, const char *name)
{
    struct adding *a = arg;
    return add_property(a->c, a->props, name);
}

/* User properties stand before the features. */
static int add_all(struct call *c, struct json_object *props)
{
    size_t n;
    const char *const *names = spa_prop_names(&n);
    struct adding a = {c, props};
    bool user = false;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (!user && strncmp(names[i], "feature@", 8) == 0) {
            user = true;
            rc = spa_prop_user_each(c->s->spa, add_user, &a);
        }
        if (rc == 0)
            rc = add_property(c, props, names[i]);
    }
    return rc;
}

static const char *pool_state(struct server *s, const struct spa_stats *st, struct nvlist *tree)
{
    return st->suspended ? "SUSPENDED" : nvlist_string_or(tree, "state", "UNKNOWN");
}

static int put_pool(struct server *s, struct json_object *o)
{
    CLEANUP_NVLIST struct nvlist *tree = NULL;
    struct spa_stats st;
    int rc = spa_vdev_list(s->spa, &tree);
    if (rc != 0)
        return rc;
    spa_stats(s->spa, &st);
    put_text(o, "name", spa_name(s->spa));
    put_text(o, "type", "pool");
    put_text(o, "state", pool_state(s, &st, tree));
    put_number(o, "guid", st.guid);
    put_number(o, "txg", st.txg);
    put_number(o, "version", st.version);
    return 0;
}

int op_pool_get(struct call *c)
{
    struct json_object *list = json_member(c->args, "props");
    struct json_object *row = json_object_new_object(), *props = json_object_new_object();
    size_t n =
        list && json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    int rc = put_pool(c->s, row);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(list, i));
        rc = name && strcmp(name, "all") == 0 ? add_all(c, props)
                                              : add_property(c, props, name ? name : "");
    }
    json_object_object_add(row, "props", props);
    if (rc == 0)
        return call_row(c, row);
    json_object_put(row);
    return rc;
}

/* ---- pool.status ---- */

/* A list of strings, numbers and lists of lists, as JSON. */
static struct json_object *list_json(const struct nvlist *l)
{
    struct json_object *o = json_object_new_object();
    for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_after(l, p)) {
        if (nvpair_type(p) == NV_STRING) {
            put_text(o, nvpair_name(p), nvpair_string(p, 0));
        } else if (nvpair_type(p) == NV_NVLIST_ARRAY) {
            struct json_object *a = json_object_new_array();
            for (size_t i = 0; i < nvpair_count(p); i++)
                json_object_array_add(a, list_json(nvpair_nvlist(p, i)));
            json_object_object_add(o, nvpair_name(p), a);
        } else if (nvpair_type(p) == NV_NVLIST) {
            json_object_object_add(o, nvpair_name(p), list_json(nvpair_nvlist(p, 0)));
        } else {
            put_number(o, nvpair_name(p), nvpair_uint64(p, 0));
        }
    }
    return o;
}

/* Features that new pools get and this one lacks, unless it was made so for compatibility. */
static bool lacks_features(struct server *s)
{
    char value[VALUE_MAX], source[16], name[80];
    if (spa_prop_get(s->spa, "compatibility", false, value, sizeof value, source) != 0 ||
        strcmp(value, "off") != 0)
        return false;
    for (unsigned f = 0; f < FEATURE_COUNT; f++) {
        const struct feature_info *info = feature_info((enum feature_id)f);
        snprintf(name, sizeof name, "feature@%s", info->name);
        if ((info->flags & FEATURE_DEFAULT) &&
            spa_prop_get(s->spa, name, false, value, sizeof value, source) == 0 &&
            strcmp(value, "disabled") == 0)
            return true;
    }
    return false;
}

/* What is wrong with devices, the worst first; states in the reference's words. */
static const struct trouble {
    const char *state, *status, *action;
} troubles[] = {
    {"UNAVAIL",
     "One or more devices could not be opened.  Sufficient replicas exist for\n"
     "the pool to continue functioning in a degraded state.",
     "Attach the missing device and online it using 'zpool online'."},
    {"FAULTED",
     "One or more devices are faulted in response to persistent errors.\n"
     "Sufficient replicas exist for the pool to continue functioning in a\n"
     "degraded state.",
     "Replace the faulted device, or use 'zpool clear' to mark the device\n"
     "repaired."},
    {"OFFLINE",
     "One or more devices has been taken offline by the administrator.\n"
     "Sufficient replicas exist for the pool to continue functioning in a\n"
     "degraded state.",
     "Online the device using 'zpool online' or replace the device with\n"
     "'zpool replace'."},
};

static bool has_state(const struct nvlist *v, const char *state)
{
    struct nvlist **child;
    size_t n;
    if (nvlist_get_nvlist_array(v, "children", &child, &n) != 0)
        return strcmp(nvlist_string_or(v, "state", ""), state) == 0;
    for (size_t i = 0; i < n; i++)
        if (has_state(child[i], state))
            return true;
    return false;
}

/* Does any of these counters of any vdev stand above zero? */
static bool counts(const struct nvlist *v, const char *const *keys)
{
    struct nvlist **child;
    size_t n;
    for (const char *const *k = keys; *k; k++)
        if (nvlist_uint64_or(v, *k, 0) > 0)
            return true;
    if (nvlist_get_nvlist_array(v, "children", &child, &n) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (counts(child[i], keys))
            return true;
    return false;
}

static void device_advice(const struct nvlist *tree, bool damaged, const char **status,
                          const char **action)
{
    for (size_t i = 0; i < ARRAY_LEN(troubles) && !damaged; i++)
        if (has_state(tree, troubles[i].state)) {
            *status = troubles[i].status;
            *action = troubles[i].action;
            return;
        }
    if (damaged) {
        *status = "One or more devices has experienced an error resulting in data\n"
                  "corruption.  Applications may be affected.";
        *action = "Restore the file in question if possible.  Otherwise restore the\n"
                  "entire pool from backup.";
        return;
    }
    static const char *const errors[] = {"read_errors", "write_errors", "checksum_errors", NULL};
    static const char *const lacking[] = {"lacking", NULL};
    if (counts(tree, lacking)) {
        *status = "One or more devices have missed writes while they were away.  Other\n"
                  "devices have the data, and are needed for it.";
        *action = "Resilver the devices using 'zpool resilver'.";
    } else if (counts(tree, errors)) {
        *status = "One or more devices has experienced an unrecoverable error.  An\n"
                  "attempt was made to correct the error.  Applications are unaffected.";
        *action = "Determine if the device needs to be replaced, and clear the errors\n"
                  "using 'zpool clear' or replace the device with 'zpool replace'.";
    }
}

static bool is_resilvering(struct server *s)
{
    struct spa_scan_stats scan;
    spa_scan_stats(s->spa, &scan);
    return scan.kind == SPA_SCAN_RESILVER && scan.state == SPA_SCAN_ACTIVE;
}

static void put_advice(struct server *s, const struct spa_stats *st, const struct nvlist *tree,
                       struct json_object *o)
{
    const char *status = "", *action = "";
    device_advice(tree, pool_errors_count(spa_pool(s->spa)) > 0, &status, &action);
    if (is_resilvering(s)) {
        status = "One or more devices is currently being resilvered.  The pool will\n"
                 "continue to function, possibly in a degraded state.";
        action = "Wait for the resilver to complete.";
    }
    if (st->suspended) {
        status = "A device could not be written, so the pool takes no more changes.\n"
                 "What was synced before is safe.";
        action = "Make the device available again, then export and import the pool.";
    } else if (*status) {
        /* more urgent than what follows */
    } else if (st->version < FEATURE_VERSION) {
        status = "The pool is formatted using a legacy on-disk format.  The pool can\n"
                 "still be used, but some features are unavailable.";
        action = "Upgrade the pool using 'zpool upgrade'.  Once this is done, the\n"
                 "pool will no longer be accessible on software that does not support\n"
                 "feature flags.";
    } else if (lacks_features(s)) {
        status = "Features that new pools have are not enabled on this pool.";
        action = "None is needed. 'zpool set feature@NAME=enabled' enables one; programs\n"
                 "that do not know it may then be unable to import the pool.";
    }
    put_text(o, "status", status);
    put_text(o, "action", action);
}

int op_pool_status(struct call *c)
{
    CLEANUP_NVLIST struct nvlist *tree = NULL, *shape = NULL;
    struct spa_stats st;
    int rc = put_pool(c->s, c->ok);
    if (rc == 0)
        rc = spa_vdev_list(c->s->spa, &tree);
    if (rc == 0)
        rc = spa_shape_list(c->s->spa, &shape);
    if (rc != 0)
        return rc;
    spa_stats(c->s->spa, &st);
    put_advice(c->s, &st, tree, c->ok);
    put_scan(c, c->ok);
    rc = put_damage(c, c->ok);
    if (rc != 0)
        return rc;
    put_number(c->ok, "age", clock_ns() - c->s->started);
    put_number(c->ok, "size", st.size);
    put_number(c->ok, "alloc", st.alloc);
    put_number(c->ok, "dspace", st.dspace);
    json_object_object_add(c->ok, "vdevs", list_json(tree));
    json_object_object_add(c->ok, "shape", list_json(shape));
    return 0;
}
