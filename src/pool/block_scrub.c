/* Scrubbing a block: all copies, on all devices that have something of them. Gangs are followed:
 * their headers and members have copies, too. */
#include <errno.h>
#include <string.h>

#include "pool/gang_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/vdev.h"

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

static bool copy_needs(struct pool *pool, const struct blkptr *bp, int i)
{
    struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, i));

    return top && vdev_needs(top, bp_phys_birth(bp));
}

bool block_needs_resilver(struct pool *pool, const struct blkptr *bp)
{
    if (bp_gang(bp))
        return true;
    for (int i = 0; i < bp_copies(bp); i++)
        if (copy_needs(pool, bp, i))
            return true;
    return false;
}

#define UNREAD 1 /* of a copy that nobody asked for */

/* Reads one more copy, into good as long as none is right. */
static int one_copy(const struct copies *c, int i, int *found, struct buf *good,
                    struct buf **other, int *rc)
{
    if (*found >= 0 && !*other && !(*other = buf_new(good->size)))
        return -ENOMEM;
    *rc = scrub_copy(c, i, *found < 0 ? good->data : (*other)->data);
    if (*rc == -ENOMEM || *rc == -ENOTSUP)
        return *rc;
    *found = *found < 0 && *rc == 0 ? i : *found;
    return 0;
}

static void repair(const struct copies *c, int i, int n, int rc, struct buf *good)
{
    if (c->s->copy)
        c->s->copy(c->s->arg, (unsigned)i, (unsigned)n, rc);
    if (!c->pool->writable || (rc != -EIO && rc != -EBADE))
        return;
    if (block_repair_copy(c->pool, c->bp, i, c->size, good, c->s->resilver) == 0 && c->s->given)
        *c->s->given += c->size;
}

/* 0 when one copy is right; it is in good then. The lost ones are told of. A resilver reads copies that
 * no device lacks only when there is no other, or (must) when the contents are needed. */
static int scrub_copies(const struct copies *c, struct buf *good, bool must)
{
    struct buf *other CLEANUP(gang_buf_free) = NULL;
    int n = bp_copies(c->bp), rc[BLKPTR_DVAS], found = -1, failed = 0;

    for (int i = 0; i < n && failed == 0; i++) {
        rc[i] = UNREAD;
        if (c->s->resilver && !copy_needs(c->pool, c->bp, i))
            continue;
        must = true;
        failed = one_copy(c, i, &found, good, &other, &rc[i]);
    }
    for (int i = 0; i < n && failed == 0 && must && found < 0; i++)
        if (rc[i] == UNREAD)
            failed = one_copy(c, i, &found, good, &other, &rc[i]);
    if (failed || !must)
        return failed;
    for (int i = 0; i < n && found >= 0; i++)
        if (rc[i] < 0)
            repair(c, i, n, rc[i], good);
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

/* The part of c->vdev that is the same for all. */
static void begin(struct copies *c)
{
    c->vdev = (struct vdev_scrub){.birth = bp_phys_birth(c->bp),
                                  .wrong = c->s->device,
                                  .wrong_arg = c->s->arg,
                                  .resilver = c->s->resilver,
                                  .given = c->s->given};
}

static int scrub_plain(struct pool *pool, const struct blkptr *bp, const struct block_scrub *s)
{
    struct verify_arg v = {pool, bp};
    struct copies c = {.pool = pool, .bp = bp, .s = s, .size = bp_psize(bp)};
    struct buf *b CLEANUP(gang_buf_free) = buf_new(block_room(pool, bp));

    begin(&c);
    c.vdev.verify = verify_block;
    c.vdev.arg = &v;
    return b ? scrub_copies(&c, b, false) : -ENOMEM;
}

static int scrub(struct pool *pool, const struct blkptr *bp, unsigned depth,
                 const struct block_scrub *s);

static int scrub_gang(struct pool *pool, const struct blkptr *bp, unsigned depth,
                      const struct block_scrub *s)
{
    struct gang_header h;
    struct copies c = {.pool = pool, .bp = bp, .s = s, .size = gang_header_begin(pool, bp, &h)};
    struct buf *b CLEANUP(gang_buf_free) = buf_new_zero(gang_header_buffer(&h));
    uint64_t left = bp_psize(bp);
    int rc = b ? 0 : -ENOMEM;

    if (depth > GANG_DEPTH_MAX)
        return err_set(EBADE, "gangs are nested too deep");
    begin(&c);
    c.vdev.verify = gang_header_verify;
    c.vdev.arg = &h;
    rc = rc ? rc : scrub_copies(&c, b, true);
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
