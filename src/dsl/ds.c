/* Datasets in memory: holding them by number and by name. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "pool/pool.h"
#include "util/cleanup.h"
#include "util/err.h"

/* ---- The cache ---- */

static struct dataset *find(struct dsl *dsl, uint64_t object)
{
    for (struct hashmap_node *n = hashmap_first(&dsl->datasets, hash_u64(object)); n;
         n = hashmap_next(n)) {
        struct dataset *ds = container_of(n, struct dataset, node);

        if (ds->object == object) {
            ds->refs++;
            return ds;
        }
    }
    return NULL;
}

static struct dataset *lookup(struct dsl *dsl, uint64_t object)
{
    MUTEX_GUARD(&dsl->cache_lock);

    return find(dsl, object);
}

static void ds_free(struct dataset *ds)
{
    if (ds->os)
        objset_close(ds->os);
    bookmarks_free_fbn(ds->fbn, ds->nfbn);
    dnode_rele(ds->dn);
    dir_rele(ds->dir);
    pthread_mutex_destroy(&ds->open_lock);
    pthread_mutex_destroy(&ds->dead_lock);
    free(ds->dead_bps);
    free(ds->snapname);
    free(ds);
}

void ds_ref(struct dataset *ds)
{
    MUTEX_GUARD(&ds->dsl->cache_lock);

    ds->refs++;
}

static bool unref(struct dataset *ds)
{
    MUTEX_GUARD(&ds->dsl->cache_lock);

    if (--ds->refs > 0)
        return false;
    if (ds->hashed)
        hashmap_remove(&ds->dsl->datasets, &ds->node);
    return true;
}

void ds_forget(struct dataset *ds)
{
    MUTEX_GUARD(&ds->dsl->cache_lock);

    ds->dead = true;
    if (ds->hashed)
        hashmap_remove(&ds->dsl->datasets, &ds->node);
    ds->hashed = false;
}

void ds_rele(struct dataset *ds)
{
    if (ds && unref(ds))
        ds_free(ds);
}

static struct dataset *publish(struct dataset *ds)
{
    struct dataset *other;

    pthread_mutex_lock(&ds->dsl->cache_lock);
    other = find(ds->dsl, ds->object);
    if (!other) {
        ds->refs = 1;
        ds->hashed = true;
        hashmap_insert(&ds->dsl->datasets, &ds->node, hash_u64(ds->object));
    }
    pthread_mutex_unlock(&ds->dsl->cache_lock);
    if (!other)
        return ds;
    ds_free(ds);
    return other;
}

/* ---- Loading ---- */

static int load_words(struct dataset *ds)
{
    size_t len;
    int rc = dnode_hold(ds->dsl->mos, ds->object, &ds->dn);

    if (rc != 0)
        return err_prefix(rc, "dataset object %llu", (unsigned long long)ds->object);
    if (dnode_bonus_type(ds->dn) != OT_DSL_DATASET)
        return err_set(EBADE, "MOS object %llu is no dataset", (unsigned long long)ds->object);
    rc = dnode_bonus_get(ds->dn, ds->w, sizeof ds->w, &len);
    if (rc == -ERANGE || (rc == 0 && len < sizeof ds->w))
        rc = err_set(EBADE, "dataset %llu has a bonus of the wrong size", (unsigned long long)ds->object);
    return rc;
}

/* The words of a dataset that need not be held. */
int ds_read_words(struct dsl *dsl, uint64_t object, uint64_t w[DS_WORDS])
{
    struct dnode *dn;
    size_t len;
    int rc = dnode_hold(dsl->mos, object, &dn);

    if (rc != 0)
        return rc;
    rc = dnode_bonus_get(dn, w, DS_WORDS * 8, &len);
    if (dnode_bonus_type(dn) != OT_DSL_DATASET || rc == -ERANGE || (rc == 0 && len < DS_WORDS * 8))
        rc = err_set(EBADE, "MOS object %llu is no dataset", (unsigned long long)object);
    dnode_rele(dn);
    return rc;
}

int ds_words(struct dsl *dsl, uint64_t object, uint64_t w[DS_WORDS])
{
    CLEANUP_DS struct dataset *ds = lookup(dsl, object);

    if (!ds)
        return ds_read_words(dsl, object, w);
    memcpy(w, ds->w, DS_WORDS * sizeof *w);
    return 0;
}

/* The name of a snapshot, from its head's map. */
static int load_snapname(struct dataset *ds)
{
    char name[ZAP_NAME_MAX];
    uint64_t head[DS_WORDS];
    int rc;

    if (!ds_is_snapshot(ds) || ds->snapname)
        return 0;
    rc = ds_read_words(ds->dsl, ds->dir->w[DIR_HEAD], head);
    if (rc == 0)
        rc = zap_find_value(ds->dsl->mos, head[DS_SNAPNAMES], ds->object, UINT64_MAX, name, sizeof name);
    if (rc != 0)
        return err_prefix(rc, "snapshot %llu has no name", (unsigned long long)ds->object);
    return (ds->snapname = strdup(name)) ? 0 : -ENOMEM;
}

