/*
 * Depth first, a block before those below it. The children of a block are put on a list, which is
 * gone through in order; the next few that have to be read are asked for in advance. There is one
 * list per level of the tree at a time.
 *
 * A place to go on is a block of level 0: everything that ends before it is left out. That is
 * decided by numbers alone (which object, which part of it), so it does not matter what has become
 * of that block, or of the levels of its object.
 */
#include "dmu/scanwalk.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

#define AHEAD 16 /* reads, per list */

struct walk {
    const struct scanwalk *w;
    struct bookmark *at;
    pthread_mutex_t lock; /* done and what comes with it, in all reads */
    pthread_cond_t read;
};

struct child {
    struct blkptr bp;
    uint64_t object, blkid;
    uint8_t level, shift, type; /* shift, type: of the object */
    /* Reading ahead: */
    struct walk *walk;
    bool asked, done;
    int rc;
    struct buf *b;
};

struct children {
    struct child *list;
    size_t n, cap, asked; /* the first asked ones need no look any more */
};

static bool is_special(uint64_t object)
{
    return object >= OBJECT_PROJECTUSED;
}

static bool holds_dnodes(const struct child *c)
{
    return c->object == OBJECT_META_DNODE && c->level == 0;
}

/* ---- Where to go on ---- */

/* The last block of level 0 below a block. */
static uint64_t last_below(const struct child *c)
{
    unsigned bits = c->level * (c->shift - 7u);

    if (c->level == 0)
        return c->blkid;
    if (bits >= 64 || c->blkid >= UINT64_MAX >> bits)
        return UINT64_MAX;
    return ((c->blkid + 1) << bits) - 1;
}

/* Does it end before the place where the walk goes on? */
static bool is_passed(const struct walk *t, const struct child *c)
{
    const struct bookmark *from = t->w->from;

    if (!from || from->level != 0 || is_special(c->object))
        return false;
    if (c->object == from->object)
        return last_below(c) < from->blkid;
    if (c->object == OBJECT_META_DNODE)
        return last_below(c) < from->object / DNODES_PER_BLOCK;
    return c->object < from->object;
}

/* ---- Which blocks ---- */

/* Rewritten blocks keep their logical birth, so both count. */
static bool is_young(const struct walk *t, const struct blkptr *bp)
{
    return MAX(bp_birth(bp), bp_phys_birth(bp)) > t->w->min;
}

static bool is_wanted(const struct walk *t, const struct child *c)
{
    return !bp_hole(&c->bp) && is_young(t, &c->bp) && !is_passed(t, c);
}

static bool is_read(const struct child *c)
{
    return (c->level > 0 || holds_dnodes(c)) && !bp_redacted(&c->bp);
}

/* ---- Reading ---- */

/* Of an encrypted block of dnodes only the bonus areas are secret, and it is not compressed (09 7):
 * its pointers can be followed without the key. */
static bool is_secret(const struct blkptr *bp)
{
    return bp_crypt(bp) && bp_encrypted(bp);
}

static void was_read(void *arg, struct buf *b, int rc)
{
    struct child *c = arg;

    pthread_mutex_lock(&c->walk->lock);
    c->b = b;
    c->rc = rc;
    c->done = true;
    pthread_cond_signal(&c->walk->read);
    pthread_mutex_unlock(&c->walk->lock);
}

static struct bookmark bookmark_of(const struct walk *t, const struct child *c)
{
    return (struct bookmark){t->w->id, c->object, c->level, c->blkid};
}

static void ask(struct walk *t, struct child *c)
{
    struct bookmark bm = bookmark_of(t, c);

    if (!is_read(c) || !is_wanted(t, c) || bp_embedded(&c->bp) || is_secret(&c->bp) ||
        bp_check(&c->bp) != 0)
        return;
    c->walk = t;
    c->asked = true;
    block_read_async(t->w->pool, &c->bp, &bm, NULL, was_read, c);
}

static void ask_ahead(struct walk *t, struct children *l, size_t i)
{
    if (l->asked < i)
        l->asked = i;
    while (l->asked < l->n && l->asked < i + AHEAD)
        ask(t, &l->list[l->asked++]);
}

