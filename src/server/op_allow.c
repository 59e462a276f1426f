/* zfs.allow, zfs.unallow, zfs.allowed */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/deleg.h"
#include "dsl/dsl.h"
#include "server/names_impl.h"
#include "server/op_zfs_impl.h"
#include "server/permissions_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define SET_MAX 64 /* letters of a set's name, with the '@' */

static const struct {
    const char *word;
    char kind;
} kinds[] = {{"user", 'u'}, {"group", 'g'}, {"everyone", 'e'}, {"create", 'c'}, {"set", 's'}};

/* ---- What is asked ---- */

struct wanted {
    struct deleg *list;
    size_t n, cap;
};

static void wanted_free(struct wanted *w)
{
    free(w->list);
}

static int add(struct wanted *w, char kind, char scope, const char *who, const char *perm)
{
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 32;
        struct deleg *more = realloc(w->list, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        w->list = more;
        w->cap = cap;
    }
    struct deleg *d = &w->list[w->n++];
    *d = (struct deleg){.kind = kind, .scope = scope};
    snprintf(d->who, sizeof d->who, "%s", who);
    snprintf(d->perm, sizeof d->perm, "%s", perm);
    return 0;
}

static int check_set_name(const char *name)
{
    if (name[0] != '@')
        return err_set(EINVAL, "invalid set name: missing '@' prefix");
    if (strlen(name) > SET_MAX)
        return err_set(ENAMETOOLONG, "invalid set name '%s': name is too long", name);
    for (const char *p = name + 1; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.: ", *p))
            return err_set(EINVAL, "invalid set name '%s': invalid character '%c'", name, *p);
    return name[1] ? 0 : err_set(EINVAL, "invalid set name '@'");
}

static int check_who(char kind, const char *who)
{
    size_t n = strlen(who);
    if (kind == 's')
        return check_set_name(who);
    if (kind == 'u' || kind == 'g')
        return n > 0 && n <= 10 && strspn(who, "0123456789") == n ? 0 : -EINVAL;
    return n == 0 ? 0 : -EINVAL;
}

static int add_scope(struct call *c, struct wanted *w, char kind, const char *who, char scope)
{
    struct json_object *perms = json_array(c->args, "perms");
    int rc = json_count(perms) == 0 ? add(w, kind, scope, who, "") : 0;
    for (int sets = 0; sets < 2; sets++) /* permissions before sets: so the history has them */
        for (size_t i = 0; i < json_count(perms) && rc == 0; i++) {
            const char *perm = json_item(perms, i);
            if ((perm[0] == '@') != sets)
                continue;
            if (sets)
                rc = check_set_name(perm);
            else if (!deleg_permission_known(perm))
                rc = err_set(EINVAL, "'%s' is not a permission", perm);
            if (rc == 0)
                rc = add(w, kind, scope, who, perm);
        }
    return rc;
}

static int add_wanted(struct call *c, struct wanted *w, struct json_object *to)
{
    const char *word = json_text(to, "kind", ""), *who = json_text(to, "who", "");
    bool local = json_flag(c->args, "local"), below = json_flag(c->args, "descendents");
    char kind = 0;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].word, word) == 0)
            kind = kinds[i].kind;
    int rc = kind ? check_who(kind, who) : -EINVAL;
    if (rc != 0)
        return rc == -EINVAL && kind != 's' ? err_set(EINVAL, "no such user or group") : rc;
    if (kind == 'c' || kind == 's')
        return add_scope(c, w, kind, who, '-');
    if (local || !below)
        rc = add_scope(c, w, kind, who, 'l');
    if (rc == 0 && (below || !local))
        rc = add_scope(c, w, kind, who, 'd');
    return rc;
}

/* Who takes something away must be the one who has it. */
static int may_remove(struct call *c, const char *name, const struct wanted *w)
{
    char own[16];
    int rc = permission_need(c, name, "allow");
    snprintf(own, sizeof own, "%u", c->uid);
    for (size_t i = 0; i < w->n && rc == 0 && !c->trusted; i++)
        if (w->list[i].kind != 'u' || strcmp(w->list[i].who, own) != 0)
            rc = err_set(EPERM, "permission denied");
    return rc;
}

/* Who gives something must have it himself, and may not give a set, which may become more later. */
static int may_delegate(struct call *c, const char *name, const struct wanted *w)
{
    int rc = permission_need(c, name, "allow");
    for (size_t i = 0; i < w->n && rc == 0 && !c->trusted; i++) {
        const struct deleg *d = &w->list[i];
        if (d->perm[0] == '@')
            rc = err_set(EPERM, "permission denied");
        else
            rc = permission_need(c, name, d->perm);
    }
    return rc;
}

static int change(struct call *c, bool remove)
{
    CLEANUP(wanted_free) struct wanted w = {0};
    CLEANUP(names_free) struct names l = {0};
    struct json_object *to = json_array(c->args, "to");
    const char *name;
    int rc = need_name(c, &name);
    if (rc == 0 && strpbrk(name, "@#"))
        rc = err_set(EINVAL, "operation not applicable to datasets of this type");
    if (rc == 0 && (json_count(to) == 0 || (!remove && !json_count(json_array(c->args, "perms")))))
        rc = err_set(EINVAL, "nothing is to be changed");
    for (size_t i = 0; i < json_count(to) && rc == 0; i++)
        rc = add_wanted(c, &w, json_object_array_get_idx(to, i));
    if (rc == 0)
        rc = dataset_each(spa_dsl(c->s->spa), name, json_flag(c->args, "recursive") ? -1 : 0,
                          false, names_collect, &l);
    for (size_t i = 0; i < l.n && rc == 0; i++)
        rc = remove ? may_remove(c, l.name[i], &w) : may_delegate(c, l.name[i], &w);
    for (size_t i = 0; i < l.n && rc == 0; i++)
        rc = deleg_change(spa_dsl(c->s->spa), l.name[i], remove, w.list, w.n);
    return rc;
}

int op_zfs_allow(struct call *c)
{
    return change(c, false);
}

int op_zfs_unallow(struct call *c)
{
    return change(c, true);
}

/* ---- What there is ---- */

static int allowed_row(void *arg, const char *from, const struct deleg *d)
{
    struct json_object *row = json_object_new_object();
    const char *word = "?";
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].kind == d->kind)
            word = kinds[i].word;
    put_text(row, "name", from);
    put_text(row, "kind", word);
    put_text(row, "scope", d->scope == 'l' ? "local" : d->scope == 'd' ? "descendents" : "");
    put_text(row, "who", d->who);
    put_text(row, "perm", d->perm);
    return call_row(arg, row);
}

int op_zfs_allowed(struct call *c)
{
    const char *name;
    int rc = need_name(c, &name);
    if (rc == 0 && strpbrk(name, "@#"))
        rc = err_set(EINVAL, "%s delimiter '%c' is not expected here",
                     strpbrk(name, "@#")[0] == '@' ? "snapshot" : "bookmark",
                     strpbrk(name, "@#")[0]);
    return rc ? rc : deleg_each(spa_dsl(c->s->spa), name, allowed_row, c);
}
