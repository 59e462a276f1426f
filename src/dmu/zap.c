/* The public calls: each locks the ZAP, prepares the key and goes to the micro or the fat form. */
#include <errno.h>
#include <stdlib.h>

#include "dmu/objset.h"
#include "dmu/zap_impl.h"
#include "pool/pool.h"
#include "util/err.h"
#include "util/hashmap.h"

/* ---- The companion ---- */

static void zap_free(void *user)
{
    struct zap *z = user;
    index_clear(&z->index);
    pthread_rwlock_destroy(&z->lock);
    free(z);
}

static struct zap *companion(struct dnode *dn)
{
    struct zap *z = dnode_user(dn, DNODE_USER_ZAP);
    if (z)
        return z;
    z = calloc(1, sizeof *z);
    if (!z)
        return NULL;
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&z->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    struct zap *there = dnode_user_attach(dn, DNODE_USER_ZAP, z, zap_free);
    if (there != z)
        zap_free(z);
    return there;
}

/* Under the write lock. */
static int load(struct zap *z, struct dnode *dn)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    int rc = dbuf_hold(dn, 0, 0, &db);
    if (rc < 0)
        return rc;
    const unsigned char *b = dbuf_data(db);
    if (dbuf_size(db) < 512)
        rc = -EBADE;
    else if (load64(b) == ZAP_TYPE_MICRO)
        rc = micro_load(z, b, dbuf_size(db));
    else if (load64(b) == ZAP_TYPE_HEADER)
        rc = fat_load(z, b, dbuf_size(db));
    else
        rc = -EBADE;
    if (rc == -EBADE)
        return err_set(EBADE, "object %llu is not a sound ZAP",
                       (unsigned long long)dnode_object(dn));
    z->loaded = rc == 0;
    dnode_user_memory(dn, sizeof *z + z->index.capacity * sizeof *z->index.at + z->index.slots / 8);
    return rc;
}

int zap_enter(struct dnode *dn, bool write, struct zap **out)
{
    struct zap *z = companion(dn);
    if (!z)
        return -ENOMEM;
    for (;;) {
        if (write)
            pthread_rwlock_wrlock(&z->lock);
        else
            pthread_rwlock_rdlock(&z->lock);
        if (z->loaded) {
            *out = z;
            return 0;
        }
        if (!write) {
            pthread_rwlock_unlock(&z->lock);
            pthread_rwlock_wrlock(&z->lock);
        }
        int rc = z->loaded ? 0 : load(z, dn);
        if (write && rc == 0) {
            *out = z;
            return 0;
        }
        pthread_rwlock_unlock(&z->lock);
        if (rc < 0)
            return rc;
    }
}

/* ---- Making one ---- */

int zap_format(struct dnode *dn, unsigned normflags, struct tx *tx)
{
    struct dbuf *db CLEANUP_DBUF = NULL;
    if (normflags & ~ZAP_NORM_UPPER)
        return -ENOTSUP;
    struct zap *z = companion(dn);
    if (!z)
        return -ENOMEM;
    struct zap *locked CLEANUP_ZAP = z;
    pthread_rwlock_wrlock(&z->lock);
    int rc = dbuf_hold(dn, 0, DBUF_NO_READ, &db);
    if (rc == 0)
        rc = dbuf_dirty(db, tx);
    if (rc < 0)
        return rc;
    struct env *env = &objset_pool(dnode_objset(dn))->env;
    uint64_t salt = hash_u64(env->random(env) ^ dnode_object(dn)) | 1;
    micro_format(dbuf_data(db), dbuf_size(db), salt, normflags);
    rc = micro_load(z, dbuf_data(db), dbuf_size(db));
    z->loaded = rc == 0;
    return rc;
}

int zap_create(struct objset *os, const struct object_params *params, unsigned normflags,
               struct tx *tx, struct dnode **out)
{
    struct object_params p = *params;
    struct dnode *dn;
    p.block_size = 512;
    int rc = object_create(os, 0, &p, tx, &dn);
    if (rc < 0)
        return rc;
    rc = zap_format(dn, normflags, tx);
    if (rc < 0) {
        object_free(dn, tx);
        dnode_rele(dn);
        return rc;
    }
    *out = dn;
    return 0;
}

