/* zfs.list: walks the datasets asked for and sends a row each. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/bookmark.h"
#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "dsl/props.h"
#include "nvlist/nvlist.h"
#include "server/list_impl.h"
#include "server/owners_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define TEXT_MAX 8192

enum { WANT_FILESYSTEM = 1, WANT_VOLUME = 2, WANT_SNAPSHOT = 4, WANT_BOOKMARK = 8 };

struct listing {
    struct call *c;
    unsigned types;
    bool user;                 /* also all user properties */
    bool ordered;              /* names of snapshots come in the order of their creation */
    int depth;                 /* below base; a snapshot counts as a level; -1: all */
    int base;                  /* slashes in the name that is listed */
    struct json_object *props; /* array of names, "all" for all */
};

static const char *source_word(enum prop_source s)
{
    static const char *const words[] = {[SOURCE_NONE] = "-",
                                        [SOURCE_DEFAULT] = "default",
                                        [SOURCE_LOCAL] = "local",
                                        [SOURCE_INHERITED] = "inherited",
                                        [SOURCE_RECEIVED] = "received",
                                        [SOURCE_TEMPORARY] = "temporary"};
    return words[s];
}

struct json_object *add_value(struct json_object *into, const char *name, const char *value,
                              const struct prop_value *v)
{
    struct json_object *o = json_object_new_object();
    put_text(o, "value", value);
    put_text(o, "source", source_word(v->source));
    if (v->source == SOURCE_INHERITED)
        put_text(o, "from", v->from);
    json_object_object_add(into, name, o);
    return o;
}

/* ---- What the process knows and the pool does not: mounts ---- */

static void add_mounted(struct listing *l, struct dataset *ds, struct json_object *into)
{
    static const struct prop_value none = {.source = SOURCE_NONE};
    if (dataset_is_snapshot(ds) || dataset_type(ds) != OBJSET_ZPL)
        return;
    pthread_mutex_lock(&l->c->s->lock);
    bool mounted = mounts_of(l->c->s, ds) != NULL;
    pthread_mutex_unlock(&l->c->s->lock);
    add_value(into, "mounted", mounted ? "yes" : "no", &none);
}

static int add_mountpoint(struct listing *l, struct dataset *ds, struct json_object *into)
{
    struct prop_value raw = {0};
    CLEANUP_FREE char *path = NULL;
    int rc = prop_mountpoint(ds, l->c->s->altroot, &path, &raw);
    if (rc == 0)
        add_value(into, "mountpoint", path, &raw);
    prop_value_clear(&raw);
    return rc;
}

/* A mount made with other options shows them: "on", temporary. */
static bool add_temporary(struct listing *l, struct dataset *ds, const char *name,
                          struct json_object *into)
{
    static const struct prop_value temporary = {.source = SOURCE_TEMPORARY};
    bool on, found;
    pthread_mutex_lock(&l->c->s->lock);
    found = mounts_temporary(mounts_of(l->c->s, ds), name, &on);
    pthread_mutex_unlock(&l->c->s->lock);
    if (found)
        add_value(into, name, on ? "on" : "off", &temporary);
    return found;
}

/* ---- Properties ---- */

int add_text(const struct prop_info *info, const char *name, const struct prop_value *v,
             struct json_object *into)
{
    CLEANUP_FREE char *text = malloc(TEXT_MAX), *raw = malloc(TEXT_MAX);
    if (!text || !raw)
        return -ENOMEM;
    if (!info) {
        add_value(into, name, v->string ? v->string : "", v);
        return 0;
    }
    prop_format(info, v->number, v->string, false, text, TEXT_MAX);
    prop_format(info, v->number, v->string, true, raw, TEXT_MAX);
    struct json_object *o = add_value(into, name, text, v);
    if (strcmp(text, raw) != 0)
        put_text(o, "raw", raw);
    if (info->kind != PROP_STRING)
        put_number(o, "number", v->number);
    return 0;
}

/* userquota@NAME and the like. */
static int add_owner_property(struct dataset *ds, const char *name, const struct owner_property *p,
                              struct json_object *into)
{
    static const struct prop_value local = {.source = SOURCE_LOCAL};
    char text[24], raw[24];
    uint64_t n;
    int rc = owner_property_get(ds, p, &n);
    if (rc != 0)
        return rc;
    snprintf(raw, sizeof raw, "%llu", (unsigned long long)n);
    if (p->quota && n == 0)
        snprintf(text, sizeof text, "none");
    else if (p->objects)
        snprintf(text, sizeof text, "%s", raw);
    else
        prop_format_size(n, text);
    struct json_object *o = add_value(into, name, text, &local);
    put_text(o, "raw", raw);
    put_number(o, "number", n);
    return 0;
}

