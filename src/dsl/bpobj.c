/*
 * Lists of block pointers (spec 04 6.1, 6.2): an object of type 5 whose data is an array of 128-byte
 * pointers, and whose bonus has the counts and the number of an object with further lists. The bonus may
 * have 16, 32, 48 or 56 bytes by age; what it has no room for is 0.
 *
 * Lists of lists can be chained as deep as snapshots were destroyed one after another, so nothing here
 * recurses.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"

#define BPOBJ_BLOCK   131072
#define BPOBJ_ENTRIES (BPOBJ_BLOCK / BLKPTR_SIZE) /* of a block */
#define MOS_DIRECTORY 1

enum { B_COUNT, B_BYTES, B_COMP, B_UNCOMP, B_SUBOBJS, B_NSUB, B_FREED, B_WORDS };

struct bpobj {
    struct dnode *dn;
    uint64_t w[B_WORDS];
    size_t len; /* bytes of the bonus */
};

static void bpobj_close(struct bpobj *b)
{
    dnode_rele(b->dn);
    b->dn = NULL;
}
#define CLEANUP_BPOBJ CLEANUP(bpobj_close)

static int bpobj_open(struct dsl *dsl, uint64_t object, struct bpobj *b)
{
    unsigned char bonus[B_WORDS * 8] = {0};
    int rc;

    memset(b, 0, sizeof *b);
    rc = dnode_hold(dsl->mos, object, &b->dn);
    if (rc != 0)
        return err_prefix(rc, "block list %llu", (unsigned long long)object);
    if (dnode_type(b->dn) != OT_BPOBJ)
        return err_set(EBADE, "MOS object %llu is no block list", (unsigned long long)object);
    rc = dnode_bonus_get(b->dn, bonus, sizeof bonus, &b->len);
    if (rc == 0 && b->len < 16)
        rc = err_set(EBADE, "the header of block list %llu is too short", (unsigned long long)object);
    if (rc != 0)
        return rc;
    memcpy(b->w, bonus, MIN(b->len, sizeof b->w));
    if (b->w[B_COUNT] > UINT64_MAX / BLKPTR_SIZE || b->w[B_NSUB] > UINT64_MAX / 8)
        return err_set(EBADE, "the header of block list %llu is damaged", (unsigned long long)object);
    return 0;
}

static int bpobj_write(struct bpobj *b, struct tx *tx)
{
    return dnode_bonus_patch(b->dn, 0, b->w, MIN(b->len, sizeof b->w) & ~(size_t)7, tx);
}

static int bpobj_sub(struct dsl *dsl, const struct bpobj *b, uint64_t i, uint64_t *sub)
{
    struct dnode *list;
    int rc = dnode_hold(dsl->mos, b->w[B_SUBOBJS], &list);

    if (rc != 0)
        return rc;
    rc = dnode_read(list, i * 8, sub, 8);
    dnode_rele(list);
    return rc;
}

int bpobj_create(struct dsl *dsl, uint32_t block_size, struct tx *tx, uint64_t *object)
{
    uint16_t len = feature_refs(dsl, FEATURE_LIVELIST) > 0 ? 56 : 48;
    struct object_params params = {.type = OT_BPOBJ, .bonus_type = OT_BPOBJ_HDR, .bonus_len = len,
                                   .block_size = block_size ? block_size : BPOBJ_BLOCK};
    struct dnode *dn;
    int rc = object_create(dsl->mos, 0, &params, tx, &dn);

    if (rc != 0)
        return rc;
    *object = dnode_object(dn);
    dnode_rele(dn);
    return 0;
}

int bpobj_space(struct dsl *dsl, uint64_t object, struct space *out)
{
    CLEANUP_BPOBJ struct bpobj b;
    int rc = bpobj_open(dsl, object, &b);

    *out = (struct space){(int64_t)b.w[B_BYTES], (int64_t)b.w[B_COMP], (int64_t)b.w[B_UNCOMP]};
    return rc;
}