static int wait_for(struct walk *t, struct child *c, struct buf **out)
{
    pthread_mutex_lock(&t->lock);
    while (!c->done)
        pthread_cond_wait(&t->read, &t->lock);
    pthread_mutex_unlock(&t->lock);
    *out = STEAL(c->b);
    return c->rc;
}

/* The contents in host order, at least size bytes. */
static int read_child(struct walk *t, struct child *c, const struct bookmark *bm, size_t size,
                      struct buf **out)
{
    struct pool *pool = t->w->pool;
    struct buf *b = NULL;
    int rc = c->asked ? wait_for(t, c, &b) : -EAGAIN;

    buf_unref(rc ? b : NULL);
    if (rc) /* once more: the sentence of what another thread did is not here */
        rc = is_secret(&c->bp) ? block_read_stored(pool, &c->bp, bm, &b)
                               : block_read(pool, &c->bp, bm, &b);
    if (rc)
        return rc;
    if (b->size < size) {
        buf_unref(b);
        return err_set(EBADE, "it is too short");
    }
    if (bp_big_endian(&c->bp) != BYTES_HOST_BIG) {
        struct buf *own = buf_copy(b);
        buf_unref(b);
        if (!own)
            return -ENOMEM;
        block_swap(c->type, c->level, own->data, own->size);
        b = own;
    }
    *out = b;
    return 0;
}

/* ---- Lists of children ---- */

static void children_free(struct children *l, struct walk *t)
{
    for (size_t i = 0; i < l->n; i++) {
        struct buf *b = NULL;
        if (l->list[i].asked)
            (void)wait_for(t, &l->list[i], &b);
        buf_unref(b);
    }
    free(l->list);
}

static int children_add(struct children *l, const struct child *c, const unsigned char *pointer)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct child *more = realloc(l->list, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        l->list = more;
        l->cap = cap;
    }
    l->list[l->n] = *c;
    bp_decode(&l->list[l->n++].bp, pointer, BYTES_HOST_BIG);
    return 0;
}

static int add_dnode(struct children *l, uint64_t object, const unsigned char *im)
{
    struct child c = {.object = object,
                      .level = (uint8_t)(im[DN_LEVELS] - 1),
                      .shift = im[DN_INDIRECT_SHIFT],
                      .type = im[DN_TYPE]};
    int rc = 0;

    for (; c.blkid < im[DN_NBLKPTR] && rc == 0; c.blkid++)
        rc = children_add(l, &c, im + DNODE_CORE_SIZE + BLKPTR_SIZE * c.blkid);
    if (rc == 0 && (im[DN_FLAGS] & DNODE_FLAG_SPILL)) {
        c.level = 0;
        c.blkid = SPILL_BLKID;
        rc = children_add(l, &c, im + image_size(im) - BLKPTR_SIZE);
    }
    return rc;
}

static int add_dnodes(struct walk *t, struct children *l, const struct child *c,
                      const struct buf *b)
{
    uint64_t first = c->blkid * DNODES_PER_BLOCK;
    unsigned width;
    bool allocated;
    int rc = 0;

    for (unsigned i = 0; i < DNODES_PER_BLOCK && rc == 0; i += width) {
        err_clear();
        if (dnode_block_slots(b->data, i, &width, &allocated) != 0) {
            struct bookmark bm = {t->w->id, first + i, 0, 0};
            t->w->bad(t->w->arg, NULL, &bm, err_set(EBADE, "a damaged dnode"));
            width = 1;
        } else if (allocated) {
            rc = add_dnode(l, first + i, b->data + (size_t)i * DNODE_MIN_SIZE);
        }
    }
    return rc;
}

static int add_pointers(struct children *l, const struct child *c, const struct buf *b)
{
    struct child below = {.object = c->object,
                          .level = c->level - 1,
                          .shift = c->shift,
                          .type = c->type,
                          .blkid = c->blkid << (c->shift - 7)};
    int rc = 0;

    for (unsigned i = 0; i < 1u << (c->shift - 7) && rc == 0; i++, below.blkid++)
        rc = children_add(l, &below, b->data + (size_t)BLKPTR_SIZE * i);
    return rc;
}

/* ---- The walk ---- */

static int visit_all(struct walk *t, struct children *l);

