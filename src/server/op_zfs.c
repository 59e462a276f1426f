/* The zfs.* operations of docs/control-protocol.md that change datasets. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "dsl/props.h"
#include "nvlist/nvlist.h"
#include "server/calls_impl.h"
#include "server/list_impl.h"
#include "server/names_impl.h"
#include "server/op_zfs_impl.h"
#include "server/owners_impl.h"
#include "server/permissions_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static struct dsl *dsl_of(struct call *c)
{
    return spa_dsl(c->s->spa);
}

int need_name(struct call *c, const char **name)
{
    *name = json_text(c->args, "name", NULL);
    return *name ? 0 : err_set(EINVAL, "no dataset is named");
}

/* {name: text} as a list of strings. */
int props_list(struct call *c, struct nvlist **out)
{
    struct json_object *props = json_member(c->args, "props");
    CLEANUP_NVLIST struct nvlist *l = nvlist_new();
    if (!l)
        return -ENOMEM;
    if (props && json_object_is_type(props, json_type_object)) {
        json_object_object_foreach(props, name, value)
        {
            if (nvlist_add_string(l, name, value ? json_object_get_string(value) : "") != 0)
                return -ENOMEM;
        }
    }
    *out = STEAL(l);
    return 0;
}

int props_encoded(struct call *c, struct nvlist **out)
{
    CLEANUP_NVLIST struct nvlist *texts = NULL;
    int rc = props_list(c, &texts);
    return rc ? rc : prop_encode(texts, out);
}

/* Together with what there was to say before, and what the mounts had to say. */
void put_warning(struct call *c, char *warning)
{
    char *all = NULL;
    pthread_mutex_lock(&c->s->lock);
    CLEANUP_FREE char *mounts = STEAL(c->s->warning);
    pthread_mutex_unlock(&c->s->lock);
    const char *parts[] = {json_text(c->ok, "warning", NULL), warning, mounts};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i])
            warning_add(&all, "%s", parts[i]);
    if (all)
        put_text(c->ok, "warning", all);
    free(all);
    free(warning);
}

/* What is kept and does nothing yet. */
void warn_of_kept(struct call *c, const struct nvlist *props)
{
    char *warning = NULL;
    for (const struct nvpair *p = nvlist_first(props); p; p = nvlist_after(props, p)) {
        const struct prop_info *info = prop_info(nvpair_name(p));
        if (!info || !(info->flags & PROP_KEPT))
            continue;
        bool is_default = nvpair_type(p) == NV_STRING
                              ? strcmp(nvpair_string(p, 0), info->string) == 0
                              : nvpair_uint64(p, 0) == info->number;
        if (!is_default)
            warning_add(&warning, "property '%s' is kept, but has no effect in this version",
                        info->name);
    }
    put_warning(c, warning);
}

/* ---- create ---- */

#define FILESYSTEM 2 /* as the history calls it */

void mount_new(struct call *c, const char *name)
{
    struct mount_request r = {.name = name};
    char *warning = NULL;
    if (!c->trusted && json_flag(c->args, "mount")) {
        warning_add(&warning,
                    "filesystem successfully created, but it may only be mounted by root");
        put_warning(c, warning);
        return;
    }
    int rc = json_flag(c->args, "mount") ? mounts_mount(c->s, &r) : 0;
    if (rc == 0 || rc == -EAGAIN)
        return;
    bool whole = strncmp(err_text(rc), "cannot mount '", 14) == 0;
    if (!whole)
        warning_add(&warning, "cannot mount '%s': %s", name, err_text(rc));
    else
        warning_add(&warning, "%s", err_text(rc));
    warning_add(&warning, "filesystem successfully created, but not mounted");
    put_warning(c, warning);
}

static void note_create(struct call *c, const struct nvlist *props)
{
    struct nvlist *in = nvlist_new();
    if (in && nvlist_add_uint64(in, "type", FILESYSTEM) == 0 && props)
        (void)nvlist_add_nvlist(in, "props", props);
    call_note(c, "create", in, NULL);
}

static int create_one(struct call *c, const char *name, const struct nvlist *props)
{
    int rc = dataset_create(dsl_of(c), name, props, c->uid, c->gid);
    if (rc == 0)
        note_create(c, props);
    if (rc == 0)
        mount_new(c, name);
    return rc;
}