/* written@SNAPSHOT and written#BOOKMARK; a name with a file system is a full one. */
static int add_written(struct dataset *ds, const char *name, struct json_object *into)
{
    static const struct prop_value local = {.source = SOURCE_LOCAL};
    const char *since = name + strlen("written");
    char text[24], raw[24];
    uint64_t n;
    int rc = dataset_written_since(ds, strpbrk(since + 1, "@#") ? since + 1 : since, &n);
    if (rc != 0)
        return rc == -EINVAL || rc == -ENAMETOOLONG ? -ENOENT : rc;
    prop_format_size(n, text);
    snprintf(raw, sizeof raw, "%llu", (unsigned long long)n);
    struct json_object *o = add_value(into, name, text, &local);
    put_text(o, "raw", raw);
    put_number(o, "number", n);
    return 0;
}

/* A property this dataset does not have is left out of the row. */
static int add_property(struct listing *l, struct dataset *ds, const char *name,
                        struct json_object *into)
{
    const struct prop_info *info = prop_info(name);
    struct prop_value v = {0};
    bool filesystem = !dataset_is_snapshot(ds) && dataset_type(ds) == OBJSET_ZPL;
    if (info)
        name = info->name;
    if (strcmp(name, "name") == 0) /* in every row */
        return 0;
    if (strcmp(name, "mounted") == 0)
        return add_mounted(l, ds, into), 0;
    struct owner_property owner;
    if (owner_property_parse(name, &owner))
        return filesystem && owner_property_visible(l->c, ds, &owner) ? add_owner_property(ds, name, &owner, into) : 0;
    if (strncmp(name, "written@", 8) == 0 || strncmp(name, "written#", 8) == 0) {
        int rc = add_written(ds, name, into);
        return rc == -ENOENT ? 0 : rc;
    }
    if (strcmp(name, "mountpoint") == 0 && filesystem)
        return add_mountpoint(l, ds, into);
    if (filesystem && add_temporary(l, ds, name, into))
        return 0;
    int rc = prop_get(ds, name, &v);
    if (rc == 0)
        rc = add_text(info, name, &v, into);
    prop_value_clear(&v);
    return rc == -ENOENT ? 0 : rc;
}

static int add_user_properties(struct listing *l, struct dataset *ds, struct json_object *into)
{
    struct nvlist *user = NULL;
    int rc = prop_user_list(ds, &user);
    for (const struct nvpair *p = rc == 0 ? nvlist_first(user) : NULL; p && rc == 0;
         p = nvlist_after(user, p))
        rc = add_property(l, ds, nvpair_name(p), into);
    nvlist_free(user);
    return rc;
}

/* "zfs get all" leaves out what has no value and is not a setting either. */
static bool worth_showing(const struct prop_info *info, struct json_object *into)
{
    static const char *const only_if_set[] = {
        "origin",    "clones",   "receive_resume_token", "encryptionroot",
        "keystatus", "redacted", "redact_snaps",         "snapshots_changed"};
    const char *text = json_text(json_member(into, info->name), "value", "-");
    for (size_t i = 0; i < ARRAY_LEN(only_if_set); i++)
        if (strcmp(info->name, only_if_set[i]) == 0)
            return strcmp(text, "-") != 0 && strcmp(text, "none") != 0 && strcmp(text, "no") != 0;
    return true;
}

static int add_all(struct listing *l, struct dataset *ds, struct json_object *into)
{
    size_t count;
    const struct prop_info *table = prop_table(&count);
    int rc = 0;
    for (size_t k = 0; k < count && rc == 0; k++) {
        rc = add_property(l, ds, table[k].name, into);
        if (!worth_showing(&table[k], into))
            json_object_object_del(into, table[k].name);
    }
    return rc;
}

static int add_properties(struct listing *l, struct dataset *ds, struct json_object *into)
{
    int rc = 0;
    for (size_t i = 0; i < json_count(l->props) && rc == 0; i++) {
        const char *name = json_item(l->props, i);
        rc = strcmp(name, "all") == 0 ? add_all(l, ds, into) : add_property(l, ds, name, into);
    }
    if (rc == 0 && l->user)
        rc = add_user_properties(l, ds, into);
    return rc;
}

/* ---- Rows ---- */

static unsigned type_of(struct dataset *ds)
{
    if (dataset_is_snapshot(ds))
        return WANT_SNAPSHOT;
    return dataset_type(ds) == OBJSET_ZVOL ? WANT_VOLUME : WANT_FILESYSTEM;
}

static void put_head(struct listing *l, struct json_object *row, const char *name, unsigned type,
                     struct dataset *ds)
{
    char head[DATASET_NAME_MAX];
    const char *at = strchr(name, '@');
    put_text(row, "name", name);
    put_text(row, "type",
             type == WANT_SNAPSHOT ? "snapshot"
             : type == WANT_VOLUME ? "volume"
                                   : "filesystem");
    put_text(row, "pool", spa_name(l->c->s->spa));
    put_number(row, "createtxg", prop_get_number(ds, "createtxg"));
    if (!at)
        return;
    snprintf(head, sizeof head, "%.*s", (int)(at - name), name);
    put_text(row, "dataset", head);
    put_text(row, "snapshot_name", at + 1);
}

