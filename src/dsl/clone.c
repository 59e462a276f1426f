/* Cloning a snapshot (spec 04 9.5). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/deleg_impl.h"
#include "dsl/dsl_impl.h"
#include "dsl/props_impl.h"
#include "util/err.h"

struct clone {
    const char *origin, *name;
    const struct nvlist *props;
    uint32_t uid;
};

static int check_origin(struct dataset *origin)
{
    struct objset *os;
    uint64_t key;
    int rc;

    if (!ds_is_snapshot(origin))
        return err_set(EINVAL, "not a snapshot");
    if (dir_zap_get(origin->dir, KEY_CRYPTO, &key) == 0)
        return err_set(ENOTSUP, "the snapshot is encrypted, and this version cannot clone it");
    if (ds_zap_get(origin, KEY_REMAP, &key) == 0)
        return err_set(ENOTSUP, "the pool has removed devices, which this version cannot keep track of");
    rc = ds_objset(origin, &os); /* readable: the clone's must be, when it is made */
    return rc ? rc : deadlist_check(origin->dsl, origin->w[DS_DEADLIST]);
}

static int clone_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct clone *c = arg;
    CLEANUP_DS struct dataset *parent = NULL, *origin = NULL;
    const char *last;
    int rc = ds_hold_parent(dsl, c->name, &parent, &last);

    if (rc == 0)
        rc = ds_create_check(parent, last, c->uid);
    if (rc == 0)
        rc = ds_hold_name(dsl, c->origin, &origin);
    if (rc == 0)
        rc = check_origin(origin);
    return rc || !c->props ? rc : prop_apply_check(dsl, NULL, c->props);
}

static int clone_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct clone *c = arg;
    CLEANUP_DS struct dataset *parent = NULL, *origin = NULL, *ds = NULL;
    const char *last;
    uint64_t dir, object;
    int rc = ds_hold_parent(dsl, c->name, &parent, &last);

    if (rc == 0)
        rc = ds_hold_name(dsl, c->origin, &origin);
    if (rc == 0)
        rc = dir_create(dsl, parent->dir, last, tx, &dir);
    if (rc == 0)
        rc = ds_create(dsl, dir, origin, tx, &object);
    if (rc == 0)
        rc = ds_hold(dsl, object, &ds);
    if (rc == 0)
        dsl_event(dsl, "clone", ds, tx, "origin=%s (%llu)", c->origin, (unsigned long long)origin->object);
    if (rc == 0)
        rc = ds_create_counts(ds->dir, tx);
    if (rc == 0 && c->props)
        rc = prop_apply(ds, c->props, tx);
    if (rc == 0)
        rc = ds_zil_clear(ds, tx);
    if (rc == 0)
        rc = deleg_give_maker(ds->dir, c->uid, tx);
    return rc;
}

int dataset_clone(struct dsl *dsl, const char *origin, const char *name, const struct nvlist *props,
                  uint32_t uid)
{
    struct clone c = {origin, name, props, uid};
    int rc = ds_new_name_check(name);

    if (rc == 0)
        rc = dataset_name_check(origin);
    if (rc == 0 && !strchr(origin, '@'))
        rc = err_set(EINVAL, "not a snapshot");
    return rc ? rc : dsl_task_blocks(dsl, clone_check, clone_sync, &c, DSL_SPACE_NORMAL, 8);
}
