/* Scrubbing a block: reading it from every device that has something of it. The kinds with several
 * devices do it in their own way; a leaf is read once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/raidz.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/stripe_impl.h"
#include "vdev/gate_impl.h"
#include "vdev/vdev_impl.h"
#include "vdev/wait_impl.h"

void scrub_report(const struct vdev_scrub *s, struct vdev *leaf, int rc)
{
    if (s->wrong && (rc == -EBADE || rc == -EIO))
        s->wrong(s->wrong_arg, leaf, rc);
}

int scrub_child(struct vdev *v, uint64_t offset, void *data, size_t size,
                const struct vdev_scrub *s)
{
    int rc;

    if (v->kind->scrub)
        return v->kind->scrub(v, offset, data, size, s);
    rc = v->kind->read(v, offset, data, size, s->birth, s->verify, s->arg);
    scrub_report(s, v, rc);
    return rc;
}

struct same {
    const void *data;
    size_t size;
};

static int is_same(void *arg, const void *data)
{
    const struct same *same = arg;

    return memcmp(data, same->data, same->size) == 0 ? 0 : -EBADE;
}

int scrub_known(struct vdev *v, uint64_t offset, const void *data, size_t size,
                const struct vdev_scrub *s)
{
    struct same same = {data, size};
    struct vdev_scrub known = *s;
    unsigned char *told CLEANUP_FREE = malloc(size);

    if (!told)
        return -ENOMEM;
    known.verify = is_same;
    known.arg = &same;
    return scrub_child(v, offset, told, size, &known);
}

static void write_done(struct vdev_io *io, int rc)
{
    vdev_wait_done(io->arg, rc);
}

int vdev_write_below(struct vdev *v, uint64_t offset, const void *data, size_t size, uint64_t birth,
                     bool repair)
{
    struct vdev_wait w;
    struct vdev_io io = {.vdev = v,
                         .write = true,
                         .offset = offset,
                         .size = size,
                         .data = (void *)(uintptr_t)data,
                         .birth = birth,
                         .repair = repair,
                         .done = write_done,
                         .arg = &w};

    vdev_wait_init(&w, 1);
    v->kind->submit(v, &io);
    return vdev_wait_all(&w);
}

void scrub_give(struct vdev *v, uint64_t offset, const void *data, size_t size,
                const struct vdev_scrub *s)
{
    if (!vdev_needs(v, s->birth))
        return;
    if (vdev_is_mirror(v))
        for (unsigned i = 0; i < v->children; i++)
            scrub_give(v->child[i], offset, data, size, s);
    else if (vdev_write_below(v, offset, data, size, s->birth, false) == 0)
        scrub_count(s, size);
}

/* ---- Stripes ---- */

/* The data is right: which parity is not what follows from it? All parity is right afterwards. */
static int compare_parity(struct stripe_map *m)
{
    size_t total = 0;
    int rc = stripe_parity_memory(m);

    for (unsigned i = 0; i < m->stripes; i++)
        for (unsigned p = 0; p < m->nparity; p++)
            total += m->col[m->stripe[i].first + p].size;
    unsigned char *told CLEANUP_FREE = rc ? NULL : malloc(total ? total : 1), *at = told;
    if (!told)
        return -ENOMEM;
    memcpy(told, m->parity, total); /* the columns are in it one after the other */
    for (unsigned i = 0; i < m->stripes; i++) {
        struct stripe_column *col = &m->col[m->stripe[i].first];
        stripe_generate(m, &m->stripe[i]);
        for (unsigned p = 0; p < m->nparity; p++) {
            col[p].wrong = col[p].rc == 0 && memcmp(at, col[p].data, col[p].size) != 0;
            at += col[p].size;
        }
    }
    stripe_convict(m);
    return 0;
}

/* Each device once, however many columns it has. Pairs of devices are asked one by one. */
static int report(struct stripe_map *m, const struct vdev_scrub *s)
{
    bool told[256] = {false};
    int rc = 0;

    for (unsigned c = 0; c < m->cols && rc == 0; c++) {
        const struct stripe_column *col = &m->col[c];
        struct vdev *child = m->v->child[col->child];
        int one = col->wrong ? -EBADE : col->rc;
        if (!col->size || col->stale)
            continue; /* its device is not to be blamed for what it may lack */
        if (child->children && vdev_readable(child)) {
            rc = scrub_known(child, col->offset, col->data, col->size, s);
            rc = rc == -ENOMEM ? rc : 0;
        } else if (one && !told[col->child]) {
            told[col->child] = true;
            scrub_report(s, child, one);
        }
    }
    return rc;
}

static void free_map(struct stripe_map **m)
{
    stripe_map_free(*m);
}

/* Reads and verifies, with all parity unless it is for a resilver. */
static int read_all(struct stripe_map *m, const void *data, const struct vdev_scrub *s)
{
    int rc;

    m->whole = !s->resilver;
    rc = stripe_gather(m, s->birth);
    rc = rc ? rc : s->verify(s->arg, data);
    if (rc == -EBADE)
        return stripe_search(m, s->birth, rc, data, s->verify, s->arg);
    return rc || s->resilver ? rc : compare_parity(m);
}

int stripe_scrub(struct stripe_map *map, const void *data, const struct vdev_scrub *s)
{
    struct stripe_map *m CLEANUP(free_map) = map;
    int rc = m ? read_all(m, data, s) : -ENOMEM;

    if (rc)
        return rc;
    if (s->resilver)
        for (unsigned c = 0; c < m->cols; c++)
            m->col[c].give = vdev_needs(m->v->child[m->col[c].child], s->birth);
    else
        rc = report(m, s);
    m->resilver = s->resilver;
    stripe_heal(m, s->birth);
    scrub_count(s, m->written);
    return rc;
}

/* ---- Top-level vdevs ---- */

int vdev_scrub(struct vdev *top, uint64_t offset, void *data, size_t size,
               const struct vdev_scrub *s)
{
    unsigned slot = top ? gate_enter(top->gate) : 0;
    int rc = vdev_check_range(top, offset, size);

    if (rc == 0)
        rc = scrub_child(top, offset, data, size, s);
    if (top)
        gate_leave(top->gate, slot);
    return rc;
}
