/* Making and removing DSL directories, their children, counts and livelists (spec 04 4, 6.6, 9.6, 11.4). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "pool/pool.h"
#include "util/cleanup.h"
#include "util/err.h"

/* ---- Keys of zapified dirs ---- */

int dir_zap_get(struct dir *d, const char *key, uint64_t *value)
{
    *value = 0;
    if (dnode_type(d->dn) != OT_ZAP_METADATA)
        return -ENOENT;
    return zap_lookup(d->dn, key, 8, 1, value);
}

int dir_count(struct dir *d, const char *key, int64_t delta, struct tx *tx)
{
    for (; d; d = d->parent) {
        uint64_t n;
        int rc = dir_zap_get(d, key, &n);

        if (rc == -ENOENT)
            return 0;
        n += (uint64_t)delta;
        if (rc == 0)
            rc = zap_update(d->dn, key, 8, 1, &n, tx);
        if (rc != 0)
            return rc;
    }
    return 0;
}

void dir_changed_snapshots(struct dir *d, struct tx *tx)
{
    struct dsl *dsl = d->dsl;
    uint64_t ns = dsl->pool->env.now_ns(&dsl->pool->env);
    uint64_t now[2] = {ns / 1000000000, ns % 1000000000};
    int rc;

    if (!feature_enabled(dsl, FEATURE_EXTENSIBLE_DATASET))
        return;
    rc = zapify(dsl, d->dn, tx);
    if (rc == 0)
        rc = zap_update(d->dn, KEY_SNAPSHOTS_CHANGED, 8, 2, now, tx);
    if (rc != 0)
        dsl_fail(dsl, rc);
}

int dir_drop_livelist(struct dir *d, struct tx *tx)
{
    uint64_t list;
    int rc = dir_zap_get(d, KEY_LIVELIST, &list);

    if (rc != 0)
        return rc == -ENOENT ? 0 : rc;
    rc = zap_remove(d->dn, KEY_LIVELIST, tx);
    if (rc == 0)
        rc = deadlist_free(d->dsl, list, tx);
    if (rc == 0)
        rc = feature_change(d->dsl, FEATURE_LIVELIST, -1, tx);
    return rc;
}

/* ---- Children ---- */

struct child {
    char *name;
    uint64_t object;
};

static int cmp_child(const void *a, const void *b)
{
    return strcmp(((const struct child *)a)->name, ((const struct child *)b)->name);
}

static void free_children(struct child *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(c[i].name);
    free(c);
}

static int list_children(struct dir *d, bool all, struct child **out, size_t *count)
{
    struct child *list = NULL;
    size_t n = 0, cap = 0;
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc = dnode_hold(d->dsl->mos, d->w[DIR_CHILDREN], &zap);

    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        if (!all && (e.name[0] == '$' || e.name[0] == '%'))
            continue;
        if (n == cap) {
            struct child *grown = realloc(list, (cap = cap ? 2 * cap : 16) * sizeof *list);

            if (!grown) {
                rc = -ENOMEM;
                break;
            }
            list = grown;
        }
        list[n].object = e.first;
        list[n].name = strdup(e.name);
        if (!list[n++].name) {
            rc = -ENOMEM;
            break;
        }
    }
    dnode_rele(zap);
    if (rc != -ENOENT) {
        free_children(list, n);
        return rc;
    }
    *out = list;
    *count = n;
    return 0;
}

int dir_each_child(struct dir *d, bool all, bool sorted, dir_each_fn *fn, void *arg)
{
    struct child *list;
    size_t n;
    int rc = list_children(d, all, &list, &n);

    if (rc != 0)
        return rc;
    if (sorted && n > 1)
        qsort(list, n, sizeof *list, cmp_child);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct dir *child;

        rc = dir_hold_child(d, list[i].name, &child);
        if (rc == -ENOENT)
            rc = 0;
        else if (rc == 0) {
            rc = fn(arg, child);
            dir_rele(child);
        }
    }
    free_children(list, n);
    return rc;
}

/* ---- Making one ---- */

int dir_create(struct dsl *dsl, struct dir *parent, const char *name, struct tx *tx, uint64_t *object)
{
    struct object_params params = {.type = OT_DSL_DIR, .bonus_type = OT_DSL_DIR,
                                   .bonus_len = DIR_WORDS * 8};
    uint64_t w[DIR_WORDS] = {0};
    struct dnode *dn;
    int rc = object_create(dsl->mos, 0, &params, tx, &dn);

    if (rc != 0)
        return rc;
    *object = dnode_object(dn);
    w[DIR_CTIME] = dsl_now(dsl);
    w[DIR_PARENT] = parent ? parent->object : 0;
    w[DIR_FLAGS] = DIR_FLAG_BREAKDOWN;
    rc = zap_create_simple(dsl->mos, OT_DSL_PROPS, 0, tx, &w[DIR_PROPS]);
    if (rc == 0)
        rc = zap_create_simple(dsl->mos, OT_DSL_DIR_CHILD_MAP, 0, tx, &w[DIR_CHILDREN]);
    if (rc == 0)
        rc = dnode_bonus_set(dn, w, sizeof w, OT_DSL_DIR, tx);
    dnode_rele(dn);
    if (rc == 0 && parent)
        rc = zap_add_u64(dsl->mos, parent->w[DIR_CHILDREN], name, *object, tx);
    if (rc == 0 && parent && name[0] != '$')
        rc = dir_count(parent, KEY_FS_COUNT, 1, tx);
    return rc;
}

/* ---- Removing one ---- */

static int destroy_zap(struct dsl *dsl, uint64_t object, struct tx *tx)
{
    return object ? zap_destroy(dsl->mos, object, tx) : 0;
}

/* The delegation ZAP with the ZAPs it points to (04 14). */
static int destroy_deleg(struct dsl *dsl, uint64_t object, struct tx *tx)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc;

    if (object == 0)
        return 0;
    rc = dnode_hold(dsl->mos, object, &zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        rc = destroy_zap(dsl, e.first, tx);
        if (rc != 0)
            break;
    }
    dnode_rele(zap);
    return rc == -ENOENT ? zap_destroy(dsl->mos, object, tx) : rc;
}

/* Takes the reservation out of the parent's books. */
static void clear_reservation(struct dir *d)
{
    int64_t over = (int64_t)(d->w[DIR_RESERVED] - d->w[DIR_USED]);
    struct space s = {.used = -over};

    if (d->parent && d->w[DIR_RESERVED] > d->w[DIR_USED])
        dir_use(d->parent, USED_CHILD_RSRV, &s);
    d->w[DIR_RESERVED] = 0;
}

int dir_destroy(struct dir *d, struct tx *tx)
{
    struct dsl *dsl = d->dsl;
    int rc = dir_count(d->parent, KEY_FS_COUNT, -1, tx);

    clear_reservation(d);
    if (rc == 0)
        rc = destroy_zap(dsl, d->w[DIR_CHILDREN], tx);
    if (rc == 0)
        rc = destroy_zap(dsl, d->w[DIR_PROPS], tx);
    if (rc == 0)
        rc = destroy_zap(dsl, d->w[DIR_CLONES], tx);
    if (rc == 0)
        rc = destroy_deleg(dsl, d->w[DIR_DELEG], tx);
    if (rc == 0)
        rc = zap_del(dsl->mos, d->parent->w[DIR_CHILDREN], d->name, tx);
    if (rc == 0)
        rc = zapified_free(dsl, d->dn, tx);
    if (rc == 0)
        rc = object_free(d->dn, tx);
    dir_forget(d);
    return rc;
}