int bpobj_empty(struct dsl *dsl, uint64_t object, bool *empty)
{
    CLEANUP_BPOBJ struct bpobj b;
    int rc = bpobj_open(dsl, object, &b);

    *empty = b.w[B_COUNT] == 0 && b.w[B_NSUB] == 0;
    return rc;
}

/* ---- Adding ---- */

/* The stored form of a pointer (04 6.1). */
static void encode_entry(const struct blkptr *bp, unsigned char out[BLKPTR_SIZE])
{
    struct blkptr e = *bp;

    if (bp_embedded(bp)) {
        bp_zero(&e);
        e.w[6] = bp->w[6];
        e.w[10] = bp->w[10];
    }
    e.w[11] = 0;
    if (!bp_dedup(bp))
        memset(&e.w[12], 0, 32);
    bp_encode(&e, out);
}

int bpobj_append(struct dsl *dsl, uint64_t object, const struct blkptr *bps, size_t n, struct tx *tx)
{
    CLEANUP_BPOBJ struct bpobj b;
    unsigned char *bytes;
    int rc = bpobj_open(dsl, object, &b);

    if (rc != 0 || n == 0)
        return rc;
    bytes = malloc(n * BLKPTR_SIZE);
    if (!bytes)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct space s;

        space_of_bp(dsl->pool, &bps[i], &s);
        b.w[B_BYTES] += (uint64_t)s.used;
        b.w[B_COMP] += (uint64_t)s.comp;
        b.w[B_UNCOMP] += (uint64_t)s.uncomp;
        encode_entry(&bps[i], bytes + i * BLKPTR_SIZE);
    }
    rc = dnode_write(b.dn, b.w[B_COUNT] * BLKPTR_SIZE, bytes, n * BLKPTR_SIZE, tx);
    free(bytes);
    b.w[B_COUNT] += n;
    return rc ? rc : bpobj_write(&b, tx);
}

/* Copies n bytes of src to the end of dst, at offset off. */
static int append_data(struct dnode *src, struct dnode *dst, uint64_t off, uint64_t n, struct tx *tx)
{
    unsigned char *buf = malloc(n ? n : 1);
    int rc = buf ? dnode_read(src, 0, buf, n) : -ENOMEM;

    if (rc == 0)
        rc = dnode_write(dst, off, buf, n, tx);
    free(buf);
    return rc;
}

static int free_object(struct dsl *dsl, uint64_t object, struct tx *tx)
{
    struct dnode *dn;
    int rc = dnode_hold(dsl->mos, object, &dn);

    if (rc != 0)
        return rc;
    rc = object_free(dn, tx);
    dnode_rele(dn);
    return rc;
}

static int list_object(struct dsl *dsl, struct bpobj *b, struct tx *tx)
{
    struct object_params params = {.type = OT_BPOBJ_SUBOBJ, .block_size = BPOBJ_BLOCK};
    struct dnode *dn;
    int rc;

    if (b->w[B_SUBOBJS] != 0)
        return 0;
    if (b->len < 48)
        return err_set(ENOTSUP, "block list %llu is of an old format",
                       (unsigned long long)dnode_object(b->dn));
    rc = object_create(dsl->mos, 0, &params, tx, &dn);
    if (rc != 0)
        return rc;
    b->w[B_SUBOBJS] = dnode_object(dn);
    dnode_rele(dn);
    return 0;
}

/* Appends n list numbers that stand at the beginning of src, or the one number, to p's list of lists. */
static int append_subs(struct dsl *dsl, struct bpobj *p, struct dnode *src, uint64_t n, uint64_t one,
                       struct tx *tx)
{
    struct dnode *list;
    int rc = list_object(dsl, p, tx);

    if (rc == 0)
        rc = dnode_hold(dsl->mos, p->w[B_SUBOBJS], &list);
    if (rc != 0)
        return rc;
    if (src)
        rc = append_data(src, list, p->w[B_NSUB] * 8, n * 8, tx);
    else
        rc = dnode_write(list, p->w[B_NSUB] * 8, &one, 8, tx);
    dnode_rele(list);
    p->w[B_NSUB] += n;
    return rc;
}

