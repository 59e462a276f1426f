/*
 * RAID-Z (spec 02 11 to 13): the vdev is a row of sectors, sector k on child k mod n; a block takes
 * consecutive sectors, in rows of n, the first nparity of each row being parity.
 *
 * Expansion appends a child. Sector numbers of old blocks stay, and so does what is data and what
 * is parity among them (they keep the width, hence the row length, of the time they were written);
 * but sector k moves to child k mod n of the wider vdev. So a row of an old block starts on another
 * child than the row before, and each row is a stripe of its own here. While the expansion runs,
 * only rows below the reflow offset have moved.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/raidz.h"
#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/size.h"
#include "vdev/stripe_impl.h"
#include "vdev/uberblock.h"
#include "vdev/vdev_impl.h"

#define ROTATE_BIT                                                                                 \
    0x100000ull /* single parity: from MiB to MiB, parity and first data swap places */
#define SCRATCH_BACK 0x380000ull /* the scratch area of a child starts this much before its space  \
                                  */
#define KEY_EXPANDING   "raidz_expanding"
#define KEY_EXPAND_TXGS "raidz_expand_txgs"

struct raidz {
    unsigned nparity;
    unsigned expansions; /* finished ones */
    uint64_t *expand_txg;
    bool expanding;
    uint64_t reflow_offset;
    unsigned reflow_state;
};

static int parse(struct vdev *v, const struct nvlist *config)
{
    struct raidz *z = calloc(1, sizeof *z);
    uint64_t nparity = nvlist_uint64_or(config, "nparity", 0);
    const uint64_t *txgs;
    size_t n;

    if (!z)
        return -ENOMEM;
    v->private = z;
    if (nparity < 1 || nparity > RAIDZ_PARITY_MAX)
        return err_set(EINVAL, "a raidz vdev has the impossible parity %llu",
                       (unsigned long long)nparity);
    z->nparity = (unsigned)nparity;
    z->expanding = nvlist_exists(config, KEY_EXPANDING);
    if (nvlist_get_uint64_array(config, KEY_EXPAND_TXGS, &txgs, &n) != 0 || n == 0)
        return 0;
    if (n > RAIDZ_COLUMNS_MAX)
        return err_set(EINVAL, "a raidz vdev was expanded impossibly often");
    z->expand_txg = malloc(n * sizeof *z->expand_txg);
    if (!z->expand_txg)
        return -ENOMEM;
    memcpy(z->expand_txg, txgs, n * sizeof *txgs);
    z->expansions = (unsigned)n;
    return 0;
}

static void free_private(struct vdev *v)
{
    struct raidz *z = v->private;

    if (z)
        free(z->expand_txg);
    free(z);
}

static int check(struct vdev *v)
{
    const struct raidz *z = v->private;

    if (v->children > RAIDZ_COLUMNS_MAX || v->children <= z->nparity ||
        v->children - z->nparity <= z->expansions + z->expanding)
        return err_set(EINVAL, "a raidz%u vdev cannot have %u children", z->nparity, v->children);
    return 0;
}

static uint64_t asize(const struct vdev *v)
{
    const struct raidz *z = v->private;

    return size_raidz(smallest_child(v), v->children - z->expanding);
}

/* The number of columns of blocks born in this txg. */
static unsigned width_at(const struct vdev *v, uint64_t birth)
{
    const struct raidz *z = v->private;
    unsigned width = v->children - z->expansions - z->expanding;

    for (unsigned i = 0; i < z->expansions && z->expand_txg[i] <= birth; i++)
        width++;
    return width;
}

/* How a block of some sectors lies in rows of n (02 11.2). */
struct layout {
    unsigned n, p, big;
    uint64_t rows, rest, total; /* full rows, data sectors in the last one, sectors with parity */
};

static struct layout layout_of(unsigned n, unsigned p, uint64_t sectors)
{
    struct layout l = {.n = n, .p = p, .rows = sectors / (n - p), .rest = sectors % (n - p)};

    l.big = l.rest ? (unsigned)l.rest + p : 0;
    l.total = sectors + p * (l.rows + (l.rest != 0));
    return l;
}

static uint64_t psize_to_asize(const struct vdev *v, uint64_t psize, uint64_t birth)
{
    const struct raidz *z = v->private;
    unsigned shift = v->top->ashift;
    uint64_t sectors = (psize + (1ull << shift) - 1) >> shift;
    struct layout l = layout_of(width_at(v, birth), z->nparity, sectors);

    return ROUND_UP(l.total, (uint64_t)z->nparity + 1) << shift;
}

static void swap_places(struct stripe_column *a, struct stripe_column *b)
{
    unsigned child = a->child;
    uint64_t offset = a->offset;

    a->child = b->child;
    a->offset = b->offset;
    b->child = child;
    b->offset = offset;
}

/* A block whose width is that of the vdev: one stripe of whole columns. */
static struct stripe_map *map_plain(struct vdev *v, uint64_t offset, size_t size,
                                    unsigned char *data)
{
    const struct raidz *z = v->private;
    unsigned shift = v->top->ashift, n = v->children;
    uint64_t first = offset >> shift;
    struct layout l = layout_of(n, z->nparity, size >> shift);
    struct stripe_map *m = stripe_map_new(v, z->nparity, 1, l.rows ? n : l.big);

    if (!m)
        return NULL;
    m->stripe[0] = (struct stripe){0, m->cols};
    for (unsigned c = 0; c < m->cols; c++) {
        struct stripe_column *col = &m->col[c];
        uint64_t at = first % n + c;
        col->child = (unsigned)(at % n);
        col->offset = (first / n + at / n) << shift;
        col->size = (size_t)(l.rows + (c < l.big)) << shift;
        if (c < l.p)
            continue;
        col->data = data;
        data += col->size;
    }
    if (l.p == 1 && offset & ROTATE_BIT)
        swap_places(&m->col[0], &m->col[1]);
    return m;
}

