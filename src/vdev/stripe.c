/* Striped blocks: what to read, what is computed, what is written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/raidz.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/stripe_impl.h"
#include "vdev/vdev_impl.h"

struct stripe_map *stripe_map_new(struct vdev *v, unsigned nparity, unsigned stripes, unsigned cols)
{
    struct stripe_map *m =
        calloc(1, sizeof *m + stripes * sizeof *m->stripe + cols * sizeof *m->col);

    if (!m)
        return NULL;
    m->v = v;
    m->nparity = nparity;
    m->stripes = stripes;
    m->cols = cols;
    m->col = (struct stripe_column *)(m + 1);
    m->stripe = (struct stripe *)(m->col + cols);
    return m;
}

void stripe_map_free(struct stripe_map *m)
{
    if (m)
        free(m->parity);
    free(m);
}

int stripe_parity_memory(struct stripe_map *m)
{
    size_t total = 0;

    if (m->parity)
        return 0;
    for (unsigned s = 0; s < m->stripes; s++)
        for (unsigned p = 0; p < m->nparity; p++)
            total += m->col[m->stripe[s].first + p].size;
    if (posix_memalign((void **)&m->parity, 4096, total ? total : 1) != 0) {
        m->parity = NULL;
        return -ENOMEM;
    }
    unsigned char *at = m->parity;
    for (unsigned s = 0; s < m->stripes; s++)
        for (unsigned p = 0; p < m->nparity; p++) {
            struct stripe_column *col = &m->col[m->stripe[s].first + p];
            col->data = at;
            at += col->size;
        }
    return 0;
}

/* Why the device of a column should not be asked; 0: it may. */
static int unfit(const struct stripe_map *m, struct stripe_column *col, uint64_t birth)
{
    const struct vdev *child = m->v->child[col->child];

    if (!vdev_readable(child))
        return -ENXIO;
    col->stale = vdev_lacks(child, birth);
    return col->stale ? -ENODATA : 0;
}

int stripe_plan(struct stripe_map *m, uint64_t birth)
{
    bool parity = false;

    for (unsigned s = 0; s < m->stripes; s++) {
        struct stripe_column *col = &m->col[m->stripe[s].first];
        unsigned lost = 0;
        for (unsigned c = m->nparity; c < m->stripe[s].cols; c++) {
            col[c].rc = col[c].size ? unfit(m, &col[c], birth) : 0;
            lost += col[c].rc != 0;
            if (col[c].rc == 0 && col[c].size)
                col[c].rc = COLUMN_WANTED;
        }
        for (unsigned p = 0; p < m->nparity; p++) {
            col[p].rc = unfit(m, &col[p], birth);
            if (col[p].rc)
                continue;
            col[p].rc = m->whole || lost ? COLUMN_WANTED : COLUMN_UNREAD;
            lost -= lost > 0;
            parity |= col[p].rc == COLUMN_WANTED;
        }
    }
    return parity ? stripe_parity_memory(m) : 0;
}

/* Data columns that were not read; with less parity than that nothing can be computed. */
static unsigned count_lost(const struct stripe_map *m, const struct stripe *s)
{
    unsigned lost = 0;

    for (unsigned c = m->nparity; c < s->cols; c++)
        lost += m->col[s->first + c].rc != 0;
    return lost;
}

static unsigned count_bad(const struct stripe_map *m, const struct stripe *s)
{
    unsigned bad = 0;

    for (unsigned c = 0; c < s->cols; c++)
        bad += m->col[s->first + c].rc != 0;
    return bad;
}

static int too_many(const struct stripe_map *m, const struct stripe *s, unsigned bad)
{
    bool failed = false;

    for (unsigned c = 0; c < s->cols; c++)
        failed |= m->col[s->first + c].rc == -EIO;
    return err_set(failed ? EIO : ENXIO,
                   "vdev %u: %u of %u columns cannot be read, and %u can be computed",
                   m->v->top->id, bad, s->cols, m->nparity);
}

int stripe_fill(struct stripe_map *m)
{
    for (unsigned i = 0; i < m->stripes; i++) {
        const struct stripe *s = &m->stripe[i];
        struct raidz_column column[RAIDZ_COLUMNS_MAX];
        bool bad[RAIDZ_COLUMNS_MAX];
        unsigned n = count_bad(m, s);
        if (count_lost(m, s) == 0)
            continue;
        if (n > m->nparity)
            return too_many(m, s, n);
        for (unsigned c = 0; c < s->cols; c++) {
            const struct stripe_column *col = &m->col[s->first + c];
            bad[c] = col->rc != 0;
            column[c] =
                (struct raidz_column){c < m->nparity && bad[c] ? NULL : col->data, col->size};
        }
        raidz_reconstruct(column, s->cols, m->nparity, bad);
    }
    return 0;
}

/* Asks for what was not asked for yet, in stripes with too little parity. stale: also devices that
 * may not have the block. */
static bool ask_more(struct stripe_map *m, bool stale)
{
    bool any = false;

    for (unsigned i = 0; i < m->stripes; i++) {
        const struct stripe *s = &m->stripe[i];
        if (count_lost(m, s) == 0 || count_bad(m, s) <= m->nparity)
            continue;
        for (unsigned c = 0; c < s->cols; c++) {
            struct stripe_column *col = &m->col[s->first + c];
            if (col->rc != COLUMN_UNREAD && !(stale && col->rc == -ENODATA))
                continue;
            col->rc = COLUMN_WANTED;
            any = true;
        }
    }
    return any;
}

