/* DSL directories in memory: looking them up, and the space that flows through them (spec 04 2, 8.2). */
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

#define DIR_BONUS (DIR_WORDS * 8)

/* ---- The cache ---- */

static struct dir *find(struct dsl *dsl, uint64_t object)
{
    for (struct hashmap_node *n = hashmap_first(&dsl->dirs, hash_u64(object)); n; n = hashmap_next(n)) {
        struct dir *d = container_of(n, struct dir, node);

        if (d->object == object) {
            d->refs++;
            return d;
        }
    }
    return NULL;
}

static struct dir *lookup(struct dsl *dsl, uint64_t object)
{
    MUTEX_GUARD(&dsl->cache_lock);

    return find(dsl, object);
}

static void dir_free(struct dir *d)
{
    dnode_rele(d->dn);
    free(d->name);
    free(d);
}

void dir_ref(struct dir *d)
{
    MUTEX_GUARD(&d->dsl->cache_lock);

    d->refs++;
}

static bool unref(struct dir *d)
{
    MUTEX_GUARD(&d->dsl->cache_lock);

    if (--d->refs > 0)
        return false;
    if (d->hashed)
        hashmap_remove(&d->dsl->dirs, &d->node);
    return true;
}

void dir_forget(struct dir *d)
{
    MUTEX_GUARD(&d->dsl->cache_lock);

    d->dead = true;
    if (d->hashed)
        hashmap_remove(&d->dsl->dirs, &d->node);
    d->hashed = false;
}

void dir_rele(struct dir *d)
{
    while (d && unref(d)) {
        struct dir *parent = d->parent;
        struct former *f;

        while ((f = d->former)) {
            d->former = f->next;
            dir_rele(f->dir);
            free(f);
        }
        dir_free(d);
        d = parent;
    }
}

/* Puts a new one in, unless another thread was faster. */
static struct dir *publish(struct dir *d)
{
    struct dir *other;

    pthread_mutex_lock(&d->dsl->cache_lock);
    other = find(d->dsl, d->object);
    if (!other) {
        d->refs = 1;
        d->hashed = true;
        hashmap_insert(&d->dsl->dirs, &d->node, hash_u64(d->object));
    }
    pthread_mutex_unlock(&d->dsl->cache_lock);
    if (!other)
        return d;
    dir_rele(d->parent);
    dir_free(d);
    return other;
}

static void mirror(struct dir *d)
{
    d->used = d->w[DIR_USED];
    d->quota = d->w[DIR_QUOTA];
    d->reserved = d->w[DIR_RESERVED];
}

/* ---- Loading ---- */

static int load_words(struct dir *d)
{
    unsigned char bonus[DIR_BONUS];
    size_t len;
    int rc = dnode_hold(d->dsl->mos, d->object, &d->dn);

    if (rc != 0)
        return err_prefix(rc, "directory object %llu", (unsigned long long)d->object);
    if (dnode_bonus_type(d->dn) != OT_DSL_DIR)
        return err_set(EBADE, "MOS object %llu is no dataset directory", (unsigned long long)d->object);
    rc = dnode_bonus_get(d->dn, bonus, sizeof bonus, &len);
    if (rc == -ERANGE || (rc == 0 && len < DIR_BONUS))
        rc = err_set(EBADE, "dataset directory %llu has a bonus of the wrong size",
                     (unsigned long long)d->object);
    memcpy(d->w, bonus, sizeof d->w);
    mirror(d);
    return rc;
}

static int load_name(struct dir *d)
{
    char name[ZAP_NAME_MAX];
    int rc;

    if (!d->parent) {
        d->name = strdup(d->dsl->pool->name);
    } else {
        rc = zap_find_value(d->dsl->mos, d->parent->w[DIR_CHILDREN], d->object, UINT64_MAX, name,
                            sizeof name);
        if (rc != 0)
            return err_prefix(rc, "dataset directory %llu is not among its parent's children",
                              (unsigned long long)d->object);
        d->name = strdup(name);
    }
    return d->name ? 0 : -ENOMEM;
}

