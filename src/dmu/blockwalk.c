/*
 * The work is a stack of items: the root of a set, or a run of block pointers or dnodes in a block
 * that has been read. A thread takes a piece of the topmost item; what it finds below goes on top.
 * So the walk goes deep first and the stack stays small, and every thread finds something to do.
 */
#include "dmu/blockwalk.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "dmu/dmu_impl.h"
#include "util/err.h"
#include "util/threads.h"

#define LEAVES_AT_ONCE 32
#define TICK_NS        200000000l

struct walked_set {
    struct walked_set *next;
    uint64_t id, since;
    struct blkptr root;
    void *user;
};

struct item {
    struct walked_set *set;
    struct buf *b; /* NULL: the root of the set */
    uint64_t object;
    uint64_t blkid;      /* of the first pointer, or of the block of dnodes */
    unsigned at, end;    /* pointers: indexes; dnodes: slots */
    uint8_t level;       /* of what the pointers point to */
    uint8_t shift, type; /* of the object */
    bool dnodes;
};

struct walker {
    struct blockwalk *w;
    unsigned number;
    pthread_t thread;
};

struct blockwalk {
    struct pool *pool;
    const struct blockwalk_ops *ops;
    void *arg;
    unsigned threads;
    struct walker *walker;
    pthread_mutex_t lock; /* the rest */
    pthread_cond_t work, done;
    struct item *stack;
    size_t n, cap;
    unsigned busy;
    struct walked_set *sets;
    bool stop;
    int rc;
};

static int push_locked(struct blockwalk *w, const struct item *item)
{
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 256;
        void *grown = realloc(w->stack, cap * sizeof *w->stack);
        if (!grown)
            return w->rc = -ENOMEM;
        w->stack = grown;
        w->cap = cap;
    }
    w->stack[w->n++] = *item;
    pthread_cond_signal(&w->work);
    return 0;
}

/* Takes the buffer over. */
static void push(struct blockwalk *w, struct item item)
{
    pthread_mutex_lock(&w->lock);
    int rc = push_locked(w, &item);
    pthread_mutex_unlock(&w->lock);
    if (rc)
        buf_unref(item.b);
}

/* ---- Reading ---- */

static int read_block(struct blockwalk *w, const struct blkptr *bp, const struct bookmark *bm,
                      uint8_t type, size_t size, struct buf **out)
{
    /* Of an encrypted block of dnodes only the bonus areas are secret, and it is not compressed (09 7):
     * its pointers can be followed without the key. */
    bool secret = bp_crypt(bp) && bp_encrypted(bp);
    int rc = secret ? block_read_stored(w->pool, bp, bm, out) : block_read(w->pool, bp, bm, out);
    if (rc)
        return rc;
    if ((*out)->size < size) {
        buf_unref(*out);
        return err_set(EBADE, "it is too short");
    }
    if (bp_big_endian(bp) == BYTES_HOST_BIG)
        return 0;
    struct buf *own = buf_copy(*out);
    buf_unref(*out);
    *out = own;
    if (!own)
        return -ENOMEM;
    block_swap(type, bm->level > 0 ? (unsigned)bm->level : 0, own->data, own->size);
    return 0;
}

static void bad(struct walker *t, const struct walked_set *s, const struct blkptr *bp,
                const struct bookmark *bm, int rc)
{
    t->w->ops->bad(t->w->arg, t->number, s->user, bp, bm, rc);
}

static bool wanted(const struct walked_set *s, const struct blkptr *bp)
{
    return bp_alloc_birth(bp) > s->since;
}

/* Rewritten blocks keep their logical birth, so both count. */
static bool worth_reading(const struct walked_set *s, const struct blkptr *bp)
{
    return MAX(bp_birth(bp), bp_phys_birth(bp)) > s->since;
}

/* ---- Pointers ---- */