/* ---- Reading ---- */

int zap_value_check(const struct zap_value *v)
{
    if (v->size != 1 && v->size != 2 && v->size != 4 && v->size != 8)
        return -EINVAL;
    return v->count > ZAP_VALUE_MAX / v->size ? -ENOSPC : 0;
}

/* count 0: only the first integer is wanted, whatever follows. */
static int get(struct zap *z, struct dnode *dn, const struct zap_key *k, unsigned size,
               size_t count, void *out)
{
    if (!z->fat) {
        uint64_t value;
        int rc = micro_get(z, dn, k, &value);
        if (rc < 0)
            return rc;
        if (size != 8 || count == 0)
            return -EINVAL;
        memset(out, 0, 8 * count);
        memcpy(out, &value, 8);
        return 0;
    }
    struct fat f CLEANUP_FAT = {0};
    struct dbuf *db CLEANUP_DBUF = NULL;
    struct leaf l;
    struct leaf_entry e;
    unsigned char *ref;
    int rc = fat_open(&f, z, dn);
    if (rc == 0)
        rc = fat_find(&f, k, &db, &l, &e, &ref);
    return rc < 0 ? rc : leaf_get_value(l, &e, size, count, out);
}

int zap_lookup(struct dnode *zap, const char *name, unsigned size, size_t count, void *out)
{
    struct zap *z CLEANUP_ZAP = NULL;
    struct zap_key k;
    int rc = zap_enter(zap, false, &z);
    if (rc == 0)
        rc = zap_key_string(&k, z, name);
    return rc < 0 ? rc : get(z, zap, &k, size, count, out);
}

int zap_lookup_words(struct dnode *zap, const uint64_t *words, unsigned n, unsigned size,
                     size_t count, void *out)
{
    struct zap *z CLEANUP_ZAP = NULL;
    struct zap_key k;
    int rc = zap_enter(zap, false, &z);
    if (rc == 0)
        rc = zap_key_words(&k, z, words, n);
    return rc < 0 ? rc : get(z, zap, &k, size, count, out);
}

/* The shape of a value, and its first integer. */
static int examine(struct zap *z, struct dnode *dn, const struct zap_key *k, unsigned *size,
                   size_t *count, uint64_t *first)
{
    if (!z->fat) {
        *size = 8;
        *count = 1;
        return micro_get(z, dn, k, first);
    }
    struct fat f CLEANUP_FAT = {0};
    struct dbuf *db CLEANUP_DBUF = NULL;
    struct leaf l;
    struct leaf_entry e;
    unsigned char *ref;
    int rc = fat_open(&f, z, dn);
    if (rc == 0)
        rc = fat_find(&f, k, &db, &l, &e, &ref);
    if (rc < 0)
        return rc;
    *size = e.size;
    *count = e.value_ints;
    *first = 0;
    e.value_ints = MIN(e.value_ints, 1);
    return leaf_get_value(l, &e, 8, 1, first);
}

int zap_length(struct dnode *zap, const char *name, unsigned *size, size_t *count)
{
    struct zap *z CLEANUP_ZAP = NULL;
    struct zap_key k;
    uint64_t first;
    int rc = zap_enter(zap, false, &z);
    if (rc == 0)
        rc = zap_key_string(&k, z, name);
    return rc < 0 ? rc : examine(z, zap, &k, size, count, &first);
}

int zap_get(struct dnode *zap, const char *name, uint64_t *first)
{
    struct zap *z CLEANUP_ZAP = NULL;
    struct zap_key k;
    unsigned size;
    size_t count;
    int rc = zap_enter(zap, false, &z);
    if (rc == 0)
        rc = zap_key_string(&k, z, name);
    if (rc == 0)
        rc = examine(z, zap, &k, &size, &count, first);
    return rc == 0 && count == 0 ? -EINVAL : rc;
}

