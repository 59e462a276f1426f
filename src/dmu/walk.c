/*
 * Walking all blocks of a set that is on disk and that nobody has open: for freeing and verifying.
 * Children come before their parents. A parent is never older than its children (03 9.1), which
 * lets whole subtrees be skipped when only younger blocks are wanted.
 */
#include <errno.h>
#include <string.h>

#include "dmu/dmu_impl.h"
#include "util/err.h"

struct walk {
    struct pool *pool;
    uint64_t id, since;
    objset_walk_fn *fn;
    void *arg;
    const struct bookmark *from; /* begin here; NULL once the walk has come to it */
};

/* The object whose tree is being walked; image in host order. */
struct walk_object {
    uint64_t object;
    const unsigned char *image;
};

static int walk_dnode(struct walk *w, uint64_t object, const unsigned char *im);

/* Where a block stands to the one the walk begins with, in the order of the walk: its subtree comes
 * before it, has it inside, is below it (and so before it), or comes after it. */
enum where { BEFORE, INSIDE, SAME, AFTER };

static enum where compare(uint64_t a, uint64_t b)
{
    return a < b ? BEFORE : a > b ? AFTER : INSIDE;
}

/* Of a set: the meta-dnode with all objects, then the accounting objects, then the set's block. */
static unsigned part_of(uint64_t object)
{
    return object < OBJECT_MAX ? 0 : 1 + (unsigned)(UINT64_MAX - object);
}

static uint64_t shifted(uint64_t blkid, int64_t levels, unsigned epbs)
{
    return levels * epbs > 63 ? 0 : blkid >> (levels * epbs);
}

/* Blocks of one object; epbs: log2 of pointers per block. */
static enum where place_in_object(const struct bookmark *bm, const struct bookmark *from, unsigned epbs)
{
    if (from->blkid == SPILL_BLKID || bm->blkid == SPILL_BLKID)
        return bm->blkid == from->blkid ? SAME : bm->blkid == SPILL_BLKID ? AFTER : BEFORE;
    if (bm->level == from->level)
        return bm->blkid == from->blkid ? SAME : compare(bm->blkid, from->blkid);
    if (bm->level > from->level)
        return compare(bm->blkid, shifted(from->blkid, bm->level - from->level, epbs));
    return shifted(bm->blkid, from->level - bm->level, epbs) > from->blkid ? AFTER : BEFORE;
}

static enum where place(const struct bookmark *bm, const struct bookmark *from, unsigned epbs)
{
    if (from->level < 0)
        return BEFORE; /* only the set's own block is left */
    if (part_of(bm->object) != part_of(from->object))
        return part_of(bm->object) < part_of(from->object) ? BEFORE : AFTER;
    if (bm->object == from->object)
        return place_in_object(bm, from, epbs);
    if (bm->object == OBJECT_META_DNODE)
        return compare(bm->blkid, shifted(from->object / DNODES_PER_BLOCK, bm->level, epbs));
    if (from->object == OBJECT_META_DNODE)
        return AFTER; /* the walk only gets here behind it */
    return compare(bm->object, from->object);
}

/* True if the block with all below it is to be left out; *below: what is below is to be visited. */
static bool skip(struct walk *w, const struct bookmark *bm, unsigned epbs, bool *below)
{
    *below = true;
    if (!w->from)
        return false;
    switch (place(bm, w->from, epbs)) {
    case BEFORE:
        return true;
    case INSIDE:
        return false;
    case SAME:
        *below = false;
        break;
    case AFTER:
        break;
    }
    w->from = NULL;
    return false;
}

static bool wanted(const struct walk *w, const struct blkptr *bp)
{
    return bp_alloc_birth(bp) > w->since;
}

/* May anything below be wanted? Rewritten blocks keep their logical birth, so both count. */
static bool worth_reading(const struct walk *w, const struct blkptr *bp)
{
    return MAX(bp_birth(bp), bp_phys_birth(bp)) > w->since;
}

static int damaged(const struct walk *w, const struct bookmark *bm, const char *what)
{
    return err_set(EBADE, "object %llu of set %llu, block %lld:%llu: %s",
                   (unsigned long long)bm->object, (unsigned long long)w->id, (long long)bm->level,
                   (unsigned long long)bm->blkid, what);
}

static int read_swapped(struct walk *w, const struct blkptr *bp, const struct bookmark *bm,
                        uint8_t type, size_t size, struct buf **out)
{
    struct buf *own;
    int rc = block_read(w->pool, bp, bm, out);

    if (rc < 0)
        return rc;
    if ((*out)->size != size) {
        buf_unref(*out);
        return damaged(w, bm, "wrong size");
    }
    if (bp_big_endian(bp) == BYTES_HOST_BIG)
        return 0;
    own = buf_copy(*out);
    buf_unref(*out);
    *out = own;
    if (!own)
        return -ENOMEM;
    block_swap(type, bm->level > 0 ? (unsigned)bm->level : 0, own->data, own->size);
    return 0;
}