static void visit(struct walker *t, const struct item *o, uint64_t blkid, const unsigned char *at)
{
    struct blockwalk *w = t->w;
    struct walked_set *s = o->set;
    struct bookmark bm = {s->id, o->object, o->level, blkid};
    struct blkptr bp;
    struct buf *b;
    bp_decode(&bp, at, BYTES_HOST_BIG);
    if (bp_hole(&bp))
        return;
    err_clear();
    if (bp_check(&bp) != 0) {
        bad(t, s, &bp, &bm, -EBADE);
        return;
    }
    if (bp_level(&bp) != o->level && blkid != SPILL_BLKID) {
        bad(t, s, &bp, &bm, err_set(EBADE, "a pointer of another level"));
        return;
    }
    bool dnodes = o->object == OBJECT_META_DNODE && o->level == 0;
    bool below = (o->level > 0 || dnodes) && worth_reading(s, &bp) && !bp_redacted(&bp);
    if (wanted(s, &bp))
        w->ops->block(w->arg, t->number, s->user, &bp, &bm, below);
    if (!below)
        return;
    size_t size = o->level ? (size_t)1 << o->shift : DNODE_BLOCK_SIZE;
    int rc = read_block(w, &bp, &bm, o->type, size, &b);
    if (rc) {
        bad(t, s, &bp, &bm, rc);
        return;
    }
    struct item item = {.set = s, .b = b, .object = o->object, .shift = o->shift, .type = o->type};
    item.dnodes = dnodes;
    item.level = dnodes ? 0 : o->level - 1;
    item.end = dnodes ? DNODES_PER_BLOCK : 1u << (o->shift - 7);
    item.blkid = dnodes ? blkid : blkid << (o->shift - 7);
    push(w, item);
}

static void visit_pointers(struct walker *t, const struct item *item)
{
    for (unsigned i = item->at; i < item->end; i++)
        visit(t, item, item->blkid + i, item->b->data + (size_t)BLKPTR_SIZE * i);
}

/* ---- Dnodes ---- */

static void visit_dnode(struct walker *t, struct walked_set *s, uint64_t object,
                        const unsigned char *im)
{
    struct item o = {.set = s,
                     .object = object,
                     .shift = im[DN_INDIRECT_SHIFT],
                     .type = im[DN_TYPE],
                     .level = (uint8_t)(im[DN_LEVELS] - 1)};
    for (unsigned i = 0; i < im[DN_NBLKPTR]; i++)
        visit(t, &o, i, im + DNODE_CORE_SIZE + BLKPTR_SIZE * i);
    if (im[DN_FLAGS] & DNODE_FLAG_SPILL) {
        o.level = 0;
        visit(t, &o, SPILL_BLKID, im + image_size(im) - BLKPTR_SIZE);
    }
}

static void visit_dnodes(struct walker *t, const struct item *item)
{
    unsigned width;
    bool allocated;
    for (unsigned i = item->at; i < item->end; i += width) {
        err_clear();
        if (dnode_block_slots(item->b->data, i, &width, &allocated) != 0) {
            struct bookmark bm = {item->set->id, item->blkid * DNODES_PER_BLOCK + i, 0, 0};
            bad(t, item->set, NULL, &bm, err_set(EBADE, "a damaged dnode"));
            width = 1;
        } else if (allocated) {
            visit_dnode(t, item->set, item->blkid * DNODES_PER_BLOCK + i,
                        item->b->data + (size_t)i * DNODE_MIN_SIZE);
        }
    }
}

static void visit_root(struct walker *t, struct walked_set *s)
{
    struct blockwalk *w = t->w;
    struct bookmark bm = {s->id, 0, -1, 0};
    struct buf *b;
    if (bp_hole(&s->root))
        return;
    if (wanted(s, &s->root))
        w->ops->block(w->arg, t->number, s->user, &s->root, &bm, true);
    err_clear();
    int rc = read_block(w, &s->root, &bm, OT_OBJSET, OBJSET_OFF_SPECIAL, &b);
    if (rc) {
        bad(t, s, &s->root, &bm, rc);
        return;
    }
    if (w->ops->root) /* a log can be younger than all else */
        w->ops->root(w->arg, t->number, s->user, b->data + OBJSET_OFF_ZIL);
    for (unsigned i = 0; i < 4 && worth_reading(s, &s->root); i++) {
        size_t at = i == 0 ? 0 : OBJSET_OFF_SPECIAL + (i - 1) * DNODE_MIN_SIZE;
        const unsigned char *im = b->data + at;
        if (at + DNODE_MIN_SIZE > b->size || im[DN_TYPE] == OT_NONE)
            continue;
        if (image_check(im, DNODE_MIN_SIZE) < 0)
            bad(t, s, &s->root, &bm, err_set(EBADE, "a damaged dnode"));
        else
            visit_dnode(t, s, i == 0 ? OBJECT_META_DNODE : UINT64_MAX - (i - 1), im);
    }
    buf_unref(b);
}

