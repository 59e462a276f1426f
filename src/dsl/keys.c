/*
 * The keystore of a pool: the wrapping keys that are loaded, by the directory of their encryption
 * root, and the dataset keys unwrapped with them so far, by the object that stores them (clones
 * share it with their origin). An object set that is open has a reference of its key, so unloading
 * never pulls it away from under a reader.
 */
#include "dsl/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/crypt.h"
#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "dsl/keys_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct loaded {
    struct loaded *next;
    uint64_t root;     /* directory object */
    uint8_t *wrapping; /* crypt_secret_new */
};

struct unwrapped {
    struct unwrapped *next;
    uint64_t object, root;
    struct crypt_key *key;
};

/* ---- What is stored ---- */

static int key_object(struct dir *d, uint64_t *object)
{
    return dir_zap_get(d, KEY_CRYPTO, object);
}

/* The directory of the encryption root of a key. */
static int root_of(struct dsl *dsl, uint64_t object, uint64_t *root)
{
    int rc = zap_get_u64(dsl->mos, object, "DSL_CRYPTO_ROOT_DDOBJ", root);

    return rc ? err_prefix(rc, "the stored key %llu", (unsigned long long)object) : 0;
}

static int read_bytes(struct dnode *zap, const char *name, size_t n, void *out)
{
    unsigned size;
    size_t count;
    int rc = zap_length(zap, name, &size, &count);

    if (rc == 0 && (size != 1 || count != n))
        rc = err_set(EBADE, "%s has the wrong size", name);
    return rc ? rc : zap_lookup(zap, name, 1, n, out);
}

static int read_wrapped(struct dsl *dsl, uint64_t object, struct crypt_wrapped *w)
{
    struct dnode *zap;
    int rc = dnode_hold(dsl->mos, object, &zap);

    if (rc != 0)
        return rc;
    rc = zap_lookup(zap, "DSL_CRYPTO_SUITE", 8, 1, &w->suite);
    if (rc == 0)
        rc = zap_lookup(zap, "DSL_CRYPTO_GUID", 8, 1, &w->guid);
    w->version = 0;
    if (rc == 0)
        rc = zap_lookup(zap, "DSL_CRYPTO_VERSION", 8, 1, &w->version);
    if (rc == -ENOENT)
        rc = 0; /* the first version did not say which it is; the rest is missed below */
    if (rc == 0)
        rc = read_bytes(zap, "DSL_CRYPTO_IV", sizeof w->iv, w->iv);
    if (rc == 0)
        rc = read_bytes(zap, "DSL_CRYPTO_MAC", sizeof w->mac, w->mac);
    if (rc == 0)
        rc = read_bytes(zap, "DSL_CRYPTO_MASTER_KEY_1", sizeof w->master, w->master);
    if (rc == 0)
        rc = read_bytes(zap, "DSL_CRYPTO_HMAC_KEY_1", sizeof w->hmac, w->hmac);
    dnode_rele(zap);
    return rc == -ENOENT ? err_set(EBADE, "the stored key is incomplete") : rc;
}

static int unwrap(struct dsl *dsl, uint64_t object, const uint8_t *wrapping, struct crypt_key **out)
{
    struct crypt_wrapped w = {0};
    int rc = read_wrapped(dsl, object, &w);

    rc = rc ? rc : crypt_key_unwrap(out, &w, wrapping);
    return rc ? err_prefix(rc, "the stored key %llu", (unsigned long long)object) : 0;
}

/* ---- The keystore ---- */

void keystore_init(struct keystore *ks)
{
    pthread_mutex_init(&ks->lock, NULL);
}

/* With the lock: forgets what one root's key unwrapped, or all. */
static void drop_unwrapped(struct keystore *ks, bool all, uint64_t root)
{
    for (struct unwrapped **p = &ks->unwrapped; *p;) {
        struct unwrapped *u = *p;

        if (!all && u->root != root) {
            p = &u->next;
            continue;
        }
        *p = u->next;
        crypt_key_unref(u->key);
        free(u);
    }
}

static void free_loaded(struct loaded *l)
{
    crypt_secret_free(l->wrapping, CRYPT_WRAPPING_SIZE);
    free(l);
}

