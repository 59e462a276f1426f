/*
 * Files in memory. A znode exists while something uses it and, idle, as long as there is room for
 * it. What the front end refers to (a million names in the kernel's cache) is counted apart, in a
 * small record per file.
 */
#include <errno.h>
#include <stdlib.h>

#include "fs/fs_impl.h"
#include "pool/pool.h"

static struct shard *shard_of(struct fs *fs, uint64_t object)
{
    return &fs->shards[hash_u64(object) >> 58]; /* the low bits choose the slot in a shard */
}

int shards_init(struct fs *fs)
{
    int rc = 0;
    for (int i = 0; i < FS_SHARDS; i++) {
        struct shard *s = &fs->shards[i];
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->loaded, NULL);
        if (hashmap_init(&s->znodes, 8) < 0 || hashmap_init(&s->lookups, 8) < 0)
            rc = -ENOMEM;
    }
    return rc;
}

/* ---- Tables; the shard is locked ---- */

static struct znode *find(struct shard *s, uint64_t object)
{
    struct hashmap_node *n = hashmap_first(&s->znodes, hash_u64(object));
    for (; n; n = hashmap_next(n))
        if (container_of(n, struct znode, node)->object == object)
            return container_of(n, struct znode, node);
    return NULL;
}

static struct lookup *find_lookup(struct shard *s, uint64_t object)
{
    struct hashmap_node *n = hashmap_first(&s->lookups, hash_u64(object));
    for (; n; n = hashmap_next(n))
        if (container_of(n, struct lookup, node)->object == object)
            return container_of(n, struct lookup, node);
    return NULL;
}

static void idle_remove(struct shard *s, struct znode *zn)
{
    if (zn->prev)
        zn->prev->next = zn->next;
    else
        s->newest = zn->next;
    if (zn->next)
        zn->next->prev = zn->prev;
    else
        s->oldest = zn->prev;
    zn->next = zn->prev = NULL;
    s->idle--;
}

static void idle_add(struct shard *s, struct znode *zn)
{
    zn->prev = NULL;
    zn->next = s->newest;
    if (s->newest)
        s->newest->prev = zn;
    else
        s->oldest = zn;
    s->newest = zn;
    s->idle++;
}

/* Readers without end must not keep a writer out; nobody locks one twice. */
static const pthread_rwlock_t writers_first = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

/* A znode with its table entry, and the dnode it keeps from being evicted. */
#define ZNODE_MEMORY  (sizeof(struct znode) + 1024)
#define LOOKUP_MEMORY (sizeof(struct lookup) + 24)

static struct znode *znode_alloc(struct fs *fs, uint64_t object)
{
    struct znode *zn = calloc(1, sizeof *zn);
    if (!zn)
        return NULL;
    pool_hold_memory(fs->pool, ZNODE_MEMORY);
    zn->fs = fs;
    zn->object = object;
    zn->refs = 1;
    pthread_mutex_init(&zn->attr_lock, NULL);
    zn->lock = writers_first;
    return zn;
}

static void znode_free(struct znode *zn)
{
    pool_hold_memory(zn->fs->pool, -(int64_t)ZNODE_MEMORY);
    dnode_rele(zn->dn);
    pthread_rwlock_destroy(&zn->lock);
    pthread_mutex_destroy(&zn->attr_lock);
    free(zn);
}

/* ---- Getting and putting ---- */

static int load(struct znode *zn)
{
    int rc = dnode_hold(zn->fs->os, zn->object, &zn->dn);
    if (rc == 0)
        rc = zattr_load(zn->fs, zn->dn, &zn->a);
    if (rc < 0)
        return rc;
    zn->type = zn->a.mode & S_IFMT;
    /* What it was changed by is forgotten: fsync waits for all that can have done it. A dnode is
     * clean as soon as it has been written, which is before its txg is durable. */
    struct txg_engine *e = zn->fs->pool->txg;
    atomic_store(&zn->last_txg, dnode_dirty(zn->dn) ? txg_open_number(e) : txg_syncing_number(e));
    return 0;
}

/* Reads a znode that nobody had; others who want it wait. Enters and leaves with the shard locked.
 */
