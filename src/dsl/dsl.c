/* The DSL of a pool: opening, closing, locking, writing back. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "pool/pool.h"
#include "util/err.h"

#define MOS_DIRECTORY 1

dsl_format_fn *dsl_format;

/* ---- The lock ---- */

bool dsl_read_lock(struct dsl *dsl)
{
    if (dsl->has_writer && pthread_equal(dsl->writer, pthread_self()))
        return false;
    pthread_rwlock_rdlock(&dsl->lock);
    return true;
}

void dsl_read_unlock(struct dsl *dsl, bool taken)
{
    if (taken)
        pthread_rwlock_unlock(&dsl->lock);
}

void dsl_write_lock(struct dsl *dsl)
{
    pthread_rwlock_wrlock(&dsl->lock);
    dsl->writer = pthread_self();
    dsl->has_writer = true;
    dsl->error = 0;
}

void dsl_write_unlock(struct dsl *dsl)
{
    dsl->has_writer = false;
    pthread_rwlock_unlock(&dsl->lock);
}

/* ---- Writing back ---- */

void dsl_fail(struct dsl *dsl, int rc)
{
    if (dsl->error == 0)
        dsl->error = rc;
}

static int flush_dir(struct dir *d, struct tx *tx)
{
    d->is_dirty = false;
    return d->dead ? 0 : dnode_bonus_patch(d->dn, 0, d->w, sizeof d->w, tx);
}

static int flush_ds(struct dataset *ds, struct tx *tx)
{
    ds->is_dirty = false;
    return ds->dead ? 0 : dnode_bonus_patch(ds->dn, 0, ds->w, sizeof ds->w, tx);
}

int dsl_flush(struct dsl *dsl, struct tx *tx)
{
    for (struct dir *d; (d = dsl->dirty_dirs);) {
        dsl->dirty_dirs = d->next_dirty;
        dsl_fail(dsl, flush_dir(d, tx));
        dir_rele(d);
    }
    for (struct dataset *ds; (ds = dsl->dirty_datasets);) {
        dsl->dirty_datasets = ds->next_dirty;
        dsl_fail(dsl, flush_ds(ds, tx));
        ds_rele(ds);
    }
    return dsl->error;
}

/* ---- Odds ---- */

uint64_t dsl_random(struct dsl *dsl)
{
    uint64_t n;

    do
        n = dsl->pool->env.random(&dsl->pool->env);
    while (n == 0);
    return n;
}

uint64_t dsl_now(struct dsl *dsl)
{
    return dsl->pool->env.now_ns(&dsl->pool->env) / 1000000000;
}

void dsl_event(struct dsl *dsl, const char *event, const struct dataset *ds, struct tx *tx,
               const char *fmt, ...)
{
    char name[DATASET_NAME_MAX], text[512];
    va_list ap;

    if (!dsl->event)
        return;
    ds_name(ds, name);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dsl->event(dsl->event_arg, event, name, ds->object, text, tx);
}

void dsl_on_event(struct dsl *dsl, dsl_event_fn *fn, void *arg)
{
    dsl->event = fn;
    dsl->event_arg = arg;
}

void dsl_register_format(dsl_format_fn *fn)
{
    dsl_format = fn;
}

struct pool *dsl_pool(const struct dsl *dsl)
{
    return dsl->pool;
}

struct objset *dsl_mos(const struct dsl *dsl)
{
    return dsl->mos;
}

void dsl_set_mos_space(struct dsl *dsl, struct dsl_mos_space *space)
{
    dsl->mos_space = space;
}

/* ---- Opening ---- */

/* What is never going to be written: of a pool that failed, or is in memory. */
static void drop_unsynced(struct dsl *dsl)
{
    for (struct dir *d; (d = dsl->dirty_dirs);) {
        dsl->dirty_dirs = d->next_dirty;
        d->is_dirty = false;
        dir_rele(d);
    }
    for (struct dataset *ds; (ds = dsl->dirty_datasets);) {
        dsl->dirty_datasets = ds->next_dirty;
        ds->is_dirty = false;
        ds_rele(ds);
    }
    for (int i = 0; i < TXG_SLOTS; i++) {
        while (dsl->sync_list[i]) {
            struct dataset *ds = dsl->sync_list[i];

            dsl->sync_list[i] = ds->next_sync[i];
            ds->on_sync[i] = false;
            ds_rele(ds);
        }
    }
}

static void dsl_free(struct dsl *dsl)
{
    drop_unsynced(dsl);
    deadlist_cache_clear(dsl);
    ds_rele(dsl->origin);
    dir_rele(dsl->free_dir);
    dir_rele(dsl->mos_dir);
    dir_rele(dsl->root);
    hashmap_destroy(&dsl->dirs);
    hashmap_destroy(&dsl->datasets);
    pthread_rwlock_destroy(&dsl->lock);
    pthread_mutex_destroy(&dsl->cache_lock);
    pthread_mutex_destroy(&dsl->sync_lock);
    pthread_cond_destroy(&dsl->task_done);
    keystore_fini(&dsl->keys);
    free(dsl);
}

