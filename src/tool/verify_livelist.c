/*
 * Livelists (spec 04 6.6): what a clone has written and not freed again, as records ALLOC and FREE.
 * Of a destroyed clone what is left is still to be freed; of a live one it must be what the clone
 * has.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/zap.h"
#include "pool/pool.h"
#include "tool/verify_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

enum { DIR_HEAD = 1, DIR_ORIGIN = 3, DIR_WORDS = 32, DS_PREV = 1, DS_PREV_TXG = 2 };

struct record {
    struct blkptr bp;
    struct bookmark bm;
    size_t number;
    bool freed;
};

struct records {
    struct record *r;
    size_t n, room;
};

static void records_free(struct records *all)
{
    free(all->r);
}

static int collect(void *arg, const struct blkptr *bp, const struct bookmark *bm, bool freed)
{
    struct records *all = arg;
    if (all->n == all->room) {
        size_t room = all->room ? 2 * all->room : 1024;
        void *more = realloc(all->r, room * sizeof *all->r);
        if (!more)
            return -ENOMEM;
        all->r = more;
        all->room = room;
    }
    all->r[all->n] = (struct record){*bp, *bm, all->n, freed};
    all->n++;
    return 0;
}

/* By place, then in the order they were written. */
static int by_place(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    for (unsigned i = 0; i < 2; i++)
        if (x->bp.w[i] != y->bp.w[i])
            return x->bp.w[i] < y->bp.w[i] ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

struct reading {
    struct verify *v;
    verify_entry_fn *fn;
    void *arg;
    struct livelist_sums *sums;
};

/* One sub-list: a FREE takes an earlier ALLOC of its place away. */
static int read_part(struct verify *v, struct dnode *table, const struct zap_entry *e, uint64_t arg)
{
    const struct reading *x = (const struct reading *)(uintptr_t)arg;
    CLEANUP(records_free) struct records all = {NULL, 0, 0};
    struct list_visit visit = {.entry = collect, .arg = &all};
    int rc = verify_list(v, e->first, &visit);
    if (all.n)
        qsort(all.r, all.n, sizeof *all.r, by_place);
    for (size_t i = 0, next; i < all.n && rc == 0; i = next) {
        size_t live = 0;
        for (next = i; next < all.n && memcmp(all.r[i].bp.w, all.r[next].bp.w, 16) == 0; next++) {
            x->sums->unpaired += all.r[next].freed && live == 0;
            live = all.r[next].freed ? live - (live > 0) : live + 1;
        }
        for (; live > 0 && rc == 0; live--) {
            x->sums->used += block_dsize(v->pool, &all.r[i].bp);
            x->sums->compressed += bp_count_psize(&all.r[i].bp);
            rc = x->fn ? x->fn(x->arg, &all.r[i].bp, &all.r[i].bm, false) : 0;
        }
    }
    return rc;
}

int verify_livelist(struct verify *v, uint64_t object, verify_entry_fn *fn, void *arg,
                    struct livelist_sums *sums)
{
    struct reading x = {v, fn, arg, sums};
    *sums = (struct livelist_sums){0};
    int rc = verify_each_entry(v, object, read_part, (uint64_t)(uintptr_t)&x);
    if (sums->unpaired)
        verify_found(v, "livelist", "livelist %llu: %llu blocks are freed and were never allocated",
                     (unsigned long long)object, (unsigned long long)sums->unpaired);
    return err_prefix(rc, "livelist %llu", (unsigned long long)object);
}

static void compare(struct verify *v, uint64_t object, const char *with, uint64_t used,
                    uint64_t compressed, const struct livelist_sums *sums)
{
    if (used != sums->used || compressed != sums->compressed)
        verify_found(v, "livelist",
                     "livelist %llu: its records make %llu bytes (%llu compressed), %s %llu (%llu)",
                     (unsigned long long)object, (unsigned long long)sums->used,
                     (unsigned long long)sums->compressed, with, (unsigned long long)used,
                     (unsigned long long)compressed);
}

static int check(struct verify *v, uint64_t object, const uint64_t dir[DIR_WORDS])
{
    struct livelist_sums sums;
    uint64_t bonus[3];
    int rc = verify_livelist(v, object, NULL, NULL, &sums);
    rc = rc ? rc : verify_hold(v, object, bonus, 3, 3, NULL);
    if (rc)
        return rc;
    compare(v, object, "its header has", bonus[0], bonus[1], &sums);
    /* The walk has met what is younger than the previous snapshot: all of it only if that is the
     * origin. */
    for (const struct counted_set *s = v->sets; s; s = s->next)
        if (s->dataset && s->object == dir[DIR_HEAD] && s->words[DS_PREV] == dir[DIR_ORIGIN] &&
            !s->damaged)
            compare(v, object, "its clone's blocks", s->used, s->compressed, &sums);
    return 0;
}

static int check_dir(struct verify *v, struct dnode *dn)
{
    uint64_t dir[DIR_WORDS], object;
    size_t len;
    int rc = zap_lookup(dn, "com.delphix:livelist", 8, 1, &object);
    rc = rc ? rc : dnode_bonus_get(dn, dir, sizeof dir, &len);
    rc = rc == 0 && len < sizeof dir ? err_set(EBADE, "a short directory") : rc;
    return rc == -ENOENT ? 0 : rc ? rc : check(v, object, dir);
}

int verify_livelists(struct verify *v)
{
    uint64_t object = 0;
    int rc = 0;
    while (rc == 0 && (rc = objset_next_object(v->mos, &object)) == 0) {
        struct dnode *dn;
        err_clear();
        int one = dnode_hold(v->mos, object, &dn);
        if (one)
            continue; /* has been reported */
        if (dnode_bonus_type(dn) == OT_DSL_DIR && dnode_type(dn) == OT_ZAP_METADATA)
            one = check_dir(v, dn);
        dnode_rele(dn);
        if (one == -ENOMEM)
            rc = one;
        else if (one)
            verify_unreadable(
                v, err_prefix(one, "the livelist of directory %llu", (unsigned long long)object));
    }
    return rc == -ENOENT || rc == -EIO || rc == -EBADE ? 0 : rc;
}
