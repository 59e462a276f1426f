/*
 * The intent logs of datasets (spec 05 19.1, 06 17.8): the blocks of their chains, with the one
 * that ends each: allocated and never written. A log that an import has claimed and nobody has
 * replayed also owns the blocks of data that its records point to, and a reference to each block
 * that a record clones; replayed records keep theirs until the whole log is freed.
 */
#include <errno.h>
#include <stdlib.h>

#include "dmu/dnode.h"
#include "pool/pool.h"
#include "pool/txg.h"
#include "tool/verify_impl.h"
#include "util/err.h"
#include "zil/zil.h"

/* A block of data that a record points to. */
struct claimed {
    struct hashmap_node node;
    uint64_t vdev, offset;
};

struct log {
    struct verify *v;
    unsigned thread;
    struct zil_header header;
    struct bookmark bm;
    struct hashmap claimed; /* by place */
};

/* Those written since the last txg are not allocated before an import claims them. */
static int on_block(void *arg, const struct blkptr *bp, uint64_t seq)
{
    struct log *l = arg;
    if (bp_birth(bp) <= txg_synced_number(l->v->pool->txg))
        verify_count(&l->v->count[l->thread], bp, OT_INTENT_LOG);
    return claim_log(l->v, bp);
}

/* Several records may point to the same block. */
static int is_new(struct log *l, const struct blkptr *bp, bool *is)
{
    uint64_t vdev = dva_vdev(bp, 0), offset = dva_offset(bp, 0);
    uint64_t hash = hash_u64(offset ^ hash_u64(vdev));
    struct hashmap_node *n = hashmap_first(&l->claimed, hash);
    *is = false;
    for (; n; n = hashmap_next(n)) {
        struct claimed *c = container_of(n, struct claimed, node);
        if (c->vdev == vdev && c->offset == offset)
            return 0;
    }
    struct claimed *c = malloc(sizeof *c);
    if (!c)
        return -ENOMEM;
    *is = true;
    c->vdev = vdev;
    c->offset = offset;
    hashmap_insert(&l->claimed, &c->node, hash);
    return 0;
}

static int on_pointer(struct log *l, unsigned type, const struct blkptr *bp)
{
    bool is;
    if (bp_hole(bp) || bp_embedded(bp))
        return 0;
    if (bp_check(bp) != 0)
        return err_set(EBADE, "record %llu points nowhere", (unsigned long long)l->bm.blkid);
    if (type == ZIL_CLONE_RANGE) {
        claim_block(l->v, &l->v->count[l->thread], bp, &l->bm);
        return 0;
    }
    if (bp_birth(bp) < l->header.claim_txg)
        return 0; /* the file has it */
    int rc = is_new(l, bp, &is);
    if (rc == 0 && is)
        verify_block(l->v, l->thread, bp, &l->bm, verify_tally(bp), false);
    return rc;
}

static int on_record(void *arg, const void *data, const struct zil_record_header *h, bool big)
{
    struct log *l = arg;
    const unsigned char *at;
    size_t n;
    int rc = zil_record_pointers(data, h, big, &at, &n);
    l->bm.blkid = h->seq;
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct blkptr bp;
        bp_decode(&bp, at + i * ZIL_POINTER_SIZE, big);
        rc = on_pointer(l, h->type, &bp);
    }
    return rc;
}

static void forget(struct hashmap *claimed)
{
    for (size_t i = 0; i <= claimed->mask; i++)
        for (struct hashmap_node *n = claimed->slots[i], *next; n; n = next) {
            next = n->next;
            free(container_of(n, struct claimed, node));
        }
    hashmap_destroy(claimed);
}

void verify_log(struct verify *v, unsigned thread, uint64_t dataset, const unsigned char *zil)
{
    struct log l = {.v = v, .thread = thread, .bm = {dataset, 0, -2, 0}};
    struct zil_result result;
    zil_header_decode(zil, &l.header);
    bool claimed = l.header.claim_txg != 0;
    const struct zil_walk w = {.pool = v->pool,
                               .header = &l.header,
                               .uberblock_txg = txg_synced_number(v->pool->txg),
                               .block = on_block,
                               .record = claimed ? on_record : NULL,
                               .replayed = true,
                               .arg = &l};
    int rc = hashmap_init(&l.claimed, 16);
    if (rc == 0) {
        err_clear();
        rc = zil_walk(&w, &result);
        if (rc == 0 && result.end == ZIL_END_DAMAGED)
            rc = err_set(EBADE, "it is damaged behind record %llu",
                         (unsigned long long)result.last_seq);
        forget(&l.claimed);
    }
    if (rc)
        verify_unreadable(
            v, err_prefix(rc, "the intent log of dataset %llu", (unsigned long long)dataset));
}