void keystore_fini(struct keystore *ks)
{
    drop_unwrapped(ks, true, 0);
    while (ks->loaded) {
        struct loaded *l = ks->loaded;

        ks->loaded = l->next;
        free_loaded(l);
    }
    pthread_mutex_destroy(&ks->lock);
}

static struct loaded *find_loaded(struct keystore *ks, uint64_t root)
{
    struct loaded *l = ks->loaded;

    while (l && l->root != root)
        l = l->next;
    return l;
}

static bool is_loaded(struct dsl *dsl, uint64_t root)
{
    MUTEX_GUARD(&dsl->keys.lock);

    return find_loaded(&dsl->keys, root) != NULL;
}

/* With the lock: remembers a key; takes the reference only on success. */
static int remember(struct keystore *ks, uint64_t object, uint64_t root, struct crypt_key *key)
{
    struct unwrapped *u = malloc(sizeof *u);

    if (!u)
        return -ENOMEM;
    *u = (struct unwrapped){ks->unwrapped, object, root, key};
    ks->unwrapped = u;
    return 0;
}

/* With the lock: the key stored in an object, if its root's is loaded. */
static int find_key(struct dsl *dsl, uint64_t object, uint64_t root, struct crypt_key **out)
{
    struct keystore *ks = &dsl->keys;
    struct loaded *l = find_loaded(ks, root);
    int rc;

    if (!l)
        return err_set(EACCES, "encryption key not loaded");
    for (struct unwrapped *u = ks->unwrapped; u; u = u->next) {
        if (u->object == object && u->root == root) {
            *out = crypt_key_ref(u->key);
            return 0;
        }
    }
    rc = unwrap(dsl, object, l->wrapping, out);
    if (rc == 0 && (rc = remember(ks, object, root, *out)) == 0)
        crypt_key_ref(*out);
    else if (rc == -ENOMEM)
        crypt_key_unref(STEAL(*out));
    return rc;
}

int keys_of_dir(struct dir *d, struct crypt_key **out)
{
    uint64_t object, root;
    int rc = key_object(d, &object);

    *out = NULL;
    if (rc == -ENOENT)
        return 0;
    if (rc == 0)
        rc = root_of(d->dsl, object, &root);
    if (rc != 0)
        return rc;
    MUTEX_GUARD(&d->dsl->keys.lock);
    return find_key(d->dsl, object, root, out);
}

/* ---- What a dataset has ---- */

static int info_of(struct dir *d, struct keys_info *out)
{
    CLEANUP_DIR struct dir *root = NULL;
    struct dsl *dsl = d->dsl;
    uint64_t object, root_object, root_key;
    int rc = key_object(d, &object);

    *out = (struct keys_info){.encrypted = false};
    if (rc != 0)
        return rc == -ENOENT ? 0 : rc;
    rc = root_of(dsl, object, &root_object);
    if (rc == 0)
        rc = zap_get_u64(dsl->mos, object, "DSL_CRYPTO_SUITE", &out->suite);
    if (rc == 0)
        rc = dir_hold(dsl, root_object, &root);
    /* Those of others may be out of date. */
    if (rc == 0)
        rc = key_object(root, &root_key);
    if (rc == 0)
        rc = zap_get_u64(dsl->mos, root_key, "keyformat", &out->format);
    if (rc == 0)
        rc = zap_get_u64(dsl->mos, root_key, "pbkdf2iters", &out->iters);
    if (rc != 0)
        return rc == -ENOENT ? err_set(EBADE, "the stored key is incomplete") : rc;
    out->encrypted = true;
    out->is_root = root_object == d->object;
    out->loaded = is_loaded(dsl, root_object);
    dir_name(root, out->root);
    return 0;
}

int keys_info(struct dataset *ds, struct keys_info *out)
{
    DSL_READ_GUARD(ds->dsl);

    return info_of(ds->dir, out);
}

/* ---- Loading ---- */

/* Where the key of a root is, and how a given one becomes a wrapping key. */
struct place {
    uint64_t root, object, format, iters, salt;
};

