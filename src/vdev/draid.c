/*
 * dRAID (spec 02 14): groups of nparity + ndata columns are laid over the permuted devices, 16 MiB
 * of each at a time; the last positions of every permutation are spare space. A block takes whole
 * rows of its group: where its data ends before the row, sectors of zeros follow, on disk too. When
 * read these need not be looked at: to parity a short column is one with zeros.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/raidz.h"
#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/err.h"
#include "vdev/draid_impl.h"
#include "vdev/size.h"
#include "vdev/stripe_impl.h"
#include "vdev/vdev_impl.h"

#define ROW_HEIGHT (16ull << 20)

struct draid {
    unsigned nparity, ndata, nspares;
    unsigned width;      /* of a group: nparity + ndata */
    unsigned disks;      /* children but the spare space */
    uint64_t groups;     /* in a slice: the smallest number that fills whole rows of the disks */
    uint64_t slice_rows; /* of 16 MiB, in a slice */
    struct draid_map map;
};

static unsigned gcd(unsigned a, unsigned b)
{
    return b ? gcd(b, a % b) : a;
}

static int parse(struct vdev *v, const struct nvlist *config)
{
    struct draid *d = calloc(1, sizeof *d);
    uint64_t nparity = nvlist_uint64_or(config, "nparity", 0);
    uint64_t ndata = nvlist_uint64_or(config, "draid_ndata", 0);
    uint64_t nspares = nvlist_uint64_or(config, "draid_nspares", 0);

    if (!d)
        return -ENOMEM;
    v->private = d;
    if (nparity < 1 || nparity > RAIDZ_PARITY_MAX || ndata < 1 ||
        ndata > DRAID_CHILDREN_MAX - nparity || nspares > DRAID_SPARES_MAX)
        return err_set(EINVAL, "a draid vdev has the impossible shape draid%llu:%llud:%llus",
                       (unsigned long long)nparity, (unsigned long long)ndata,
                       (unsigned long long)nspares);
    if (nvlist_exists(config, "draid_nchildren"))
        return err_set(ENOTSUP, "dRAID with failure domains is not supported");
    d->nparity = (unsigned)nparity;
    d->ndata = (unsigned)ndata;
    d->nspares = (unsigned)nspares;
    d->width = d->nparity + d->ndata;
    /* Until the children are known. */
    d->groups = nvlist_uint64_or(config, "draid_ngroups", 0);
    return 0;
}

static void free_private(struct vdev *v)
{
    struct draid *d = v->private;

    if (d)
        free(d->map.base);
    free(d);
}

static int check(struct vdev *v)
{
    struct draid *d = v->private;
    unsigned n = v->children;
    uint64_t claimed = d->groups;

    if (n < 2 || n > DRAID_CHILDREN_MAX || n <= d->nspares || n - d->nspares < d->width)
        return err_set(EINVAL, "draid%u:%ud:%us cannot have %u children", d->nparity, d->ndata,
                       d->nspares, n);
    d->disks = n - d->nspares;
    d->groups = d->disks / gcd(d->disks, d->width);
    d->slice_rows = d->groups * d->width / d->disks;
    if (claimed != d->groups)
        return err_set(EINVAL, "a draid vdev claims %llu groups, not %llu",
                       (unsigned long long)claimed, (unsigned long long)d->groups);
    return draid_map_new(&d->map, n);
}

static uint64_t asize(const struct vdev *v)
{
    const struct draid *d = v->private;

    return size_draid(smallest_child(v), v->children, d->ndata, d->nparity, d->nspares);
}

static uint64_t psize_to_asize(const struct vdev *v, uint64_t psize, uint64_t birth)
{
    const struct draid *d = v->private;
    uint64_t row = (uint64_t)d->ndata << v->top->ashift;

    return ((psize + row - 1) / row * d->width) << v->top->ashift;
}

static uint64_t min_alloc(const struct vdev *v)
{
    const struct draid *d = v->private;

    return (uint64_t)d->ndata << v->top->ashift;
}