/* ---- Threads ---- */

/* A piece of the topmost item, with a reference; false: nothing is there now. */
static bool take(struct blockwalk *w, struct item *out)
{
    if (w->n == 0)
        return false;
    struct item *top = &w->stack[w->n - 1];
    unsigned piece = top->dnodes ? DNODES_PER_BLOCK : top->level == 0 ? LEAVES_AT_ONCE : 1;
    *out = *top;
    if (!top->b || top->end - top->at <= piece || top->dnodes) {
        w->n--;
        return true;
    }
    buf_ref(top->b);
    top->at += piece;
    out->end = top->at;
    pthread_cond_signal(&w->work);
    return true;
}

static void *walk_thread(void *arg)
{
    struct walker *t = arg;
    struct blockwalk *w = t->w;
    struct item item;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        if (!take(w, &item)) {
            pthread_cond_wait(&w->work, &w->lock);
            continue;
        }
        w->busy++;
        pthread_mutex_unlock(&w->lock);
        if (!item.b)
            visit_root(t, item.set);
        else if (item.dnodes)
            visit_dnodes(t, &item);
        else
            visit_pointers(t, &item);
        buf_unref(item.b);
        pthread_mutex_lock(&w->lock);
        if (--w->busy == 0 && w->n == 0)
            pthread_cond_signal(&w->done);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int blockwalk_new(struct blockwalk **out, struct pool *pool, unsigned threads,
                  const struct blockwalk_ops *ops, void *arg)
{
    struct blockwalk *w = calloc(1, sizeof *w);
    struct walker *walker = calloc(threads, sizeof *walker);
    pthread_condattr_t attr;
    if (!w || !walker) {
        free(w);
        free(walker);
        return -ENOMEM;
    }
    *w = (struct blockwalk){
        .pool = pool, .ops = ops, .arg = arg, .threads = threads, .walker = walker};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->done, &attr);
    pthread_condattr_destroy(&attr);
    *out = w;
    return 0;
}

int blockwalk_add(struct blockwalk *w, uint64_t id, const struct blkptr *root, uint64_t since,
                  void *set)
{
    struct walked_set *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    *s = (struct walked_set){NULL, id, since, *root, set};
    struct item item = {.set = s};
    pthread_mutex_lock(&w->lock);
    s->next = w->sets;
    w->sets = s;
    int rc = push_locked(w, &item);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

int blockwalk_run(struct blockwalk *w, void (*tick)(void *arg))
{
    unsigned started = 0;
    int rc = 0;
    w->stop = false;
    while (started < w->threads && rc == 0) {
        w->walker[started] = (struct walker){.w = w, .number = started};
        rc = thread_start(&w->walker[started].thread, "walk", walk_thread, &w->walker[started]);
        started += rc == 0;
    }
    pthread_mutex_lock(&w->lock);
    while (started > 0 && (w->busy || w->n)) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&w->done, &w->lock, &until);
        pthread_mutex_unlock(&w->lock);
        if (tick)
            tick(w->arg);
        pthread_mutex_lock(&w->lock);
    }
    w->stop = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < started; i++)
        pthread_join(w->walker[i].thread, NULL);
    return started ? w->rc : rc;
}

void blockwalk_free(struct blockwalk *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n; i++)
        buf_unref(w->stack[i].b);
    while (w->sets) {
        struct walked_set *s = w->sets;
        w->sets = s->next;
        free(s);
    }
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->lock);
    free(w->stack);
    free(w->walker);
    free(w);
}
