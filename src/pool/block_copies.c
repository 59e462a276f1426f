/* The places of a block: reading one copy or the other, and repairing (spec 02 8, 17). */
#include <errno.h>
#include <string.h>

#include "pool/block_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

static void cleanup_buf(struct buf **b)
{
    buf_unref(*b);
}

struct verify_arg {
    const struct pool *pool;
    const struct blkptr *bp;
};

static int verify(void *arg, const void *data)
{
    const struct verify_arg *v = arg;

    return block_verify(v->pool, v->bp, data);
}

int place_check(const struct pool *pool, const struct blkptr *bp, int i, uint64_t size)
{
    struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, i));
    uint64_t sector, offset = dva_offset(bp, i);

    if (!top)
        return err_set(ENXIO, "vdev %llu does not exist", (unsigned long long)dva_vdev(bp, i));
    sector = 1ull << top->ashift;
    size = P2_ROUND_UP(size, sector);
    if (offset % sector != 0 || size > top->asize || offset > top->asize - size)
        return err_set(EIO, "%llu bytes at %llu are not in vdev %u", (unsigned long long)size,
                       (unsigned long long)offset, top->id);
    return 0;
}

/* Of several failures one is reported: I/O error, else checksum, else device missing (02 17). */
static int rank(int rc)
{
    return rc == 0 ? 0 : rc == -ENXIO ? 1 : rc == -EBADE ? 2 : rc == -EIO ? 3 : 4;
}

int block_worst(const int *failed, int n, const struct blkptr *bp)
{
    int rc = 0;

    for (int i = 0; i < n; i++)
        rc = rank(failed[i]) > rank(rc) ? failed[i] : rc;
    if (rc == -EBADE)
        return err_set(EBADE, "checksum mismatch in all copies");
    if (rc == -ENOTSUP)
        return err_set(ENOTSUP, "checksum %u is not supported", bp_checksum(bp));
    return rc == -ENXIO ? err_set(EIO, "%s", err_text(rc)) : rc;
}

struct repair {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool finished; /* lock */
    int rc;        /* lock */
};

static void repair_done(struct vdev_io *io, int rc)
{
    struct repair *r = io->arg;

    pthread_mutex_lock(&r->lock);
    r->finished = true;
    r->rc = rc;
    pthread_cond_signal(&r->done);
    pthread_mutex_unlock(&r->lock);
}

int block_repair_copy(struct pool *pool, const struct blkptr *bp, int i, uint64_t size,
                      struct buf *good, bool resilver)
{
    struct repair r = {.finished = false};
    struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, i));
    struct vdev_io io = {.vdev = top,
                         .write = true,
                         .offset = dva_offset(bp, i),
                         .size = P2_ROUND_UP(size, 1ull << top->ashift),
                         .data = good->data,
                         .birth = bp_phys_birth(bp),
                         .repair = !resilver,
                         .done = repair_done,
                         .arg = &r};

    memset(good->data + size, 0, io.size - size);
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.done, NULL);
    vdev_submit(&io);
    pthread_mutex_lock(&r.lock);
    while (!r.finished)
        pthread_cond_wait(&r.done, &r.lock);
    pthread_mutex_unlock(&r.lock);
    pthread_cond_destroy(&r.done);
    pthread_mutex_destroy(&r.lock);
    return r.rc;
}

static int read_copies(struct pool *pool, const struct blkptr *bp, struct buf *out)
{
    struct verify_arg v = {pool, bp};
    unsigned bad = 0;
    int failed[BLKPTR_DVAS], n = 0;

    for (int i = 0; i < bp_copies(bp); i++) {
        struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, i));
        int one = place_check(pool, bp, i, bp_psize(bp));
        if (one == 0) {
            one = vdev_read(top, dva_offset(bp, i), out->data,
                            P2_ROUND_UP(bp_psize(bp), 1ull << top->ashift), bp_phys_birth(bp),
                            verify, &v);
            if (one == -EIO || one == -EBADE)
                bad |= 1u << i;
            one = one == -ESTALE ? -EBADE : one;
        }
        if (one == 0) {
            for (int k = 0; k < i && pool->writable; k++)
                if (bad & 1u << k)
                    block_repair_copy(pool, bp, k, bp_psize(bp), out, false);
            return 0;
        }
        failed[n++] = one;
        if (one == -ENOMEM || one == -ENOTSUP)
            break;
    }
    return block_worst(failed, n, bp);
}

int read_places(struct pool *pool, const struct blkptr *bp, unsigned depth, struct buf *out)
{
    struct buf *held CLEANUP(cleanup_buf) = NULL;

    if (bp_gang(bp))
        return gang_read(pool, bp, depth, out->data);
    held = block_out_find(pool, bp);
    if (!held)
        return read_copies(pool, bp, out);
    if (held->size < bp_psize(bp) || block_verify(pool, bp, held->data) != 0)
        return err_set(EBADE, "checksum mismatch in a block that is being written");
    memcpy(out->data, held->data, bp_psize(bp));
    return 0;
}

size_t block_room(const struct pool *pool, const struct blkptr *bp)
{
    uint64_t sector = 512;

    for (int i = 0; i < bp_copies(bp); i++) {
        struct vdev *top = vdev_lookup_top(pool->root, dva_vdev(bp, i));
        if (top)
            sector = MAX(sector, 1ull << top->ashift);
    }
    return P2_ROUND_UP(bp_psize(bp), sector);
}
