#include "dmu/dnode.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

/* ---- Images ---- */

unsigned levels_needed(unsigned nblkptr, unsigned epbs, uint64_t blkid)
{
    unsigned levels = 1;

    while (blkid >= nblkptr) {
        blkid >>= epbs;
        levels++;
    }
    return levels;
}

int image_check(const unsigned char *im, size_t room)
{
    size_t size = image_size(im), tail = size - DNODE_CORE_SIZE;
    size_t spill = im[DN_FLAGS] & DNODE_FLAG_SPILL ? BLKPTR_SIZE : 0;

    if (size > room || im[DN_NBLKPTR] < 1 || im[DN_NBLKPTR] > 3 || im[DN_LEVELS] < 1 ||
        im[DN_LEVELS] > LEVELS_MAX || im[DN_INDIRECT_SHIFT] < 10 || im[DN_INDIRECT_SHIFT] > 17 ||
        host16(im + DN_BLOCK_SECTORS) == 0 || image_block_size(im) > BLOCK_MAX_SIZE ||
        (size_t)im[DN_NBLKPTR] * BLKPTR_SIZE + host16(im + DN_BONUS_LEN) + spill > tail)
        return -EBADE;
    return 0;
}

/* ---- Memory ---- */

struct dnode_shard *dnode_shard(struct objset *os, uint64_t object)
{
    return &os->shards[hash_u64(object) >> 32 & (DNODE_SHARDS - 1)];
}

/* Decodes what open context may change into the struct. */
static void load_fields(struct dnode *dn)
{
    const unsigned char *im = dn->image;

    dn->type = im[DN_TYPE];
    dn->bonus_type = im[DN_BONUS_TYPE];
    dn->bonus_len = host16(im + DN_BONUS_LEN);
    dn->block_size = image_block_size(im);
    dn->indirect_shift = im[DN_INDIRECT_SHIFT];
    dn->max_blkid = host64(im + DN_MAX_BLKID);
}

struct dnode *dnode_alloc(struct objset *os, uint64_t object, const unsigned char *image)
{
    size_t n = image_size(image);
    struct buf *memory = buf_new_zero(sizeof(struct dnode) + n);
    struct dnode *dn;

    if (!memory)
        return NULL;
    dn = (struct dnode *)memory->data;
    dn->memory = memory;
    dn->item.kind = CACHE_DNODE;
    dn->os = os;
    dn->object = object;
    dn->image = (unsigned char *)(dn + 1);
    memcpy(dn->image, image, n);
    atomic_init(&dn->refs, 1);
    pthread_mutex_init(&dn->lock, NULL);
    load_fields(dn);
    return dn;
}

void dnode_free_memory(struct dnode *dn)
{
    for (int i = 0; i < DNODE_USER_SLOTS; i++) {
        void *user = atomic_load(&dn->users[i].ptr);
        if (user && dn->users[i].free_fn)
            dn->users[i].free_fn(user);
    }
    prefetch_free(dn->prefetch);
    free(dn->table);
    pthread_mutex_destroy(&dn->lock);
    buf_unref(dn->memory);
}

void dnode_ref(struct dnode *dn)
{
    atomic_fetch_add_explicit(&dn->refs, 1, memory_order_relaxed);
}

void dnode_rele(struct dnode *dn)
{
    if (dn && atomic_fetch_sub_explicit(&dn->refs, 1, memory_order_acq_rel) == (DNODE_ORPHAN | 1))
        dnode_free_memory(dn);
}

static uint32_t memory_size(const struct dnode *dn)
{
    return (uint32_t)(dn->memory->capacity + sizeof *dn->memory + sizeof(void *));
}

/* With the shard lock held: into the hash and the cache. */
static void publish(struct dnode_shard *s, struct dnode *dn)
{
    hashmap_insert(&s->map, &dn->node, hash_u64(dn->object));
    cache_insert(dn->os->cache, &dn->item, CACHE_MAIN, memory_size(dn));
}

bool dnode_try_detach(struct cache_item *it)
{
    struct dnode *dn = container_of(it, struct dnode, item);
    struct dnode_shard *s = dnode_shard(dn->os, dn->object);
    bool unused;

    if (pthread_mutex_trylock(&s->lock) != 0)
        return false;
    unused = atomic_load_explicit(&dn->refs, memory_order_acquire) == 0;
    if (unused)
        hashmap_remove(&s->map, &dn->node);
    pthread_mutex_unlock(&s->lock);
    return unused;
}

