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

int stripe_scrub(struct stripe_map *map, const void *data, const struct vdev_scrub *s)
{
    struct stripe_map *m CLEANUP(free_map) = map;
    int rc;

    if (!m)
        return -ENOMEM;
    m->whole = true;
    rc = stripe_gather(m, s->birth);
    if (rc == 0) {
        rc = s->verify(s->arg, data);
        if (rc == -EBADE)
            rc = stripe_search(m, s->birth, rc, data, s->verify, s->arg);
        else if (rc == 0)
            rc = compare_parity(m);
    }
    if (rc)
        return rc;
    rc = report(m, s);
    stripe_heal(m, s->birth);
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
