/*
 * Mirrors, and their two temporary forms (spec 02 10.1): the old and the new device of a
 * replacement, a failed device and its spare. All children hold the same bytes at the same offsets.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/vdev_impl.h"

#define CHILDREN_MAX 1024
#define NEAR_SHIFT   20 /* one reader alone changes children from MiB to MiB */

static int check(struct vdev *v)
{
    if (v->children == 0 || v->children > CHILDREN_MAX)
        return err_set(EINVAL, "a %s vdev cannot have %u children", v->kind->type, v->children);
    for (unsigned i = 0; i < v->children; i++)
        v->deep |= !v->child[i]->kind->leaf;
    return 0;
}

/* Children are devices, or (in a vdev that no command makes, but the format has) vdevs with parity:
 * the one that needs most decides. Children that come and go while this is asked are devices. */
static uint64_t psize_to_asize(const struct vdev *v, uint64_t psize, uint64_t birth)
{
    uint64_t most = P2_ROUND_UP(psize, 1ull << v->top->ashift);

    if (!v->deep)
        return most;
    for (unsigned i = 0; i < v->children; i++)
        most = MAX(most, v->child[i]->kind->psize_to_asize(v->child[i], psize, birth));
    return most;
}

static uint64_t min_alloc(const struct vdev *v)
{
    uint64_t most = 1ull << v->top->ashift;

    if (!v->deep)
        return most;
    for (unsigned i = 0; i < v->children; i++)
        most = MAX(most, vdev_min_alloc(v->child[i]));
    return most;
}

static unsigned under_way(const struct vdev *v)
{
    return __atomic_load_n(&v->reads, __ATOMIC_RELAXED);
}

/* The next child to ask: not asked yet, and of those the one with least to do; one that may lack
 * the block only when there is no other. -1: none is left. */
static int choose(const struct vdev *v, uint64_t offset, uint64_t birth, const bool *asked)
{
    unsigned start = (unsigned)((offset >> NEAR_SHIFT) % v->children);
    int best = -1;
    bool best_lacks = false;

    for (unsigned i = 0; i < v->children; i++) {
        unsigned k = (start + i) % v->children;
        const struct vdev *child = v->child[k];
        bool lacks;
        if (asked[k] || !vdev_readable(child))
            continue;
        lacks = vdev_lacks(child, birth);
        if (best < 0 || (best_lacks && !lacks) ||
            (best_lacks == lacks && under_way(child) < under_way(v->child[best]))) {
            best = (int)k;
            best_lacks = lacks;
        }
    }
    return best;
}

/* What is written, bytes; what fails is counted by the device. */
static uint64_t mend(struct vdev *v, const bool *bad, uint64_t offset, const void *data,
                     size_t size, uint64_t birth)
{
    uint64_t written = 0;

    for (unsigned i = 0; i < v->children; i++)
        if (bad[i] && vdev_mendable(v->child[i]) &&
            vdev_write_below(v->child[i], offset, data, size, birth, true) == 0)
            written += size;
    return written;
}

/* Asks the children that were not asked, until one gives the block; those that should have had it
 * are mended then. -ENXIO: there was nobody to ask. */
static int read_from(struct vdev *v, bool *asked, bool *bad, uint64_t offset, void *data,
                     size_t size, uint64_t birth, int (*verify)(void *arg, const void *data),
                     void *arg)
{
    int rc = -ENXIO, k;

    while ((k = choose(v, offset, birth, asked)) >= 0) {
        struct vdev *child = v->child[k];
        __atomic_fetch_add(&child->reads, 1, __ATOMIC_RELAXED);
        int one = child->kind->read(child, offset, data, size, birth, verify, arg);
        __atomic_fetch_sub(&child->reads, 1, __ATOMIC_RELAXED);
        asked[k] = true;
        if (one == 0) {
            mend(v, bad, offset, data, size, birth);
            return 0;
        }
        bad[k] = (one == -EIO || one == -EBADE) && !vdev_lacks(child, birth);
        rc = vdev_worse(rc, one);
        if (one == -ENOMEM || one == -ENOTSUP)
            break;
    }
    return rc;
}

static int nobody(const struct vdev *v)
{
    return err_set(ENXIO, "no device of %s-%u can be read", v->kind->type, v->id);
}

static int read_mirror(struct vdev *v, uint64_t offset, void *data, size_t size, uint64_t birth,
                       int (*verify)(void *arg, const void *data), void *arg)
{
    bool asked[v->children], bad[v->children];

    memset(asked, 0, sizeof asked);
    memset(bad, 0, sizeof bad);
    int rc = read_from(v, asked, bad, offset, data, size, birth, verify, arg);
    return rc == -ENXIO ? nobody(v) : rc;
}

/* One answer is enough; whoever lacks the block gets it. */
static int resilver_mirror(struct vdev *v, uint64_t offset, void *data, size_t size,
                           const struct vdev_scrub *s)
{
    int rc = read_mirror(v, offset, data, size, s->birth, s->verify, s->arg);

    if (rc == 0)
        scrub_give(v, offset, data, size, s);
    return rc;
}

/* All children; the first good answer stays in data, the others are only looked at. Those that may
 * lack the block are asked when there is no other, and not blamed. */
