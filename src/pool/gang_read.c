/* Reading and freeing gang blocks (spec 02 9). What a header says is checked: it may be hostile. */
#include <errno.h>
#include <string.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "pool/alloc.h"
#include "pool/gang_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

/* Headers are 512 bytes, or with a newer feature fill the allocation unit. */
int gang_header_verify(void *arg, const void *data)
{
    struct gang_header *h = arg;
    const size_t sizes[] = {h->room, GANG_HEADER_SIZE};
    uint64_t verifier[4];

    gang_verifier(h->bp, verifier);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        if (checksum_verify_trailer(data, sizes[i], verifier, &h->big) == 0 ||
            (bp_crypt(h->bp) &&
             checksum_verify_trailer_folded(data, sizes[i], verifier, &h->big) == 0)) {
            h->found = sizes[i];
            return 0;
        }
    }
    return -EBADE;
}

size_t gang_header_begin(const struct pool *pool, const struct blkptr *bp, struct gang_header *h)
{
    uint64_t room = 0;

    for (int i = 0; i < bp_copies(bp); i++) {
        struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, i));
        uint64_t unit = top ? vdev_min_alloc(top) : 0;
        if (unit)
            room = room ? MIN(room, unit) : unit;
    }
    *h = (struct gang_header){.bp = bp, .room = MAX(room, (uint64_t)GANG_HEADER_SIZE)};
    return h->room;
}

size_t gang_header_buffer(const struct gang_header *h)
{
    return P2_ROUND_UP(h->room, (size_t)1 << VDEV_ASHIFT_MAX);
}

static int read_header_copies(struct pool *pool, const struct blkptr *bp, struct gang_header *h,
                              unsigned char *data)
{
    int rc = -EIO;

    for (int i = 0; i < bp_copies(bp); i++) {
        struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, i));
        int one = place_check(pool, bp, i, h->room);
        if (one == 0)
            one = vdev_read(top, dva_offset(bp, i), data, P2_ROUND_UP(h->room, 1ull << top->ashift),
                            bp_phys_birth(bp), gang_header_verify, h);
        if (one == 0)
            return 0;
        rc = one == -EBADE ? one : rc;
    }
    return rc == -EBADE ? err_set(EBADE, "checksum mismatch in a gang header") : rc;
}

/* Reads the header of a gang into a new buffer. */
static int read_header(struct pool *pool, const struct blkptr *bp, struct gang_header *h,
                       struct buf **out)
{
    struct buf *held CLEANUP(gang_buf_free) = block_out_find(pool, bp);
    struct buf *b CLEANUP(gang_buf_free) = NULL;
    int rc;

    gang_header_begin(pool, bp, h);
    b = buf_new_zero(gang_header_buffer(h));
    if (!b)
        return -ENOMEM;
    if (held) {
        memcpy(b->data, held->data, GANG_HEADER_SIZE);
        h->room = GANG_HEADER_SIZE;
        rc = gang_header_verify(h, b->data);
    } else {
        rc = read_header_copies(pool, bp, h, b->data);
    }
    if (rc == 0)
        *out = STEAL(b);
    return rc;
}

bool gang_member(const struct buf *header, unsigned i, bool big, struct blkptr *bp, uint64_t *left,
                 int *rc)
{
    bp_decode(bp, header->data + BLKPTR_SIZE * i, big);
    *rc = 0;
    if (bp_hole(bp))
        return false;
    *rc = bp_check(bp);
    if (*rc == 0 && (bp_embedded(bp) || bp_compress(bp) != COMPRESS_OFF || bp_crypt(bp)))
        *rc = err_set(EBADE, "a gang member is malformed");
    if (*rc == 0 && bp_psize(bp) > *left)
        *rc = err_set(EBADE, "a gang has more bytes than its leader");
    if (*rc == 0)
        *left -= bp_psize(bp);
    return true;
}

static int read_member(struct pool *pool, const struct blkptr *bp, unsigned depth,
                       unsigned char *out)
{
    uint64_t psize = bp_psize(bp);
    struct buf *b CLEANUP(gang_buf_free) = buf_new(block_room(pool, bp));
    int rc = b ? read_places(pool, bp, depth, b) : -ENOMEM;

    if (rc == 0)
        memcpy(out, b->data, psize);
    return rc;
}

