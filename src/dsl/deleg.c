/* Storing and listing delegated permissions (spec 04 14). A ZAP per directory has a key for everybody who
 * was given something; its value is another ZAP, whose keys are the permissions. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/deleg_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"

#define KEY_LEN_MAX (DELEG_WHO_MAX + 4)

/* "ul$1000"; in capitals where the second ZAP has names of sets. */
static void make_key(const struct deleg *d, bool sets, char out[KEY_LEN_MAX])
{
    snprintf(out, KEY_LEN_MAX, "%c%c$%s", sets ? toupper(d->kind) : d->kind, d->scope, d->who);
}

static bool parse_key(const char *key, struct deleg *d)
{
    if (strlen(key) < 3 || strlen(key) - 3 >= DELEG_WHO_MAX || key[2] != '$')
        return false;
    *d = (struct deleg){.kind = (char)tolower(key[0]), .scope = key[1]};
    strcpy(d->who, key + 3);
    return strchr("ugecs", d->kind) != NULL;
}

/* ---- Changing ---- */

static int add(struct dir *d, const char *key, const char *perm, struct tx *tx)
{
    struct objset *mos = d->dsl->mos;
    uint64_t perms;
    int rc = 0;

    if (d->w[DIR_DELEG] == 0) {
        rc = zap_create_simple(mos, OT_DSL_PERMS, 0, tx, &d->w[DIR_DELEG]);
        dir_dirty(d);
    }
    if (rc == 0)
        rc = zap_get_u64(mos, d->w[DIR_DELEG], key, &perms);
    if (rc == -ENOENT) {
        rc = zap_create_simple(mos, OT_DSL_PERMS, 0, tx, &perms);
        if (rc == 0)
            rc = zap_add_u64(mos, d->w[DIR_DELEG], key, perms, tx);
    }
    return rc ? rc : zap_set_u64(mos, perms, perm, 0, tx);
}

static int is_empty(struct objset *mos, uint64_t object, bool *empty)
{
    struct dnode *zap;
    uint64_t n;
    int rc = dnode_hold(mos, object, &zap);

    if (rc != 0)
        return rc;
    rc = zap_count(zap, &n);
    dnode_rele(zap);
    *empty = n == 0;
    return rc;
}

/* perm "": all. -ENOENT: there is nothing of it. */
static int take(struct dir *d, const char *key, const char *perm, struct tx *tx)
{
    struct objset *mos = d->dsl->mos;
    uint64_t perms;
    bool empty = true;
    int rc = zap_get_u64(mos, d->w[DIR_DELEG], key, &perms);

    if (rc == 0 && *perm) {
        rc = zap_del(mos, perms, perm, tx);
        if (rc == 0)
            rc = is_empty(mos, perms, &empty);
    }
    if (rc == 0 && empty) {
        rc = zap_destroy(mos, perms, tx);
        if (rc == 0)
            rc = zap_del(mos, d->w[DIR_DELEG], key, tx);
    }
    return rc;
}

struct change {
    const char *name;
    bool remove;
    const struct deleg *list;
    size_t n;
};

static int change_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    const struct change *c = arg;
    CLEANUP_DS struct dataset *ds = NULL;
    int rc = ds_hold_name(dsl, c->name, &ds);

    if (rc == 0 && ds_is_snapshot(ds))
        rc = err_set(EINVAL, "operation not applicable to datasets of this type");
    return rc;
}

static int change_one(struct dataset *ds, bool remove, const struct deleg *p, struct tx *tx)
{
    char key[KEY_LEN_MAX];
    int rc = 0;

    if (remove && ds->dir->w[DIR_DELEG] == 0)
        return 0;
    for (int sets = 0; sets < 2 && rc == 0; sets++) {
        if (*p->perm && (*p->perm == '@') != sets)
            continue;
        make_key(p, sets, key);
        rc = remove ? take(ds->dir, key, p->perm, tx) : add(ds->dir, key, p->perm, tx);
        if (rc == 0 && *p->perm)
            dsl_event(ds->dsl, remove ? "permission remove" : "permission update", ds, tx, "%s %s", key,
                      p->perm);
        else if (!*p->perm)
            dsl_event(ds->dsl, "permission who remove", ds, tx, "%s", key);
        rc = rc == -ENOENT ? 0 : rc;
    }
    return rc;
}

static int change_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    const struct change *c = arg;
    CLEANUP_DS struct dataset *ds = NULL;
    int rc = ds_hold_name(dsl, c->name, &ds);

    for (size_t i = 0; i < c->n && rc == 0; i++)
        rc = change_one(ds, c->remove, &c->list[i], tx);
    return rc;
}

int deleg_change(struct dsl *dsl, const char *dataset, bool remove, const struct deleg *list, size_t n)
{
    struct change c = {dataset, remove, list, n};

    return dsl_task_blocks(dsl, change_check, change_sync, &c, DSL_SPACE_RESERVED,
                           (unsigned)(5 + 3 * n));
}

