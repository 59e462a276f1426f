#include "dmu/objset.h"

#include <errno.h>
#include <stdlib.h>

#include "codec/crypt.h"
#include "dmu/dmu_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static void default_killed(void *arg, const struct blkptr *bp, struct tx *tx);

/* ---- Memory ---- */

static int init_shards(struct objset *os)
{
    for (int i = 0; i < DNODE_SHARDS; i++) {
        pthread_mutex_init(&os->shards[i].lock, NULL);
        if (hashmap_init(&os->shards[i].map, 16) < 0)
            return -ENOMEM;
    }
    return 0;
}

static void free_objset(struct objset *os)
{
    slots_free(os);
    for (int i = 0; i < DNODE_SHARDS; i++) {
        hashmap_destroy(&os->shards[i].map);
        pthread_mutex_destroy(&os->shards[i].lock);
    }
    for (int i = 0; i < TXG_SLOTS; i++)
        pthread_mutex_destroy(&os->dirty[i].lock);
    pthread_mutex_destroy(&os->neighbours.lock);
    pthread_mutex_destroy(&os->lock);
    pthread_cond_destroy(&os->idle);
    if (os->cache)
        cache_put(os->cache);
    crypt_key_unref(os->key);
    free(os);
}

static int new_objset(struct objset **out, struct pool *pool, uint64_t id,
                      const struct objset_props *props, const struct objset_ops *ops, void *ops_arg)
{
    struct objset *os = aligned_alloc(64, ROUND_UP(sizeof *os, 64));
    int rc;

    *out = NULL;
    if (!os)
        return -ENOMEM;
    *os = (struct objset){.pool = pool, .id = id, .props = *props, .ops_arg = ops_arg};
    if (ops) {
        os->ops = *ops;
    } else {
        os->ops.killed = default_killed;
        os->ops_arg = os;
    }
    pthread_mutex_init(&os->lock, NULL);
    pthread_mutex_init(&os->neighbours.lock, NULL);
    pthread_cond_init(&os->idle, NULL);
    for (int i = 0; i < TXG_SLOTS; i++)
        pthread_mutex_init(&os->dirty[i].lock, NULL);
    rc = init_shards(os);
    if (rc == 0)
        rc = cache_get(pool, &os->cache);
    if (rc < 0)
        free_objset(os);
    else
        *out = os;
    return rc;
}

static void default_killed(void *arg, const struct blkptr *bp, struct tx *tx)
{
    struct objset *os = arg;

    block_free(os->pool, tx->txg, objset_batch(os), bp);
}

/* ---- The objset block ---- */

static int check_size(uint64_t id, size_t n)
{
    if (n != 1024 && n != 2048 && n != OBJSET_SIZE)
        return err_set(EINVAL, "object set %llu: its root block has %zu bytes",
                       (unsigned long long)id, n);
    return 0;
}

static int check_image(struct objset *os, const unsigned char *im, const char *what)
{
    if (image_check(im, DNODE_MIN_SIZE) < 0)
        return err_set(EBADE, "object set %llu: the %s dnode is damaged", (unsigned long long)os->id,
                       what);
    return 0;
}

/* Makes the special dnodes from the block in os->phys. */
static int load_dnodes(struct objset *os)
{
    static const char *const names[] = {"user-used", "group-used", "project-used"};
    int rc = os->phys[DN_TYPE] == OT_DNODE ? check_image(os, os->phys, "meta") : -EINVAL;

    if (rc == -EINVAL)
        return err_set(EINVAL, "object set %llu: its root block holds no object set",
                       (unsigned long long)os->id);
    if (rc < 0)
        return rc;
    if (image_block_size(os->phys) != DNODE_BLOCK_SIZE)
        return err_set(EBADE, "object set %llu: the meta dnode's blocks have %u bytes",
                       (unsigned long long)os->id, image_block_size(os->phys));
    os->meta = dnode_alloc(os, OBJECT_META_DNODE, os->phys);
    if (!os->meta)
        return -ENOMEM;
    os->meta->on_disk = true;
    for (int i = 0; i < 3; i++) {
        unsigned char *im = os->phys + OBJSET_OFF_SPECIAL + i * DNODE_MIN_SIZE;
        if (im[DN_TYPE] == OT_NONE)
            continue;
        rc = check_image(os, im, names[i]);
        if (rc < 0)
            return rc;
        os->special[i] = dnode_alloc(os, UINT64_MAX - (unsigned)i, im);
        if (!os->special[i])
            return -ENOMEM;
        os->special[i]->on_disk = true;
    }
    return 0;
}

