/* Scrubbing a block: all copies, on all devices that have something of them. Gangs are followed:
 * their headers and members have copies, too. */
#include <errno.h>
#include <string.h>

#include "pool/gang_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

struct copies {
    struct pool *pool;
    const struct blkptr *bp;
    const struct block_scrub *s;
    struct vdev_scrub vdev;
    uint64_t size; /* of a copy, bytes; rounded up to sectors when read */
};

static int scrub_copy(const struct copies *c, int i, unsigned char *data)
{
    struct vdev *top = vdev_lookup_top(c->pool->root, dva_vdev(c->bp, i));
    int rc = place_check(c->pool, c->bp, i, c->size);

    return rc ? rc
              : vdev_scrub(top, dva_offset(c->bp, i), data,
                           P2_ROUND_UP(c->size, 1ull << top->ashift), &c->vdev);
}

/* 0 when one copy is right; it is in good then. The lost ones are told of. */
static int scrub_copies(const struct copies *c, struct buf *good)
{
    struct buf *other CLEANUP(gang_buf_free) = NULL;
    int n = bp_copies(c->bp), rc[BLKPTR_DVAS], found = -1;

    for (int i = 0; i < n; i++) {
        if (found >= 0 && !other && !(other = buf_new(good->size)))
            return -ENOMEM;
        rc[i] = scrub_copy(c, i, found < 0 ? good->data : other->data);
        if (rc[i] == -ENOMEM || rc[i] == -ENOTSUP)
            return rc[i];
        found = found < 0 && rc[i] == 0 ? i : found;
    }
    for (int i = 0; i < n && found >= 0; i++) {
        if (rc[i] == 0)
            continue;
        if (c->s->copy)
            c->s->copy(c->s->arg, (unsigned)i, (unsigned)n, rc[i]);
        if (c->pool->writable && (rc[i] == -EIO || rc[i] == -EBADE))
            block_repair_copy(c->pool, c->bp, i, c->size, good);
    }
    return found >= 0 ? 0 : block_worst(rc, n, c->bp);
}

struct verify_arg {
    const struct pool *pool;
    const struct blkptr *bp;
};

static int verify_block(void *arg, const void *data)
{
    const struct verify_arg *v = arg;

    return block_verify(v->pool, v->bp, data);
}

static int scrub_plain(struct pool *pool, const struct blkptr *bp, const struct block_scrub *s)
{
    struct verify_arg v = {pool, bp};
    struct copies c = {pool, bp, s, {.birth = bp_phys_birth(bp)}, bp_psize(bp)};
    struct buf *b CLEANUP(gang_buf_free) = buf_new(block_room(pool, bp));

    c.vdev.verify = verify_block;
    c.vdev.arg = &v;
    c.vdev.wrong = s->device;
    c.vdev.wrong_arg = s->arg;
    return b ? scrub_copies(&c, b) : -ENOMEM;
}

static int scrub(struct pool *pool, const struct blkptr *bp, unsigned depth,
                 const struct block_scrub *s);

static int scrub_gang(struct pool *pool, const struct blkptr *bp, unsigned depth,
                      const struct block_scrub *s)
{
    struct gang_header h;
    struct copies c = {pool, bp, s, {.birth = bp_phys_birth(bp)}, gang_header_begin(pool, bp, &h)};
    struct buf *b CLEANUP(gang_buf_free) = buf_new_zero(gang_header_buffer(&h));
    uint64_t left = bp_psize(bp);
    int rc = b ? 0 : -ENOMEM;

    if (depth > GANG_DEPTH_MAX)
        return err_set(EBADE, "gangs are nested too deep");
    c.vdev.verify = gang_header_verify;
    c.vdev.arg = &h;
    c.vdev.wrong = s->device;
    c.vdev.wrong_arg = s->arg;
    rc = rc ? rc : scrub_copies(&c, b);
    for (unsigned i = 0; rc == 0 && i < gang_slots(h.found); i++) {
        struct blkptr m;
        if (gang_member(b, i, h.big, &m, &left, &rc) && rc == 0)
            rc = scrub(pool, &m, depth + 1, s);
    }
    return rc;
}

static int scrub(struct pool *pool, const struct blkptr *bp, unsigned depth,
                 const struct block_scrub *s)
{
    struct buf *held CLEANUP(gang_buf_free) = block_out_find(pool, bp);

    if (held)
        return 0; /* on its way to the devices */
    return bp_gang(bp) ? scrub_gang(pool, bp, depth, s) : scrub_plain(pool, bp, s);
}

int block_scrub(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                const struct block_scrub *s)
{
    struct buf *whole;
    int rc = bp_check(bp);

    if (rc == 0 && (bp_hole(bp) || bp_embedded(bp)))
        rc = err_set(EINVAL, "the block is not stored");
    rc = rc ? rc : scrub(pool, bp, 0, s);
    if (rc)
        return block_explain(rc, bp, bm);
    if (!bp_gang(bp))
        return 0;
    /* The members are right, one by one; together they have to be the block. */
    rc = block_read_stored(pool, bp, bm, &whole);
    if (rc == 0)
        buf_unref(whole);
    return rc;
}
