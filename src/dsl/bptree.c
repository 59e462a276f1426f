/*
 * The bptree (spec 04 9.7): object sets of destroyed datasets, freed block by block in the background. An
 * entry remembers how far it came; blocks before that point are gone and are not looked at again.
 */
#include <errno.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/err.h"
#include "util/log.h"

#define MOS_DIRECTORY 1
#define BPTREE_BLOCK  131072
#define ENTRY_SIZE    168
#define IN_PROGRESS   UINT64_MAX /* objset of a resume bookmark */

enum { T_BEGIN, T_END, T_BYTES, T_COMP, T_UNCOMP, T_WORDS };

struct bptree {
    struct dnode *dn;
    uint64_t w[T_WORDS];
};

struct bptree_entry {
    struct blkptr bp;
    uint64_t birth;
    struct bookmark from;
};

static int tree_open(struct dsl *dsl, struct bptree *t)
{
    size_t len;
    int rc = dnode_hold(dsl->mos, dsl->bptree, &t->dn);

    if (rc != 0)
        return err_prefix(rc, "the list of datasets being destroyed");
    rc = dnode_bonus_get(t->dn, t->w, sizeof t->w, &len);
    if (rc == -ERANGE)
        rc = 0;
    if (rc == 0 && (len < sizeof t->w || t->w[T_BEGIN] > t->w[T_END]))
        rc = err_set(EBADE, "the list of datasets being destroyed is damaged");
    if (rc != 0)
        dnode_rele(t->dn);
    return rc;
}

static int tree_write(struct bptree *t, struct tx *tx)
{
    return dnode_bonus_patch(t->dn, 0, t->w, sizeof t->w, tx);
}

static void encode(const struct bptree_entry *e, unsigned char out[ENTRY_SIZE])
{
    uint64_t w[5] = {e->birth, e->from.objset, e->from.object, (uint64_t)e->from.level, e->from.blkid};

    bp_encode(&e->bp, out);
    memcpy(out + BLKPTR_SIZE, w, sizeof w);
}

static void decode(struct bptree_entry *e, const unsigned char in[ENTRY_SIZE])
{
    uint64_t w[5];

    bp_decode(&e->bp, in, BYTES_HOST_BIG);
    memcpy(w, in + BLKPTR_SIZE, sizeof w);
    e->birth = w[0];
    e->from = (struct bookmark){w[1], w[2], (int64_t)w[3], w[4]};
}

static int create(struct dsl *dsl, struct tx *tx)
{
    struct object_params params = {.type = OT_UINT64_METADATA, .bonus_type = OT_UINT64_METADATA,
                                   .bonus_len = T_WORDS * 8, .block_size = BPTREE_BLOCK};
    struct dnode *dn;
    int rc = object_create(dsl->mos, 0, &params, tx, &dn);

    if (rc != 0)
        return rc;
    dsl->bptree = dnode_object(dn);
    dnode_rele(dn);
    rc = zap_add_u64(dsl->mos, MOS_DIRECTORY, "bptree_obj", dsl->bptree, tx);
    return rc ? rc : feature_change(dsl, FEATURE_ASYNC_DESTROY, 1, tx);
}

int bptree_add(struct dsl *dsl, const struct blkptr *bp, uint64_t birth, const struct space *space,
               struct tx *tx)
{
    struct bptree_entry e = {.bp = *bp, .birth = birth};
    unsigned char bytes[ENTRY_SIZE];
    struct bptree t;
    int rc = dsl->bptree ? 0 : create(dsl, tx);

    if (rc == 0)
        rc = tree_open(dsl, &t);
    if (rc != 0)
        return rc;
    encode(&e, bytes);
    rc = dnode_write(t.dn, t.w[T_END] * ENTRY_SIZE, bytes, sizeof bytes, tx);
    t.w[T_END]++;
    t.w[T_BYTES] += (uint64_t)space->used;
    t.w[T_COMP] += (uint64_t)space->comp;
    t.w[T_UNCOMP] += (uint64_t)space->uncomp;
    if (rc == 0)
        rc = tree_write(&t, tx);
    dnode_rele(t.dn);
    dsl->free_pending = true;
    return rc;
}

/* ---- Freeing ---- */