static int read_phys(struct objset *os, const struct blkptr *root)
{
    struct bookmark bm = {os->id, 0, -1, 0};
    struct buf *b;
    int rc;

    if (bp_hole(root) || bp_type(root) != OT_OBJSET)
        return err_set(EINVAL, "object set %llu: its root pointer leads to no object set",
                       (unsigned long long)os->id);
    rc = block_read_key(os->pool, root, &bm, os->key, &b);
    if (rc < 0)
        return rc;
    rc = check_size(os->id, b->size);
    if (rc == 0 && os->key)
        rc = err_prefix(objset_authenticate(os->key, b->data, b->size, bp_big_endian(root)),
                        "object set %llu", (unsigned long long)os->id);
    if (rc == 0) {
        memset(os->phys, 0, sizeof os->phys);
        memcpy(os->phys, b->data, b->size);
        os->phys_size = (uint32_t)b->size;
        if (bp_big_endian(root) != BYTES_HOST_BIG)
            block_swap(OT_OBJSET, 0, os->phys, sizeof os->phys);
        os->type = (enum objset_type)host64(os->phys + OBJSET_OFF_TYPE);
        os->flags = host64(os->phys + OBJSET_OFF_FLAGS);
        os->root = *root;
    }
    buf_unref(b);
    return rc;
}

/* ---- Opening and closing ---- */

int objset_open(struct objset **out, struct pool *pool, uint64_t id, const struct blkptr *root,
                const struct objset_props *props, const struct objset_ops *ops, void *ops_arg)
{
    return objset_open_key(out, pool, id, root, props, ops, ops_arg, NULL);
}

int objset_open_key(struct objset **out, struct pool *pool, uint64_t id, const struct blkptr *root,
                    const struct objset_props *props, const struct objset_ops *ops, void *ops_arg,
                    struct crypt_key *key)
{
    struct objset *os;
    int rc = new_objset(&os, pool, id, props, ops, ops_arg);

    *out = NULL;
    if (rc < 0)
        return rc;
    os->key = crypt_key_ref(key);
    rc = read_phys(os, root);
    if (rc == 0)
        rc = load_dnodes(os);
    if (rc == 0)
        rc = slots_new(os);
    if (rc < 0)
        objset_close(os);
    else
        *out = os;
    return rc;
}

static void format_phys(struct objset *os)
{
    unsigned char *im = os->phys;

    im[DN_TYPE] = OT_DNODE;
    im[DN_INDIRECT_SHIFT] = DNODE_INDIRECT_SHIFT;
    im[DN_NBLKPTR] = 3;
    /* Ordinary sets get the levels they can ever need, as the reference does: what an empty file
     * system uses is a number people compare. */
    im[DN_LEVELS] = os->type == OBJSET_META
                        ? 1
                        : (unsigned char)levels_needed(3, DNODE_INDIRECT_SHIFT - 7,
                                                       (OBJECT_MAX - 1) / DNODES_PER_BLOCK);
    im[DN_FLAGS] = DNODE_FLAG_USED_BYTES;
    set_host16(im + DN_BLOCK_SECTORS, DNODE_BLOCK_SIZE >> 9);
    set_host64(im + OBJSET_OFF_TYPE, os->type);
    set_host64(im + OBJSET_OFF_FLAGS, os->flags);
    os->phys_size = OBJSET_SIZE;
}

static void mark_self(struct objset *os, uint64_t txg)
{
    struct objset_dirty *d = &os->dirty[txg & TXG_MASK];

    MUTEX_GUARD(&d->lock);
    d->self = true;
}

int objset_create(struct objset **out, struct pool *pool, uint64_t id, enum objset_type type,
                  uint64_t flags, const struct objset_props *props, const struct objset_ops *ops,
                  void *ops_arg, struct tx *tx)
{
    struct objset *os;
    int rc = new_objset(&os, pool, id, props, ops, ops_arg);

    *out = NULL;
    if (rc < 0)
        return rc;
    os->type = type;
    os->flags = flags;
    format_phys(os);
    rc = load_dnodes(os);
    if (rc == 0)
        rc = slots_new(os);
    if (rc < 0) {
        objset_close(os);
        return rc;
    }
    os->meta->on_disk = false;
    objset_announce(os, tx);
    mark_self(os, tx->txg);
    *out = os;
    return 0;
}

