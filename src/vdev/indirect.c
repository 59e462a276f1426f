/*
 * What remains of a removed top-level vdev (spec 02 15): a mapping of its offsets to places on
 * others. A block may be in several pieces; a piece may be on a vdev that was removed later, and is
 * then looked up again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/vdev_impl.h"
#include "vdev/wait_impl.h"

#define ENTRY_SIZE  24
#define SOURCE_MASK ((1ull << 63) - 1)
#define VDEV_BITS   24
#define ASIZE_BITS  24
#define CHOICE_MAX  16 /* pieces of which the copies are tried in all combinations */

struct entry {
    uint64_t start, length; /* bytes of the removed vdev */
    uint64_t vdev, offset;  /* where they are now */
};

struct indirect {
    uint64_t object;
    struct entry *entry; /* ascending */
    size_t entries;
};

struct piece {
    struct vdev *top;
    uint64_t offset;
    size_t size;
};

struct pieces {
    struct piece *item;
    size_t n, room;
};

static int parse(struct vdev *v, const struct nvlist *config)
{
    struct indirect *x = calloc(1, sizeof *x);

    if (!x)
        return -ENOMEM;
    v->private = x;
    x->object = nvlist_uint64_or(config, "com.delphix:indirect_object", 0);
    return 0;
}

static void free_private(struct vdev *v)
{
    struct indirect *x = v->private;

    if (x)
        free(x->entry);
    free(x);
}

static int open_indirect(struct vdev *v, unsigned flags)
{
    vdev_set_state(v, VDEV_HEALTHY, NULL);
    return 0;
}

static uint64_t asize(const struct vdev *v)
{
    return v->asize; /* what it was */
}

bool vdev_is_indirect(const struct vdev *v)
{
    return v->kind == &vdev_kind_indirect;
}

uint64_t vdev_mapping_object(const struct vdev *v)
{
    const struct indirect *x = v->private;

    return x->object;
}

static void decode(struct entry *e, const unsigned char *p)
{
    uint64_t source = get_u64(p, BYTES_HOST_BIG), dva0 = get_u64(p + 8, BYTES_HOST_BIG);
    uint64_t dva1 = get_u64(p + 16, BYTES_HOST_BIG);

    e->start = (source & SOURCE_MASK) << 9;
    e->length = (dva0 & ((1ull << ASIZE_BITS) - 1)) << 9;
    e->vdev = dva0 >> 32 & ((1ull << VDEV_BITS) - 1);
    e->offset = (dva1 & SOURCE_MASK) << 9;
}

int vdev_set_mapping(struct vdev *top, const void *bytes, size_t n)
{
    struct indirect *x = top->private;
    struct entry *list CLEANUP_FREE = NULL;
    uint64_t end = 0;

    if (!vdev_is_indirect(top) || n % ENTRY_SIZE != 0)
        return err_set(EBADE, "the mapping of vdev %u has an impossible size", top->id);
    list = malloc(n ? n / ENTRY_SIZE * sizeof *list : 1);
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < n / ENTRY_SIZE; i++) {
        struct entry *e = &list[i];
        decode(e, (const unsigned char *)bytes + i * ENTRY_SIZE);
        if (e->length == 0 || e->start < end || e->start > top->asize ||
            e->length > top->asize - e->start)
            return err_set(EBADE, "entry %zu of the mapping of vdev %u is damaged", i, top->id);
        end = e->start + e->length;
    }
    free(x->entry);
    x->entry = STEAL(list);
    x->entries = n / ENTRY_SIZE;
    return 0;
}

/* The entry with this offset, or NULL. */
static const struct entry *find(const struct indirect *x, uint64_t offset)
{
    size_t low = 0, high = x->entries;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct entry *e = &x->entry[middle];
        if (offset < e->start)
            high = middle;
        else if (offset - e->start >= e->length)
            low = middle + 1;
        else
            return e;
    }
    return NULL;
}

static int add_piece(struct pieces *p, struct vdev *top, uint64_t offset, size_t size)
{
    struct piece *last = p->n ? &p->item[p->n - 1] : NULL;

    if (last && last->top == top && last->offset + last->size == offset) {
        last->size += size;
        return 0;
    }
    if (p->n == p->room) {
        size_t room = p->room ? 2 * p->room : 4;
        struct piece *more = realloc(p->item, room * sizeof *more);
        if (!more)
            return -ENOMEM;
        p->item = more;
        p->room = room;
    }
    p->item[p->n++] = (struct piece){top, offset, size};
    return 0;
}

/* depth: how many removed vdevs may still follow each other. */
static int resolve(struct pieces *p, struct vdev *v, uint64_t offset, size_t size, unsigned depth)
{
    const struct indirect *x = v->private;

    while (size > 0) {
        const struct entry *e = find(x, offset);
        struct vdev *top = e ? vdev_lookup_top(v->parent, e->vdev) : NULL;
        uint64_t skip = e ? offset - e->start : 0;
        size_t part = e ? (size_t)MIN((uint64_t)size, e->length - skip) : 0;
        int rc;
        if (!top || depth == 0)
            return err_set(EIO, "removed vdev %u has no place for offset %llu", v->id,
                           (unsigned long long)offset);
        rc = vdev_is_indirect(top) ? resolve(p, top, e->offset + skip, part, depth - 1)
                                   : add_piece(p, top, e->offset + skip, part);
        if (rc)
            return rc;
        offset += part;
        size -= part;
    }
    return 0;
}