/* Takes over a short list of lists. */
static int flatten_subs(struct dsl *dsl, struct bpobj *p, struct bpobj *s, struct tx *tx)
{
    struct dnode *list;
    int rc = dnode_hold(dsl->mos, s->w[B_SUBOBJS], &list);

    if (rc != 0)
        return rc;
    rc = append_subs(dsl, p, list, s->w[B_NSUB], 0, tx);
    if (rc == 0)
        rc = object_free(list, tx);
    dnode_rele(list);
    s->w[B_SUBOBJS] = s->w[B_NSUB] = 0;
    return rc;
}

/* The steps of 04 6.1 that keep chains short: what fits one block is copied rather than linked. */
static int merge(struct dsl *dsl, struct bpobj *p, struct bpobj *s, struct tx *tx)
{
    uint64_t object = dnode_object(s->dn);
    int rc = 0;

    if (s->w[B_SUBOBJS] != 0 && s->w[B_NSUB] * 8 <= BPOBJ_BLOCK)
        rc = flatten_subs(dsl, p, s, tx);
    if (rc == 0 && s->w[B_SUBOBJS] == 0 && s->w[B_COUNT] <= BPOBJ_ENTRIES && s->w[B_FREED] == 0) {
        rc = append_data(s->dn, p->dn, p->w[B_COUNT] * BLKPTR_SIZE, s->w[B_COUNT] * BLKPTR_SIZE, tx);
        p->w[B_COUNT] += s->w[B_COUNT];
        return rc ? rc : object_free(s->dn, tx);
    }
    if (rc == 0)
        rc = bpobj_write(s, tx);
    return rc ? rc : append_subs(dsl, p, NULL, 1, object, tx);
}

int bpobj_enqueue(struct dsl *dsl, uint64_t parent, uint64_t child, struct tx *tx)
{
    CLEANUP_BPOBJ struct bpobj p = {.dn = NULL}, s = {.dn = NULL};
    uint64_t total[3];
    int rc;

    if (child == dsl->empty_bpobj)
        return bpobj_drop_empty(dsl, 1, tx);
    rc = bpobj_open(dsl, child, &s);
    if (rc != 0)
        return rc;
    if (s.w[B_COUNT] == 0 && s.w[B_NSUB] == 0) {
        bpobj_close(&s);
        return bpobj_free(dsl, child, tx);
    }
    rc = bpobj_open(dsl, parent, &p);
    if (rc != 0)
        return rc;
    memcpy(total, &s.w[B_BYTES], sizeof total);
    rc = merge(dsl, &p, &s, tx);
    for (int i = 0; i < 3; i++)
        p.w[B_BYTES + i] += total[i];
    return rc ? rc : bpobj_write(&p, tx);
}

/* ---- A stack of list numbers, for walks without recursion ---- */

struct stack {
    uint64_t *v;
    size_t n, cap;
};

static int push(struct stack *s, uint64_t v)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64;
        uint64_t *grown = realloc(s->v, cap * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        s->v = grown;
        s->cap = cap;
    }
    s->v[s->n++] = v;
    return 0;
}

static int push_subs(struct dsl *dsl, const struct bpobj *b, struct stack *s)
{
    int rc = 0;

    for (uint64_t i = b->w[B_NSUB]; i-- > 0 && rc == 0;) {
        uint64_t sub;

        rc = bpobj_sub(dsl, b, i, &sub);
        if (rc == 0)
            rc = push(s, sub);
    }
    return rc;
}

static int free_one(struct dsl *dsl, uint64_t object, struct stack *s, struct tx *tx)
{
    CLEANUP_BPOBJ struct bpobj b;
    int rc = bpobj_open(dsl, object, &b);

    if (rc == 0)
        rc = push_subs(dsl, &b, s);
    if (rc == 0 && b.w[B_SUBOBJS] != 0)
        rc = free_object(dsl, b.w[B_SUBOBJS], tx);
    return rc ? rc : object_free(b.dn, tx);
}