static uint64_t alloc_align(const struct vdev *v)
{
    const struct draid *d = v->private;

    return (uint64_t)d->width << v->top->ashift;
}

/* One piece of a block, within one group, as a stripe. */
static void map_piece(struct vdev *v, struct stripe_map *m, struct stripe *s, uint64_t offset,
                      size_t size, unsigned char *data)
{
    const struct draid *d = v->private;
    unsigned shift = v->top->ashift;
    uint64_t group = offset / (d->width * ROW_HEIGHT), slice = group / d->groups;
    uint64_t at = group % d->groups * d->width;
    uint64_t row = slice * d->slice_rows + at / d->disks;
    uint64_t within = (offset >> shift) % ((ROW_HEIGHT >> shift) * d->width);
    uint64_t y = row * ROW_HEIGHT + (within / d->width << shift);
    uint64_t sectors = size >> shift, full = sectors / d->ndata;
    unsigned rest = (unsigned)(sectors % d->ndata), big = rest ? rest + d->nparity : 0;

    for (unsigned c = 0; c < d->width; c++) {
        struct stripe_column *col = &m->col[s->first + c];
        uint64_t position = at % d->disks + c;
        col->child = draid_map_device(&d->map, slice, (unsigned)(position % d->disks));
        col->offset = y + position / d->disks * ROW_HEIGHT;
        col->size = (size_t)(full + (c < big)) << shift;
        col->pad = big && c >= big;
        if (c < d->nparity)
            continue;
        col->data = data;
        data += col->size;
    }
}

/* A block may go on in the next group. */
static struct stripe_map *map_block(struct vdev *v, uint64_t offset, size_t size, void *data)
{
    const struct draid *d = v->private;
    uint64_t group_size = d->width * ROW_HEIGHT;
    uint64_t left = (group_size - offset % group_size) / d->width * d->ndata;
    size_t first = (size_t)MIN(left, (uint64_t)size);
    unsigned pieces = first < size ? 2 : 1;
    struct stripe_map *m = stripe_map_new(v, d->nparity, pieces, pieces * d->width);

    if (!m)
        return NULL;
    m->stripe[0] = (struct stripe){0, d->width};
    map_piece(v, m, &m->stripe[0], offset, first, data);
    if (pieces == 1)
        return m;
    m->stripe[1] = (struct stripe){d->width, d->width};
    map_piece(v, m, &m->stripe[1], ROUND_UP(offset + 1, group_size), size - first,
              (unsigned char *)data + first);
    return m;
}

static bool aligned(const struct vdev *v, uint64_t offset)
{
    return offset % alloc_align(v) == 0;
}

static int check_start(const struct vdev *v, uint64_t offset)
{
    return aligned(v, offset) ? 0
                              : err_set(EIO, "vdev %u: no block can begin at %llu", v->id,
                                        (unsigned long long)offset);
}

static int read_draid(struct vdev *v, uint64_t offset, void *data, size_t size, uint64_t birth,
                      int (*verify)(void *arg, const void *data), void *arg)
{
    int rc = check_start(v, offset);

    return rc ? rc : stripe_read(map_block(v, offset, size, data), birth, data, verify, arg);
}

static int scrub_draid(struct vdev *v, uint64_t offset, void *data, size_t size,
                       const struct vdev_scrub *s)
{
    int rc = check_start(v, offset);

    return rc ? rc : stripe_scrub(map_block(v, offset, size, data), data, s);
}

static void submit(struct vdev *v, struct vdev_io *io)
{
    if (!aligned(v, io->offset))
        io->done(io, -EIO);
    else
        stripe_submit(map_block(v, io->offset, io->size, io->data), io);
}

const struct vdev_kind vdev_kind_draid = {
    .type = "draid",
    .parse = parse,
    .check = check,
    .free = free_private,
    .open = redundant_open,
    .asize = asize,
    .psize_to_asize = psize_to_asize,
    .read = read_draid,
    .scrub = scrub_draid,
    .submit = submit,
    .min_alloc = min_alloc,
    .alloc_align = alloc_align,
};