static int read_members(struct pool *pool, const struct blkptr *bp, const struct gang_header *h,
                        const struct buf *header, unsigned depth, unsigned char *out)
{
    uint64_t left = bp_psize(bp);

    for (unsigned i = 0; i < gang_slots(h->found); i++) {
        struct blkptr m;
        int rc;
        unsigned char *at = out + (bp_psize(bp) - left);
        if (!gang_member(header, i, h->big, &m, &left, &rc))
            continue;
        rc = rc ? rc : read_member(pool, &m, depth + 1, at);
        if (rc)
            return rc;
    }
    return left == 0 ? 0 : err_set(EBADE, "a gang has fewer bytes than its leader");
}

int gang_read(struct pool *pool, const struct blkptr *bp, unsigned depth, unsigned char *out)
{
    struct buf *header CLEANUP(gang_buf_free) = NULL;
    struct gang_header h;
    int rc;

    if (depth > GANG_DEPTH_MAX)
        return err_set(EBADE, "gangs are nested too deep");
    rc = read_header(pool, bp, &h, &header);
    rc = rc ? rc : read_members(pool, bp, &h, header, depth, out);
    return rc ? rc : block_verify(pool, bp, out);
}

static int free_header(struct pool *pool, uint64_t txg, struct block_batch *batch,
                       const struct blkptr *bp, size_t size)
{
    int rc = 0;

    if (batch)
        block_batch_remove(pool, batch, bp);
    for (int i = 0; i < bp_copies(bp); i++) {
        struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, i));
        int one = top ? alloc_free(pool, txg, top->id, dva_offset(bp, i),
                                   vdev_psize_to_asize(top, size, bp_phys_birth(bp)))
                      : -EINVAL;
        rc = rc ? rc : one;
    }
    return rc;
}

int gang_free(struct pool *pool, uint64_t txg, struct block_batch *batch, const struct blkptr *bp,
              unsigned depth)
{
    struct buf *header CLEANUP(gang_buf_free) = NULL;
    struct gang_header h;
    uint64_t left = bp_psize(bp);
    int rc;

    if (depth > GANG_DEPTH_MAX)
        return err_set(EBADE, "gangs are nested too deep");
    rc = read_header(pool, bp, &h, &header);
    if (rc)
        return rc;
    for (unsigned i = 0; i < gang_slots(h.found); i++) {
        struct blkptr m;
        int one;
        if (!gang_member(header, i, h.big, &m, &left, &one))
            continue;
        if (one == 0)
            one = bp_gang(&m) ? gang_free(pool, txg, batch, &m, depth + 1)
                              : block_free(pool, txg, batch, &m);
        rc = rc ? rc : one;
    }
    if (rc == 0 || rc == -EINVAL)
        rc = free_header(pool, txg, batch, bp, h.found);
    return rc;
}

/* ---- The space of a block ---- */

static int places(struct pool *pool, const struct blkptr *bp, unsigned depth, block_place_fn *fn,
                  void *arg);

static int gang_places(struct pool *pool, const struct blkptr *bp, unsigned depth, block_place_fn *fn,
                       void *arg)
{
    struct buf *header CLEANUP(gang_buf_free) = NULL;
    struct gang_header h;
    uint64_t left = bp_psize(bp);
    int rc = depth > GANG_DEPTH_MAX ? err_set(EBADE, "gangs are nested too deep")
                                    : read_header(pool, bp, &h, &header);

    for (int i = 0; i < bp_copies(bp) && rc == 0; i++) {
        struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, i));
        rc = top ? fn(arg, top->id, dva_offset(bp, i),
                      vdev_psize_to_asize(top, h.found, bp_phys_birth(bp)))
                 : err_set(ENXIO, "vdev %llu does not exist", (unsigned long long)dva_vdev(bp, i));
    }
    for (unsigned i = 0; rc == 0 && i < gang_slots(h.found); i++) {
        struct blkptr m;
        if (gang_member(header, i, h.big, &m, &left, &rc))
            rc = rc ? rc : places(pool, &m, depth + 1, fn, arg);
    }
    return rc;
}

static int places(struct pool *pool, const struct blkptr *bp, unsigned depth, block_place_fn *fn,
                  void *arg)
{
    int rc = 0;

    if (bp_gang(bp))
        return gang_places(pool, bp, depth, fn, arg);
    for (int i = 0; i < bp_copies(bp) && rc == 0; i++)
        rc = fn(arg, dva_vdev(bp, i), dva_offset(bp, i), dva_asize(bp, i));
    return rc;
}

int block_each_place(struct pool *pool, const struct blkptr *bp, block_place_fn *fn, void *arg)
{
    return places(pool, bp, 0, fn, arg);
}