/* The txg of the snapshot that the dir is a clone of. $ORIGIN's is no clone for this purpose. */
static int load_origin(struct dir *d)
{
    uint64_t w[DS_WORDS];
    int rc;

    if (d->w[DIR_ORIGIN] == 0 || (d->dsl->origin && d->w[DIR_ORIGIN] == d->dsl->origin->object))
        return 0;
    rc = ds_read_words(d->dsl, d->w[DIR_ORIGIN], w);
    if (rc != 0)
        return err_prefix(rc, "origin of dataset directory %llu", (unsigned long long)d->object);
    d->origin_txg = w[DS_CTXG];
    return 0;
}

static int hold_at_depth(struct dsl *dsl, uint64_t object, unsigned depth, struct dir **out);

static int load_parent(struct dir *d, unsigned depth)
{
    struct dir *parent = NULL;
    int rc = hold_at_depth(d->dsl, d->w[DIR_PARENT], depth + 1, &parent);

    d->parent = parent;
    return rc;
}

static int load(struct dsl *dsl, uint64_t object, struct dir *parent, const char *name, unsigned depth,
                struct dir **out)
{
    struct dir *d = calloc(1, sizeof *d);
    int rc = d ? 0 : -ENOMEM;

    if (rc != 0)
        return rc;
    d->dsl = dsl;
    d->object = object;
    d->type = -1;
    if (parent) {
        dir_ref(parent);
        d->parent = parent;
    }
    rc = load_words(d);
    if (rc == 0 && !parent && d->w[DIR_PARENT] != 0)
        rc = load_parent(d, depth);
    if (rc == 0 && parent && d->w[DIR_PARENT] != parent->object)
        rc = err_set(EBADE, "dataset directory %llu names another parent", (unsigned long long)object);
    if (rc == 0 && name)
        rc = (d->name = strdup(name)) ? 0 : -ENOMEM;
    else if (rc == 0)
        rc = load_name(d);
    if (rc == 0)
        rc = load_origin(d);
    if (rc == 0)
        rc = dir_load_reservations(d);
    if (rc != 0) {
        dir_rele(d->parent);
        dir_free(d);
        return rc;
    }
    *out = publish(d);
    return 0;
}

static int hold_at_depth(struct dsl *dsl, uint64_t object, unsigned depth, struct dir **out)
{
    *out = lookup(dsl, object);
    if (*out)
        return 0;
    if (depth > DIR_DEPTH_MAX)
        return err_set(EBADE, "dataset directories are nested too deep or in a circle");
    return load(dsl, object, NULL, NULL, depth, out);
}

int dir_hold(struct dsl *dsl, uint64_t object, struct dir **out)
{
    return hold_at_depth(dsl, object, 0, out);
}

int dir_hold_child(struct dir *parent, const char *name, struct dir **out)
{
    uint64_t object;
    int rc = zap_get_u64(parent->dsl->mos, parent->w[DIR_CHILDREN], name, &object);

    if (rc != 0)
        return rc;
    *out = lookup(parent->dsl, object);
    if (!*out)
        return load(parent->dsl, object, parent, name, 0, out);
    if ((*out)->parent == parent)
        return 0;
    dir_rele(*out); /* of a damaged pool: the way down could lead in a circle */
    return err_set(EBADE, "dataset directory %llu names another parent", (unsigned long long)object);
}

