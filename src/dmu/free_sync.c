/*
 * Taking freed ranges out of an object's tree (03 4.6). A subtree that lies in the range as a whole
 * is walked only to report its blocks; its top pointer becomes a hole. A subtree that lies in it
 * partly has its top block touched, and is written or collapsed later with everything else.
 */
#include <errno.h>
#include <stdlib.h>

#include "dmu/sync_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/rangeset.h"

struct span {
    uint64_t first, last; /* level-0 blocks */
};

static struct span span_of(struct dnode *dn, unsigned level, uint64_t blkid)
{
    unsigned bits = level * dnode_epbs(dn);
    struct span s = {0, UINT64_MAX};

    if (bits < 64 && blkid <= UINT64_MAX >> bits) {
        s.first = blkid << bits;
        s.last = s.first + ((1ull << bits) - 1);
    }
    return s;
}

static bool inside(const struct span *s, const struct span *range)
{
    return s->first >= range->first && s->last <= range->last;
}
static bool apart(const struct span *s, const struct span *range)
{
    return s->first > range->last || s->last < range->first;
}

/* An indirect block's contents, from memory or disk, without caching it. */
static int peek(struct dnode_sync *ds, unsigned level, uint64_t blkid, const struct blkptr *bp,
                struct buf **out)
{
    struct dnode *dn = ds->dn;
    struct bookmark bm;
    struct dbuf *db;
    int rc;

    *out = NULL;
    pthread_mutex_lock(&dn->lock);
    db = dbuf_find(dn, level, blkid);
    if (db && db->state == DBUF_CACHED)
        *out = buf_ref(db->buf);
    pthread_mutex_unlock(&dn->lock);
    if (*out)
        return 0;
    dbuf_bookmark(dn, level, blkid, &bm);
    rc = block_read(ds->s->os->pool, bp, &bm, out);
    return rc < 0 ? rc : dbuf_accept(dn, level, blkid, bp, out);
}

static void forget(struct dnode *dn, unsigned level, uint64_t blkid)
{
    struct dbuf *db;

    MUTEX_GUARD(&dn->lock);
    db = dbuf_find(dn, level, blkid);
    if (db && db->state != DBUF_HOLE)
        dbuf_set_buf(db, NULL);
}

/* Reports a whole subtree as gone. */
static int kill_subtree(struct dnode_sync *ds, unsigned level, uint64_t blkid,
                        const struct blkptr *bp)
{
    unsigned epbs = dnode_epbs(ds->dn);
    struct buf *b;
    int rc;

    if (bp_hole(bp))
        return 0;
    if (bp_level(bp) != level)
        return err_set(EBADE, "object %llu of set %llu: the pointer to block %u:%llu is damaged",
                       (unsigned long long)ds->dn->object, (unsigned long long)ds->s->os->id, level,
                       (unsigned long long)blkid);
    if (level > 0) {
        rc = peek(ds, level, blkid, bp, &b);
        for (uint64_t i = 0; rc == 0 && i < 1ull << epbs; i++) {
            struct blkptr child;
            bp_decode(&child, b->data + BLKPTR_SIZE * i, BYTES_HOST_BIG);
            rc = kill_subtree(ds, level - 1, (blkid << epbs) + i, &child);
        }
        buf_unref(b);
        if (rc < 0)
            return rc;
        forget(ds->dn, level, blkid);
    }
    tree_kill(ds, bp);
    return 0;
}

/* Kills a subtree and makes its pointer, at place, a hole. */
static int punch(struct dnode_sync *ds, unsigned level, uint64_t blkid, unsigned char *place)
{
    struct blkptr bp, hole;
    int rc;

    bp_decode(&bp, place, BYTES_HOST_BIG);
    rc = kill_subtree(ds, level, blkid, &bp);
    if (rc < 0)
        return rc;
    bp_set_hole(&hole, bp_type(&bp), level, bp_lsize(&bp), ds->s->hole_birth ? ds->s->txg : 0);
    MUTEX_GUARD(&ds->dn->lock);
    bp_encode(&hole, place);
    return 0;
}

/* Frees the part of the range below an indirect block. */
static int free_below(struct dnode_sync *ds, unsigned level, uint64_t blkid,
                      const struct span *range)
{
    struct dnode *dn = ds->dn;
    unsigned epbs = dnode_epbs(dn);
    struct dbuf *db, *mine = NULL;
    int rc = dbuf_hold_level(dn, level, blkid, &db);

    for (uint64_t i = 0; rc == 0 && db->state == DBUF_CACHED && i < 1ull << epbs; i++) {
        uint64_t child = (blkid << epbs) + i;
        struct span s = span_of(dn, level - 1, child);
        struct blkptr bp;
        if (apart(&s, range))
            continue;
        bp_decode(&bp, block_ptr(db, child), BYTES_HOST_BIG);
        if (bp_hole(&bp))
            continue;
        if (!inside(&s, range)) {
            rc = free_below(ds, level - 1, child, range);
            continue;
        }
        if (!mine)
            rc = tree_touch(ds, level, blkid, &mine);
        if (rc == 0)
            rc = punch(ds, level - 1, child, block_ptr(db, child));
    }
    if (db)
        dbuf_unhold(db);
    return rc;
}

static int free_range(struct dnode_sync *ds, const struct span *range)
{
    struct dnode *dn = ds->dn;
    unsigned char *im = dn->image;
    unsigned level = im[DN_LEVELS] - 1u;
    int rc = 0;

    for (unsigned i = 0; i < im[DN_NBLKPTR] && rc == 0; i++) {
        struct span s = span_of(dn, level, i);
        struct blkptr bp;
        bp_decode(&bp, image_ptr(im, i), BYTES_HOST_BIG);
        if (bp_hole(&bp) || apart(&s, range))
            continue;
        rc = inside(&s, range) ? punch(ds, level, i, image_ptr(im, i))
                               : free_below(ds, level, i, range);
    }
    return rc;
}

int free_sync_ranges(struct dnode_sync *ds, const struct rangeset *ranges)
{
    unsigned char *im = ds->dn->image;
    struct range r, *it;
    int rc = 0;

    for (it = rangeset_first(ranges, &r); it && rc == 0; it = rangeset_after(ranges, &r)) {
        /* Beyond the last block there is nothing: it counts as freed, so that whole subtrees are. */
        bool to_end = r.end > host64(im + DN_MAX_BLKID);
        struct span range = {r.start, to_end ? UINT64_MAX : r.end - 1};
        if (r.start > host64(im + DN_MAX_BLKID))
            continue;
        rc = free_range(ds, &range);
    }
    return rc;
}

int free_sync_object(struct dnode_sync *ds)
{
    unsigned char *im = ds->dn->image;
    unsigned level = im[DN_LEVELS] - 1u;
    int rc = 0;

    for (unsigned i = 0; i < im[DN_NBLKPTR] && rc == 0; i++) {
        struct blkptr bp;
        bp_decode(&bp, image_ptr(im, i), BYTES_HOST_BIG);
        rc = kill_subtree(ds, level, i, &bp);
        if (rc == 0) {
            MUTEX_GUARD(&ds->dn->lock);
            memset(image_ptr(im, i), 0, BLKPTR_SIZE);
        }
    }
    return rc;
}