static void free_pieces(struct pieces *p)
{
    free(p->item);
}

/* ---- Reading ---- */

/* All pieces one after the other, each with what its vdev takes to be the best copy. */
static int read_pieces(const struct pieces *p, unsigned char *data, uint64_t birth)
{
    for (size_t i = 0; i < p->n; i++) {
        int rc =
            vdev_read(p->item[i].top, p->item[i].offset, data, p->item[i].size, birth, NULL, NULL);
        if (rc)
            return rc;
        data += p->item[i].size;
    }
    return 0;
}

/* The checksum covers the block, not its pieces. So each copy of a piece is "verified" by reading
 * the pieces behind it, and the last one by the checksum: when that fails, the next copy of the
 * last piece is tried, then the next of the one before, until all combinations were. */
struct choice {
    const struct pieces *p;
    size_t i; /* the piece behind this choice */
    unsigned char *data, *at;
    uint64_t birth;
    int (*verify)(void *arg, const void *data);
    void *arg;
};

static int choose(void *arg, const void *unused)
{
    struct choice *c = arg, next = *c;
    const struct piece *p = &c->p->item[c->i];
    int rc;

    if (c->i == c->p->n) {
        rc = c->verify(c->arg, c->data);
    } else {
        next.i++;
        next.at += p->size;
        rc = vdev_read(p->top, p->offset, c->at, p->size, c->birth, choose, &next);
    }
    return rc == -EBADE ? -ESTALE : rc; /* which piece is bad is not known: nobody is blamed */
}

static int read_indirect(struct vdev *v, uint64_t offset, void *data, size_t size, uint64_t birth,
                         int (*verify)(void *arg, const void *data), void *arg)
{
    struct pieces p CLEANUP(free_pieces) = {NULL, 0, 0};
    int rc = resolve(&p, v, offset, size, v->parent->children);

    if (rc)
        return rc;
    if (p.n == 1)
        return vdev_read(p.item[0].top, p.item[0].offset, data, size, birth, verify, arg);
    rc = read_pieces(&p, data, birth);
    rc = rc || !verify ? rc : verify(arg, data);
    if (rc == -EBADE && p.n <= CHOICE_MAX) {
        struct choice c = {&p, 0, data, data, birth, verify, arg};
        rc = choose(&c, data);
        rc = rc == -ESTALE ? -EBADE : rc;
    }
    return rc;
}

/* Of several pieces none has a checksum of its own: the block is read first, and each piece has to
 * be what it is. */
static int scrub_indirect(struct vdev *v, uint64_t offset, void *data, size_t size,
                          const struct vdev_scrub *s)
{
    struct pieces p CLEANUP(free_pieces) = {NULL, 0, 0};
    const unsigned char *at = data;
    int rc = resolve(&p, v, offset, size, v->parent->children);

    if (rc)
        return rc;
    if (p.n == 1)
        return vdev_scrub(p.item[0].top, p.item[0].offset, data, size, s);
    rc = read_indirect(v, offset, data, size, s->birth, s->verify, s->arg);
    for (size_t i = 0; i < p.n && rc == 0; i++) {
        const struct piece *x = &p.item[i];
        int one = vdev_readable(x->top) ? scrub_known(x->top, x->offset, at, x->size, s) : 0;
        rc = one == -ENOMEM ? one : 0;
        at += x->size;
    }
    return rc;
}

/* ---- Without waiting ---- */

struct indirect_io {
    struct vdev_io *io;
    unsigned pending;
    int rc;
    struct vdev_io part[];
};

static void part_put(struct indirect_io *x, int rc)
{
    int none = 0;

    if (rc)
        __atomic_compare_exchange_n(&x->rc, &none, rc, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (__atomic_sub_fetch(&x->pending, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    struct vdev_io *io = x->io;
    rc = x->rc;
    free(x);
    io->done(io, rc);
}

static void part_done(struct vdev_io *part, int rc)
{
    part_put(part->arg, rc);
}

static void submit(struct vdev *v, struct vdev_io *io)
{
    struct pieces p CLEANUP(free_pieces) = {NULL, 0, 0};
    struct indirect_io *x = NULL;
    unsigned char *data = io->data;
    int rc = resolve(&p, v, io->offset, io->size, v->parent->children);

    if (rc == 0 && !(x = calloc(1, sizeof *x + p.n * sizeof *x->part)))
        rc = -ENOMEM;
    if (rc) {
        io->done(io, rc);
        return;
    }
    x->io = io;
    x->pending = (unsigned)p.n + 1;
    for (size_t i = 0; i < p.n; i++) {
        x->part[i] = (struct vdev_io){.vdev = p.item[i].top,
                                      .write = io->write,
                                      .offset = p.item[i].offset,
                                      .size = p.item[i].size,
                                      .data = data,
                                      .birth = io->birth,
                                      .repair = io->repair,
                                      .done = part_done,
                                      .arg = x};
        data += p.item[i].size;
        vdev_submit(&x->part[i]);
    }
    part_put(x, 0);
}

const struct vdev_kind vdev_kind_indirect = {
    .type = "indirect",
    .parse = parse,
    .free = free_private,
    .open = open_indirect,
    .asize = asize,
    .psize_to_asize = plain_psize_to_asize,
    .read = read_indirect,
    .scrub = scrub_indirect,
    .submit = submit,
};