struct walk {
    struct freeing *f;
    struct bptree_entry *e;
    struct bookmark last; /* the last block that was freed */
    bool any;
};

static int walk_block(void *arg, const struct blkptr *bp, const struct bookmark *bm)
{
    struct walk *w = arg;

    if (bp_hole(bp) || bp_redacted(bp))
        return 0;
    if (freeing_stop(w->f)) {
        w->e->from = *bm;
        w->e->from.objset = IN_PROGRESS;
        return -EINTR;
    }
    w->last = *bm;
    w->any = true;
    return freeing_block(w->f, bp, false);
}

/* After an error the next attempt begins behind what has been freed, rather leaving a block allocated
 * than freeing one twice. */
static void skip_freed(struct walk *w)
{
    if (!w->any)
        return;
    w->e->from = w->last;
    w->e->from.objset = IN_PROGRESS;
    if (w->last.blkid < UINT64_MAX - 1) {
        w->e->from.blkid++;
    } else { /* a spill block, the last of its object */
        w->e->from.object++;
        w->e->from.level = 0;
        w->e->from.blkid = 0;
    }
}

/* Works on the first entry: -EINTR if time is up before it is done. */
static int free_entry(struct freeing *f, struct bptree *t)
{
    unsigned char bytes[ENTRY_SIZE];
    uint64_t at = t->w[T_BEGIN] * ENTRY_SIZE;
    struct bptree_entry e;
    struct walk w = {.f = f, .e = &e};
    struct space before = f->sum;
    const struct bookmark *from;
    int rc = dnode_read(t->dn, at, bytes, sizeof bytes), written = 0;

    if (rc != 0)
        return rc;
    decode(&e, bytes);
    from = e.from.objset == IN_PROGRESS ? &e.from : NULL;
    struct bookmark start = e.from;

    rc = objset_walk_from(f->dsl->pool, 0, &e.bp, e.birth, from ? &start : NULL, walk_block, &w);
    t->w[T_BYTES] -= (uint64_t)(f->sum.used - before.used);
    t->w[T_COMP] -= (uint64_t)(f->sum.comp - before.comp);
    t->w[T_UNCOMP] -= (uint64_t)(f->sum.uncomp - before.uncomp);
    if (rc == 0) {
        t->w[T_BEGIN]++;
    } else {
        if (rc != -EINTR)
            skip_freed(&w);
        encode(&e, bytes);
        written = dnode_write(t->dn, at, bytes, sizeof bytes, f->tx);
    }
    if (written == 0)
        written = tree_write(t, f->tx);
    return written ? written : rc;
}

static int remove_tree(struct freeing *f, struct bptree *t)
{
    struct dsl *dsl = f->dsl;
    int rc = object_free(t->dn, f->tx);

    if (t->w[T_BYTES] || t->w[T_COMP] || t->w[T_UNCOMP]) {
        struct space rest = {(int64_t)t->w[T_BYTES], (int64_t)t->w[T_COMP], (int64_t)t->w[T_UNCOMP]};

        log_warn("pool %s: destroyed datasets had %lld bytes less than they counted", dsl->pool->name,
                 (long long)rest.used);
        space_add(&f->sum, &rest, 1);
    }
    dsl->bptree = 0;
    if (rc == 0)
        rc = zap_del(dsl->mos, MOS_DIRECTORY, "bptree_obj", f->tx);
    return rc ? rc : feature_change(dsl, FEATURE_ASYNC_DESTROY, -1, f->tx);
}

int bptree_run(struct freeing *f)
{
    struct bptree t;
    int rc = tree_open(f->dsl, &t);

    if (rc != 0)
        return rc;
    while (rc == 0 && t.w[T_BEGIN] < t.w[T_END] && !freeing_stop(f))
        rc = free_entry(f, &t);
    if (rc == -EINTR) {
        rc = 0;
    } else if (rc == -EBADE || rc == -EIO || rc == -ENOTSUP || rc == -EINVAL) {
        log_error("pool %s: a destroyed dataset cannot be freed completely: %s", f->dsl->pool->name,
                  err_text(rc));
        f->dsl->free_stuck = true;
        rc = 0;
    }
    if (rc == 0 && t.w[T_BEGIN] == t.w[T_END])
        rc = remove_tree(f, &t);
    dnode_rele(t.dn);
    return rc;
}