int zap_count(struct dnode *zap, uint64_t *count)
{
    struct zap *z CLEANUP_ZAP = NULL;
    int rc = zap_enter(zap, false, &z);
    if (rc < 0)
        return rc;
    if (!z->fat) {
        *count = z->index.count;
        return 0;
    }
    struct fat f CLEANUP_FAT = {0};
    rc = fat_open(&f, z, zap);
    *count = f.entries;
    return rc;
}

/* ---- Changing ---- */

static int enter_for_change(struct dnode *dn, const char *name, struct zap **z, struct zap_key *k)
{
    int rc = zap_enter(dn, true, z);
    if (rc == 0)
        rc = zap_key_string(k, *z, name);
    if (rc == 0 && k->foreign)
        rc = err_set(ENOTSUP, "names that need Unicode normalisation cannot be written");
    return rc;
}

static int put_fat(struct zap *z, struct dnode *dn, const struct zap_key *k,
                   const struct zap_value *v, int mode, struct tx *tx)
{
    struct fat f CLEANUP_FAT = {0};
    int rc = fat_open(&f, z, dn);
    return rc < 0 ? rc : fat_put(&f, k, NULL, v, mode, tx);
}

static int put(struct zap *z, struct dnode *dn, const struct zap_key *k, const struct zap_value *v,
               int mode, struct tx *tx)
{
    int rc = zap_value_check(v);
    if (rc < 0)
        return rc;
    if (!z->fat) {
        rc = mode == FAT_ADD ? micro_add(z, dn, k, v, tx) : micro_update(z, dn, k, v, tx);
        if (rc == -EFBIG)
            rc = micro_upgrade(z, dn, tx);
        if (!z->fat)
            return rc;
    }
    return put_fat(z, dn, k, v, mode, tx);
}

int zap_add(struct dnode *zap, const char *name, unsigned size, size_t count, const void *value,
            struct tx *tx)
{
    struct zap *z CLEANUP_ZAP = NULL;
    struct zap_key k;
    struct zap_value v = {size, count, value};
    int rc = enter_for_change(zap, name, &z, &k);
    return rc < 0 ? rc : put(z, zap, &k, &v, FAT_ADD, tx);
}

int zap_update(struct dnode *zap, const char *name, unsigned size, size_t count, const void *value,
               struct tx *tx)
{
    struct zap *z CLEANUP_ZAP = NULL;
    struct zap_key k;
    struct zap_value v = {size, count, value};
    int rc = enter_for_change(zap, name, &z, &k);
    return rc < 0 ? rc : put(z, zap, &k, &v, FAT_UPDATE, tx);
}

static int take_out(struct zap *z, struct dnode *dn, const struct zap_key *k, struct tx *tx)
{
    if (!z->fat)
        return micro_remove(z, dn, k, tx);
    struct fat f CLEANUP_FAT = {0};
    int rc = fat_open(&f, z, dn);
    return rc < 0 ? rc : fat_remove(&f, k, tx);
}

int zap_remove(struct dnode *zap, const char *name, struct tx *tx)
{
    struct zap *z CLEANUP_ZAP = NULL;
    struct zap_key k;
    int rc = enter_for_change(zap, name, &z, &k);
    return rc < 0 ? rc : take_out(z, zap, &k, tx);
}

int zap_increment_in(struct dnode *zap, const char *name, uint64_t delta, bool drop_zero,
                     struct tx *tx)
{
    struct zap *z CLEANUP_ZAP = NULL;
    struct zap_key k;
    unsigned size;
    size_t count;
    uint64_t value = 0;
    int rc = enter_for_change(zap, name, &z, &k);
    if (rc < 0)
        return rc;
    rc = examine(z, zap, &k, &size, &count, &value);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    if (rc == 0 && (size != 8 || count != 1))
        return -EINVAL;
    value += delta;
    struct zap_value v = {8, 1, &value};
    if (value == 0 && drop_zero)
        return rc == -ENOENT ? 0 : take_out(z, zap, &k, tx);
    return put(z, zap, &k, &v, FAT_UPDATE, tx);
}