int bpobj_free(struct dsl *dsl, uint64_t object, struct tx *tx)
{
    struct stack s = {0};
    int rc = push(&s, object);

    while (rc == 0 && s.n > 0)
        rc = free_one(dsl, s.v[--s.n], &s, tx);
    free(s.v);
    return rc;
}

/* ---- Reading ---- */

static int each_entry(const struct bpobj *b, bpobj_each_fn *fn, void *arg)
{
    unsigned char *block = malloc(BPOBJ_BLOCK);
    int rc = block ? 0 : -ENOMEM;

    for (uint64_t i = 0; i < b->w[B_COUNT] && rc == 0;) {
        uint64_t n = MIN(b->w[B_COUNT] - i, (uint64_t)BPOBJ_ENTRIES);

        rc = dnode_read(b->dn, i * BLKPTR_SIZE, block, n * BLKPTR_SIZE);
        for (uint64_t k = 0; k < n && rc == 0; k++) {
            struct blkptr bp;

            bp_decode(&bp, block + k * BLKPTR_SIZE, BYTES_HOST_BIG);
            rc = fn(arg, &bp, bp.w[11] & 1);
        }
        i += n;
    }
    free(block);
    return rc;
}

static int each_one(struct dsl *dsl, uint64_t object, struct stack *s, bpobj_each_fn *fn, void *arg)
{
    CLEANUP_BPOBJ struct bpobj b;
    int rc = bpobj_open(dsl, object, &b);

    if (rc == 0)
        rc = push_subs(dsl, &b, s);
    return rc ? rc : each_entry(&b, fn, arg);
}

int bpobj_each(struct dsl *dsl, uint64_t object, bpobj_each_fn *fn, void *arg)
{
    struct stack s = {0};
    int rc = push(&s, object);

    while (rc == 0 && s.n > 0)
        rc = each_one(dsl, s.v[--s.n], &s, fn, arg);
    free(s.v);
    return rc;
}

/* ---- Consuming ---- */

/* Subtracts from the totals of all lists on the path. */
static int charge_path(struct dsl *dsl, const struct stack *path, const struct space *gone, struct tx *tx)
{
    int rc = 0;

    for (size_t i = 0; i < path->n && rc == 0; i++) {
        CLEANUP_BPOBJ struct bpobj b;

        rc = bpobj_open(dsl, path->v[i], &b);
        b.w[B_BYTES] -= (uint64_t)gone->used;
        b.w[B_COMP] -= (uint64_t)gone->comp;
        b.w[B_UNCOMP] -= (uint64_t)gone->uncomp;
        if (rc == 0)
            rc = bpobj_write(&b, tx);
    }
    return rc;
}

/* Eats the last block of entries of the list on top of the path. */
static int consume_block(struct dsl *dsl, struct bpobj *b, const struct stack *path, bpobj_each_fn *fn,
                         void *arg, struct tx *tx)
{
    uint64_t per = MAX(dnode_block_size(b->dn) / BLKPTR_SIZE, 1u);
    uint64_t first = (b->w[B_COUNT] - 1) / per * per, n = b->w[B_COUNT] - first;
    struct space gone = {0};
    unsigned char *block = malloc(n * BLKPTR_SIZE);
    int rc = block ? dnode_read(b->dn, first * BLKPTR_SIZE, block, n * BLKPTR_SIZE) : -ENOMEM;

    for (uint64_t k = n; k-- > 0 && rc == 0;) {
        struct blkptr bp;
        struct space s;

        bp_decode(&bp, block + k * BLKPTR_SIZE, BYTES_HOST_BIG);
        space_of_bp(dsl->pool, &bp, &s);
        space_add(&gone, &s, 1);
        rc = fn(arg, &bp, bp.w[11] & 1);
    }
    free(block);
    if (rc == 0)
        rc = dnode_free_range(b->dn, first * BLKPTR_SIZE, UINT64_MAX, tx);
    b->w[B_COUNT] = first;
    if (rc == 0)
        rc = bpobj_write(b, tx);
    bpobj_close(b);
    return rc ? rc : charge_path(dsl, path, &gone, tx);
}