/* Where sector k is, given whether its row has moved. */
static void place(const struct vdev *v, uint64_t k, bool moved, struct stripe_column *col)
{
    const struct raidz *z = v->private;
    unsigned n = v->children - (z->expanding && !moved);

    col->child = (unsigned)(k % n);
    col->offset = (k / n) << v->top->ashift;
    if (moved && z->expanding && z->reflow_state == UBERBLOCK_REFLOW_VALID)
        col->offset -=
            SCRATCH_BACK; /* below 0 means before the child's space; the leaf adds 4 MiB */
}

/* A block that is narrower than the vdev: a stripe for each row. */
static struct stripe_map *map_rows(struct vdev *v, uint64_t offset, size_t size, unsigned width,
                                   unsigned char *data)
{
    const struct raidz *z = v->private;
    unsigned shift = v->top->ashift;
    struct layout l = layout_of(width, z->nparity, size >> shift);
    uint64_t first = offset >> shift, rows = (l.total + width - 1) / width;
    unsigned cols = (unsigned)MIN(l.total, (uint64_t)width);
    struct stripe_map *m = stripe_map_new(v, z->nparity, (unsigned)rows, (unsigned)rows * cols);

    if (!m)
        return NULL;
    m->whole = true;
    for (uint64_t i = 0; i < rows; i++) {
        struct stripe *s = &m->stripe[i];
        uint64_t start = first + i * width;
        bool moved = (start + cols) << shift <= z->reflow_offset;
        *s = (struct stripe){(unsigned)i * cols, cols};
        for (unsigned c = 0; c < cols; c++) {
            struct stripe_column *col = &m->col[s->first + c];
            uint64_t d = c - l.p, index;
            bool absent = i == rows - 1 && l.big && c >= l.big;
            place(v, start + c, moved, col);
            col->size = absent ? 0 : 1ull << shift;
            if (c < l.p)
                continue;
            index = c < l.big || l.rest == 0 ? d * rows + i
                                             : l.rest * rows + (d - l.rest) * (rows - 1) + i;
            col->data = absent ? data : data + (index << shift);
        }
        if (l.p == 1 && offset & ROTATE_BIT)
            swap_places(&m->col[s->first], &m->col[s->first + 1]);
    }
    return m;
}

static bool is_plain(const struct vdev *v, unsigned width)
{
    return width == v->children;
}

static struct stripe_map *map_block(struct vdev *v, uint64_t offset, size_t size, uint64_t birth,
                                    void *data)
{
    unsigned width = width_at(v, birth);

    return is_plain(v, width) ? map_plain(v, offset, size, data)
                              : map_rows(v, offset, size, width, data);
}

/* One data sector, the most frequent block of all on some pools: in the caller, without a map. */
static int read_sector(struct vdev *v, uint64_t offset, void *data, size_t size, uint64_t birth)
{
    const struct raidz *z = v->private;
    unsigned shift = v->top->ashift, n = v->children;
    uint64_t at = (offset >> shift) + z->nparity;
    struct vdev *child;

    if (z->nparity == 1 && offset & ROTATE_BIT)
        at--;
    child = v->child[at % n];
    if (!vdev_readable(child) || vdev_lacks(child, birth))
        return -ENXIO;
    return child->kind->read(child, (at / n) << shift, data, size, birth, NULL, NULL);
}

static int read_raidz(struct vdev *v, uint64_t offset, void *data, size_t size, uint64_t birth,
                      int (*verify)(void *arg, const void *data), void *arg)
{
    if (size >> v->top->ashift == 1 && is_plain(v, width_at(v, birth)) &&
        read_sector(v, offset, data, size, birth) == 0) {
        int rc = verify ? verify(arg, data) : 0;
        if (rc != -EBADE && rc != -ESTALE)
            return rc;
    }
    return stripe_read(map_block(v, offset, size, birth, data), birth, data, verify, arg);
}

static int scrub_raidz(struct vdev *v, uint64_t offset, void *data, size_t size,
                       const struct vdev_scrub *s)
{
    return stripe_scrub(map_block(v, offset, size, s->birth, data), data, s);
}

static void submit(struct vdev *v, struct vdev_io *io)
{
    stripe_submit(map_block(v, io->offset, io->size, io->birth, io->data), io);
}

/* Sectors are dealt out to the children in turn (02 18). */
static void child_range(const struct vdev *v, unsigned child, uint64_t *from, uint64_t *to)
{
    const struct raidz *z = v->private;
    unsigned shift = v->top->ashift, n = v->children;
    uint64_t start = *from >> shift, end = *to >> shift;

    *from = (start > child ? (start - child + n - 1) / n : 0) << shift;
    *to = z->expanding ? *from : (end > child ? (end - child + n - 1) / n : 0) << shift;
}

const struct vdev_kind vdev_kind_raidz = {
    .type = "raidz",
    .parse = parse,
    .check = check,
    .free = free_private,
    .open = redundant_open,
    .asize = asize,
    .psize_to_asize = psize_to_asize,
    .read = read_raidz,
    .scrub = scrub_raidz,
    .submit = submit,
    .child_range = child_range,
};

void raidz_set_reflow(struct vdev *v, uint64_t offset, unsigned state)
{
    struct raidz *z = v->private;

    z->reflow_offset = offset;
    z->reflow_state = state;
}

bool vdev_is_expanding(const struct vdev *v)
{
    const struct raidz *z = v->private;

    return v->kind == &vdev_kind_raidz && z->expanding;
}

unsigned raidz_nparity(const struct vdev *v)
{
    const struct raidz *z = v->private;

    return z->nparity;
}
