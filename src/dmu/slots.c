/*
 * Object numbers. Which of the 32 slots of a dnode block are taken is found in the block itself,
 * plus what was created but not yet synced. Blocks that have such creations are kept in a table with
 * a bit mask; the others need no memory.
 *
 * Numbers are handed out in ascending order, a few blocks at a time to each of several cursors
 * (a thread keeps to one), so that threads which create files rarely share a dnode block. The search
 * goes on behind the last chunk, skipping what is mostly full, and starts over when many objects
 * have been freed. Freed slots stay taken until the freeing txg has been synced.
 */
#include <errno.h>
#include <stdlib.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"

#define CURSORS      8
#define CHUNK_BLOCKS 4
#define RESCAN_FREED 32768

struct slot_block {
    struct hashmap_node node;
    uint64_t blkid;
    uint32_t used;    /* bit i: slot i is taken */
    uint32_t pending; /* creations not synced, and objects being freed by the sync */
};

struct cursor {
    uint64_t block, end;
};

struct slots {
    pthread_mutex_t lock;
    struct hashmap blocks;
    struct cursor cursors[CURSORS];
    uint64_t next;  /* first block of the next chunk */
    uint64_t freed; /* objects freed since the last start */
};

static _Atomic unsigned next_thread;
static _Thread_local unsigned thread_number;

int slots_new(struct objset *os)
{
    struct slots *s = calloc(1, sizeof *s);

    if (!s || hashmap_init(&s->blocks, 16) < 0) {
        free(s);
        return -ENOMEM;
    }
    pthread_mutex_init(&s->lock, NULL);
    os->slots = s;
    slots_reset(os);
    return 0;
}

static void forget_blocks(struct slots *s)
{
    for (size_t i = 0; i <= s->blocks.mask; i++) {
        while (s->blocks.slots[i]) {
            struct hashmap_node *n = s->blocks.slots[i];
            hashmap_remove(&s->blocks, n);
            free(container_of(n, struct slot_block, node));
        }
    }
}

