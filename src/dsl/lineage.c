#include "dsl/lineage.h"

#include <errno.h>
#include <stdlib.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

uint64_t lineage_top(const struct dsl *dsl)
{
    return dsl->origin ? dsl->origin->object : 0;
}

void lineage_watch(struct dsl *dsl, const struct lineage_ops *ops, void *arg)
{
    dsl->lineage = ops;
    dsl->lineage_arg = arg;
}

struct list {
    uint64_t *object;
    size_t n, cap;
};

static int add(struct list *l, uint64_t object)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        uint64_t *more = realloc(l->object, cap * sizeof *more);

        if (!more)
            return -ENOMEM;
        l->object = more;
        l->cap = cap;
    }
    l->object[l->n++] = object;
    return 0;
}

static int add_clones(struct dsl *dsl, uint64_t set, struct list *l)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc = dnode_hold(dsl->mos, set, &zap);

    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0)
        if ((rc = add(l, e.first)) != 0)
            break;
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

int lineage_read(struct dsl *dsl, uint64_t object, struct lineage *out, uint64_t **below, size_t *n)
{
    DSL_READ_GUARD(dsl);
    struct list l = {0};
    uint64_t w[DS_WORDS];
    int rc = ds_words(dsl, object, w);

    if (rc != 0)
        return rc;
    *out = (struct lineage){w[DS_PREV_TXG], w[DS_CTXG], w[DS_CHILDREN] != 0, {{0}}};
    memcpy(&out->root, &w[DS_BP], sizeof out->root);
    if (out->snapshot && w[DS_NEXT] != 0)
        rc = add(&l, w[DS_NEXT]);
    if (rc == 0 && out->snapshot && w[DS_NEXT_CLONES] != 0)
        rc = add_clones(dsl, w[DS_NEXT_CLONES], &l);
    *below = l.object;
    *n = l.n;
    if (rc != 0)
        free(l.object);
    return rc;
}

void lineage_snapshotted(struct dsl *dsl, uint64_t head, uint64_t snapshot)
{
    if (dsl->lineage)
        dsl->lineage->snapshotted(dsl->lineage_arg, head, snapshot);
}

void lineage_snapshot_gone(struct dsl *dsl, uint64_t snapshot, uint64_t next)
{
    if (dsl->lineage)
        dsl->lineage->snapshot_gone(dsl->lineage_arg, snapshot, next);
}

void lineage_head_gone(struct dsl *dsl, uint64_t head)
{
    if (dsl->lineage)
        dsl->lineage->head_gone(dsl->lineage_arg, head);
}