int dsl_new(struct dsl **out, struct pool *pool, struct objset *mos)
{
    struct dsl *dsl = calloc(1, sizeof *dsl);
    int rc = dsl ? 0 : -ENOMEM;

    if (rc != 0)
        return rc;
    dsl->pool = pool;
    dsl->mos = mos;
    dsl->free_limit = FREE_LIMIT;
    pthread_rwlock_init(&dsl->lock, NULL);
    pthread_mutex_init(&dsl->cache_lock, NULL);
    pthread_mutex_init(&dsl->sync_lock, NULL);
    pthread_cond_init(&dsl->task_done, NULL);
    keystore_init(&dsl->keys);
    rc = hashmap_init(&dsl->dirs, 64);
    if (rc == 0)
        rc = hashmap_init(&dsl->datasets, 64);
    if (rc != 0) {
        dsl_free(dsl);
        return rc;
    }
    *out = dsl;
    return 0;
}

void dsl_close(struct dsl *dsl)
{
    if (dsl)
        dsl_free(dsl);
}

static int required(struct dsl *dsl, const char *key, uint64_t *object)
{
    int rc = zap_get_u64(dsl->mos, MOS_DIRECTORY, key, object);

    if (rc == -ENOENT)
        return err_set(EIO, "the pool's directory lacks %s", key);
    return rc ? err_prefix(rc, "the pool's directory") : 0;
}

static int optional(struct dsl *dsl, const char *key, uint64_t *object)
{
    int rc = zap_get_u64(dsl->mos, MOS_DIRECTORY, key, object);

    if (rc == -ENOENT)
        *object = 0;
    return rc == -ENOENT ? 0 : rc;
}

/* A directory of the pool's own. Pools without feature flags may be from before its time; they are
 * never written. */
static int child_dir(struct dsl *dsl, const char *name, struct dir **out)
{
    int rc = dir_hold_child(dsl->root, name, out);

    if (rc == -ENOENT && !dsl->features_read) {
        *out = NULL;
        return 0;
    }
    return rc == -ENOENT ? err_set(EIO, "the pool lacks its internal directory %s", name) : rc;
}

/* $ORIGIN@$ORIGIN: what every ordinary dataset is formally a clone of. */
static int load_origin(struct dsl *dsl)
{
    CLEANUP_DIR struct dir *d = NULL;
    CLEANUP_DS struct dataset *head = NULL;
    int rc = child_dir(dsl, "$ORIGIN", &d);

    if (rc == 0 && !d)
        return 0;
    if (rc == 0)
        rc = ds_hold(dsl, d->w[DIR_HEAD], &head);
    if (rc == 0 && head->w[DS_PREV] == 0)
        rc = err_set(EIO, "the pool lacks its internal snapshot $ORIGIN@$ORIGIN");
    if (rc == 0)
        rc = ds_hold(dsl, head->w[DS_PREV], &dsl->origin);
    return rc;
}

static int load_roots(struct dsl *dsl)
{
    uint64_t root;
    int rc = required(dsl, "root_dataset", &root);

    if (rc == 0)
        rc = dir_hold(dsl, root, &dsl->root);
    if (rc == 0 && dsl->root->w[DIR_PARENT] != 0)
        rc = err_set(EBADE, "the pool's root directory has a parent");
    if (rc == 0)
        rc = child_dir(dsl, "$MOS", &dsl->mos_dir);
    if (rc == 0)
        rc = load_origin(dsl);
    if (rc == 0)
        rc = child_dir(dsl, "$FREE", &dsl->free_dir);
    /* Loaded before the origin was known. */
    if (rc == 0 && dsl->origin && dsl->root->w[DIR_ORIGIN] == dsl->origin->object)
        dsl->root->origin_txg = 0;
    return rc;
}

static int load_lists(struct dsl *dsl)
{
    bool empty = true;
    int rc = dsl->features_read ? required(dsl, "free_bpobj", &dsl->free_bpobj)
                                : optional(dsl, "free_bpobj", &dsl->free_bpobj);

    if (rc == 0)
        rc = optional(dsl, "sync_bplist", &dsl->sync_bplist);
    if (rc == 0 && feature_refs(dsl, FEATURE_ASYNC_DESTROY) > 0)
        rc = required(dsl, "bptree_obj", &dsl->bptree);
    if (rc == 0 && feature_refs(dsl, FEATURE_EMPTY_BPOBJ) > 0)
        rc = required(dsl, "empty_bpobj", &dsl->empty_bpobj);
    if (rc == 0)
        rc = optional(dsl, KEY_DELETED_CLONES, &dsl->deleted_clones);
    if (rc == 0 && dsl->free_bpobj != 0)
        rc = bpobj_empty(dsl, dsl->free_bpobj, &empty);
    dsl->free_pending = !empty || dsl->bptree || dsl->deleted_clones;
    return rc;
}

int dsl_open(struct dsl **out, struct pool *pool, struct objset *mos)
{
    struct dsl *dsl;
    int rc = dsl_new(&dsl, pool, mos);

    if (rc != 0)
        return rc;
    rc = feature_open(dsl);
    if (rc == 0)
        rc = load_roots(dsl);
    if (rc == 0)
        rc = load_lists(dsl);
    if (rc != 0) {
        dsl_free(dsl);
        return rc;
    }
    *out = dsl;
    return 0;
}