static bool exists(struct call *c, const char *name)
{
    struct dataset *ds;
    if (dataset_hold(dsl_of(c), name, &ds) != 0)
        return false;
    dataset_rele(ds);
    return true;
}

/* Without properties. Each is asked for where it is made, and the dataset itself then, too. */
int create_parents(struct call *c, const char *name)
{
    char part[DATASET_NAME_MAX];
    int rc = 0;
    for (const char *slash = strchr(name, '/'); slash && rc == 0; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - name), name);
        if (exists(c, part))
            continue;
        rc = permission_need_new(c, part);
        if (rc == 0)
            rc = create_one(c, part, NULL);
    }
    return rc ? rc : permission_need_new(c, name); /* what was given may end above the new parent */
}

static int check_new_name(const char *name)
{
    const char *bad = strpbrk(name, "@#");
    if (bad)
        return err_set(EINVAL, *bad == '@' ? "snapshot delimiter '@' is not expected here"
                                           : "bookmark delimiter '#' is not expected here");
    int rc = dataset_name_check(name);
    if (rc == 0 && !strchr(name, '/'))
        rc = err_set(EINVAL, "missing dataset name");
    return rc;
}

static int op_create(struct call *c)
{
    CLEANUP_NVLIST struct nvlist *props = NULL;
    const char *name;
    bool parents = json_flag(c->args, "parents");
    int rc = need_name(c, &name);
    if (rc == 0)
        rc = check_new_name(name);
    if (rc == 0)
        rc = permission_need_new(c, name);
    if (rc == 0)
        rc = props_encoded(c, &props);
    if (rc == 0)
        rc = permission_need_props(c, name, props);
    if (rc == 0 && parents && exists(c, name)) {
        json_object_object_add(c->ok, "unchanged", json_object_new_boolean(true));
        return 0;
    }
    if (rc != 0 || json_flag(c->args, "dry_run"))
        return rc;
    if (parents)
        rc = create_parents(c, name);
    if (rc == 0 && parents)
        rc = permission_need_props(c, name, props);
    if (rc == 0)
        rc = create_one(c, name, props);
    if (rc == 0)
        warn_of_kept(c, props);
    return rc;
}

/* ---- set and inherit ---- */

/* What a new place or canmount=off unmounts. */
static int before_change(struct call *c, const char *name, const char *mountpoint,
                         const char *canmount, struct moves **moves)
{
    bool off = canmount && strcmp(canmount, "off") == 0;
    if (!c->trusted || json_flag(c->args, "keep_mounts") || (!mountpoint && !off))
        return 0; /* mounts are root's: those of others stay where they are */
    return moves_begin(moves, c->s, name, !mountpoint, false);
}

/* Quotas of owners are in the file system, not among the properties: they are taken out. */
static int take_owner_quotas(struct nvlist *props, struct owner_quota *out, size_t *n)
{
    const struct nvpair *pair = nvlist_first(props);
    while (pair) {
        const char *prop = nvpair_name(pair);
        int rc = owner_quota_parse(prop, nvlist_string_or(props, prop, ""), &out[*n]);
        if (rc == -ENOENT) {
            pair = nvlist_after(props, pair);
            continue;
        }
        if (rc != 0)
            return rc;
        ++*n;
        nvlist_remove(props, prop);
        pair = nvlist_first(props);
    }
    return 0;
}

static int set_owner_quotas(struct call *c, const char *name, const struct owner_quota *q, size_t n)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = owner_quota_set(c->s, name, &q[i]);
    return rc || n == 0 ? rc : spa_sync_now(c->s->spa); /* durable, as other properties are */
}

static int set_props(struct call *c, const char *name, const struct nvlist *props)
{
    struct moves *moves = NULL;
    char *warning = NULL;
    int rc = before_change(c, name, nvlist_string_or(props, "mountpoint", NULL),
                           nvlist_string_or(props, "canmount", NULL), &moves);
    if (rc != 0)
        return rc;
    rc = prop_set(dsl_of(c), name, props);
    char why[ERR_TEXT_MAX];
    snprintf(why, sizeof why, "%s", err_text(rc));
    moves_end(moves, rc == 0, &warning);
    put_warning(c, warning);
    CLEANUP_NVLIST struct nvlist *encoded = NULL;
    if (rc == 0 && prop_encode(props, &encoded) == 0)
        warn_of_kept(c, encoded);
    return rc ? err_set(-rc, "%s", why) : 0;
}