static int scrub_mirror(struct vdev *v, uint64_t offset, void *data, size_t size,
                        const struct vdev_scrub *s)
{
    unsigned char *other CLEANUP_FREE = v->children > 1 ? malloc(size) : NULL;
    bool asked[v->children], bad[v->children], good = false;
    int rc = -ENXIO;

    if (s->resilver)
        return resilver_mirror(v, offset, data, size, s);
    if (v->children > 1 && !other)
        return -ENOMEM;
    for (unsigned i = 0; i < v->children; i++) {
        struct vdev *child = v->child[i];
        bad[i] = false;
        asked[i] = vdev_readable(child) && !vdev_lacks(child, s->birth);
        if (!asked[i])
            continue;
        int one = scrub_child(child, offset, good ? other : data, size, s);
        good |= one == 0;
        bad[i] = one == -EIO || one == -EBADE;
        rc = vdev_worse(rc, one);
        if (one == -ENOMEM || one == -ENOTSUP)
            return one;
    }
    if (good) {
        scrub_count(s, mend(v, bad, offset, data, size, s->birth));
        return 0;
    }
    int one = read_from(v, asked, bad, offset, data, size, s->birth, s->verify, s->arg);
    if (one == 0)
        return 0;
    rc = rc == -ENXIO ? one : rc;
    return rc == -ENXIO ? nobody(v) : rc;
}

/* ---- Without waiting ---- */

struct mirror_io {
    struct vdev *v;
    struct vdev_io *io; /* the caller's */
    unsigned pending, written;
    int rc;
    struct vdev *asking; /* reads: this child */
    bool *asked;         /* behind child_io */
    struct vdev_io child_io[];
};

static struct mirror_io *mirror_io_new(struct vdev *v, struct vdev_io *io, unsigned n)
{
    struct mirror_io *m =
        calloc(1, sizeof *m + n * sizeof *m->child_io + v->children * sizeof *m->asked);

    if (m) {
        m->v = v;
        m->io = io;
        m->asked = (bool *)&m->child_io[n];
    }
    return m;
}

static void mirror_end(struct mirror_io *m, int rc)
{
    struct vdev_io *io = m->io;

    free(m);
    io->done(io, rc);
}

static void read_next(struct mirror_io *m);

static void child_read(struct vdev_io *child_io, int rc)
{
    struct mirror_io *m = child_io->arg;

    __atomic_fetch_sub(&m->asking->reads, 1, __ATOMIC_RELAXED);
    if (rc == 0) {
        mirror_end(m, 0);
        return;
    }
    m->rc = rc;
    read_next(m);
}

static void read_next(struct mirror_io *m)
{
    int k = choose(m->v, m->io->offset, m->io->birth, m->asked);

    if (k < 0) {
        mirror_end(m, m->rc ? m->rc : -ENXIO);
        return;
    }
    m->asked[k] = true;
    m->asking = m->v->child[k];
    __atomic_fetch_add(&m->asking->reads, 1, __ATOMIC_RELAXED);
    m->child_io[0] = *m->io;
    m->child_io[0].vdev = m->asking;
    m->child_io[0].done = child_read;
    m->child_io[0].arg = m;
    m->asking->kind->submit(m->asking, &m->child_io[0]);
}

static void write_put(struct mirror_io *m, int rc, bool child)
{
    int none = 0;

    if (rc)
        __atomic_compare_exchange_n(&m->rc, &none, rc, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    else if (child)
        __atomic_fetch_add(&m->written, 1, __ATOMIC_RELAXED);
    if (__atomic_sub_fetch(&m->pending, 1, __ATOMIC_ACQ_REL) == 0)
        mirror_end(m, m->written ? 0 : m->rc ? m->rc : -ENXIO);
}

static void child_written(struct vdev_io *child_io, int rc)
{
    write_put(child_io->arg, rc, true);
}

static void write_all(struct mirror_io *m)
{
    m->pending = m->v->children + 1;
    for (unsigned i = 0; i < m->v->children; i++) {
        struct vdev *child = m->v->child[i];
        struct vdev_io *io = &m->child_io[i];
        if (!vdev_readable(child)) {
            write_put(m, 0, false);
            continue;
        }
        *io = *m->io;
        io->vdev = child;
        io->done = child_written;
        io->arg = m;
        child->kind->submit(child, io);
    }
    write_put(m, 0, false);
}

static void submit(struct vdev *v, struct vdev_io *io)
{
    struct mirror_io *m = mirror_io_new(v, io, io->write ? v->children : 1);

    if (!m)
        io->done(io, -ENOMEM);
    else if (io->write)
        write_all(m);
    else
        read_next(m);
}

/* All of it is on each. */
static void child_range(const struct vdev *v, unsigned child, uint64_t *from, uint64_t *to)
{
}

#define MIRROR(name)                                                                               \
    {                                                                                              \
        .type = name, .check = check, .open = redundant_open, .asize = smallest_child,             \
        .psize_to_asize = psize_to_asize, .min_alloc = min_alloc, .read = read_mirror,             \
        .scrub = scrub_mirror, .submit = submit, .child_range = child_range,                       \
    }

const struct vdev_kind vdev_kind_mirror = MIRROR("mirror");
const struct vdev_kind vdev_kind_replacing = MIRROR("replacing");
const struct vdev_kind vdev_kind_spare = MIRROR("spare");
