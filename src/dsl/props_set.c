/* Setting and inheriting properties: from text to a task. What a value does besides being stored is in
 * props_apply.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "dsl/props_impl.h"
#include "nvlist/nvlist.h"
#include "util/cleanup.h"
#include "util/err.h"

/* ---- Text to stored values ---- */

static int encode_one(const char *name, const char *value, bool creating, struct nvlist *out)
{
    const struct prop_info *p = prop_info(name);
    uint64_t number;
    int rc;

    if (!p) {
        if (!prop_user_name(name))
            return err_set(EINVAL, "invalid property '%s'", name);
        if (strlen(value) >= PROP_VALUE_MAX)
            return err_set(E2BIG, "property value too long");
        return nvlist_add_string(out, name, value);
    }
    if ((p->flags & PROP_READONLY) || (!creating && (p->flags & PROP_ONETIME)))
        return err_set(EINVAL, "'%s' is readonly", p->name);
    rc = prop_parse(p, value, &number);
    if (rc != 0)
        return rc;
    return p->kind == PROP_STRING ? nvlist_add_string(out, p->name, value)
                                  : nvlist_add_uint64(out, p->name, number);
}

static int encode(const struct nvlist *text, bool creating, struct nvlist **out)
{
    struct nvlist *list = nvlist_new();
    int rc = list ? 0 : -ENOMEM;

    for (const struct nvpair *p = nvlist_first(text); p && rc == 0; p = nvlist_after(text, p)) {
        if (nvpair_type(p) != NV_STRING)
            rc = err_set(EINVAL, "property '%s' must be given as text", nvpair_name(p));
        else
            rc = encode_one(nvpair_name(p), nvpair_string(p, 0), creating, list);
    }
    if (rc != 0) {
        nvlist_free(list);
        return rc;
    }
    *out = list;
    return 0;
}

int prop_encode(const struct nvlist *text, struct nvlist **out)
{
    return encode(text, true, out);
}

/* ---- After a change ---- */

static bool at_or_below(const struct dir *d, const struct dir *top)
{
    for (; d; d = d->parent)
        if (d == top)
            return true;
    return false;
}

/* Holds on all datasets in memory at or below a directory. */
static struct dataset **hold_open(struct dsl *dsl, const struct dir *top, size_t *n)
{
    MUTEX_GUARD(&dsl->cache_lock);
    struct dataset **list = calloc(dsl->datasets.count + 1, sizeof *list);

    *n = 0;
    for (size_t i = 0; list && i <= dsl->datasets.mask; i++) {
        for (struct hashmap_node *node = dsl->datasets.slots[i]; node; node = node->next) {
            struct dataset *ds = container_of(node, struct dataset, node);

            if (!at_or_below(ds->dir, top))
                continue;
            ds->refs++;
            list[(*n)++] = ds;
        }
    }
    return list;
}

static void rele_all(struct dataset **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ds_rele(list[i]);
    free(list);
}

void prop_refresh(struct dsl *dsl, struct dir *d)
{
    size_t n;
    struct dataset **list = hold_open(dsl, d, &n);

    for (size_t i = 0; i < n; i++) {
        struct objset_props props;

        if (!list[i]->os || ds_is_snapshot(list[i]))
            continue;
        prop_objset(list[i]->dir, &props);
        objset_set_props(list[i]->os, &props);
    }
    rele_all(list, n);
}

void prop_on_change(struct dsl *dsl, prop_changed_fn *fn, void *arg)
{
    dsl->changed_arg = arg;
    dsl->changed = fn;
}

/* Tells who listens about a property of a dataset and all in memory below it. */
static void notify(struct dsl *dsl, const char *dataset, const char *name)
{
    struct dataset **list, *top;
    size_t n;

    if (!dsl->changed || dataset_hold(dsl, dataset, &top) != 0)
        return;
    list = hold_open(dsl, top->dir, &n);
    for (size_t i = 0; i < n; i++)
        dsl->changed(dsl->changed_arg, list[i], name);
    rele_all(list, n);
    dataset_rele(top);
}