/* Nothing is set or unmounted if one of the values cannot be. */
static int op_set(struct call *c)
{
    CLEANUP_NVLIST struct nvlist *props = NULL;
    CLEANUP_FREE struct owner_quota *quotas = NULL;
    const char *name;
    size_t n = 0;
    int rc = need_name(c, &name);
    if (rc == 0)
        rc = props_list(c, &props);
    if (rc == 0 && nvlist_count(props) == 0)
        rc = err_set(EINVAL, "no property is named");
    if (rc == 0)
        rc = permission_need_props(c, name, props);
    if (rc == 0)
        rc = (quotas = calloc(nvlist_count(props) + 1, sizeof *quotas)) ? 0 : -ENOMEM;
    if (rc == 0)
        rc = take_owner_quotas(props, quotas, &n);
    if (rc == 0 && nvlist_count(props) > 0)
        rc = prop_set_check(dsl_of(c), name, props);
    if (rc == 0)
        rc = set_owner_quotas(c, name, quotas, n);
    return rc || nvlist_count(props) == 0 ? rc : set_props(c, name, props);
}

static int inherit_one(struct call *c, const char *name, const char *prop, char **warning)
{
    struct moves *moves = NULL;
    bool place = strcmp(prop, "mountpoint") == 0;
    int rc = before_change(c, name, place ? "" : NULL, NULL, &moves);
    if (rc != 0)
        return rc;
    rc = prop_inherit(dsl_of(c), name, prop, json_flag(c->args, "received"));
    moves_end(moves, rc == 0, warning);
    return rc;
}

static int op_inherit(struct call *c)
{
    struct names l = {0};
    char *warning = NULL;
    const char *name, *prop = json_text(c->args, "prop", NULL);
    int rc = need_name(c, &name);
    if (rc == 0 && !prop)
        rc = err_set(EINVAL, "no property is named");
    if (rc == 0)
        rc = dataset_each(dsl_of(c), name, json_flag(c->args, "recursive") ? -1 : 0, false,
                          names_collect, &l);
    for (size_t i = 0; i < l.n && rc == 0; i++)
        rc = permission_need_prop(c, l.name[i], prop);
    for (size_t i = 0; i < l.n && rc == 0; i++)
        rc = inherit_one(c, l.name[i], prop, &warning);
    names_free(&l);
    put_warning(c, warning);
    return rc;
}

/* ---- snapshot ---- */

struct snapping {
    const char *snap; /* behind the '@' */
    struct names list;
};

static int add_snapshot(void *arg, struct dataset *ds)
{
    struct snapping *s = arg;
    int rc = names_collect(&s->list, ds);
    if (rc != 0)
        return rc;
    char *name = s->list.name[s->list.n - 1];
    size_t n = strlen(name);
    if (n + strlen(s->snap) + 2 > DATASET_NAME_MAX)
        return err_set(ENAMETOOLONG, "cannot create snapshot '%s@%s': name is too long", name,
                       s->snap);
    snprintf(name + n, DATASET_NAME_MAX - n, "@%s", s->snap);
    return 0;
}

/* One name, or with "recursive" those of all descendants, without repeats. */
static int expand(struct call *c, const char *name, struct snapping *s)
{
    char head[DATASET_NAME_MAX];
    const char *at = strchr(name, '@');
    if (!at)
        return err_set(EINVAL, "missing '@' delimiter in snapshot name");
    for (size_t i = 0; i < s->list.n; i++)
        if (strcmp(s->list.name[i], name) == 0)
            return 0;
    int rc = dataset_name_check(name);
    if (rc != 0)
        return err_set(-rc, "cannot create snapshot '%s': %s", name, err_text(rc));
    snprintf(head, sizeof head, "%.*s", (int)(at - name), name);
    s->snap = at + 1;
    rc = permission_need(c, head, "snapshot"); /* of the first before the others are looked for */
    if (rc != 0)
        return rc;
    rc = dataset_each(dsl_of(c), head, json_flag(c->args, "recursive") ? -1 : 0, false,
                      add_snapshot, s);
    return rc == -ENOENT ? err_set(ENOENT, "cannot open '%s': dataset does not exist", head) : rc;
}