void dnode_dispose(struct cache_item *it)
{
    dnode_free_memory(container_of(it, struct dnode, item));
}

/* With the shard lock held. */
static struct dnode *find_locked(struct dnode_shard *s, uint64_t object)
{
    struct hashmap_node *n = hashmap_first(&s->map, hash_u64(object));

    for (; n; n = hashmap_next(n)) {
        struct dnode *dn = container_of(n, struct dnode, node);
        if (dn->object == object) {
            dnode_ref(dn);
            return dn;
        }
    }
    return NULL;
}

static struct dnode *find_special(struct objset *os, uint64_t object)
{
    struct dnode *dn = os->meta;

    if (object != OBJECT_META_DNODE) {
        MUTEX_GUARD(&os->lock);
        dn = os->special[UINT64_MAX - object];
    }
    if (dn)
        dnode_ref(dn);
    return dn;
}

struct dnode *dnode_find(struct objset *os, uint64_t object)
{
    struct dnode_shard *s = dnode_shard(os, object);
    struct dnode *dn;

    if (object == OBJECT_META_DNODE || object >= OBJECT_PROJECTUSED)
        return find_special(os, object);
    MUTEX_GUARD(&s->lock);
    dn = find_locked(s, object);
    if (dn)
        cache_touch(os->cache, &dn->item);
    return dn;
}

void dnode_orphan(struct dnode *dn)
{
    struct dnode_shard *s = dnode_shard(dn->os, dn->object);
    uint32_t refs;

    {
        MUTEX_GUARD(&s->lock);
        hashmap_remove(&s->map, &dn->node);
        refs = atomic_fetch_or(&dn->refs, DNODE_ORPHAN);
    }
    cache_remove(dn->os->cache, &dn->item);
    if (refs == 0)
        dnode_free_memory(dn);
}

/* ---- Holding ---- */

int dnode_block_slots(const unsigned char *block, unsigned slot, unsigned *width, bool *allocated)
{
    const unsigned char *im = block + (size_t)slot * DNODE_MIN_SIZE;

    *allocated = im[DN_TYPE] != OT_NONE;
    *width = *allocated ? im[DN_EXTRA_SLOTS] + 1u : 1;
    if (*allocated)
        return image_check(im, (size_t)(DNODES_PER_BLOCK - slot) * DNODE_MIN_SIZE);
    return 0;
}

/* The image of an object in its block; NULL with *rc. */
static const unsigned char *find_image(const unsigned char *block, uint64_t object, int *rc)
{
    unsigned want = object % DNODES_PER_BLOCK, slot = 0, width;
    bool allocated;

    *rc = -ENOENT;
    while (slot <= want) {
        int bad = dnode_block_slots(block, slot, &width, &allocated);
        if (slot == want) {
            *rc = bad ? err_set(EBADE, "object %llu: its dnode is damaged",
                                (unsigned long long)object)
                      : allocated ? 0 : -ENOENT;
            return *rc ? NULL : block + (size_t)slot * DNODE_MIN_SIZE;
        }
        slot += bad ? 1 : width;
    }
    return NULL;
}

/* With the block of dnodes held: makes the dnode from its image unless it has appeared meanwhile.
 * Copying and publishing under the shard lock, so that no image older than a sync gets in. */
static int load_dnode(struct objset *os, uint64_t object, struct dbuf *block, struct dnode **out)
{
    struct dnode_shard *s = dnode_shard(os, object);
    const unsigned char *im;
    struct dnode *dn;
    int rc;

    MUTEX_GUARD(&s->lock);
    dn = find_locked(s, object);
    if (dn) {
        *out = dn;
        return 0;
    }
    pthread_mutex_lock(&os->meta->lock);
    im = NULL;
    rc = -ENOENT;
    if (block->state == DBUF_CACHED && (im = find_image(block->buf->data, object, &rc))) {
        dn = dnode_alloc(os, object, im);
        rc = dn ? 0 : -ENOMEM;
    }
    pthread_mutex_unlock(&os->meta->lock);
    if (rc < 0)
        return rc;
    dn->on_disk = true;
    publish(s, dn);
    *out = dn;
    return 0;
}