static int load(struct dsl *dsl, uint64_t object, const char *snapname, struct dataset **out)
{
    struct dataset *ds = calloc(1, sizeof *ds);
    int rc = ds ? 0 : -ENOMEM;

    if (rc != 0)
        return rc;
    ds->dsl = dsl;
    ds->object = object;
    pthread_mutex_init(&ds->open_lock, NULL);
    pthread_mutex_init(&ds->dead_lock, NULL);
    rc = load_words(ds);
    if (rc == 0)
        rc = dir_hold(dsl, ds->w[DS_DIR], &ds->dir);
    if (rc == 0 && snapname)
        rc = (ds->snapname = strdup(snapname)) ? 0 : -ENOMEM;
    if (rc == 0)
        rc = load_snapname(ds);
    if (rc != 0) {
        ds_free(ds);
        return rc;
    }
    *out = publish(ds);
    return 0;
}

static int hold(struct dsl *dsl, uint64_t object, const char *snapname, struct dataset **out)
{
    *out = lookup(dsl, object);
    return *out ? 0 : load(dsl, object, snapname, out);
}

int ds_hold(struct dsl *dsl, uint64_t object, struct dataset **out)
{
    return hold(dsl, object, NULL, out);
}

int ds_hold_snapshot(struct dataset *head, const char *snapname, struct dataset **out)
{
    uint64_t object;
    int rc = zap_get_u64(head->dsl->mos, head->w[DS_SNAPNAMES], snapname, &object);

    return rc ? rc : hold(head->dsl, object, snapname, out);
}

/* ---- By name ---- */

static int walk_name(struct dsl *dsl, char *path, struct dir **out)
{
    struct dir *d = dsl->root;
    char *save = NULL, *part = strtok_r(path, "/", &save);

    if (!part || strcmp(part, dsl->pool->name) != 0)
        return -ENOENT;
    dir_ref(d);
    while ((part = strtok_r(NULL, "/", &save))) {
        struct dir *child;
        int rc = dir_hold_child(d, part, &child);

        dir_rele(d);
        if (rc != 0)
            return rc;
        d = child;
    }
    *out = d;
    return 0;
}

int ds_hold_name(struct dsl *dsl, const char *name, struct dataset **out)
{
    char path[DATASET_NAME_MAX];
    struct dataset *head;
    struct dir *d;
    char *at;
    int rc = dataset_name_check(name);

    if (rc != 0)
        return rc;
    strcpy(path, name);
    at = strchr(path, '@');
    if (at)
        *at++ = 0;
    rc = walk_name(dsl, path, &d);
    if (rc == 0) {
        rc = d->w[DIR_HEAD] ? ds_hold(dsl, d->w[DIR_HEAD], &head) : -ENOENT;
        dir_rele(d);
    }
    if (rc == 0 && at) {
        rc = ds_hold_snapshot(head, at, out);
        ds_rele(head);
    } else if (rc == 0) {
        *out = head;
    }
    return rc == -ENOENT ? err_set(ENOENT, "dataset does not exist") : rc;
}

void ds_name(const struct dataset *ds, char out[DATASET_NAME_MAX])
{
    size_t n;

    dir_name(ds->dir, out);
    n = strlen(out);
    if (ds->snapname && n < DATASET_NAME_MAX - 1)
        snprintf(out + n, DATASET_NAME_MAX - n, "@%s", ds->snapname);
}

/* ---- Changes and odds ---- */

void ds_dirty(struct dataset *ds)
{
    if (ds->is_dirty || ds->dead)
        return;
    ds->is_dirty = true;
    ds_ref(ds);
    ds->next_dirty = ds->dsl->dirty_datasets;
    ds->dsl->dirty_datasets = ds;
}

bool ds_busy(struct dataset *ds)
{
    MUTEX_GUARD(&ds->dsl->cache_lock);

    return ds->owner != NULL || ds->pins > 0;
}

int ds_zap_get(struct dataset *ds, const char *key, uint64_t *value)
{
    *value = 0;
    if (dnode_type(ds->dn) != OT_ZAP_METADATA)
        return -ENOENT;
    return zap_lookup(ds->dn, key, 8, 1, value);
}

/* ---- Public ---- */

int dataset_hold(struct dsl *dsl, const char *name, struct dataset **out)
{
    DSL_READ_GUARD(dsl);

    return ds_hold_name(dsl, name, out);
}

int dataset_hold_object(struct dsl *dsl, uint64_t object, struct dataset **out)
{
    DSL_READ_GUARD(dsl);

    return ds_hold(dsl, object, out);
}

void dataset_rele(struct dataset *ds)
{
    ds_rele(ds);
}

void dataset_name(const struct dataset *ds, char out[DATASET_NAME_MAX])
{
    DSL_READ_GUARD(ds->dsl);

    ds_name(ds, out);
}

struct dsl *dataset_dsl(const struct dataset *ds)
{
    return ds->dsl;
}

bool dataset_is_snapshot(const struct dataset *ds)
{
    return ds->snapname != NULL;
}

int dataset_own(struct dataset *ds, const void *who)
{
    MUTEX_GUARD(&ds->dsl->cache_lock);

    if (ds->owner)
        return err_set(EBUSY, "dataset is busy");
    ds->owner = who;
    return 0;
}

void dataset_disown(struct dataset *ds, const void *who)
{
    MUTEX_GUARD(&ds->dsl->cache_lock);

    if (ds->owner == who)
        ds->owner = NULL;
}

int dataset_pin(struct dataset *ds)
{
    DSL_READ_GUARD(ds->dsl);
    MUTEX_GUARD(&ds->dsl->cache_lock);

    if (ds->dead)
        return err_set(ENOENT, "dataset does not exist");
    ds->pins++;
    return 0;
}

void dataset_unpin(struct dataset *ds)
{
    MUTEX_GUARD(&ds->dsl->cache_lock);

    ds->pins--;
}
