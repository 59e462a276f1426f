/* One step of reading or writing a striped block: all devices at the same time. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"
#include "util/bytes.h"
#include "vdev/stripe_impl.h"
#include "vdev/vdev_impl.h"
#include "vdev/wait_impl.h"

/* A request to one device. Columns that continue each other there are read as one, into memory of
 * its own; a single column goes straight to where it belongs. */
struct run {
    struct vdev_io io;
    struct stripe_step *step;
    unsigned first, last; /* columns */
    struct buf *joined;   /* NULL: a single column, or the zeros behind one */
    bool zeros;
};

struct stripe_step {
    struct stripe_map *m;
    bool write;
    _Atomic unsigned pending;
    stripe_finished *finished;
    void *arg;
    unsigned runs, room;
    struct run *run;
};

static const unsigned char zeros[1u << VDEV_ASHIFT_MAX];

static struct run *new_run(struct stripe_step *s)
{
    if (s->runs == s->room) {
        unsigned room = s->room ? 2 * s->room : 16;
        struct run *more = realloc(s->run, room * sizeof *more);
        if (!more)
            return NULL;
        s->run = more;
        s->room = room;
    }
    return &s->run[s->runs++];
}

static int add_run(struct stripe_step *s, unsigned c, uint64_t birth)
{
    struct stripe_column *col = &s->m->col[c];
    struct run *r = new_run(s);

    if (!r)
        return -ENOMEM;
    *r = (struct run){.first = c, .last = c};
    r->io = (struct vdev_io){.vdev = s->m->v->child[col->child],
                             .write = s->write,
                             .offset = col->offset,
                             .size = col->size,
                             .data = col->data,
                             .repair = s->m->repair,
                             .birth = birth};
    col->next = 0;
    return 0;
}

static int add_zeros(struct stripe_step *s, unsigned c, uint64_t birth)
{
    const struct stripe_column *col = &s->m->col[c];
    struct run *r = new_run(s);

    if (!r)
        return -ENOMEM;
    *r = (struct run){.first = c, .last = c, .zeros = true};
    r->io = (struct vdev_io){.vdev = s->m->v->child[col->child],
                             .write = true,
                             .offset = col->offset + col->size,
                             .size = 1ull << s->m->v->top->ashift,
                             .data = (void *)(uintptr_t)zeros,
                             .repair = s->m->repair,
                             .birth = birth};
    return 0;
}

/* The request that column c continues; at[child] is the last one of each child, plus 1. */
static struct run *continued(struct stripe_step *s, unsigned c, const unsigned *at)
{
    const struct stripe_column *col = &s->m->col[c];
    struct run *r =
        s->write || !s->m->whole || !at[col->child] ? NULL : &s->run[at[col->child] - 1];

    return r && r->io.offset + r->io.size == col->offset ? r : NULL;
}

static int plan_runs(struct stripe_step *s, uint64_t birth)
{
    unsigned at[256] = {0};

    for (unsigned c = 0; c < s->m->cols; c++) {
        struct stripe_column *col = &s->m->col[c];
        struct run *r;
        int rc = 0;
        if (col->rc != COLUMN_WANTED)
            continue;
        if ((r = col->size ? continued(s, c, at) : NULL)) {
            s->m->col[r->last].next = c;
            r->last = c;
            r->io.size += col->size;
            col->next = 0;
        } else if (col->size) {
            rc = add_run(s, c, birth);
            at[col->child] = s->runs;
        }
        if (rc == 0 && s->write && col->pad)
            rc = add_zeros(s, c, birth);
        if (rc)
            return rc;
    }
    for (unsigned i = 0; i < s->runs; i++) {
        struct run *r = &s->run[i];
        r->step = s;
        if (r->first == r->last)
            continue;
        r->joined = buf_new(r->io.size);
        if (!r->joined)
            return -ENOMEM;
        r->io.data = r->joined->data;
    }
    return 0;
}

static void step_free(struct stripe_step *s)
{
    for (unsigned i = 0; i < s->runs; i++)
        buf_unref(s->run[i].joined);
    free(s->run);
    free(s);
}

/* A column and the zeros behind it end in different threads; the failure of either is the column's.
 */
static void column_ended(struct stripe_column *col, bool only_zeros, int rc)
{
    int wanted = COLUMN_WANTED;

    if (rc)
        __atomic_store_n(&col->rc, rc, __ATOMIC_RELAXED);
    else if (!only_zeros)
        __atomic_compare_exchange_n(&col->rc, &wanted, COLUMN_READ, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
}

static void run_ended(struct run *r, int rc)
{
    struct stripe_step *s = r->step;
    size_t at = 0;

    for (unsigned c = r->first;; c = s->m->col[c].next) {
        struct stripe_column *col = &s->m->col[c];
        if (rc == 0 && r->joined)
            memcpy(col->data, r->joined->data + at, col->size);
        at += col->size;
        column_ended(col, r->zeros, rc);
        if (c == r->last)
            break;
    }
}

static void step_put(struct stripe_step *s)
{
    if (atomic_fetch_sub_explicit(&s->pending, 1, memory_order_acq_rel) != 1)
        return;
    stripe_finished *finished = s->finished;
    void *arg = s->arg;
    for (unsigned c = 0; c < s->m->cols; c++) /* those without bytes */
        if (s->m->col[c].rc == COLUMN_WANTED)
            s->m->col[c].rc = COLUMN_READ;
    step_free(s);
    finished(arg, 0);
}

static void run_done(struct vdev_io *io, int rc)
{
    struct run *r = io->arg;

    run_ended(r, rc);
    step_put(r->step);
}

static struct stripe_step *step_new(struct stripe_map *m, bool write, uint64_t birth,
                                    stripe_finished *finished, void *arg)
{
    struct stripe_step *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->m = m;
    s->write = write;
    s->finished = finished;
    s->arg = arg;
    if (plan_runs(s, birth) == 0) {
        atomic_store(&s->pending, s->runs + 1);
        return s;
    }
    step_free(s);
    return NULL;
}

static void send(struct run *r)
{
    r->io.arg = r;
    r->io.done = run_done;
    r->io.vdev->kind->submit(r->io.vdev, &r->io);
}

void stripe_start(struct stripe_map *m, bool write, uint64_t birth, stripe_finished *finished,
                  void *arg)
{
    struct stripe_step *s = step_new(m, write, birth, finished, arg);

    if (!s) {
        finished(arg, -ENOMEM);
        return;
    }
    for (unsigned i = 0; i < s->runs; i++)
        send(&s->run[i]);
    step_put(s);
}

static void wake(void *arg, int rc)
{
    vdev_wait_done(arg, rc);
}

int stripe_run(struct stripe_map *m, bool write, uint64_t birth)
{
    struct vdev_wait w;
    struct stripe_step *s;

    vdev_wait_init(&w, 1);
    s = step_new(m, write, birth, wake, &w);
    if (!s) {
        wake(&w, -ENOMEM);
        return vdev_wait_all(&w);
    }
    /* The last read is done by this thread, which would only wait otherwise. */
    unsigned sent = s->runs && !write ? s->runs - 1 : s->runs;
    for (unsigned i = 0; i < sent; i++)
        send(&s->run[i]);
    if (sent < s->runs) {
        struct run *r = &s->run[sent];
        struct vdev *v = r->io.vdev;
        int rc = v->kind->read(v, r->io.offset, r->io.data, r->io.size, birth, NULL, NULL);
        run_ended(r, rc);
        step_put(s);
    }
    step_put(s);
    return vdev_wait_all(&w);
}