int dnode_hold(struct objset *os, uint64_t object, struct dnode **out)
{
    struct dnode *dn = dnode_find(os, object);
    bool special = object == OBJECT_META_DNODE || object >= OBJECT_PROJECTUSED;
    struct dbuf *block;
    int rc = 0;

    *out = NULL;
    if (!dn && (special || object >= OBJECT_MAX))
        return -ENOENT;
    if (!dn) {
        rc = dbuf_hold_level(os->meta, 0, object / DNODES_PER_BLOCK, &block);
        if (rc < 0)
            return rc;
        rc = load_dnode(os, object, block, &dn);
        dbuf_unhold(block);
        if (rc < 0)
            return rc;
        cache_trim(os->cache);
    }
    pthread_mutex_lock(&dn->lock);
    rc = dn->gone;
    pthread_mutex_unlock(&dn->lock);
    if (rc < 0)
        dnode_rele(dn);
    else
        *out = dn;
    return rc;
}

/* ---- Creating and freeing ---- */

static unsigned choose_nblkptr(const struct object_params *p, unsigned size)
{
    if (p->bonus_type == OT_SA)
        return 1;
    return MIN(3u, 1 + ((size - DNODE_CORE_SIZE - BLKPTR_SIZE - p->bonus_len) >> 7));
}

static int make_image(const struct object_params *p, unsigned char *im)
{
    unsigned size = p->dnode_size ? p->dnode_size : DNODE_MIN_SIZE;
    uint32_t block = P2_ROUND_UP(p->block_size ? p->block_size : 512u, 512u);

    if (size % DNODE_MIN_SIZE || size > DNODE_MAX_SIZE || block > BLOCK_MAX_SIZE ||
        p->type == OT_NONE || p->bonus_len > size - DNODE_CORE_SIZE - BLKPTR_SIZE)
        return -EINVAL;
    memset(im, 0, size);
    im[DN_TYPE] = p->type;
    im[DN_INDIRECT_SHIFT] = p->indirect_shift ? p->indirect_shift : DNODE_INDIRECT_SHIFT;
    im[DN_LEVELS] = p->nlevels ? p->nlevels : 1;
    im[DN_NBLKPTR] = (unsigned char)choose_nblkptr(p, size);
    im[DN_BONUS_TYPE] = p->bonus_type;
    im[DN_COMPRESS] = p->compress;
    im[DN_EXTRA_SLOTS] = (unsigned char)(size / DNODE_MIN_SIZE - 1);
    set_host16(im + DN_BLOCK_SECTORS, (uint16_t)(block >> 9));
    set_host16(im + DN_BONUS_LEN, p->bonus_len);
    return 0;
}

static int publish_special(struct objset *os, struct dnode *dn)
{
    MUTEX_GUARD(&os->lock);
    if (os->special[UINT64_MAX - dn->object])
        return -EEXIST;
    dnode_ref(dn);
    os->special[UINT64_MAX - dn->object] = dn;
    return 0;
}

static int mark_created(struct dnode *dn, struct tx *tx)
{
    struct change *ch;

    MUTEX_GUARD(&dn->lock);
    ch = change_get(dn, tx);
    if (ch)
        ch->flags |= CHANGE_CREATE;
    return ch ? 0 : -ENOMEM;
}

/* Makes the new dnode known; on failure it is gone again. */
static int create_dnode(struct dnode *dn, struct tx *tx)
{
    struct objset *os = dn->os;
    struct dnode_shard *s = dnode_shard(os, dn->object);
    int rc = dnode_is_special(dn) ? publish_special(os, dn) : 0;

    if (rc < 0)
        return rc;
    rc = mark_created(dn, tx);
    if (rc < 0) {
        if (dnode_is_special(dn)) {
            MUTEX_GUARD(&os->lock);
            os->special[UINT64_MAX - dn->object] = NULL;
        }
        return rc;
    }
    if (!dnode_is_special(dn)) {
        MUTEX_GUARD(&s->lock);
        publish(s, dn);
    }
    return 0;
}