/* Empties the hash of dnodes: what nobody holds is freed, the rest is stale. */
static void drop_dnodes(struct objset *os)
{
    for (int i = 0; i < DNODE_SHARDS; i++) {
        struct dnode_shard *s = &os->shards[i];
        for (size_t slot = 0; s->map.slots && slot <= s->map.mask; slot++) {
            for (;;) {
                struct dnode *dn = NULL;
                pthread_mutex_lock(&s->lock);
                if (s->map.slots[slot]) {
                    dn = container_of(s->map.slots[slot], struct dnode, node);
                    dnode_ref(dn);
                }
                pthread_mutex_unlock(&s->lock);
                if (!dn)
                    break;
                pthread_mutex_lock(&dn->lock);
                dn->gone = -ESTALE;
                pthread_mutex_unlock(&dn->lock);
                dbuf_drop_unheld(dn);
                dnode_orphan(dn);
                dnode_rele(dn);
            }
        }
    }
}

static void drop_special(struct dnode *dn)
{
    if (!dn)
        return;
    pthread_mutex_lock(&dn->lock);
    dn->gone = -ESTALE;
    pthread_mutex_unlock(&dn->lock);
    dbuf_drop_unheld(dn);
    atomic_fetch_or(&dn->refs, DNODE_ORPHAN);
    dnode_rele(dn);
}

static void drop_all(struct objset *os)
{
    pthread_mutex_lock(&os->lock);
    while (os->async > 0)
        pthread_cond_wait(&os->idle, &os->lock);
    pthread_mutex_unlock(&os->lock);
    drop_dnodes(os);
    for (int i = 0; i < 3; i++) {
        struct dnode *dn;
        pthread_mutex_lock(&os->lock);
        dn = os->special[i];
        os->special[i] = NULL;
        pthread_mutex_unlock(&os->lock);
        drop_special(dn);
    }
    drop_special(os->meta);
    os->meta = NULL;
}

/* What was dirty is lost: for a pool whose last txg could not be written. */
static void drop_dirty(struct objset *os)
{
    for (int i = 0; i < TXG_SLOTS; i++) {
        struct objset_dirty *d = &os->dirty[i];
        while (d->list) {
            struct change *ch = d->list;
            struct dnode *dn = ch->dn;
            d->list = ch->next;
            pthread_mutex_lock(&dn->lock);
            while (ch->writes)
                dirty_release(ch->writes);
            dn->changes[i] = NULL;
            pthread_mutex_unlock(&dn->lock);
            change_free(ch);
            dnode_rele(dn);
        }
        d->count = 0;
        d->self = d->zil_set = false;
    }
}

void objset_close(struct objset *os)
{
    if (!os)
        return;
    drop_dirty(os);
    if (os->meta)
        drop_all(os);
    free_objset(os);
}

int objset_reset(struct objset *os, const struct blkptr *root)
{
    int rc;

    drop_all(os);
    rc = read_phys(os, root);
    if (rc == 0)
        rc = load_dnodes(os);
    if (rc == 0)
        slots_reset(os);
    return rc;
}

/* ---- What it is ---- */

struct pool *objset_pool(const struct objset *os)
{
    return os->pool;
}

uint64_t objset_id(const struct objset *os)
{
    return os->id;
}

enum objset_type objset_type(const struct objset *os)
{
    return os->type;
}

unsigned objset_uses(const struct objset *os)
{
    return atomic_load_explicit(&((struct objset *)os)->uses, memory_order_relaxed);
}

uint64_t objset_flags(const struct objset *os)
{
    struct objset *m = (struct objset *)os;

    MUTEX_GUARD(&m->lock);
    return os->flags;
}

void objset_set_flags(struct objset *os, uint64_t flags, struct tx *tx)
{
    objset_announce(os, tx);
    mark_self(os, tx->txg);
    MUTEX_GUARD(&os->lock);
    os->flags = flags;
}

void objset_props(const struct objset *os, struct objset_props *out)
{
    struct objset *m = (struct objset *)os;

    MUTEX_GUARD(&m->lock);
    *out = os->props;
}

void objset_set_props(struct objset *os, const struct objset_props *props)
{
    MUTEX_GUARD(&os->lock);
    os->props = *props;
}

const struct blkptr *objset_root(const struct objset *os)
{
    return &os->root;
}

