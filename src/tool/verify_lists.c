/*
 * Lists of block pointers in the MOS (spec 04 6): blocks that are still to be freed, of whole
 * datasets or one by one, and livelists. Lists can be chained as deep as snapshots were destroyed
 * one after another, so nothing here recurses.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/blockwalk.h"
#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/zap.h"
#include "pool/pool.h"
#include "tool/verify_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define BUNDLE 128 /* pointers read at once */

enum { LIST_COUNT = 0, LIST_SUBS = 4, LIST_NSUBS = 5, LIST_WORDS = 7 };

struct numbers {
    uint64_t *item;
    size_t n, room;
};

static void numbers_free(struct numbers *s)
{
    free(s->item);
}

static int numbers_push(struct numbers *s, uint64_t number)
{
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        void *more = realloc(s->item, room * sizeof *s->item);
        if (!more)
            return -ENOMEM;
        s->item = more;
        s->room = room;
    }
    s->item[s->n++] = number;
    return 0;
}

int verify_hold(struct verify *v, uint64_t object, uint64_t *words, size_t n, size_t least,
                struct dnode **dn)
{
    struct dnode *held;
    size_t len;
    int rc = dnode_hold(v->mos, object, &held);
    memset(words, 0, n * sizeof *words);
    if (rc)
        return rc;
    rc = dnode_bonus_get(held, words, n * sizeof *words, &len);
    if (rc == -ERANGE) /* it has more */
        rc = 0;
    if (rc == 0 && len < least * sizeof *words)
        rc = err_set(EBADE, "object %llu has a short header", (unsigned long long)object);
    if (rc == 0 && dn)
        *dn = held;
    else
        dnode_rele(held);
    return rc;
}

int verify_fits(const struct dnode *dn, uint64_t n, size_t size)
{
    uint64_t block = dnode_block_size(dn), blocks = dnode_max_blkid(dn) + 1;
    uint64_t bytes = blocks > UINT64_MAX / block ? UINT64_MAX : blocks * block;
    return n <= bytes / size
               ? 0
               : err_set(EBADE, "it is to have %llu entries and is too small for them",
                         (unsigned long long)n);
}

static int read_entries(struct dnode *dn, uint64_t n, verify_entry_fn *fn, void *arg)
{
    unsigned char bytes[BUNDLE * BLKPTR_SIZE];
    int rc = verify_fits(dn, n, BLKPTR_SIZE);
    for (uint64_t i = 0; i < n && rc == 0; i += BUNDLE) {
        uint64_t some = MIN(n - i, (uint64_t)BUNDLE);
        rc = dnode_read(dn, i * BLKPTR_SIZE, bytes, some * BLKPTR_SIZE);
        for (uint64_t k = 0; k < some && rc == 0; k++) {
            struct blkptr bp;
            struct bookmark bm = {0, dnode_object(dn), 0, i + k};
            bp_decode(&bp, bytes + k * BLKPTR_SIZE, BYTES_HOST_BIG);
            bool freed = bp.w[11] & 1; /* the fill count has no other meaning here */
            bp.w[11] = 0;
            rc = bp_hole(&bp)
                     ? err_set(EBADE, "entry %llu is no block", (unsigned long long)(i + k))
                     : fn(arg, &bp, &bm, freed);
        }
    }
    return rc;
}

static int push_subs(struct verify *v, uint64_t list, uint64_t n, struct numbers *todo)
{
    struct dnode *dn;
    int rc = dnode_hold(v->mos, list, &dn);
    if (rc)
        return rc;
    rc = verify_fits(dn, n, sizeof(uint64_t));
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        uint64_t sub;
        rc = dnode_read(dn, 8 * i, &sub, sizeof sub);
        if (rc == 0)
            rc = sub ? numbers_push(todo, sub) : err_set(EBADE, "a list below it has no number");
    }
    dnode_rele(dn);
    return rc;
}

static int read_list(struct verify *v, uint64_t object, struct numbers *todo,
                     const struct list_visit *visit)
{
    uint64_t w[LIST_WORDS];
    struct dnode *dn;
    int rc = visit->object ? visit->object(visit->arg, object) : 0;
    if (rc)
        return rc == VERIFY_SKIP ? 0 : rc;
    rc = verify_hold(v, object, w, LIST_WORDS, LIST_COUNT + 1, &dn); /* old lists have no others */
    if (rc)
        return err_prefix(rc, "block list %llu", (unsigned long long)object);
    if (visit->entry)
        rc = read_entries(dn, w[LIST_COUNT], visit->entry, visit->arg);
    dnode_rele(dn);
    if (rc || !w[LIST_SUBS])
        return err_prefix(rc, "block list %llu", (unsigned long long)object);
    rc = visit->object ? visit->object(visit->arg, w[LIST_SUBS]) : 0;
    if (rc == 0)
        rc = push_subs(v, w[LIST_SUBS], w[LIST_NSUBS], todo);
    return rc == VERIFY_SKIP ? 0 : err_prefix(rc, "block list %llu", (unsigned long long)object);
}

