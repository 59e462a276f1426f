/* Users, groups and projects: zfs.owners, and the properties userquota@NAME, userused@NAME ... */
#include <errno.h>
#include <grp.h>
#include <json-c/json.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "dsl/props.h"
#include "fs/fs.h"
#include "server/owners_impl.h"
#include "server/permissions_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/bytes.h"
#include "util/err.h"

static const char *const kinds[] = {
    [FS_USER] = "user", [FS_GROUP] = "group", [FS_PROJECT] = "project"};

/* ---- Names ---- */

bool owner_property_parse(const char *name, struct owner_property *out)
{
    static const struct {
        const char *word;
        bool quota, objects;
    } words[] = {{"quota@", true, false},
                 {"used@", false, false},
                 {"objquota@", true, true},
                 {"objused@", false, true}};
    for (int k = FS_USER; k <= FS_PROJECT; k++) {
        size_t n = strlen(kinds[k]);
        if (strncmp(name, kinds[k], n) != 0)
            continue;
        for (size_t i = 0; i < ARRAY_LEN(words); i++) {
            size_t m = strlen(words[i].word);
            if (strncmp(name + n, words[i].word, m) != 0)
                continue;
            *out = (struct owner_property){k, words[i].quota, words[i].objects, name + n + m};
            return true;
        }
    }
    return false;
}

static bool number(const char *text, uint64_t *id)
{
    char *end;
    errno = 0;
    *id = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == 0 && errno == 0 && *id < UINT32_MAX;
}

static int find_id(const struct owner_property *p, uint64_t *id)
{
    char buf[4096];
    struct passwd pw, *user = NULL;
    struct group gr, *group = NULL;
    if (number(p->who, id))
        return 0;
    if (p->kind == FS_USER && getpwnam_r(p->who, &pw, buf, sizeof buf, &user) == 0 && user)
        return *id = user->pw_uid, 0;
    if (p->kind == FS_GROUP && getgrnam_r(p->who, &gr, buf, sizeof buf, &group) == 0 && group)
        return *id = group->gr_gid, 0;
    return err_set(EINVAL, "invalid %s '%s'", kinds[p->kind], p->who);
}

static void put_owner_name(struct json_object *row, int kind, uint64_t id)
{
    char buf[4096], text[24];
    struct passwd pw, *user = NULL;
    struct group gr, *group = NULL;
    snprintf(text, sizeof text, "%llu", (unsigned long long)id);
    if (kind == FS_USER && getpwuid_r((uid_t)id, &pw, buf, sizeof buf, &user) == 0 && user)
        put_text(row, "name", user->pw_name);
    else if (kind == FS_GROUP && getgrgid_r((gid_t)id, &gr, buf, sizeof buf, &group) == 0 && group)
        put_text(row, "name", group->gr_name);
    else
        put_text(row, "name", text);
    put_text(row, "id", text);
}

/* ---- Properties ---- */

int owner_property_get(struct dataset *ds, const struct owner_property *p, uint64_t *value)
{
    struct fs_owner o;
    uint64_t id;
    int rc = find_id(p, &id);
    if (rc == 0)
        rc = fs_owner_get(ds, p->kind, id, &o);
    if (rc != 0)
        return rc;
    if (p->objects)
        *value = p->quota ? o.object_quota : o.objects;
    else
        *value = p->quota ? o.quota : o.used;
    return 0;
}

static bool is_own(const struct call *c, int kind, uint64_t id)
{
    if (kind == FS_USER)
        return id == c->uid;
    for (size_t i = 0; kind == FS_GROUP && i < c->ngroups; i++)
        if (c->groups[i] == id)
            return true;
    return false;
}

bool owner_property_visible(struct call *c, struct dataset *ds, const struct owner_property *p)
{
    char name[DATASET_NAME_MAX], perm[32];
    uint64_t id;
    if (c->trusted || (find_id(p, &id) == 0 && is_own(c, p->kind, id)))
        return true;
    dataset_name(ds, name);
    snprintf(perm, sizeof perm, "%s%s%s", kinds[p->kind], p->objects ? "obj" : "",
             p->quota ? "quota" : "used");
    return permission_need(c, name, perm) == 0;
}

