/*
 * Livelists of destroyed clones (spec 04 6.6): what they allocated and did not free is freed. This program
 * drops the livelist of a clone when it changes it, so only lists left by others come here.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/err.h"

#define MOS_DIRECTORY 1

struct record {
    struct blkptr bp;
    bool freed;
};

struct records {
    struct record *r;
    size_t n, cap;
};

static int collect(void *arg, const struct blkptr *bp, bool freed)
{
    struct records *all = arg;

    if (all->n == all->cap) {
        size_t cap = all->cap ? 2 * all->cap : 1024;
        struct record *grown = realloc(all->r, cap * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        all->r = grown;
        all->cap = cap;
    }
    all->r[all->n].bp = *bp;
    all->r[all->n++].freed = freed;
    return 0;
}

/* How many FREE records of a place were seen behind the present one. */
struct place {
    struct hashmap_node node;
    uint64_t a, b;
    unsigned frees;
};

static struct place *find_place(struct hashmap *m, const struct blkptr *bp)
{
    uint64_t h = hash_u64(bp->w[0] ^ hash_u64(bp->w[1]));

    for (struct hashmap_node *n = hashmap_first(m, h); n; n = hashmap_next(n)) {
        struct place *p = container_of(n, struct place, node);

        if (p->a == bp->w[0] && p->b == bp->w[1])
            return p;
    }
    return NULL;
}

/* Backwards: a FREE takes the ALLOC before it; an ALLOC without one is still allocated. */
static int free_unpaired(struct freeing *f, struct records *all, struct hashmap *m, struct place *pool)
{
    size_t used = 0;
    int rc = 0;

    for (size_t i = all->n; i-- > 0 && rc == 0;) {
        struct blkptr *bp = &all->r[i].bp;
        struct place *p = find_place(m, bp);

        if (all->r[i].freed) {
            if (!p) {
                p = &pool[used++];
                *p = (struct place){.a = bp->w[0], .b = bp->w[1]};
                hashmap_insert(m, &p->node, hash_u64(bp->w[0] ^ hash_u64(bp->w[1])));
            }
            p->frees++;
        } else if (p && p->frees > 0) {
            p->frees--;
        } else {
            struct space before = f->sum;

            rc = freeing_block(f, bp, false);
            f->sum = before; /* charged by the list's totals */
        }
    }
    return rc;
}

static int free_list(struct freeing *f, uint64_t bpobj)
{
    struct records all = {0};
    struct hashmap m;
    struct place *pool;
    int rc = bpobj_each(f->dsl, bpobj, collect, &all);

    if (rc == 0)
        rc = hashmap_init(&m, all.n);
    if (rc != 0) {
        free(all.r);
        return rc;
    }
    pool = malloc((all.n + 1) * sizeof *pool);
    rc = pool ? free_unpaired(f, &all, &m, pool) : -ENOMEM;
    hashmap_destroy(&m);
    free(pool);
    free(all.r);
    return rc;
}

/* Frees one list of one livelist, or the livelist when none is left. */
static int free_step(struct freeing *f, uint64_t livelist)
{
    struct dsl *dsl = f->dsl;
    uint64_t key, bpobj;
    struct space gone;
    int rc = deadlist_last(dsl, livelist, &key, &bpobj);

    if (rc == 0 && bpobj != 0) {
        if (bpobj != dsl->empty_bpobj)
            rc = free_list(f, bpobj);
        if (rc == 0)
            rc = deadlist_drop_last(dsl, livelist, &gone, f->tx);
        if (rc == 0)
            space_add(&f->sum, &gone, 1);
        return rc;
    }
    if (rc == 0)
        rc = deadlist_free(dsl, livelist, f->tx);
    if (rc == 0)
        rc = zap_int_del(dsl->mos, dsl->deleted_clones, livelist, f->tx);
    return rc ? rc : feature_change(dsl, FEATURE_LIVELIST, -1, f->tx);
}

static int first_livelist(struct dsl *dsl, uint64_t *object)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc = dnode_hold(dsl->mos, dsl->deleted_clones, &zap);

    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    rc = zap_cursor_next(&c, &e);
    *object = e.first;
    dnode_rele(zap);
    return rc;
}

int livelists_run(struct freeing *f)
{
    struct dsl *dsl = f->dsl;
    uint64_t livelist;
    int rc = 0;

    while (rc == 0 && !freeing_stop(f)) {
        rc = first_livelist(dsl, &livelist);
        if (rc == 0)
            rc = free_step(f, livelist);
    }
    if (rc != -ENOENT)
        return rc;
    rc = zap_del(dsl->mos, MOS_DIRECTORY, KEY_DELETED_CLONES, f->tx);
    if (rc == 0)
        rc = zap_destroy(dsl->mos, dsl->deleted_clones, f->tx);
    dsl->deleted_clones = 0;
    return rc;
}