int object_create(struct objset *os, uint64_t number, const struct object_params *params,
                  struct tx *tx, struct dnode **out)
{
    unsigned char im[DNODE_MAX_SIZE];
    bool special = number >= OBJECT_PROJECTUSED;
    struct dnode *dn;
    unsigned slots;
    int rc = make_image(params, im);

    *out = NULL;
    if (rc < 0 || (!special && number >= OBJECT_MAX))
        return rc < 0 ? rc : -EINVAL;
    objset_announce(os, tx);
    slots = im[DN_EXTRA_SLOTS] + 1u;
    if (!special)
        rc = number ? slots_claim_at(os, number, slots) : slots_claim(os, slots, &number);
    if (rc < 0)
        return rc;
    dn = dnode_alloc(os, number, im);
    rc = dn ? create_dnode(dn, tx) : -ENOMEM;
    if (rc < 0) {
        if (dn)
            dnode_free_memory(dn);
        if (!special)
            slots_unclaim(os, number, slots);
        return rc;
    }
    *out = dn;
    cache_trim(os->cache);
    return 0;
}

/* With the lock held: what tx's txg wanted to write is void. */
static void drop_writes(struct change *ch)
{
    while (ch->writes)
        dirty_release(ch->writes);
}

int object_free(struct dnode *dn, struct tx *tx)
{
    struct change *ch;

    if (dnode_is_special(dn))
        return -EINVAL;
    objset_announce(dn->os, tx);
    {
        MUTEX_GUARD(&dn->lock);
        if (dn->gone)
            return dn->gone;
        ch = change_get(dn, tx);
        if (!ch)
            return -ENOMEM;
        drop_writes(ch);
        ch->flags |= CHANGE_FREE;
        dn->gone = -ENOENT;
    }
    return 0;
}

/* ---- What it is ---- */

struct objset *dnode_objset(const struct dnode *dn)
{
    return dn->os;
}

uint64_t dnode_object(const struct dnode *dn)
{
    return dn->object;
}

#define DNODE_GETTER(rtype, name, expr)                                                            \
    rtype name(const struct dnode *dn)                                                             \
    {                                                                                              \
        struct dnode *m = (struct dnode *)dn;                                                      \
        MUTEX_GUARD(&m->lock);                                                                     \
        return (expr);                                                                             \
    }
DNODE_GETTER(uint8_t, dnode_type, dn->type)
DNODE_GETTER(uint8_t, dnode_bonus_type, dn->bonus_type)
DNODE_GETTER(uint32_t, dnode_block_size, dn->block_size)
DNODE_GETTER(uint64_t, dnode_max_blkid, dn->max_blkid)
DNODE_GETTER(uint64_t, dnode_used, image_used(dn->image))
DNODE_GETTER(unsigned, dnode_levels, dn->image[DN_LEVELS])
#undef DNODE_GETTER

uint32_t dnode_size(const struct dnode *dn)
{
    return image_size(dn->image);
}

int dnode_set_type(struct dnode *dn, uint8_t type, struct tx *tx)
{
    struct change *ch;

    objset_announce(dn->os, tx);
    MUTEX_GUARD(&dn->lock);
    if (dn->gone)
        return dn->gone;
    ch = change_get(dn, tx);
    if (!ch)
        return -ENOMEM;
    ch->flags |= CHANGE_TYPE;
    ch->type = dn->type = type;
    return 0;
}

/* ---- Users ---- */

void *dnode_user_attach(struct dnode *dn, enum dnode_user_slot slot, void *user,
                        void (*free_fn)(void *user))
{
    void *present;

    MUTEX_GUARD(&dn->lock);
    present = atomic_load(&dn->users[slot].ptr);
    if (present)
        return present;
    dn->users[slot].free_fn = free_fn;
    atomic_store(&dn->users[slot].ptr, user);
    return user;
}

void dnode_user_memory(struct dnode *dn, size_t bytes)
{
    cache_resize(dn->os->cache, &dn->item, memory_size(dn) + (uint32_t)bytes);
}

void *dnode_user(const struct dnode *dn, enum dnode_user_slot slot)
{
    return atomic_load_explicit(&((struct dnode *)dn)->users[slot].ptr, memory_order_acquire);
}
