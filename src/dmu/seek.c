/*
 * "Is it a hole?", answered here and nowhere else. A block is data if its newest version in memory is
 * dirty data, or if no txg in flight has freed it and its pointer on disk is not a hole.
 *
 * The sync thread moves blocks from "dirty" to "on disk" while we look. Searching for data, we look
 * at the dirty blocks first and at the tree afterwards; searching for a hole, at both for one block
 * under one lock. So no data is missed on its way.
 */
#include <errno.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"
#include "util/rangeset.h"

static bool dirty_data(struct dnode *dn, uint64_t blkid)
{
    struct dbuf *db = dbuf_find(dn, 0, blkid);

    return db && db->dirty && db->state == DBUF_CACHED;
}

/* With the lock: the lowest block >= from with dirty data; UINT64_MAX if none. */
static uint64_t next_dirty(struct dnode *dn, uint64_t from)
{
    uint64_t best = UINT64_MAX;

    if (dirty_data(dn, from))
        return from;
    for (int i = 0; i < TXG_SLOTS; i++) {
        for (struct dirty *d = dn->changes[i] ? dn->changes[i]->writes : NULL; d; d = d->next) {
            uint64_t b = d->db->blkid;
            if (b >= from && b < best && b != SPILL_BLKID && d->db->state == DBUF_CACHED)
                best = b;
        }
    }
    return best;
}

static bool anything_freed(struct dnode *dn)
{
    for (int i = 0; i < TXG_SLOTS; i++) {
        if (dn->changes[i] && dn->changes[i]->freed)
            return true;
    }
    return false;
}

/* Does the pointer at this level say that all below it is what is not wanted? */
static bool can_skip(struct dnode *dn, const struct blkptr *bp, unsigned level, uint64_t blkid,
                     bool hole)
{
    unsigned bits = level * dnode_epbs(dn);

    if (!hole)
        return bp_hole(bp) || (level == 0 && dnode_block_freed(dn, blkid));
    if (level == 0)
        return dirty_data(dn, blkid) || (!bp_hole(bp) && !dnode_block_freed(dn, blkid));
    return !bp_hole(bp) && bits < 64 && bp_fill(bp) == 1ull << bits && !anything_freed(dn);
}

/* With the lock: scans pointers of one level from block *blkid of it on; true if one is found whose
 * subtree may have what is wanted. */
static bool scan(struct dnode *dn, const unsigned char *ptrs, unsigned count, unsigned level,
                 uint64_t *blkid, uint64_t first, bool hole)
{
    struct blkptr bp;

    if (*blkid - first >= count) { /* more than the tree can address */
        if (hole && !(level == 0 && dirty_data(dn, *blkid)))
            return true;
        *blkid = hole ? *blkid + 1 : UINT64_MAX;
        return false;
    }
    for (uint64_t i = *blkid - first; i < count; i++) {
        bp_decode(&bp, ptrs + BLKPTR_SIZE * i, BYTES_HOST_BIG);
        *blkid = first + i;
        if (!can_skip(dn, &bp, level, first + i, hole))
            return true;
    }
    *blkid = first + count;
    return false;
}

/* Scans the pointers beside that of (level, *blkid), under their common parent. */
static int scan_level(struct dnode *dn, unsigned level, uint64_t *blkid, bool hole, bool *found)
{
    struct dbuf *parent = NULL;
    uint64_t first;
    unsigned epbs, levels;
    int rc = 0;

    pthread_mutex_lock(&dn->lock);
    epbs = dnode_epbs(dn);
    levels = dn->image[DN_LEVELS];
    first = *blkid >> epbs << epbs;
    if (level + 1 == levels) {
        *found = scan(dn, image_ptr(dn->image, 0), dn->image[DN_NBLKPTR], level, blkid, 0, hole);
    } else if (level + 1 > levels) {
        *found = *blkid == 0;
    } else {
        pthread_mutex_unlock(&dn->lock);
        rc = dbuf_hold_level(dn, level + 1, *blkid >> epbs, &parent);
        if (rc < 0)
            return rc;
        pthread_mutex_lock(&dn->lock);
        if (parent->state == DBUF_CACHED)
            *found = scan(dn, parent->buf->data, 1u << epbs, level, blkid, first, hole);
        else if ((*found = hole && !(level == 0 && dirty_data(dn, *blkid))) == false)
            *blkid = level == 0 && hole ? *blkid + 1 : first + (1ull << epbs);
    }
    pthread_mutex_unlock(&dn->lock);
    if (parent)
        dbuf_unhold(parent);
    return rc;
}

static unsigned levels_now(struct dnode *dn, unsigned *epbs)
{
    MUTEX_GUARD(&dn->lock);
    *epbs = dnode_epbs(dn);
    return dn->image[DN_LEVELS];
}

/* The next block >= *blkid and <= last that is a hole, or data, by the tree; -ENXIO. */
static int next_in_tree(struct dnode *dn, uint64_t *blkid, uint64_t last, bool hole)
{
    unsigned epbs, top = levels_now(dn, &epbs) - 1, level = top;
    bool found;
    int rc;

    /* Descend as long as the pointer found may have it; go up when a parent is used up. */
    while (*blkid <= last) {
        uint64_t b = blkid_up(*blkid, epbs, level), was = b;
        rc = scan_level(dn, level, &b, hole, &found);
        if (rc < 0)
            return rc;
        if (b != was)
            *blkid = level * epbs < 64 && b <= UINT64_MAX >> (level * epbs) ? b << (level * epbs)
                                                                            : UINT64_MAX;
        if (found && level == 0)
            return *blkid <= last ? 0 : -ENXIO;
        if (found)
            level--;
        else if (level < top)
            level++;
        else if (level == top && b == was)
            return -ENXIO;
    }
    return -ENXIO;
}

int dnode_seek(struct dnode *dn, uint64_t *off, bool hole)
{
    uint64_t bs, start, last, found, dirty = UINT64_MAX;
    int rc;

    {
        MUTEX_GUARD(&dn->lock);
        if (dn->gone)
            return dn->gone;
        bs = dn->block_size;
        start = *off / bs;
        last = dn->max_blkid;
        if (start <= last && !hole)
            dirty = next_dirty(dn, start);
    }
    if (start > last)
        return -ENXIO;
    found = start;
    rc = dirty == start ? 0 : next_in_tree(dn, &found, MIN(last, dirty), hole);
    if (rc == -ENXIO && dirty <= last) {
        found = dirty;
        rc = 0;
    }
    if (rc == -ENXIO && hole)
        *off = (last + 1) * bs;
    if (rc == 0 && found > start)
        *off = found * bs;
    return rc;
}