static int level(const char *name)
{
    int n = 0;
    for (; *name; name++)
        n += *name == '/' || *name == '@';
    return n;
}

static int list_bookmark(void *arg, const struct bookmark_stats *b)
{
    struct listing *l = arg;
    return bookmark_row(l->c, b, l->props);
}

static int list_dataset(void *arg, struct dataset *ds)
{
    struct listing *l = arg;
    char name[DATASET_NAME_MAX];
    unsigned type = type_of(ds);
    dataset_name(ds, name);
    if (type != WANT_SNAPSHOT && (l->types & WANT_BOOKMARK) &&
        (l->depth < 0 || level(name) - l->base < l->depth)) {
        int rc = bookmark_each(ds, list_bookmark, l);
        if (rc != 0)
            return rc;
    }
    if (!(type & l->types) || (l->depth >= 0 && level(name) - l->base > l->depth))
        return 0;
    struct json_object *row = json_object_new_object(), *props = json_object_new_object();
    put_head(l, row, name, type, ds);
    json_object_object_add(row, "props", props);
    int rc = add_properties(l, ds, props);
    if (rc == 0)
        return call_row(l->c, row);
    json_object_put(row);
    return rc == -ENOENT ? 0 : rc; /* destroyed meanwhile */
}

/* A snapshot of which nothing but its name is wanted. */
struct naming {
    struct listing *l;
    const char *head;
};

static int list_name(void *arg, const char *snap, uint64_t txg)
{
    struct naming *n = arg;
    struct json_object *row = json_object_new_object();
    char name[2 * DATASET_NAME_MAX];
    snprintf(name, sizeof name, "%s@%s", n->head, snap);
    put_text(row, "name", name);
    put_text(row, "type", "snapshot");
    put_text(row, "pool", spa_name(n->l->c->s->spa));
    put_text(row, "dataset", n->head);
    put_text(row, "snapshot_name", snap);
    if (n->l->ordered)
        put_number(row, "createtxg", txg);
    return call_row(n->l->c, row);
}

static int list_names(void *arg, struct dataset *ds)
{
    struct listing *l = arg;
    char head[DATASET_NAME_MAX];
    if (dataset_is_snapshot(ds))
        return list_dataset(l, ds);
    dataset_name(ds, head);
    struct naming n = {l, head};
    bool near = l->depth < 0 || level(head) - l->base < l->depth;
    return near ? dataset_each_snapshot_name(ds, l->ordered, list_name, &n) : 0;
}

static unsigned types_asked(struct json_object *types)
{
    unsigned want = 0;
    for (size_t i = 0; i < json_count(types); i++) {
        const char *t = json_item(types, i);
        want |= strcmp(t, "filesystem") == 0 ? WANT_FILESYSTEM
                : strcmp(t, "volume") == 0   ? WANT_VOLUME
                : strcmp(t, "snapshot") == 0 ? WANT_SNAPSHOT
                : strcmp(t, "bookmark") == 0 ? WANT_BOOKMARK
                                             : 0;
    }
    return want;
}

/* Without -t: file systems and volumes, and snapshots if the pool says so. */
static unsigned types_default(struct server *s)
{
    char value[64], source[16];
    bool snapshots =
        spa_prop_get(s->spa, "listsnapshots", false, value, sizeof value, source) == 0 &&
        strcmp(value, "on") == 0;
    return WANT_FILESYSTEM | WANT_VOLUME | (snapshots ? WANT_SNAPSHOT : 0);
}

static int list_named_bookmark(struct listing *l, const char *name)
{
    struct bookmark_stats b;
    int rc = bookmark_stats(spa_dsl(l->c->s->spa), name, &b);
    if (rc == -ENOENT)
        rc = err_set(ENOENT, "dataset does not exist");
    return rc ? rc : list_bookmark(l, &b);
}

int op_zfs_list(struct call *c)
{
    struct json_object *names = json_array(c->args, "names");
    struct listing l = {.c = c, .user = json_flag(c->args, "user")};
    int rc = 0;
    l.depth = (int)json_number(c->args, "depth", 0);
    l.types = json_array(c->args, "types") ? types_asked(json_array(c->args, "types"))
                                           : types_default(c->s);
    l.props = json_array(c->args, "props");
    l.ordered = json_flag(c->args, "ordered");
    for (size_t i = 0; i < MAX(json_count(names), 1) && rc == 0; i++) {
        const char *name = names ? json_item(names, i) : spa_name(c->s->spa);
        l.base = level(name);
        if (strchr(name, '#')) {
            rc = list_named_bookmark(&l, name);
            continue;
        }
        if (l.types == WANT_SNAPSHOT && json_flag(c->args, "names_only"))
            rc = dataset_each(spa_dsl(c->s->spa), name, l.depth, false, list_names, &l);
        else
            rc = dataset_each(spa_dsl(c->s->spa), name, l.depth, l.types & WANT_SNAPSHOT,
                              list_dataset, &l);
    }
    return rc;
}