static int visit_below(struct walk *t, struct child *c, const struct bookmark *bm)
{
    size_t size = c->level ? (size_t)1 << c->shift : DNODE_BLOCK_SIZE;
    struct children l = {0};
    struct buf *b;
    int rc = read_child(t, c, bm, size, &b);

    if (rc == -ENOMEM)
        return rc;
    if (rc) {
        t->w->bad(t->w->arg, &c->bp, bm, rc);
        return 0;
    }
    rc = c->level ? add_pointers(&l, c, b) : add_dnodes(t, &l, c, b);
    buf_unref(b);
    rc = rc ? rc : visit_all(t, &l);
    children_free(&l, t);
    return rc;
}

static int visit(struct walk *t, struct child *c)
{
    const struct scanwalk *w = t->w;
    struct bookmark bm = bookmark_of(t, c);
    int rc;

    if (!is_wanted(t, c))
        return 0;
    if (c->level == 0 && !is_special(c->object) && w->pause(w->arg)) {
        *t->at = bm;
        return -EAGAIN;
    }
    err_clear();
    rc = bp_check(&c->bp);
    if (rc == 0 && bp_level(&c->bp) != c->level && c->blkid != SPILL_BLKID)
        rc = err_set(EBADE, "a pointer of another level");
    if (rc) {
        w->bad(w->arg, &c->bp, &bm, -EBADE);
        return 0;
    }
    if (!bp_embedded(&c->bp) && bp_phys_birth(&c->bp) <= w->max)
        rc = w->block(w->arg, &c->bp, &bm);
    return rc || !is_read(c) ? rc : visit_below(t, c, &bm);
}

static int visit_all(struct walk *t, struct children *l)
{
    int rc = 0;

    for (size_t i = 0; i < l->n && rc == 0; i++) {
        ask_ahead(t, l, i);
        rc = visit(t, &l->list[i]);
    }
    return rc;
}

/* The dnodes of the set: its objects, then the accounting. */
static int add_root(struct walk *t, struct children *l, const struct buf *b)
{
    struct bookmark bm = {t->w->id, 0, -1, 0};
    int rc = 0;

    for (unsigned i = 0; i < 4 && rc == 0; i++) {
        size_t at = i == 0 ? 0 : OBJSET_OFF_SPECIAL + (i - 1) * DNODE_MIN_SIZE;
        const unsigned char *im = b->data + at;
        if (at + DNODE_MIN_SIZE > b->size || im[DN_TYPE] == OT_NONE)
            continue;
        if (image_check(im, DNODE_MIN_SIZE) < 0)
            t->w->bad(t->w->arg, &t->w->root, &bm, err_set(EBADE, "a damaged dnode"));
        else
            rc = add_dnode(l, i == 0 ? OBJECT_META_DNODE : UINT64_MAX - (i - 1), im);
    }
    return rc;
}

static int visit_root(struct walk *t)
{
    const struct scanwalk *w = t->w;
    struct child root = {.bp = w->root, .type = OT_OBJSET};
    struct bookmark bm = {w->id, 0, -1, 0};
    struct children l = {0};
    struct buf *b;
    int rc = 0;

    if (bp_hole(&w->root) || !is_young(t, &w->root))
        return 0;
    err_clear();
    if (bp_phys_birth(&w->root) <= w->max && !bp_embedded(&w->root))
        rc = w->block(w->arg, &w->root, &bm);
    if (rc)
        return rc;
    rc = read_child(t, &root, &bm, OBJSET_OFF_SPECIAL, &b);
    if (rc && rc != -ENOMEM)
        w->bad(w->arg, &w->root, &bm, rc);
    if (rc)
        return rc == -ENOMEM ? rc : 0;
    rc = add_root(t, &l, b);
    buf_unref(b);
    rc = rc ? rc : visit_all(t, &l);
    children_free(&l, t);
    return rc;
}

int scanwalk_run(const struct scanwalk *w, struct bookmark *at)
{
    struct walk t = {.w = w, .at = at};
    int rc;

    pthread_mutex_init(&t.lock, NULL);
    pthread_cond_init(&t.read, NULL);
    rc = visit_root(&t);
    pthread_cond_destroy(&t.read);
    pthread_mutex_destroy(&t.lock);
    return rc;
}