static int walk_dnode_block(struct walk *w, uint64_t blkid, const struct buf *b,
                            const struct bookmark *bm)
{
    unsigned width;
    bool allocated;
    int rc = 0;

    for (unsigned i = 0; i < DNODES_PER_BLOCK && rc == 0; i += width) {
        rc = dnode_block_slots(b->data, i, &width, &allocated);
        if (rc < 0)
            return damaged(w, bm, "damaged dnode");
        if (allocated)
            rc = walk_dnode(w, blkid * DNODES_PER_BLOCK + i, b->data + i * DNODE_MIN_SIZE);
    }
    return rc;
}

static int walk_ptr(struct walk *w, const struct walk_object *o, unsigned level, uint64_t blkid,
                    const unsigned char *at);

/* What is below a block, if anything: pointers or dnodes. */
static int walk_below(struct walk *w, const struct walk_object *o, const struct blkptr *bp,
                      const struct bookmark *bm)
{
    unsigned level = (unsigned)bm->level, shift = o->image[DN_INDIRECT_SHIFT];
    struct buf *b;
    int rc;

    if (level == 0 && o->object != OBJECT_META_DNODE)
        return 0;
    rc = read_swapped(w, bp, bm, o->image[DN_TYPE],
                      level ? (size_t)1 << shift : DNODE_BLOCK_SIZE, &b);
    if (rc < 0)
        return rc;
    if (level == 0)
        rc = walk_dnode_block(w, bm->blkid, b, bm);
    for (uint64_t i = 0; level > 0 && rc == 0 && i < 1ull << (shift - 7); i++)
        rc = walk_ptr(w, o, level - 1, (bm->blkid << (shift - 7)) + i,
                      b->data + BLKPTR_SIZE * i);
    buf_unref(b);
    return rc;
}

static int walk_ptr(struct walk *w, const struct walk_object *o, unsigned level, uint64_t blkid,
                    const unsigned char *at)
{
    struct bookmark bm = {w->id, o->object, level, blkid};
    struct blkptr bp;
    bool below;
    int rc = 0;

    bp_decode(&bp, at, BYTES_HOST_BIG);
    if (bp_hole(&bp) || skip(w, &bm, o->image[DN_INDIRECT_SHIFT] - 7u, &below))
        return 0;
    if (bp_level(&bp) != level)
        return damaged(w, &bm, "damaged pointer");
    if (below && worth_reading(w, &bp) && !bp_redacted(&bp))
        rc = walk_below(w, o, &bp, &bm);
    if (rc == 0)
        w->from = NULL; /* it was inside, or there is no such block */
    return rc == 0 && wanted(w, &bp) ? w->fn(w->arg, &bp, &bm) : rc;
}

static int walk_dnode(struct walk *w, uint64_t object, const unsigned char *im)
{
    struct walk_object o = {object, im};
    struct blkptr spill;
    int rc = 0;

    for (unsigned i = 0; i < im[DN_NBLKPTR] && rc == 0; i++)
        rc = walk_ptr(w, &o, im[DN_LEVELS] - 1u, i, im + DNODE_CORE_SIZE + BLKPTR_SIZE * i);
    if (rc == 0 && im[DN_FLAGS] & DNODE_FLAG_SPILL) {
        struct bookmark bm = {w->id, object, 0, SPILL_BLKID};
        bool below;
        bp_decode(&spill, im + image_size(im) - BLKPTR_SIZE, BYTES_HOST_BIG);
        if (!bp_hole(&spill) && !skip(w, &bm, 0, &below) && wanted(w, &spill))
            rc = w->fn(w->arg, &spill, &bm);
    }
    return rc;
}

static int walk_set(struct walk *w, const struct buf *b, const struct bookmark *bm)
{
    int rc = 0;

    for (unsigned i = 0; i < 4 && rc == 0; i++) {
        size_t at = i == 0 ? 0 : OBJSET_OFF_SPECIAL + (i - 1) * DNODE_MIN_SIZE;
        const unsigned char *im = b->data + at;
        if (at + DNODE_MIN_SIZE > b->size || im[DN_TYPE] == OT_NONE)
            continue;
        if (image_check(im, DNODE_MIN_SIZE) < 0)
            return damaged(w, bm, "damaged dnode");
        rc = walk_dnode(w, i == 0 ? OBJECT_META_DNODE : UINT64_MAX - (i - 1), im);
    }
    return rc;
}

int objset_walk_from(struct pool *pool, uint64_t id, const struct blkptr *root, uint64_t since,
                     const struct bookmark *from, objset_walk_fn *fn, void *arg)
{
    struct walk w = {pool, id, since, fn, arg, from};
    struct bookmark bm = {id, 0, -1, 0};
    struct buf *b;
    int rc = 0;

    if (bp_hole(root))
        return 0;
    if (worth_reading(&w, root) && !(from && from->level < 0)) {
        rc = read_swapped(&w, root, &bm, OT_OBJSET, bp_lsize(root), &b);
        if (rc < 0)
            return rc;
        rc = walk_set(&w, b, &bm);
        buf_unref(b);
    }
    return rc == 0 && wanted(&w, root) ? fn(arg, root, &bm) : rc;
}

int objset_walk(struct pool *pool, uint64_t id, const struct blkptr *root, uint64_t since,
                objset_walk_fn *fn, void *arg)
{
    return objset_walk_from(pool, id, root, since, NULL, fn, arg);
}
