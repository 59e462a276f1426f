/*
 * What a pool consists of: the MOS, every dataset that is an object of the MOS (found there and not
 * by name, as a nameless one is not less there), each with what is younger than its previous
 * snapshot; intent logs (verify_log.c); and (verify_lists.c) the blocks that are still to be freed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/blockwalk.h"
#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/zap.h"
#include "dsl/dsl.h"
#include "pool/pool.h"
#include "tool/verify_impl.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

/* Words of a dataset's bonus (spec 04 3). */
#define DS_PREV_TXG    2
#define DS_CHILDREN    5
#define DS_BP          16


/* ---- One block ---- */

void verify_count(struct counts *c, const struct blkptr *bp, unsigned type)
{
    unsigned level = MIN(bp_level(bp), (unsigned)TALLY_LEVELS - 1);
    struct tally *t = &c->type[type < TALLY_TYPES ? type : TALLY_OTHER][level];
    t->blocks++;
    t->lsize += bp_lsize(bp);
    t->psize += bp_embedded(bp) ? 0 : bp_psize(bp); /* its bytes are in the pointer */
    for (int i = 0; i < bp_copies(bp); i++)
        t->asize += dva_asize(bp, i);
    for (int i = 1; i < bp_copies(bp); i++)
        if (dva_vdev(bp, i) == dva_vdev(bp, i - 1)) {
            c->dittoed++;
            break;
        }
}

void verify_block(struct verify *v, unsigned thread, const struct blkptr *bp,
                  const struct bookmark *bm, int type, bool read)
{
    struct counts *c = &v->count[thread];
    uint64_t before = c->checked_bytes;
    if (bp_embedded(bp)) {
        c->embedded++;
        verify_count(c, bp, (unsigned)type);
        return;
    }
    verify_count(c, bp, (unsigned)type);
    c->gangs += bp_gang(bp);
    claim_block(v, c, bp, bm);
    if (v->present && claim_is_known(v->present, bp))
        return; /* the present state has it too, and has looked at it */
    if (!v->metadata_only || bp_metadata(bp) || read)
        verify_scrub(v, c, bp, bm, read);
    atomic_fetch_add_explicit(&v->bytes, c->checked_bytes - before, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->blocks, 1, memory_order_relaxed);
}

/* ---- What the walk says ---- */

int verify_tally(const struct blkptr *bp)
{
    return bp_type(bp) & 0x80 ? TALLY_OTHER : (int)MIN(bp_type(bp), 53u);
}

static void on_block(void *arg, unsigned thread, void *set, const struct blkptr *bp,
                     const struct bookmark *bm, bool read)
{
    struct verify *v = arg;
    struct counted_set *s = set;
    atomic_fetch_add_explicit(&s->used, block_dsize(v->pool, bp), memory_order_relaxed);
    atomic_fetch_add_explicit(&s->compressed, bp_count_psize(bp), memory_order_relaxed);
    atomic_fetch_add_explicit(&s->uncompressed, bp_count_lsize(bp), memory_order_relaxed);
    verify_block(v, thread, bp, bm, s->destroying ? TALLY_DESTROY : verify_tally(bp), read);
}

static void on_bad(void *arg, unsigned thread, void *set, const struct blkptr *bp,
                   const struct bookmark *bm, int rc)
{
    struct counted_set *s = set;
    s->damaged = true;
    if (!bp)
        err_prefix(rc, "dataset %llu object %llu", (unsigned long long)bm->objset,
                   (unsigned long long)bm->object);
    verify_unreadable(arg, rc);
}

static void on_root(void *arg, unsigned thread, void *set, const unsigned char *zil)
{
    struct counted_set *s = set;
    if (s->dataset && !s->destroying && s->words[DS_CHILDREN] == 0)
        verify_log(arg, thread, s->object, zil); /* a snapshot's old copy means nothing */
}

static void tick(void *arg)
{
    struct verify *v = arg;
    progress_show(&v->progress, atomic_load(&v->bytes), atomic_load(&v->blocks));
}

/* ---- Sources ---- */

struct counted_set *verify_new_set(struct verify *v, uint64_t object)
{
    struct counted_set *s = calloc(1, sizeof *s);
    if (s) {
        s->object = object;
        s->next = v->sets;
        v->sets = s;
    }
    return s;
}

static int add_dataset(struct verify *v, struct dnode *dn)
{
    unsigned char bonus[320];
    struct blkptr root;
    size_t len;
    int rc = dnode_bonus_get(dn, bonus, sizeof bonus, &len);
    if (rc || len < sizeof bonus)
        return rc && rc != -ERANGE  ? rc
               : len < sizeof bonus ? err_set(EBADE, "a short dataset")
                                    : 0;
    struct counted_set *s = verify_new_set(v, dnode_object(dn));
    if (!s)
        return -ENOMEM;
    for (unsigned i = 0; i < ARRAY_LEN(s->words); i++)
        s->words[i] = get_u64(bonus + 8 * i, BYTES_HOST_BIG);
    memcpy(root.w, s->words + DS_BP, sizeof root.w);
    s->dataset = true;
    return blockwalk_add(v->walk, s->object, &root, s->words[DS_PREV_TXG], s);
}

static int add_datasets(struct verify *v)
{
    uint64_t object = 0;
    int rc = 0;
    while (rc == 0 && (rc = objset_next_object(v->mos, &object)) == 0) {
        struct dnode *dn;
        int one = dnode_hold(v->mos, object, &dn);
        if (one == 0) {
            if (dnode_bonus_type(dn) == OT_DSL_DATASET)
                one = add_dataset(v, dn);
            dnode_rele(dn);
        }
        if (one == -ENOMEM)
            rc = one;
        else if (one && one != -ENOENT)
            verify_unreadable(v, err_prefix(one, "MOS object %llu", (unsigned long long)object));
    }
    return rc == -ENOENT ? 0 : rc;
}

int verify_walk(struct verify *v)
{
    static const struct blockwalk_ops ops = {on_block, on_bad, on_root};
    struct counted_set *mos = verify_new_set(v, 0);
    int rc = mos ? blockwalk_new(&v->walk, v->pool, v->threads, &ops, v) : -ENOMEM;
    if (rc == 0)
        rc = blockwalk_add(v->walk, 0, objset_root(v->mos), 0, mos);
    if (rc == 0)
        rc = add_datasets(v);
    if (rc == 0)
        rc = verify_add_lists(v);
    if (rc == 0)
        rc = blockwalk_run(v->walk, tick);
    blockwalk_free(v->walk);
    return rc;
}
