/*
 * Has somebody a permission on a dataset? He has if it was given to him, one of his groups or everyone,
 * on the dataset itself or for the descendants of one above it. What was given may be a set; what a set
 * means is looked up where it was given and from there upwards, the nearest definition counts, and may
 * name further sets.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/deleg_impl.h"
#include "util/bytes.h"

#define SETS_MAX 1024 /* of a caller: more are damage or an attack */

struct access {
    const char *perm;
    const struct deleg_caller *who;
    struct deleg_perms sets; /* given to him so far, or parts of these */
    bool defined[SETS_MAX];  /* of them: its meaning was found */
};

/* Is the permission among those of a key? 1 or 0, or an error. */
static int under_key(struct dir *d, const char *key, const char *perm)
{
    struct objset *mos = d->dsl->mos;
    uint64_t perms, ignored;
    int rc = zap_get_u64(mos, d->w[DIR_DELEG], key, &perms);

    if (rc == 0)
        rc = zap_get_u64(mos, perms, perm, &ignored);
    return rc == 0 ? 1 : rc == -ENOENT ? 0 : rc;
}

static bool has_set(const struct deleg_perms *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->name[i], name) == 0)
            return true;
    return false;
}

/* The sets under a key, each once. */
static int add_sets(struct dir *d, const char *key, struct access *a)
{
    struct deleg_perms more = {0};
    int rc = deleg_perms_load(d, key, &more);

    for (size_t i = 0; i < more.n && rc == 0; i++)
        if (!has_set(&a->sets, more.name[i]))
            rc = a->sets.n < SETS_MAX ? deleg_perms_add(&a->sets, more.name[i]) : -EPERM;
    free(more.name);
    return rc;
}

/* As user, as one of a group (i counts them), as anybody. */
static int given(struct dir *d, char scope, char kind, const char *id, struct access *a)
{
    char key[DELEG_WHO_MAX + 4];
    int rc;

    snprintf(key, sizeof key, "%c%c$%s", kind, scope, id);
    rc = under_key(d, key, a->perm);
    if (rc != 0)
        return rc;
    key[0] = (char)(kind - 'a' + 'A');
    return add_sets(d, key, a);
}

static int given_in(struct dir *d, char scope, struct access *a)
{
    char id[16];
    int rc;

    snprintf(id, sizeof id, "%u", a->who->uid);
    rc = given(d, scope, 'u', id, a);
    for (size_t i = 0; i < a->who->ngids && rc == 0; i++) {
        snprintf(id, sizeof id, "%u", a->who->gids[i]);
        rc = given(d, scope, 'g', id, a);
    }
    return rc ? rc : given(d, scope, 'e', "", a);
}

static int one_meant_in(struct dir *d, struct access *a, size_t i)
{
    char key[DELEG_WHO_MAX + 8];
    uint64_t perms;
    int rc = 0;

    for (int sets = 0; sets < 2 && rc == 0; sets++) {
        snprintf(key, sizeof key, "%c-$%s", sets ? 'S' : 's', a->sets.name[i]);
        rc = zap_get_u64(d->dsl->mos, d->w[DIR_DELEG], key, &perms);
        if (rc == 0) {
            a->defined[i] = true;
            rc = sets ? add_sets(d, key, a) : under_key(d, key, a->perm);
        } else if (rc == -ENOENT) {
            rc = 0; /* any other error must not let a farther definition count */
        }
    }
    return rc;
}

/* The list grows while it is walked. */
static int meant_in(struct dir *d, struct access *a)
{
    int rc = 0;

    for (size_t i = 0; i < a->sets.n && rc == 0; i++)
        rc = a->defined[i] ? 0 : one_meant_in(d, a, i);
    return rc;
}

int deleg_access(struct dsl *dsl, const char *name, const char *perm, const struct deleg_caller *who)
{
    DSL_READ_GUARD(dsl);
    CLEANUP_DS struct dataset *ds = NULL;
    struct access a = {.perm = perm, .who = who};
    char head[DATASET_NAME_MAX];
    int rc;

    snprintf(head, sizeof head, "%.*s", (int)strcspn(name, "@#"), name);
    rc = ds_hold_name(dsl, head, &ds);
    if (rc != 0)
        return rc;
    for (struct dir *d = ds->dir; d && rc == 0; d = d->parent) {
        if (d->w[DIR_DELEG] == 0)
            continue;
        rc = given_in(d, d == ds->dir ? 'l' : 'd', &a);
        if (rc == 0)
            rc = meant_in(d, &a);
    }
    free(a.sets.name);
    return rc > 0 ? 0 : rc == 0 ? -EPERM : rc;
}

bool deleg_permission_known(const char *perm)
{
    static const char *const others[] = {
        "allow",      "bookmark",   "change-key",      "clone",          "create",         "destroy",
        "diff",       "hold",       "load-key",        "mount",          "promote",        "receive",
        "release",    "rename",     "rollback",        "send",           "share",          "snapshot",
        "send:raw",   "send:encrypted", "receive:append",
        "userprop",   "userquota",  "userused",        "userobjquota",   "userobjused",
        "groupquota", "groupused",  "groupobjquota",   "groupobjused",
        "projectquota", "projectused", "projectobjquota", "projectobjused"};
    const struct prop_info *p = prop_info(perm);

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (strcmp(others[i], perm) == 0)
            return true;
    return p && strcmp(p->name, perm) == 0 &&
           (!(p->flags & PROP_READONLY) || (p->flags & PROP_ONETIME));
}