void slots_free(struct objset *os)
{
    struct slots *s = os->slots;

    if (!s)
        return;
    forget_blocks(s);
    hashmap_destroy(&s->blocks);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void slots_reset(struct objset *os)
{
    struct slots *s = os->slots;

    MUTEX_GUARD(&s->lock);
    forget_blocks(s);
    memset(s->cursors, 0, sizeof s->cursors);
    s->freed = 0;
    /* Numbers of the first block are not given out twice: readers of a set that has only one block
     * take that for granted (03 6). */
    s->next = bp_hole(&os->root) ? 0 : 1;
}

static struct slot_block *find_block(struct slots *s, uint64_t blkid)
{
    struct hashmap_node *n = hashmap_first(&s->blocks, hash_u64(blkid));

    for (; n; n = hashmap_next(n)) {
        struct slot_block *b = container_of(n, struct slot_block, node);
        if (b->blkid == blkid)
            return b;
    }
    return NULL;
}

/* Slots taken in a block of dnodes as synced. Damaged ones count as taken. */
static uint32_t used_mask(const unsigned char *block)
{
    uint32_t mask = 0;
    unsigned width;
    bool allocated;

    for (unsigned i = 0; i < DNODES_PER_BLOCK; i += width) {
        if (dnode_block_slots(block, i, &width, &allocated) < 0)
            width = 1;
        if (allocated)
            mask |= (width == 32 ? ~0u : (1u << width) - 1) << i;
    }
    return mask;
}

/* With the lock and the dnode block held (NULL: beyond the end): makes the block's entry. */
static struct slot_block *make_block(struct objset *os, uint64_t blkid, struct dbuf *db)
{
    struct slot_block *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->blkid = blkid;
    if (db) {
        MUTEX_GUARD(&os->meta->lock);
        if (db->state == DBUF_CACHED)
            b->used = used_mask(db->buf->data);
    }
    if (blkid == 0)
        b->used |= 1;
    hashmap_insert(&os->slots->blocks, &b->node, hash_u64(blkid));
    return b;
}

static void drop_if_idle(struct slots *s, struct slot_block *b)
{
    if (b->pending == 0) {
        hashmap_remove(&s->blocks, &b->node);
        free(b);
    }
}

static uint64_t meta_max(struct objset *os)
{
    MUTEX_GUARD(&os->meta->lock);
    return host64(os->meta->image + DN_MAX_BLKID);
}

/* Takes the lock and finds or makes the entry of a block. Without the lock on error. */
static int lock_block(struct objset *os, uint64_t blkid, struct slot_block **b)
{
    struct slots *s = os->slots;

    for (;;) {
        struct dbuf *db = NULL;
        bool stale;
        int rc = 0;
        pthread_mutex_lock(&s->lock);
        if ((*b = find_block(s, blkid)))
            return 0;
        pthread_mutex_unlock(&s->lock);
        if (blkid <= meta_max(os))
            rc = dbuf_hold_level(os->meta, 0, blkid, &db);
        if (rc < 0)
            return rc;
        pthread_mutex_lock(&s->lock);
        *b = find_block(s, blkid);
        stale = !*b && !db && blkid <= meta_max(os); /* a sync came in between */
        if (!*b && !stale)
            *b = make_block(os, blkid, db);
        if (!*b)
            pthread_mutex_unlock(&s->lock);
        if (db)
            dbuf_unhold(db);
        if (!stale)
            return *b ? 0 : -ENOMEM;
    }
}

/* With the lock: takes count free slots in a row; the slot, or -1. */
static int take_slots(struct slot_block *b, unsigned count)
{
    uint32_t mask = count == 32 ? ~0u : (1u << count) - 1;

    for (unsigned i = 0; i + count <= DNODES_PER_BLOCK; i++) {
        if (!(b->used & mask << i)) {
            b->used |= mask << i;
            b->pending++;
            return (int)i;
        }
    }
    return -1;
}

/* Tries one block; -ENOSPC if it has no room. */
static int claim_in(struct objset *os, uint64_t blkid, unsigned count, uint64_t *object)
{
    struct slot_block *b;
    int slot, rc = lock_block(os, blkid, &b);

    if (rc < 0)
        return rc;
    slot = take_slots(b, count);
    drop_if_idle(os->slots, b);
    pthread_mutex_unlock(&os->slots->lock);
    *object = blkid * DNODES_PER_BLOCK + (unsigned)slot;
    return slot < 0 ? -ENOSPC : 0;
}

/* The first block >= *from that is worth looking at, by the fill counts on disk. */
static int skip_full(struct objset *os, uint64_t *from)
{
    uint64_t max = meta_max(os);
    unsigned epbs = dnode_epbs(os->meta);
    struct blkptr bp;
    int rc;

    while (*from <= max) {
        rc = dbuf_find_bp(os->meta, 1, *from >> epbs, &bp);
        if (rc == 0 && bp_fill(&bp) > (uint64_t)DNODES_PER_BLOCK * 3 / 4 << epbs) {
            *from = ((*from >> epbs) + 1) << epbs;
            continue;
        }
        if (rc == 0)
            rc = dbuf_find_bp(os->meta, 0, *from, &bp);
        if (rc < 0)
            return rc;
        if (bp_hole(&bp) || bp_fill(&bp) <= DNODES_PER_BLOCK / 2)
            return 0;
        ++*from;
    }
    return 0;
}

/* Gives the cursor its next blocks. */
static int next_chunk(struct objset *os, struct cursor *c)
{
    struct slots *s = os->slots;
    uint64_t from, at, max = meta_max(os);
    int rc;

    pthread_mutex_lock(&s->lock);
    if (s->freed >= RESCAN_FREED) {
        s->freed = 0;
        s->next = 1;
    }
    from = at = s->next;
    pthread_mutex_unlock(&s->lock);
    rc = skip_full(os, &at);
    if (rc < 0)
        return rc;
    MUTEX_GUARD(&s->lock);
    if (s->next != from || c->block != c->end)
        return 0; /* somebody else was faster: look again */
    c->block = at;
    c->end = s->next = at + (at > max ? CHUNK_BLOCKS : 1);
    return 0;
}

int slots_claim(struct objset *os, unsigned count, uint64_t *object)
{
    struct slots *s = os->slots;
    struct cursor *c;
    uint64_t block;
    int rc;

    if (thread_number == 0)
        thread_number = 1 + atomic_fetch_add(&next_thread, 1);
    c = &s->cursors[os->type == OBJSET_META ? 0 : (thread_number - 1) % CURSORS];
    for (;;) {
        bool empty;
        pthread_mutex_lock(&s->lock);
        block = c->block;
        empty = block == c->end;
        pthread_mutex_unlock(&s->lock);
        if (block * DNODES_PER_BLOCK >= OBJECT_MAX)
            return -ENOSPC;
        rc = empty ? next_chunk(os, c) : claim_in(os, block, count, object);
        if (rc < 0 && rc != -ENOSPC)
            return rc;
        if (!empty && rc == 0)
            return 0;
        if (!empty) {
            MUTEX_GUARD(&s->lock);
            if (c->block == block && c->block != c->end)
                c->block++;
        }
    }
}

/* Does an object that was freed by a txg not synced yet have one of these slots still? Its own number
 * may be below them. */
static bool being_freed(struct objset *os, uint64_t object, unsigned count)
{
    bool freed = false;

    for (uint64_t n = object - object % DNODES_PER_BLOCK; n < object + count && !freed; n++) {
        struct dnode *dn = dnode_find(os, n);

        if (!dn)
            continue;
        pthread_mutex_lock(&dn->lock);
        freed = dn->gone == -ENOENT && n + dnode_size(dn) / DNODE_MIN_SIZE > object;
        pthread_mutex_unlock(&dn->lock);
        dnode_rele(dn);
    }
    return freed;
}

int object_wait_free(struct objset *os, uint64_t object, uint32_t size)
{
    unsigned count = size ? size / DNODE_MIN_SIZE : 1;

    while (being_freed(os, object, count)) {
        int rc = txg_wait_synced(os->pool->txg, 0);

        if (rc != 0)
            return rc;
    }
    return 0;
}

int slots_claim_at(struct objset *os, uint64_t object, unsigned count)
{
    unsigned slot = object % DNODES_PER_BLOCK;
    uint32_t mask = (count == 32 ? ~0u : (1u << count) - 1) << slot;
    struct slot_block *b;
    bool taken;
    int rc = slot + count > DNODES_PER_BLOCK ? -EINVAL : 0;

    if (rc == 0)
        rc = lock_block(os, object / DNODES_PER_BLOCK, &b);
    if (rc < 0)
        return rc;
    taken = (b->used & mask) != 0;
    if (!taken) {
        b->used |= mask;
        b->pending++;
    }
    drop_if_idle(os->slots, b);
    pthread_mutex_unlock(&os->slots->lock);
    return !taken ? 0 : being_freed(os, object, count) ? -EBUSY : -EEXIST;
}

int slots_freeing(struct objset *os, uint64_t object, struct dbuf *block)
{
    struct slot_block *b;

    MUTEX_GUARD(&os->slots->lock);
    b = find_block(os->slots, object / DNODES_PER_BLOCK);
    if (!b)
        b = make_block(os, object / DNODES_PER_BLOCK, block);
    if (b)
        b->pending++;
    return b ? 0 : -ENOMEM;
}

static void end_pending(struct objset *os, uint64_t object, unsigned count, unsigned ended,
                        bool freed)
{
    uint32_t mask = (count == 32 ? ~0u : (1u << count) - 1) << object % DNODES_PER_BLOCK;
    struct slot_block *b = find_block(os->slots, object / DNODES_PER_BLOCK);

    if (!b)
        return;
    if (freed)
        b->used &= ~mask;
    b->pending -= MIN(ended, b->pending);
    drop_if_idle(os->slots, b);
}

void slots_unclaim(struct objset *os, uint64_t object, unsigned count)
{
    MUTEX_GUARD(&os->slots->lock);
    end_pending(os, object, count, 1, true);
}

void slots_synced(struct objset *os, uint64_t object, unsigned count, bool created, bool freed)
{
    MUTEX_GUARD(&os->slots->lock);
    if (freed)
        os->slots->freed++;
    end_pending(os, object, count, (created ? 1u : 0) + (freed ? 1u : 0), freed);
}

bool slots_next_pending(struct objset *os, uint64_t *blkid)
{
    struct slots *s = os->slots;
    uint64_t best = UINT64_MAX;

    MUTEX_GUARD(&s->lock);
    for (size_t i = 0; i <= s->blocks.mask; i++) {
        for (struct hashmap_node *n = s->blocks.slots[i]; n; n = n->next) {
            struct slot_block *b = container_of(n, struct slot_block, node);
            if (b->blkid >= *blkid && b->blkid < best)
                best = b->blkid;
        }
    }
    *blkid = best;
    return best != UINT64_MAX;
}