/* ---- zfs set ---- */

struct set {
    const char *dataset;
    const struct nvlist *values;
};

static int set_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct set *s = arg;
    CLEANUP_DS struct dataset *ds = NULL;
    int rc = ds_hold_name(dsl, s->dataset, &ds);

    return rc ? rc : prop_apply_check(dsl, ds, s->values);
}

static int set_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct set *s = arg;
    CLEANUP_DS struct dataset *ds = NULL;
    int rc = ds_hold_name(dsl, s->dataset, &ds);

    if (rc == 0)
        rc = prop_apply(ds, s->values, tx);
    if (rc == 0)
        prop_refresh(dsl, ds->dir);
    return rc;
}

static bool sets_quota(const struct nvlist *values)
{
    return nvlist_exists(values, "quota") || nvlist_exists(values, "reservation") ||
           nvlist_exists(values, "refquota") || nvlist_exists(values, "refreservation");
}

int prop_set_check(struct dsl *dsl, const char *dataset, const struct nvlist *values)
{
    DSL_READ_GUARD(dsl);
    CLEANUP_NVLIST struct nvlist *encoded = NULL;
    int rc = encode(values, false, &encoded);

    return rc ? rc : set_check(dsl, &(struct set){.dataset = dataset, .values = encoded}, NULL);
}

int prop_set(struct dsl *dsl, const char *dataset, const struct nvlist *values)
{
    CLEANUP_NVLIST struct nvlist *encoded = NULL;
    struct set s = {.dataset = dataset};
    int rc = encode(values, false, &encoded);

    if (rc != 0)
        return rc;
    s.values = encoded;
    rc = dsl_task_blocks(dsl, set_check, set_sync, &s,
                         sets_quota(encoded) ? DSL_SPACE_EXTRA : DSL_SPACE_RESERVED, 1);
    for (const struct nvpair *p = nvlist_first(encoded); p && rc == 0; p = nvlist_after(encoded, p))
        notify(dsl, dataset, nvpair_name(p));
    return rc;
}

/* ---- zfs inherit ---- */

struct inherit {
    const char *dataset, *name;
    bool received;
};

static int inherit_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct inherit *i = arg;
    const struct prop_info *p = prop_info(i->name);
    CLEANUP_DS struct dataset *ds = NULL;
    int rc = ds_hold_name(dsl, i->dataset, &ds);

    if (rc != 0 || !p)
        return rc;
    if (ds_is_snapshot(ds) && !(p->flags & PROP_SNAPSHOT))
        return err_set(EINVAL, "property doesn't apply to datasets of this type");
    return 0;
}

static int inherit_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct inherit *i = arg;
    CLEANUP_DS struct dataset *ds = NULL;
    int rc = ds_hold_name(dsl, i->dataset, &ds);

    if (rc == 0)
        rc = prop_clear(ds, i->name, i->received, tx);
    if (rc == 0)
        prop_refresh(dsl, ds->dir);
    return rc;
}

int prop_inherit(struct dsl *dsl, const char *dataset, const char *name, bool received)
{
    const struct prop_info *p = prop_info(name);
    struct inherit i = {dataset, p ? p->name : name, received};
    int rc;

    if (!p && !prop_user_name(name))
        return err_set(EINVAL, "invalid property '%s'", name);
    if (p && (p->flags & (PROP_READONLY | PROP_ONETIME)))
        return err_set(EINVAL, "'%s' property cannot be inherited", p->name);
    if (p && !(p->flags & PROP_INHERIT) && !received)
        return err_set(EINVAL, "'%s' property cannot be inherited\nuse 'zfs set %s=none' to clear\n"
                       "use 'zfs inherit -S %s' to revert to received value", p->name, p->name, p->name);
    rc = dsl_task_blocks(dsl, inherit_check, inherit_sync, &i, DSL_SPACE_RESERVED, 1);
    if (rc == 0)
        notify(dsl, dataset, i.name);
    return rc;
}