struct crypt_key *objset_key(const struct objset *os)
{
    return os->key;
}

uint64_t objset_object_count(const struct objset *os)
{
    struct objset *m = (struct objset *)os;

    MUTEX_GUARD(&m->lock);
    return bp_hole(&os->root) ? 0 : bp_fill(&os->root);
}

void objset_zil_header(const struct objset *os, unsigned char out[OBJSET_ZIL_HEADER_SIZE])
{
    struct objset *m = (struct objset *)os;
    uint64_t newest = 0;

    {
        MUTEX_GUARD(&m->lock);
        memcpy(out, os->phys + OBJSET_OFF_ZIL, OBJSET_ZIL_HEADER_SIZE);
    }
    for (int i = 0; i < TXG_SLOTS; i++) {
        struct objset_dirty *d = &m->dirty[i];
        uint64_t txg = atomic_load(&d->announced);
        MUTEX_GUARD(&d->lock);
        if (d->zil_set && txg >= newest) {
            memcpy(out, d->zil, OBJSET_ZIL_HEADER_SIZE);
            newest = txg;
        }
    }
}

void objset_set_zil_header(struct objset *os, const unsigned char in[OBJSET_ZIL_HEADER_SIZE],
                           struct tx *tx)
{
    struct objset_dirty *d = &os->dirty[tx->txg & TXG_MASK];

    objset_announce(os, tx);
    MUTEX_GUARD(&d->lock);
    memcpy(d->zil, in, OBJSET_ZIL_HEADER_SIZE);
    d->zil_set = d->self = true;
}

bool objset_dirty(const struct objset *os, uint64_t txg)
{
    struct objset_dirty *d = &((struct objset *)os)->dirty[txg & TXG_MASK];

    MUTEX_GUARD(&d->lock);
    return d->list || d->self;
}

/* ---- Enumeration ---- */

/* The first allocated object of one dnode block that is > after, counting what memory knows. */
static int next_in_block(struct objset *os, uint64_t blkid, uint64_t after, uint64_t *object)
{
    struct dbuf *db;
    unsigned width = 1;
    int rc = dbuf_hold_level(os->meta, 0, blkid, &db);

    if (rc < 0)
        return rc;
    rc = -ENOENT;
    for (unsigned i = 0; i < DNODES_PER_BLOCK && rc == -ENOENT; i += width) {
        uint64_t n = blkid * DNODES_PER_BLOCK + i;
        struct dnode *dn = n ? dnode_find(os, n) : NULL;
        bool there = false;
        width = 1;
        if (dn) {
            width = image_size(dn->image) / DNODE_MIN_SIZE;
            pthread_mutex_lock(&dn->lock);
            there = dn->gone == 0;
            pthread_mutex_unlock(&dn->lock);
            dnode_rele(dn);
        } else if (n) {
            pthread_mutex_lock(&os->meta->lock);
            if (db->state == DBUF_CACHED &&
                dnode_block_slots(db->buf->data, i, &width, &there) < 0)
                width = 1;
            pthread_mutex_unlock(&os->meta->lock);
        }
        if (there && n > after) {
            *object = n;
            rc = 0;
        }
    }
    dbuf_unhold(db);
    return rc;
}

/* The first dnode block >= *blkid that may have objects, on disk or in memory. */
static int next_block(struct objset *os, uint64_t *blkid)
{
    uint64_t pending = *blkid, off = *blkid << DNODE_BLOCK_SHIFT;
    bool any = slots_next_pending(os, &pending);
    int rc = dnode_seek(os->meta, &off, false);

    if (rc < 0 && (rc != -ENXIO || !any))
        return rc;
    *blkid = off >> DNODE_BLOCK_SHIFT;
    if (rc == -ENXIO || (any && pending < *blkid))
        *blkid = pending;
    return 0;
}

int objset_next_object(struct objset *os, uint64_t *object)
{
    uint64_t blkid = (*object + 1) / DNODES_PER_BLOCK;
    int rc = -ENOENT;

    if ((*object + 1) % DNODES_PER_BLOCK != 0) /* most are in the same block */
        rc = next_in_block(os, blkid++, *object, object);
    for (; rc == -ENOENT; blkid++) {
        rc = next_block(os, &blkid);
        if (rc < 0)
            return rc == -ENXIO ? -ENOENT : rc;
        rc = next_in_block(os, blkid, *object, object);
    }
    return rc;
}