unsigned draid_nparity(const struct vdev *v)
{
    const struct draid *d = v->private;

    return d->nparity;
}

void draid_print_name(const struct vdev *v, char *out, size_t cap)
{
    const struct draid *d = v->private;

    snprintf(out, cap, "draid%u:%ud:%uc:%us-%u", d->nparity, d->ndata, v->children, d->nspares,
             v->id);
}

/* ---- Distributed spares (14.5) ---- */

struct dspare {
    uint64_t top_guid, id;
};

static int parse_dspare(struct vdev *v, const struct nvlist *config)
{
    struct dspare *s = calloc(1, sizeof *s);

    if (!s)
        return -ENOMEM;
    v->private = s;
    s->top_guid = nvlist_uint64_or(config, "top_guid", 0);
    s->id = nvlist_uint64_or(config, "spareid", 0);
    return 0;
}

static void free_dspare(struct vdev *v)
{
    free(v->private);
}

bool dspare_usable(const struct vdev *v)
{
    const struct dspare *s = v->private;
    const struct vdev *top = v->top;

    return top && top->kind == &vdev_kind_draid && top->guid == s->top_guid &&
           s->id < ((const struct draid *)top->private)->nspares;
}

/* It is as large as its draid's devices, which limit the size anyhow. */
static uint64_t dspare_asize(const struct vdev *v)
{
    return UINT64_MAX;
}

static bool is_pair(const struct vdev *v)
{
    return v->kind == &vdev_kind_spare || v->kind == &vdev_kind_replacing ||
           v->kind == &vdev_kind_mirror;
}

/* What has the spare's bytes at this offset: a device, or a pair of them. If a distributed spare
 * stands in for it, that one's place is looked up in turn; each spare can be met only once. */
static struct vdev *dspare_target(const struct vdev *v, uint64_t offset)
{
    const struct draid *d = v->top->private;
    uint64_t slice = offset / (d->slice_rows * ROW_HEIGHT);

    for (unsigned hops = 0; hops <= d->nspares; hops++) {
        const struct dspare *s = v->private;
        unsigned position = d->map.children - 1 - (unsigned)s->id;
        struct vdev *target = v->top->child[draid_map_device(&d->map, slice, position)];
        const struct vdev *other = NULL;
        if (!is_pair(target))
            return target;
        for (unsigned i = 0; i < target->children; i++) {
            struct vdev *half = target->child[i];
            if (half->kind == &vdev_kind_dspare && vdev_readable(half))
                other = half;
            else if (vdev_readable(half) && !is_pair(half))
                return half;
        }
        if (!other)
            return NULL;
        v = other;
    }
    return NULL;
}

static int read_dspare(struct vdev *v, uint64_t offset, void *data, size_t size, uint64_t birth,
                       int (*verify)(void *arg, const void *data), void *arg)
{
    struct vdev *target = dspare_target(v, offset);

    if (!target || !vdev_readable(target))
        return err_set(ENXIO, "%s: the device with this part of it is not available",
                       v->path ? v->path : "a distributed spare");
    return target->kind->read(target, offset, data, size, birth, verify, arg);
}

static int scrub_dspare(struct vdev *v, uint64_t offset, void *data, size_t size,
                        const struct vdev_scrub *s)
{
    struct vdev *target = dspare_target(v, offset);

    return target && vdev_readable(target) ? scrub_child(target, offset, data, size, s) : -ENXIO;
}

static void submit_dspare(struct vdev *v, struct vdev_io *io)
{
    struct vdev *target = dspare_target(v, io->offset);

    if (!target || !vdev_readable(target))
        io->done(io, -ENXIO);
    else
        target->kind->submit(target, io);
}

const struct vdev_kind vdev_kind_dspare = {
    .type = "dspare",
    .leaf = true,
    .parse = parse_dspare,
    .free = free_dspare,
    .asize = dspare_asize,
    .psize_to_asize = plain_psize_to_asize,
    .read = read_dspare,
    .scrub = scrub_dspare,
    .submit = submit_dspare,
};