/* refquota and refreservation of the head: they are not inherited, but may be received. */
int dir_load_reservations(struct dir *d)
{
    const struct {
        const char *name;
        _Atomic uint64_t *to;
    } rows[] = {{"refquota", &d->refquota}, {"refreservation", &d->refreservation}};

    if (d->w[DIR_HEAD] == 0 || d->w[DIR_PROPS] == 0)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t n = 0, inherit;
        char key[64];
        int rc = zap_get_u64(d->dsl->mos, d->w[DIR_PROPS], rows[i].name, &n);

        if (rc == -ENOENT) {
            snprintf(key, sizeof key, "%s$inherit", rows[i].name);
            rc = zap_get_u64(d->dsl->mos, d->w[DIR_PROPS], key, &inherit);
            if (rc == -ENOENT) {
                snprintf(key, sizeof key, "%s$recvd", rows[i].name);
                rc = zap_get_u64(d->dsl->mos, d->w[DIR_PROPS], key, &n);
            }
        }
        if (rc != 0 && rc != -ENOENT)
            return rc;
        *rows[i].to = rc == 0 ? n : 0;
    }
    return 0;
}

void dir_name(const struct dir *d, char out[DATASET_NAME_MAX])
{
    const struct dir *chain[DIR_DEPTH_MAX + 2];
    unsigned n = 0;
    size_t at = 0;

    for (; d && n < DIR_DEPTH_MAX + 2; d = d->parent)
        chain[n++] = d;
    out[0] = 0;
    while (n-- > 0 && at < DATASET_NAME_MAX - 1) {
        int len = snprintf(out + at, DATASET_NAME_MAX - at, "%s%s", at ? "/" : "", chain[n]->name);

        at += len < 0 ? 0 : (size_t)len;
    }
}

/* ---- Changes ---- */

void dir_dirty(struct dir *d)
{
    mirror(d);
    if (d->is_dirty || d->dead)
        return;
    d->is_dirty = true;
    dir_ref(d);
    d->next_dirty = d->dsl->dirty_dirs;
    d->dsl->dirty_dirs = d;
}

/* What a change of delta in d.used means for its parent, given the reservation. */
static int64_t parent_delta(const struct dir *d, int64_t delta)
{
    int64_t used = (int64_t)d->w[DIR_USED], reserved = (int64_t)d->w[DIR_RESERVED];
    int64_t before = used > reserved ? used : reserved;
    int64_t after = used + delta > reserved ? used + delta : reserved;

    return after - before;
}

void dir_move(struct dir *d, int64_t delta, int64_t comp, int64_t uncomp, int64_t n, int from, int to)
{
    while (d) {
        int64_t up = parent_delta(d, delta);

        d->w[DIR_USED] += (uint64_t)delta;
        d->w[DIR_COMP] += (uint64_t)comp;
        d->w[DIR_UNCOMP] += (uint64_t)uncomp;
        d->w[DIR_BREAKDOWN + from] -= (uint64_t)(n - delta);
        d->w[DIR_BREAKDOWN + to] += (uint64_t)n;
        dir_dirty(d);
        n = delta;
        delta = up;
        from = USED_CHILD_RSRV;
        to = USED_CHILD;
        d = d->parent;
    }
}

void dir_use(struct dir *d, int type, const struct space *delta)
{
    int64_t up = parent_delta(d, delta->used);

    if (delta->used == 0 && delta->comp == 0 && delta->uncomp == 0)
        return;
    d->w[DIR_USED] += (uint64_t)delta->used;
    d->w[DIR_COMP] += (uint64_t)delta->comp;
    d->w[DIR_UNCOMP] += (uint64_t)delta->uncomp;
    d->w[DIR_BREAKDOWN + type] += (uint64_t)delta->used;
    dir_dirty(d);
    if (d->parent)
        dir_move(d->parent, up, delta->comp, delta->uncomp, delta->used, USED_CHILD_RSRV, USED_CHILD);
}

void dir_transfer(struct dir *d, int64_t n, int from, int to)
{
    if (n == 0)
        return;
    d->w[DIR_BREAKDOWN + from] -= (uint64_t)n;
    d->w[DIR_BREAKDOWN + to] += (uint64_t)n;
    dir_dirty(d);
}