static int find_place(struct dataset *ds, const char *name, const char *verb, struct place *p)
{
    DSL_READ_GUARD(ds->dsl);
    struct keys_info info;
    int rc = ds_is_snapshot(ds) ? -EINVAL : info_of(ds->dir, &info);

    if (rc == -EINVAL || (rc == 0 && !info.encrypted))
        return err_set(EINVAL, "'%s' is not encrypted.", name);
    if (rc == 0 && !info.is_root)
        rc = err_set(EINVAL, "Keys must be %s for encryption root of '%s' (%s).", verb, name,
                     info.root);
    if (rc == 0)
        rc = key_object(ds->dir, &p->object);
    if (rc != 0)
        return rc;
    p->root = ds->dir->object;
    p->format = info.format;
    p->iters = info.iters;
    return zap_get_u64(ds->dsl->mos, p->object, "pbkdf2salt", &p->salt);
}

static int try_key(struct dsl *dsl, const struct place *p, const char *name,
                   const uint8_t *wrapping, struct crypt_key **out)
{
    DSL_READ_GUARD(dsl);
    int rc = unwrap(dsl, p->object, wrapping, out);

    return rc == -EACCES ? err_set(EACCES, "Incorrect key provided for '%s'.", name) : rc;
}

static int already_loaded(const char *name)
{
    return err_set(EEXIST, "Key already loaded for '%s'.", name);
}

/* Takes the wrapping key over on success. */
static int keep(struct dsl *dsl, const struct place *p, const char *name, uint8_t *wrapping)
{
    struct loaded *l;

    MUTEX_GUARD(&dsl->keys.lock);
    if (find_loaded(&dsl->keys, p->root))
        return already_loaded(name);
    l = malloc(sizeof *l);
    if (!l)
        return -ENOMEM;
    *l = (struct loaded){dsl->keys.loaded, p->root, wrapping};
    dsl->keys.loaded = l;
    return 0;
}

int keys_load(struct dsl *dsl, const char *name, const void *given, size_t n, bool check_only)
{
    struct dataset *ds;
    struct crypt_key *key = NULL;
    struct place p;
    uint8_t *wrapping = crypt_secret_new(CRYPT_WRAPPING_SIZE);
    int rc = wrapping ? dataset_hold(dsl, name, &ds) : -ENOMEM;

    if (rc == 0) {
        rc = find_place(ds, name, "loaded", &p);
        if (rc == 0 && !check_only && is_loaded(dsl, p.root))
            rc = already_loaded(name);
        if (rc == 0)
            rc = crypt_wrapping_key((unsigned)p.format, given, n, p.salt, p.iters, wrapping);
        if (rc == 0)
            rc = try_key(dsl, &p, name, wrapping, &key);
        if (rc == 0 && !check_only && (rc = keep(dsl, &p, name, wrapping)) == 0)
            wrapping = NULL;
        dataset_rele(ds);
    }
    crypt_key_unref(key);
    crypt_secret_free(wrapping, CRYPT_WRAPPING_SIZE);
    return rc;
}

/* ---- Unloading ---- */

/* With the lock: has anybody an object set open with a key that this root's unwrapped? */
static bool in_use(const struct keystore *ks, uint64_t root)
{
    for (const struct unwrapped *u = ks->unwrapped; u; u = u->next)
        if (u->root == root && crypt_key_shared(u->key))
            return true;
    return false;
}

int keys_unload(struct dsl *dsl, const char *name)
{
    struct dataset *ds;
    struct place p;
    int rc = dataset_hold(dsl, name, &ds);

    if (rc != 0)
        return rc;
    rc = find_place(ds, name, "unloaded", &p);
    dataset_rele(ds);
    if (rc != 0)
        return rc;
    MUTEX_GUARD(&dsl->keys.lock);
    struct loaded **l = &dsl->keys.loaded;
    while (*l && (*l)->root != p.root)
        l = &(*l)->next;
    if (!*l)
        return err_set(ENOENT, "Key already unloaded for '%s'.", name);
    if (in_use(&dsl->keys, p.root))
        return err_set(EBUSY, "'%s' is busy.", name);
    struct loaded *gone = *l;
    *l = gone->next;
    free_loaded(gone);
    drop_unwrapped(&dsl->keys, false, p.root);
    return 0;
}