int stripe_gather(struct stripe_map *m, uint64_t birth)
{
    int rc = stripe_plan(m, birth);

    rc = rc ? rc : stripe_run(m, false, birth);
    for (int stale = 0; stale < 2; stale++)
        if (rc == 0 && ask_more(m, stale)) {
            rc = stripe_parity_memory(m);
            rc = rc ? rc : stripe_run(m, false, birth);
        }
    return rc ? rc : stripe_fill(m);
}

void stripe_generate(const struct stripe_map *m, const struct stripe *s)
{
    struct raidz_column column[RAIDZ_COLUMNS_MAX];

    for (unsigned c = 0; c < s->cols; c++)
        column[c] = (struct raidz_column){m->col[s->first + c].data, m->col[s->first + c].size};
    raidz_generate(column, s->cols, m->nparity);
}

static bool needs_healing(const struct stripe_column *col)
{
    return col->size && (col->wrong || col->give || col->rc == -EIO);
}

/* Parity columns that are to be written again: what they should be. */
static int make_parity(struct stripe_map *m)
{
    for (unsigned i = 0; i < m->stripes; i++) {
        const struct stripe *s = &m->stripe[i];
        bool any = false;
        for (unsigned p = 0; p < m->nparity; p++)
            any |= needs_healing(&m->col[s->first + p]);
        int rc = any ? stripe_parity_memory(m) : 0;
        if (rc)
            return rc;
        if (any)
            stripe_generate(m, s);
    }
    return 0;
}

void stripe_heal(struct stripe_map *m, uint64_t birth)
{
    bool any = false;

    for (unsigned c = 0; c < m->cols; c++)
        any |= needs_healing(&m->col[c]) && vdev_mendable(m->v->child[m->col[c].child]);
    if (!any || make_parity(m) != 0)
        return;
    for (unsigned c = 0; c < m->cols; c++) {
        struct stripe_column *col = &m->col[c];
        col->again = needs_healing(col) && vdev_mendable(m->v->child[col->child]);
        col->rc = col->again ? COLUMN_WANTED : COLUMN_READ;
        col->pad = false;
    }
    m->repair = !m->resilver;
    if (stripe_run(m, true, birth) != 0)
        return;
    for (unsigned c = 0; c < m->cols; c++) /* what fails is counted by the device */
        m->written += m->col[c].again && m->col[c].rc == COLUMN_READ ? m->col[c].size : 0;
}

static void free_map(struct stripe_map **m)
{
    stripe_map_free(*m);
}

int stripe_read(struct stripe_map *map, uint64_t birth, const void *data,
                int (*verify)(void *arg, const void *data), void *arg)
{
    struct stripe_map *m CLEANUP(free_map) = map;
    int rc = m ? stripe_gather(m, birth) : -ENOMEM;

    if (rc || !verify)
        return rc;
    rc = verify(arg, data);
    if (rc == -EBADE || rc == -ESTALE)
        rc = stripe_search(m, birth, rc, data, verify, arg);
    if (rc == 0)
        stripe_heal(m, birth);
    return rc;
}

/* ---- Without waiting ---- */

struct submitted {
    struct stripe_map *m;
    struct vdev_io *io;
};

static void submitted_end(struct submitted *s, int rc)
{
    struct vdev_io *io = s->io;

    stripe_map_free(s->m);
    free(s);
    io->done(io, rc);
}

static void read_ended(void *arg, int rc)
{
    struct submitted *s = arg;

    submitted_end(s, rc ? rc : stripe_fill(s->m));
}

/* A write is good as long as what failed can be computed. */
static void write_ended(void *arg, int rc)
{
    struct submitted *s = arg;
    int first = 0;

    for (unsigned i = 0; i < s->m->stripes && rc == 0; i++) {
        const struct stripe *t = &s->m->stripe[i];
        for (unsigned c = 0; c < t->cols; c++)
            if (s->m->col[t->first + c].rc)
                first = s->m->col[t->first + c].rc;
        if (count_bad(s->m, t) > s->m->nparity)
            rc = first;
    }
    submitted_end(s, rc);
}

static int plan_write(struct stripe_map *m)
{
    int rc = stripe_parity_memory(m);

    for (unsigned i = 0; i < m->stripes && rc == 0; i++) {
        const struct stripe *s = &m->stripe[i];
        for (unsigned c = 0; c < s->cols; c++) {
            struct stripe_column *col = &m->col[s->first + c];
            col->rc = vdev_readable(m->v->child[col->child]) ? COLUMN_WANTED : -ENXIO;
        }
        stripe_generate(m, s);
    }
    return rc;
}

void stripe_submit(struct stripe_map *m, struct vdev_io *io)
{
    struct submitted *s = m ? malloc(sizeof *s) : NULL;
    int rc;

    if (!s) {
        stripe_map_free(m);
        io->done(io, -ENOMEM);
        return;
    }
    *s = (struct submitted){m, io};
    m->repair = io->repair;
    rc = io->write ? plan_write(m) : stripe_plan(m, io->birth);
    if (rc)
        submitted_end(s, rc);
    else
        stripe_start(m, io->write, io->birth, io->write ? write_ended : read_ended, s);
}