static int load_new(struct shard *s, struct znode *zn)
{
    hashmap_insert(&s->znodes, &zn->node, hash_u64(zn->object));
    pthread_mutex_unlock(&s->lock);
    int rc = load(zn);
    pthread_mutex_lock(&s->lock);
    if (rc == 0) {
        zn->state = ZNODE_READY;
    } else {
        hashmap_remove(&s->znodes, &zn->node);
        znode_free(zn);
    }
    pthread_cond_broadcast(&s->loaded);
    return rc;
}

int zn_get(struct fs *fs, uint64_t object, struct znode **out)
{
    if (object == FS_ROOT_INO)
        object = fs->root;
    struct shard *s = shard_of(fs, object);
    struct znode *zn;
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    while ((zn = find(s, object)) && zn->state == ZNODE_LOADING)
        pthread_cond_wait(&s->loaded, &s->lock);
    if (!zn) {
        zn = znode_alloc(fs, object);
        rc = zn ? load_new(s, zn) : -ENOMEM;
    } else if (zn->state == ZNODE_DYING) {
        rc = -ENOENT;
    } else if (zn->refs++ == 0) {
        idle_remove(s, zn);
    }
    pthread_mutex_unlock(&s->lock);
    if (rc == 0)
        *out = zn;
    return rc;
}

static bool is_stale(struct fs *fs, uint64_t object)
{
    struct shard *s = shard_of(fs, object);
    pthread_mutex_lock(&s->lock);
    struct lookup *l = find_lookup(s, object);
    bool stale = l && l->stale;
    pthread_mutex_unlock(&s->lock);
    return stale;
}

int zn_open(struct fs *fs, uint64_t ino, struct znode **out)
{
    if (atomic_load_explicit(&fs->stale, memory_order_relaxed) > 0 && is_stale(fs, ino))
        return -ESTALE;
    return zn_get(fs, ino, out);
}

void zn_ref(struct znode *zn)
{
    struct shard *s = shard_of(zn->fs, zn->object);
    pthread_mutex_lock(&s->lock);
    zn->refs++;
    pthread_mutex_unlock(&s->lock);
}

/* An object without a name that nobody refers to: off to the reaper. */
static bool should_die(struct shard *s, struct znode *zn)
{
    return zn->state == ZNODE_READY && zn->a.links == 0 && !find_lookup(s, zn->object) &&
           !zn->fs->readonly;
}

/* Are there too many idle ones? What all file systems hold counts. */
static bool crowded(const struct fs *fs, const struct shard *s)
{
    uint64_t held = (uint64_t)atomic_load_explicit(&fs->pool->held_bytes, memory_order_relaxed);
    return s->idle > (held > fs->pool->cache_limit / 16 ? FS_SHARD_LEAST : FS_SHARD_IDLE);
}

/* Drops the oldest idle znode; if its access time must be written first, returns it for that. */
static struct znode *evict(struct shard *s)
{
    struct znode *zn = s->oldest;
    idle_remove(s, zn);
    if (zn->atime_dirty) {
        zn->refs = 1;
        return zn;
    }
    hashmap_remove(&s->znodes, &zn->node);
    znode_free(zn);
    return NULL;
}

void zn_put(struct znode *zn)
{
    struct shard *s = shard_of(zn->fs, zn->object);
    struct znode *work = NULL;
    pthread_mutex_lock(&s->lock);
    if (--zn->refs == 0) {
        if (should_die(s, zn)) {
            zn->state = ZNODE_DYING;
            zn->refs = 1;
            work = zn;
        } else {
            idle_add(s, zn);
            for (int i = 0; i < 2 && !work && crowded(zn->fs, s); i++)
                work = evict(s);
        }
    }
    pthread_mutex_unlock(&s->lock);
    if (work)
        reaper_push(work);
}

void zn_destroy_dying(struct znode *zn)
{
    struct shard *s = shard_of(zn->fs, zn->object);
    pthread_mutex_lock(&s->lock);
    if (zn->state != ZNODE_GONE)
        hashmap_remove(&s->znodes, &zn->node);
    pthread_mutex_unlock(&s->lock);
    znode_free(zn);
}