/* The list on top is empty: frees it and takes it off its parent's list. */
static int pop_empty(struct dsl *dsl, struct stack *path, struct tx *tx)
{
    CLEANUP_BPOBJ struct bpobj p;
    struct dnode *list;
    int rc = bpobj_free(dsl, path->v[--path->n], tx);

    p.dn = NULL;
    if (rc == 0)
        rc = bpobj_open(dsl, path->v[path->n - 1], &p);
    if (rc == 0)
        rc = dnode_hold(dsl->mos, p.w[B_SUBOBJS], &list);
    if (rc != 0)
        return rc;
    p.w[B_NSUB]--;
    if (p.w[B_NSUB] * 8 % dnode_block_size(list) == 0)
        rc = dnode_free_range(list, p.w[B_NSUB] * 8, UINT64_MAX, tx);
    dnode_rele(list);
    return rc ? rc : bpobj_write(&p, tx);
}

/* One step; *ate when it took entries, *done when the root list has nothing left. */
static int consume_step(struct dsl *dsl, struct stack *path, bpobj_each_fn *fn, void *arg, bool *ate,
                        bool *done, struct tx *tx)
{
    CLEANUP_BPOBJ struct bpobj b;
    uint64_t sub;
    int rc = bpobj_open(dsl, path->v[path->n - 1], &b);

    if (rc != 0)
        return rc;
    *ate = b.w[B_COUNT] > 0;
    if (*ate)
        return consume_block(dsl, &b, path, fn, arg, tx);
    if (b.w[B_NSUB] > 0) {
        rc = bpobj_sub(dsl, &b, b.w[B_NSUB] - 1, &sub);
        return rc ? rc : push(path, sub);
    }
    if (path->n == 1) {
        *done = true;
        if (!b.w[B_BYTES] && !b.w[B_COMP] && !b.w[B_UNCOMP])
            return 0;
        log_warn("the totals of block list %llu did not match its entries",
                 (unsigned long long)path->v[0]);
        b.w[B_BYTES] = b.w[B_COMP] = b.w[B_UNCOMP] = 0;
        return bpobj_write(&b, tx);
    }
    bpobj_close(&b);
    return pop_empty(dsl, path, tx);
}

int bpobj_consume(struct dsl *dsl, uint64_t object, bpobj_each_fn *fn, bpobj_stop_fn *stop, void *arg,
                  struct tx *tx)
{
    struct stack path = {0};
    bool done = false, ate = false;
    int rc = push(&path, object);

    while (rc == 0 && !done && !(ate && stop(arg)))
        rc = consume_step(dsl, &path, fn, arg, &ate, &done, tx);
    free(path.v);
    return rc;
}

/* ---- The shared empty list ---- */

int bpobj_take_empty(struct dsl *dsl, struct tx *tx, uint64_t *object)
{
    int rc = 0;

    if (!feature_enabled(dsl, FEATURE_EMPTY_BPOBJ))
        return bpobj_create(dsl, 0, tx, object);
    if (!dsl->empty_bpobj) {
        rc = bpobj_create(dsl, 0, tx, &dsl->empty_bpobj);
        if (rc == 0)
            rc = zap_set_u64(dsl->mos, MOS_DIRECTORY, "empty_bpobj", dsl->empty_bpobj, tx);
    }
    *object = dsl->empty_bpobj;
    return rc ? rc : feature_change(dsl, FEATURE_EMPTY_BPOBJ, 1, tx);
}

int bpobj_drop_empty(struct dsl *dsl, uint64_t n, struct tx *tx)
{
    uint64_t object = dsl->empty_bpobj;
    int rc = feature_change(dsl, FEATURE_EMPTY_BPOBJ, -(int64_t)n, tx);

    if (rc != 0 || feature_refs(dsl, FEATURE_EMPTY_BPOBJ) > 0 || n == 0)
        return rc;
    dsl->empty_bpobj = 0;
    rc = zap_del(dsl->mos, MOS_DIRECTORY, "empty_bpobj", tx);
    return rc ? rc : free_object(dsl, object, tx);
}