int verify_list(struct verify *v, uint64_t object, const struct list_visit *visit)
{
    CLEANUP(numbers_free) struct numbers todo = {NULL, 0, 0};
    uint64_t seen = 0;
    int rc = numbers_push(&todo, object);
    while (rc == 0 && todo.n) {
        if (seen++ > LISTS_MAX)
            return err_set(EBADE, "block list %llu has no end", (unsigned long long)object);
        rc = read_list(v, todo.item[--todo.n], &todo, visit);
    }
    return rc;
}

static int each_key(struct verify *v, struct dnode *table, const struct zap_entry *e, uint64_t arg)
{
    const struct list_visit *visit = (const struct list_visit *)(uintptr_t)arg;
    return e->size == 8 ? verify_list(v, e->first, visit) : err_set(EBADE, "a damaged deadlist");
}

int verify_deadlist(struct verify *v, uint64_t object, const struct list_visit *visit)
{
    struct dnode *dn;
    int rc = dnode_hold(v->mos, object, &dn);
    if (rc)
        return err_prefix(rc, "deadlist %llu", (unsigned long long)object);
    bool old = dnode_type(dn) == OT_BPOBJ;
    dnode_rele(dn);
    if (old)
        return verify_list(v, object, visit);
    rc = visit->object ? visit->object(visit->arg, object) : 0;
    if (rc == 0)
        rc = verify_each_entry(v, object, each_key, (uint64_t)(uintptr_t)visit);
    return rc == VERIFY_SKIP ? 0 : rc;
}

/* ---- What is still to be freed ---- */

static int claim_entry(void *arg, const struct blkptr *bp, const struct bookmark *bm, bool freed)
{
    struct verify *v = arg;
    struct counts *c = &v->count[v->threads];
    if (!bp_embedded(bp)) {
        verify_count(c, bp, TALLY_DEFERRED);
        claim_block(v, c, bp, bm);
    }
    return 0;
}

static int add_list(struct verify *v, uint64_t object)
{
    struct list_visit visit = {.entry = claim_entry, .arg = v};
    return verify_list(v, object, &visit);
}

static int add_deleted_clone(struct verify *v, struct dnode *table, const struct zap_entry *e,
                             uint64_t none)
{
    struct livelist_sums sums;
    return verify_livelist(v, e->first, claim_entry, v, &sums);
}

static int add_deleted_clones(struct verify *v, uint64_t object)
{
    return verify_each_entry(v, object, add_deleted_clone, 0);
}

/* Datasets that are being destroyed: entries of 168 bytes. */
static int add_destroyed(struct verify *v, uint64_t object)
{
    unsigned char entry[168];
    uint64_t range[2];
    struct dnode *dn;
    int rc = verify_hold(v, object, range, 2, 2, &dn);
    if (rc)
        return rc;
    rc = verify_fits(dn, range[1], sizeof entry);
    for (uint64_t i = range[0]; i < range[1] && rc == 0; i++) {
        struct blkptr bp;
        struct counted_set *s = verify_new_set(v, object);
        rc = s ? dnode_read(dn, i * sizeof entry, entry, sizeof entry) : -ENOMEM;
        if (rc)
            break;
        bp_decode(&bp, entry, BYTES_HOST_BIG);
        s->destroying = true;
        rc = blockwalk_add(v->walk, object, &bp, get_u64(entry + 128, BYTES_HOST_BIG), s);
    }
    dnode_rele(dn);
    return rc;
}

int verify_add_lists(struct verify *v)
{
    static const struct {
        const char *key;
        int (*add)(struct verify *v, uint64_t object);
    } lists[] = {{"sync_bplist", add_list},
                 {"free_bpobj", add_list},
                 {"bptree_obj", add_destroyed},
                 {"com.delphix:deleted_clones", add_deleted_clones}};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        uint64_t object;
        err_clear();
        int rc = zap_get_u64(v->mos, MOS_DIRECTORY, lists[i].key, &object);
        if (rc == 0)
            rc = lists[i].add(v, object);
        if (rc == -ENOMEM)
            return rc;
        if (rc && rc != -ENOENT)
            verify_unreadable(v, err_prefix(rc, "%s", lists[i].key));
    }
    return 0;
}