/* Who makes a dataset gets on it what is delegated to makers at each level above. */
int deleg_give_maker(struct dir *made, uint32_t uid, struct tx *tx)
{
    struct deleg maker = {.kind = 'c', .scope = '-'}, owner = {.kind = 'u', .scope = 'l'};
    char from[KEY_LEN_MAX], to[KEY_LEN_MAX];
    int rc = 0;

    snprintf(owner.who, sizeof owner.who, "%u", uid);
    for (struct dir *d = made->parent; d && rc == 0; d = d->parent)
        for (int sets = 0; sets < 2 && rc == 0; sets++) {
            struct deleg_perms list = {0};

            make_key(&maker, sets, from);
            make_key(&owner, sets, to);
            rc = deleg_perms_load(d, from, &list);
            if (rc == -EIO || rc == -EBADE || rc == -ENOENT) { /* no reason to fail the txg */
                log_warn("what makers of datasets are given cannot be read: %s", err_text(rc));
                rc = 0;
            }
            for (size_t i = 0; i < list.n && rc == 0; i++)
                rc = add(made, to, list.name[i], tx);
            free(list.name);
        }
    return rc;
}

/* ---- Looking ---- */

/* The keys of a ZAP; those that are too long for us are nobody's. */
static int load_keys(struct objset *mos, uint64_t object, struct deleg_perms *l)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc = dnode_hold(mos, object, &zap);

    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0)
        if (strlen(e.name) < sizeof l->name[0] && (rc = deleg_perms_add(l, e.name)) != 0)
            break;
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

int deleg_perms_add(struct deleg_perms *l, const char *name)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        void *more = realloc(l->name, cap * sizeof l->name[0]);

        if (!more)
            return -ENOMEM;
        l->name = more;
        l->cap = cap;
    }
    snprintf(l->name[l->n++], sizeof l->name[0], "%s", name);
    return 0;
}

int deleg_perms_load(struct dir *d, const char *key, struct deleg_perms *l)
{
    uint64_t perms;
    int rc = d->w[DIR_DELEG] ? zap_get_u64(d->dsl->mos, d->w[DIR_DELEG], key, &perms) : -ENOENT;

    if (rc != 0)
        return rc == -ENOENT ? 0 : rc;
    return load_keys(d->dsl->mos, perms, l);
}

struct found {
    struct deleg d;
    char from[DATASET_NAME_MAX];
};

struct all {
    struct found *found;
    size_t n, cap;
};

static void all_free(struct all *a)
{
    free(a->found);
}

static int all_add(struct all *a, const char *from, const struct deleg *d)
{
    if (a->n == a->cap) {
        size_t cap = a->cap ? 2 * a->cap : 16;
        struct found *more = realloc(a->found, cap * sizeof *more);

        if (!more)
            return -ENOMEM;
        a->found = more;
        a->cap = cap;
    }
    a->found[a->n].d = *d;
    snprintf(a->found[a->n++].from, DATASET_NAME_MAX, "%s", from);
    return 0;
}

static int collect_dir(struct dir *d, struct all *a)
{
    struct deleg_perms keys = {0};
    char name[DATASET_NAME_MAX];
    int rc = d->w[DIR_DELEG] ? load_keys(d->dsl->mos, d->w[DIR_DELEG], &keys) : 0;

    dir_name(d, name);
    for (size_t i = 0; i < keys.n && rc == 0; i++) {
        struct deleg_perms perms = {0};
        struct deleg p;

        if (!parse_key(keys.name[i], &p))
            continue;
        rc = deleg_perms_load(d, keys.name[i], &perms);
        for (size_t k = 0; k < perms.n && rc == 0; k++) {
            snprintf(p.perm, sizeof p.perm, "%.*s", (int)sizeof p.perm - 1, perms.name[k]);
            rc = all_add(a, name, &p);
        }
        free(perms.name);
    }
    free(keys.name);
    return rc;
}

static int collect(struct dsl *dsl, const char *dataset, struct all *a)
{
    DSL_READ_GUARD(dsl);
    CLEANUP_DS struct dataset *ds = NULL;
    int rc = ds_hold_name(dsl, dataset, &ds);

    for (struct dir *d = rc == 0 ? ds->dir : NULL; d && rc == 0; d = d->parent)
        rc = collect_dir(d, a);
    return rc;
}

/* fn may wait for its reader, so it is called without the lock. */
int deleg_each(struct dsl *dsl, const char *dataset, deleg_each_fn *fn, void *arg)
{
    CLEANUP(all_free) struct all a = {0};
    int rc = collect(dsl, dataset, &a);

    for (size_t i = 0; i < a.n && rc == 0; i++)
        rc = fn(arg, a.found[i].from, &a.found[i].d);
    return rc;
}