/* Those that exist already, each with its sentence. */
static int existing(struct call *c, const struct names *l)
{
    char text[3500] = "";
    size_t used = 0;
    for (size_t i = 0; i < l->n && used < sizeof text - 400; i++)
        if (exists(c, l->name[i]))
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "%scannot create snapshot '%s': dataset already exists",
                                     used ? "\n" : "", l->name[i]);
    if (used == 0)
        return 0;
    return err_set(EEXIST, "%s%s", text, l->n > 1 ? "\nno snapshots were created" : "");
}

static int take_snapshots(struct call *c, const struct names *l, const struct nvlist *props)
{
    CLEANUP_FREE const char **list = calloc(l->n, sizeof *list);
    int rc = list ? existing(c, l) : -ENOMEM;
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < l->n; i++)
        list[i] = l->name[i];
    rc = dataset_snapshot(dsl_of(c), list, l->n, props, c->uid);
    if (rc == -EXDEV)
        rc = err_set(EXDEV, "cannot create snapshots : multiple snapshots of same fs not allowed\n"
                            "no snapshots were created");
    else if (rc != 0 && strncmp(err_text(rc), "cannot create snapshot", 22) != 0)
        rc = err_set(-rc, "cannot create snapshot '%s': %s", l->name[0], err_text(rc));
    return rc;
}

static int op_snapshot(struct call *c)
{
    CLEANUP_NVLIST struct nvlist *props = NULL, *encoded = NULL;
    struct json_object *names = json_array(c->args, "names");
    struct snapping s = {0};
    int rc = json_count(names) ? props_list(c, &props) : err_set(EINVAL, "no snapshot is named");
    for (const struct nvpair *p = rc == 0 ? nvlist_first(props) : NULL; p;
         p = nvlist_after(props, p))
        if (!prop_user_name(nvpair_name(p)))
            return err_set(EINVAL,
                           "cannot create snapshots : this property can not be modified for "
                           "snapshots");
    for (size_t i = 0; i < json_count(names) && rc == 0; i++)
        rc = expand(c, json_item(names, i), &s);
    if (rc == 0)
        rc = permission_need_all(c, &s.list, "snapshot");
    for (size_t i = 0; i < s.list.n && rc == 0; i++)
        rc = permission_need_props(c, s.list.name[i], props);
    if (rc == 0)
        rc = prop_encode(props, &encoded);
    if (rc == 0)
        rc = take_snapshots(c, &s.list, encoded);
    if (rc == 0) {
        struct nvlist *in = call_names("snaps", &s.list);
        if (in)
            (void)nvlist_add_nvlist(in, "props", props);
        call_note(c, "snapshot", in, NULL);
    }
    if (rc == 0)
        mounts_snapshots_changed(c->s);
    names_free(&s.list);
    return rc;
}

const struct operation zfs_operations[] = {
    {"zfs.list", OP_READ, op_zfs_list},
    {"zfs.allow", OP_DELEGATED, op_zfs_allow},
    {"zfs.unallow", OP_DELEGATED, op_zfs_unallow},
    {"zfs.allowed", OP_READ, op_zfs_allowed},
    {"zfs.create", OP_DELEGATED, op_create},
    {"zfs.destroy", OP_DELEGATED, op_zfs_destroy},
    {"zfs.set", OP_DELEGATED, op_set},
    {"zfs.inherit", OP_DELEGATED, op_inherit},
    {"zfs.snapshot", OP_DELEGATED, op_snapshot},
    {"zfs.owners", OP_READ, op_zfs_owners},
    {"zfs.clone", OP_DELEGATED, op_zfs_clone},
    {"zfs.promote", OP_DELEGATED, op_zfs_promote},
    {"zfs.rename", OP_DELEGATED, op_zfs_rename},
    {"zfs.rollback", OP_DELEGATED, op_zfs_rollback},
    {"zfs.hold", OP_DELEGATED, op_zfs_hold},
    {"zfs.release", OP_DELEGATED, op_zfs_release},
    {"zfs.holds", OP_READ, op_zfs_holds},
    {"zfs.bookmark", OP_DELEGATED, op_zfs_bookmark},
    {"zfs.diff", OP_DELEGATED | OP_BESIDE, op_zfs_diff},
    {NULL, 0, NULL},
};