void zn_discard(struct znode *zn)
{
    zn->state = ZNODE_DYING;
    zn_destroy_dying(zn);
}

/* Somebody may have come upon the new object by its number already: then his znode is the one. */
static struct znode *present(struct shard *s, uint64_t object)
{
    struct znode *zn;
    while ((zn = find(s, object)) && zn->state == ZNODE_LOADING)
        pthread_cond_wait(&s->loaded, &s->lock);
    if (zn && zn->state == ZNODE_DYING) { /* the number's last owner, already freed on disk */
        hashmap_remove(&s->znodes, &zn->node);
        zn->state = ZNODE_GONE;
        return NULL;
    }
    if (zn && zn->refs++ == 0)
        idle_remove(s, zn);
    return zn;
}

int zn_new(struct fs *fs, struct dnode *dn, const struct zattr *a, struct znode **out)
{
    struct znode *zn = znode_alloc(fs, dnode_object(dn));
    if (!zn)
        return -ENOMEM;
    struct shard *s = shard_of(fs, zn->object);
    zn->dn = dn;
    zn->a = *a;
    zn->type = a->mode & S_IFMT;
    zn->state = ZNODE_READY;
    pthread_mutex_lock(&s->lock);
    *out = present(s, zn->object);
    if (!*out)
        hashmap_insert(&s->znodes, &zn->node, hash_u64(zn->object));
    pthread_mutex_unlock(&s->lock);
    if (*out)
        znode_free(zn);
    else
        *out = zn;
    return 0;
}

/* ---- Lookup references ---- */

static void set_stale(struct fs *fs, struct lookup *l, bool stale)
{
    if (l->stale != stale)
        atomic_fetch_add(&fs->stale, stale ? 1 : -1);
    l->stale = stale;
}