/* Those of all owners. */
static int need_all_owners(struct call *c, const char *name, int kind)
{
    static const char *const what[] = {"used", "quota", "objused", "objquota"};
    char perm[32];
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(what) && rc == 0; i++) {
        snprintf(perm, sizeof perm, "%s%s", kinds[kind], what[i]);
        rc = permission_need(c, name, perm);
    }
    return rc;
}

/* "defaultuserquota" and its like. */
static bool parse_default(const char *name, int *kind, bool *objects)
{
    char text[40];
    for (*kind = FS_USER; *kind <= FS_PROJECT; ++*kind)
        for (int o = 0; o < 2; o++) {
            snprintf(text, sizeof text, "default%s%squota", kinds[*kind], o ? "obj" : "");
            *objects = o;
            if (strcmp(name, text) == 0)
                return true;
        }
    return false;
}

static int parse_limit(const char *text, uint64_t *limit)
{
    *limit = 0;
    return strcmp(text, "none") == 0 ? 0 : prop_parse_size(text, limit);
}

int owner_quota_parse(const char *prop, const char *text, struct owner_quota *out)
{
    struct owner_property p;
    *out = (struct owner_quota){0};
    if (parse_default(prop, &out->kind, &out->objects)) {
        out->is_default = true;
        return parse_limit(text, &out->limit);
    }
    if (!owner_property_parse(prop, &p))
        return -ENOENT;
    if (!p.quota)
        return err_set(EINVAL, "'%s%s@%s' is readonly", kinds[p.kind],
                       p.objects ? "objused" : "used", p.who);
    out->kind = p.kind;
    out->objects = p.objects;
    int rc = find_id(&p, &out->id);
    return rc ? rc : parse_limit(text, &out->limit);
}

int owner_quota_set(struct server *s, const char *name, const struct owner_quota *q)
{
    struct dataset *ds;
    int rc = dataset_hold(spa_dsl(s->spa), name, &ds);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&s->lock);
    struct mount *m = mounts_of(s, ds);
    struct fs *fs = m ? m->fs : NULL;
    rc = q->is_default ? fs_owner_set_default(ds, fs, q->kind, q->objects, q->limit)
                       : fs_owner_set_quota(ds, fs, q->kind, q->objects, q->id, q->limit);
    pthread_mutex_unlock(&s->lock);
    dataset_rele(ds);
    return rc;
}

/* ---- zfs.owners ---- */

struct listing {
    struct call *c;
    int kind;
    uint64_t quota, object_quota; /* of those that have none of their own */
};

static void find_defaults(struct listing *l, struct dataset *ds)
{
    char name[40];
    snprintf(name, sizeof name, "default%squota", kinds[l->kind]);
    l->quota = prop_get_number(ds, name);
    snprintf(name, sizeof name, "default%sobjquota", kinds[l->kind]);
    l->object_quota = prop_get_number(ds, name);
}

static int owner_row(void *arg, const struct fs_owner *o)
{
    static const char *const types[] = {"POSIX User", "POSIX Group", "Project"};
    struct listing *l = arg;
    struct json_object *row = json_object_new_object();
    put_text(row, "type", types[l->kind]);
    put_owner_name(row, l->kind, o->id);
    put_number(row, "used", o->used);
    put_number(row, "quota", o->quota ? o->quota : l->quota);
    put_number(row, "objused", o->objects);
    put_number(row, "objquota",
               o->object_quota ? o->object_quota
               : o->objects    ? l->object_quota
                               : 0);
    return call_row(l->c, row);
}

int op_zfs_owners(struct call *c)
{
    struct listing l = {.c = c, .kind = -1};
    const char *name, *kind = json_text(c->args, "kind", "");
    struct dataset *ds;
    int rc = need_name(c, &name);
    for (int k = FS_USER; k <= FS_PROJECT; k++)
        if (strcmp(kind, kinds[k]) == 0)
            l.kind = k;
    if (rc == 0 && l.kind < 0)
        rc = err_set(EINVAL, "no kind of owner is named");
    if (rc == 0)
        rc = dataset_hold(spa_dsl(c->s->spa), name, &ds);
    if (rc != 0)
        return rc;
    rc = need_all_owners(c, name, l.kind);
    if (rc == 0) {
        find_defaults(&l, ds);
        rc = fs_owner_each(ds, l.kind, owner_row, &l);
    }
    dataset_rele(ds);
    return rc;
}