int zn_add_lookup(struct znode *zn)
{
    struct shard *s = shard_of(zn->fs, zn->object);
    int rc = 0;
    if (zn == zn->fs->root_zn)
        return 0; /* lives as long as the mount */
    pthread_mutex_lock(&s->lock);
    struct lookup *l = find_lookup(s, zn->object);
    if (!l && (l = calloc(1, sizeof *l))) {
        l->object = zn->object;
        pthread_mutex_lock(&zn->attr_lock);
        l->unlinked = zn->a.links == 0; /* who unlinks now comes to zn_mark_unlinked after us */
        pthread_mutex_unlock(&zn->attr_lock);
        hashmap_insert(&s->lookups, &l->node, hash_u64(zn->object));
        pool_hold_memory(zn->fs->pool, LOOKUP_MEMORY);
    }
    if (l) {
        l->count++;
        set_stale(zn->fs, l, false);
    } else {
        rc = -ENOMEM;
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void zn_mark_unlinked(struct znode *zn, bool unlinked)
{
    struct shard *s = shard_of(zn->fs, zn->object);
    pthread_mutex_lock(&s->lock);
    struct lookup *l = find_lookup(s, zn->object);
    if (l)
        l->unlinked = unlinked;
    pthread_mutex_unlock(&s->lock);
}

static void lookup_free(struct fs *fs, struct lookup *l)
{
    pool_hold_memory(fs->pool, -(int64_t)LOOKUP_MEMORY);
    free(l);
}

/* Drops references; says whether that was the last one of a file without a name. */
static bool drop_lookups(struct fs *fs, struct shard *s, uint64_t object, uint64_t count)
{
    struct lookup *l = find_lookup(s, object);
    if (!l)
        return false;
    if (count < l->count) {
        l->count -= count;
        return false;
    }
    bool unlinked = l->unlinked;
    set_stale(fs, l, false);
    hashmap_remove(&s->lookups, &l->node);
    lookup_free(fs, l);
    return unlinked;
}

/* Getting and putting a file without name or reference is what sends it to the reaper. */
static void touch(struct fs *fs, uint64_t object)
{
    struct znode *zn;
    if (zn_get(fs, object, &zn) == 0)
        zn_put(zn);
}

void fs_forget(struct fs *fs, uint64_t ino, uint64_t count)
{
    struct shard *s = shard_of(fs, ino);
    pthread_mutex_lock(&s->lock);
    bool last = drop_lookups(fs, s, ino, count);
    pthread_mutex_unlock(&s->lock);
    if (last)
        touch(fs, ino);
}

/* One reference record of the shard, or false. */
static bool any_lookup(struct shard *s, uint64_t *object)
{
    bool found = false;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; s->lookups.count > 0 && i <= s->lookups.mask && !found; i++) {
        if (s->lookups.slots[i]) {
            *object = container_of(s->lookups.slots[i], struct lookup, node)->object;
            found = true;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

static void drop_shard_lookups(struct fs *fs, struct shard *s)
{
    size_t start = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = start; i <= s->lookups.mask; i++) {
        for (struct hashmap_node *n = s->lookups.slots[i], *next; n; n = next) {
            struct lookup *l = container_of(n, struct lookup, node);
            next = n->next;
            if (l->unlinked)
                continue;
            set_stale(fs, l, false);
            hashmap_remove(&s->lookups, n);
            lookup_free(fs, l);
        }
    }
    pthread_mutex_unlock(&s->lock);
    uint64_t object;
    while (any_lookup(s, &object)) /* those without a name go to the reaper */
        fs_forget(fs, object, UINT64_MAX);
}

void zn_drop_all_lookups(struct fs *fs)
{
    for (int i = 0; i < FS_SHARDS; i++)
        drop_shard_lookups(fs, &fs->shards[i]);
}

bool zn_each_lookup(struct fs *fs, bool (*fn)(void *arg, uint64_t object), void *arg)
{
    bool more = true;
    for (int i = 0; i < FS_SHARDS; i++) {
        struct shard *s = &fs->shards[i];
        pthread_mutex_lock(&s->lock);
        for (size_t k = 0; k <= s->lookups.mask && more; k++)
            for (struct hashmap_node *n = s->lookups.slots[k]; n && more; n = n->next)
                more = fn(arg, container_of(n, struct lookup, node)->object);
        pthread_mutex_unlock(&s->lock);
    }
    return more;
}

void zn_lookup_reloaded(struct fs *fs, uint64_t object, bool stale, bool unlinked)
{
    struct shard *s = shard_of(fs, object);
    pthread_mutex_lock(&s->lock);
    struct lookup *l = find_lookup(s, object);
    if (l) {
        set_stale(fs, l, stale);
        l->unlinked = unlinked && !stale;
    }
    pthread_mutex_unlock(&s->lock);
}

void zn_flush_idle(struct fs *fs)
{
    for (int i = 0; i < FS_SHARDS && !fs->readonly; i++) {
        struct shard *s = &fs->shards[i];
        for (struct znode *zn = NULL;; zn = NULL) {
            pthread_mutex_lock(&s->lock);
            for (struct znode *z = s->oldest; z && !zn; z = z->prev)
                if (z->atime_dirty)
                    zn = z;
            if (zn) {
                idle_remove(s, zn);
                zn->refs = 1;
            }
            pthread_mutex_unlock(&s->lock);
            if (!zn)
                break;
            zn_flush_atime(zn);
            zn->atime_dirty = false; /* or lost: better than no end */
            zn_put(zn);
        }
    }
}

void zn_drop_idle(struct fs *fs)
{
    for (int i = 0; i < FS_SHARDS; i++) {
        struct shard *s = &fs->shards[i];
        while (s->oldest) {
            struct znode *zn = s->oldest;
            idle_remove(s, zn);
            hashmap_remove(&s->znodes, &zn->node);
            znode_free(zn);
        }
    }
}

void shards_fini(struct fs *fs)
{
    zn_drop_idle(fs);
    for (int i = 0; i < FS_SHARDS; i++) {
        struct shard *s = &fs->shards[i];
        if (s->znodes.slots)
            hashmap_destroy(&s->znodes);
        if (s->lookups.slots)
            hashmap_destroy(&s->lookups);
        pthread_cond_destroy(&s->loaded);
        pthread_mutex_destroy(&s->lock);
    }
}
