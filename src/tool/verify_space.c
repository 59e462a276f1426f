/*
 * Space: a bit for each sector that some block uses. A bit that is set already means that two
 * blocks have the same space, unless a dedup or clone table knows it. At the end what the space
 * maps call allocated must be what is used: allocated and not used has leaked, used and not
 * allocated will be overwritten by the next writer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/zap.h"
#include "pool/alloc.h"
#include "pool/pool.h"
#include "spa/spa.h"
#include "tool/verify_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/rangeset.h"
#include "util/workers.h"
#include "vdev/vdev.h"

#define PIECE_SHIFT 26 /* 64 MiB: 2 KiB of bits with 4 KiB sectors */
#define MOVES_MAX   32

int claims_init(struct verify *v)
{
    struct vdev *root = v->pool->root;
    for (unsigned i = 0; i < root->children; i++)
        v->tops = MAX(v->tops, root->child[i]->id + 1);
    if (hashmap_init(&v->shared, 1024) || !(v->claims = calloc(v->tops + 1, sizeof *v->claims)))
        return -ENOMEM;
    for (unsigned i = 0; i < root->children; i++) {
        struct vdev *top = root->child[i];
        struct claims *c = &v->claims[top->id];
        if (!top->allocator || top->asize == 0)
            continue; /* a hole, or removed: nothing is allocated there */
        c->size = top->asize;
        c->shift = top->ashift;
        c->piece_shift = MAX((unsigned)PIECE_SHIFT, top->ashift + 6);
        c->pieces = (size_t)((top->asize >> c->piece_shift) + 1);
        c->piece = calloc(c->pieces, sizeof *c->piece);
        if (!c->piece)
            return -ENOMEM;
    }
    return 0;
}

void claims_free(struct verify *v)
{
    for (unsigned i = 0; v->claims && i < v->tops; i++) {
        for (size_t k = 0; v->claims[i].piece && k < v->claims[i].pieces; k++)
            free(v->claims[i].piece[k]);
        free(v->claims[i].piece);
    }
    free(v->claims);
    free(v->logs);
}

static uint64_t *piece_of(struct claims *c, uint64_t sector)
{
    size_t k = (size_t)(sector << c->shift >> c->piece_shift);
    uint64_t *p = atomic_load_explicit(&c->piece[k], memory_order_acquire), *none = NULL;
    if (p)
        return p;
    p = calloc((size_t)1 << (c->piece_shift - c->shift - 6), sizeof *p);
    if (p && !atomic_compare_exchange_strong(&c->piece[k], &none, p)) {
        free(p);
        p = none;
    }
    return p;
}

/* The bits of [sector, *next) in one word; *next is at most end. */
static uint64_t mask_of(uint64_t sector, uint64_t end, uint64_t *next)
{
    uint64_t low = sector & 63, n = MIN(64 - low, end - sector);
    *next = sector + n;
    return (n == 64 ? ~0ull : (1ull << n) - 1) << low;
}

static uint64_t *word_of(struct claims *c, uint64_t sector)
{
    uint64_t *p = piece_of(c, sector);
    uint64_t in_piece = sector & ((1ull << (c->piece_shift - c->shift)) - 1);
    return p ? p + in_piece / 64 : NULL;
}

/* Sets the bits; how many sectors had been set already, -ENOMEM. */
static int64_t set_bits(struct claims *c, uint64_t offset, uint64_t asize)
{
    uint64_t at = offset >> c->shift, end = (offset + asize) >> c->shift, next;
    int64_t twice = 0;
    for (; at < end; at = next) {
        uint64_t mask = mask_of(at, end, &next), *word = word_of(c, at);
        if (!word)
            return -ENOMEM;
        twice += __builtin_popcountll(__atomic_fetch_or(word, mask, __ATOMIC_RELAXED) & mask);
    }
    return twice;
}

struct claim {
    struct verify *v;
    struct counts *c;
    const struct blkptr *bp;
    const struct bookmark *bm;
    unsigned depth; /* of removed vdevs that lead to removed ones */
};

static void describe(const struct claim *k, char *out, size_t cap)
{
    snprintf(out, cap, "dataset %llu object %llu level %lld block %llu",
             (unsigned long long)k->bm->objset, (unsigned long long)k->bm->object,
             (long long)k->bm->level, (unsigned long long)k->bm->blkid);
}

/* True if a table knows that the block is used by several: only the first one claims it. */
static bool is_shared(struct claim *k, uint64_t vdev, uint64_t offset, uint64_t asize)
{
    struct shared_block *s = k->v->shared.count ? verify_shared(k->v, vdev, offset) : NULL;
    if (!s)
        return false;
    if (atomic_fetch_add(&s->seen, 1) == 0)
        return false;
    if (s->clone) {
        k->c->clone_refs++;
        k->c->clone_asize += asize;
    } else {
        k->c->extra_refs++;
        k->c->dedup_asize += asize;
    }
    return true;
}

static int claim_place(void *arg, uint64_t vdev, uint64_t offset, uint64_t asize);

/* On a vdev that has no space of its own: it must have been removed, and counts where it was moved
 * to. */
static int claim_moved(struct claim *k, uint64_t vdev, uint64_t offset, uint64_t asize)
{
    char who[200];
    int rc = -ENOENT;
    if (vdev < k->v->tops && k->depth < MOVES_MAX) {
        k->depth++;
        rc = verify_moved(k->v, vdev, offset, asize, claim_place, k);
        k->depth--;
    }
    if (rc != -ENOENT)
        return rc;
    describe(k, who, sizeof who);
    verify_found(k->v, "bad_range", "%s: %llu bytes at %llu of vdev %llu are nowhere", who,
                 (unsigned long long)asize, (unsigned long long)offset, (unsigned long long)vdev);
    return 0;
}

static int claim_place(void *arg, uint64_t vdev, uint64_t offset, uint64_t asize)
{
    struct claim *k = arg;
    struct verify *v = k->v;
    char who[200];
    struct claims *c = vdev < v->tops ? &v->claims[vdev] : NULL;
    if (!c || !c->piece)
        return claim_moved(k, vdev, offset, asize);
    if (offset > c->size || asize > c->size - offset ||
        (offset | asize) & ((1ull << c->shift) - 1)) {
        describe(k, who, sizeof who);
        verify_found(v, "bad_range", "%s: %llu bytes at %llu are not in vdev %llu", who,
                     (unsigned long long)asize, (unsigned long long)offset,
                     (unsigned long long)vdev);
        return 0;
    }
    if (is_shared(k, vdev, offset, asize))
        return 0;
    int64_t twice = set_bits(c, offset, asize);
    if (twice < 0)
        return -ENOMEM;
    atomic_fetch_add_explicit(&c->asize, asize, memory_order_relaxed);
    if (twice == 0)
        return 0;
    describe(k, who, sizeof who);
    verify_found(v, "double_use",
                 "%s: %llu of its bytes at vdev %llu offset %llu are used by another block too",
                 who, (unsigned long long)((uint64_t)twice << c->shift), (unsigned long long)vdev,
                 (unsigned long long)offset);
    pthread_mutex_lock(&v->lock);
    v->double_claims++;
    pthread_mutex_unlock(&v->lock);
    return 0;
}

/* Does the pointer say as much space as the vdev takes for a block of this size? */
static void check_asize(struct claim *k)
{
    const struct blkptr *bp = k->bp;
    char who[200];
    for (int i = 0; i < bp_copies(bp) && !bp_gang(bp); i++) {
        struct vdev *top = vdev_lookup_top(k->v->pool->root, dva_vdev(bp, i));
        if (!top || !top->allocator)
            continue;
        uint64_t want = vdev_psize_to_asize(top, bp_psize(bp), bp_phys_birth(bp));
        if (want == dva_asize(bp, i))
            continue;
        describe(k, who, sizeof who);
        verify_found(k->v, "wrong_asize", "%s: copy %d has %llu bytes of space, vdev %u takes %llu",
                     who, i + 1, (unsigned long long)dva_asize(bp, i), top->id,
                     (unsigned long long)want);
        pthread_mutex_lock(&k->v->lock);
        k->v->wrong_asize++;
        pthread_mutex_unlock(&k->v->lock);
    }
}

void claim_block(struct verify *v, struct counts *c, const struct blkptr *bp,
                 const struct bookmark *bm)
{
    struct claim k = {v, c, bp, bm, 0};
    check_asize(&k);
    err_clear();
    int rc = block_each_place(v->pool, bp, claim_place, &k);
    if (rc)
        verify_found(v, "unreadable", "%s", err_text(rc));
}

bool claim_is_known(struct verify *v, const struct blkptr *bp)
{
    uint64_t vdev = dva_vdev(bp, 0), offset = dva_offset(bp, 0);
    struct claims *c = vdev < v->tops ? &v->claims[vdev] : NULL;
    if (!c || !c->piece || offset >= c->size)
        return false;
    uint64_t sector = offset >> c->shift, *word = word_of(c, sector);
    return word && __atomic_load_n(word, __ATOMIC_RELAXED) >> (sector & 63) & 1;
}

/* ---- Intent logs ---- */

static int add_log(void *arg, uint64_t vdev, uint64_t offset, uint64_t asize)
{
    struct verify *v = arg;
    void *grown = realloc(v->logs, (v->nlogs + 1) * sizeof *v->logs);
    if (!grown)
        return -ENOMEM;
    v->logs = grown;
    v->logs[v->nlogs++] = (struct log_block){vdev, offset, asize};
    return 0;
}

int claim_log(struct verify *v, const struct blkptr *bp)
{
    pthread_mutex_lock(&v->lock);
    int rc = block_each_place(v->pool, bp, add_log, v);
    pthread_mutex_unlock(&v->lock);
    return rc;
}

/* The log blocks of a metaslab whose allocated space is known now. */
static int claim_logs_of(struct verify *v, const struct metaslab *m, const struct rangeset *set)
{
    for (size_t i = 0; i < v->nlogs; i++) {
        const struct log_block *l = &v->logs[i];
        if (l->vdev != m->vdev->id || l->offset < m->start || l->offset >= m->start + m->size)
            continue;
        bool there = rangeset_contains(set, l->offset, l->offset + l->asize);
        int64_t twice = there ? set_bits(&v->claims[l->vdev], l->offset, l->asize) : 0;
        if (twice < 0)
            return -ENOMEM;
        if (twice)
            verify_found(v, "double_use",
                         "vdev %llu offset %llu: a block of an intent log is used by another "
                         "block too",
                         (unsigned long long)l->vdev, (unsigned long long)l->offset);
        pthread_mutex_lock(&v->lock);
        v->double_claims += twice != 0;
        v->unclaimed_logs += there ? 0 : l->asize;
        v->found_alloc += there ? l->asize : 0;
        pthread_mutex_unlock(&v->lock);
    }
    return 0;
}

/* ---- What a checkpoint keeps ---- */

struct kept {
    struct verify *v;
    struct vdev *top;
};

/* Bytes of the range that are blocks of intent logs. */
static uint64_t in_logs(const struct verify *v, unsigned vdev, uint64_t offset, uint64_t run)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < v->nlogs; i++) {
        const struct log_block *l = &v->logs[i];
        uint64_t from = MAX(offset, l->offset), to = MIN(offset + run, l->offset + l->asize);
        sum += l->vdev == vdev && to > from ? to - from : 0;
    }
    return sum;
}

/* What is kept must be used by the tree of the checkpoint, or be a log block of it. */
static void check_kept(const struct kept *k, uint64_t offset, uint64_t run)
{
    struct verify *v = k->v, *old = v->checkpointed;
    struct claims *c = old && k->top->id < old->tops ? &old->claims[k->top->id] : NULL;
    uint64_t lost = 0, next;
    if (!c || !c->piece)
        return;
    for (uint64_t at = offset >> c->shift, end = (offset + run) >> c->shift; at < end; at = next) {
        uint64_t mask = mask_of(at, end, &next), *word = word_of(c, at);
        lost += word ? (uint64_t)__builtin_popcountll(mask & ~*word) << c->shift : 0;
    }
    if (lost)
        lost -= MIN(lost, in_logs(old, k->top->id, offset, run));
    if (lost && v->leaks++ < VERIFY_REPORT_MAX)
        verify_found(v, "leak",
                     "vdev %u, offset 0x%llx, size %llu: kept for the checkpoint, which does not "
                     "use %llu bytes of it",
                     k->top->id, (unsigned long long)offset, (unsigned long long)run,
                     (unsigned long long)lost);
    v->leaked_bytes += lost;
}

static int keep(void *arg, bool is_free, uint64_t vdev, uint64_t offset, uint64_t run)
{
    struct kept *k = arg;
    struct claims *c = &k->v->claims[k->top->id];
    if (offset > c->size || run > c->size - offset)
        return err_set(EBADE, "a range outside of the vdev");
    check_kept(k, offset, run);
    int64_t twice = set_bits(c, offset, run);
    if (twice > 0)
        verify_found(k->v, "double_use",
                     "vdev %u offset %llu: %llu bytes kept for the checkpoint are in use",
                     k->top->id, (unsigned long long)offset,
                     (unsigned long long)((uint64_t)twice << c->shift));
    k->v->checkpoint += run;
    return twice < 0 ? -ENOMEM : 0;
}

static int claim_checkpoint(struct verify *v, struct vdev *top)
{
    uint64_t object, header[3];
    struct kept k = {v, top};
    struct dnode *dn;
    int rc = top->zap_top
                 ? zap_get_u64(v->mos, top->zap_top, "com.delphix:pool_checkpoint_sm", &object)
                 : -ENOENT;
    if (rc == 0)
        rc = verify_hold(v, object, header, 3, 2, &dn);
    if (rc)
        return rc == -ENOENT ? 0 : rc;
    uint64_t length = header[1], block = dnode_block_size(dn);
    CLEANUP_FREE unsigned char *words = malloc(block);
    rc = words ? verify_fits(dn, length, 1) : -ENOMEM;
    for (uint64_t at = 0; at < length && rc == 0; at += block) {
        uint64_t n = MIN(block, length - at);
        rc = dnode_read(dn, at, words, n);
        if (rc == 0)
            rc = spacemap_each(0, top->asize, top->ashift, words, n, BYTES_HOST_BIG, keep, &k);
    }
    dnode_rele(dn);
    return err_prefix(rc, "the checkpoint's space map of vdev %u", top->id);
}

/* All that the tree of the checkpoint uses must be in use or kept. */
static void check_checkpoint(struct verify *v, const struct vdev *top)
{
    struct verify *old = v->checkpointed;
    struct claims *c = top->id < old->tops ? &old->claims[top->id] : NULL;
    struct claims *now = &v->claims[top->id];
    for (size_t k = 0; c && c->piece && k < MIN(c->pieces, now->pieces); k++) {
        size_t words = (size_t)1 << (c->piece_shift - c->shift - 6);
        for (size_t i = 0; c->piece[k] && i < words; i++) {
            uint64_t lost = c->piece[k][i] & ~(now->piece[k] ? now->piece[k][i] : 0);
            uint64_t sector = ((uint64_t)k << (c->piece_shift - c->shift)) + i * 64;
            if (lost && v->used_but_free++ < VERIFY_REPORT_MAX)
                verify_found(
                    v, "used_but_free",
                    "vdev %u, offset 0x%llx, size %llu: used by the checkpoint, and "
                    "neither in use now nor kept for it",
                    top->id,
                    (unsigned long long)((sector + (unsigned)__builtin_ctzll(lost)) << c->shift),
                    (unsigned long long)__builtin_popcountll(lost) << c->shift);
        }
    }
}

/* ---- The comparison ---- */

static void leak_piece(struct verify *v, const struct metaslab *m, uint64_t start, uint64_t end)
{
    pthread_mutex_lock(&v->lock);
    uint64_t n = v->leaks++;
    v->leaked_bytes += end - start;
    pthread_mutex_unlock(&v->lock);
    if (n < VERIFY_REPORT_MAX)
        verify_found(v, "leak", "leaked space: vdev %u, offset 0x%llx, size %llu", m->vdev->id,
                     (unsigned long long)start, (unsigned long long)(end - start));
}

static void leak(struct verify *v, const struct metaslab *m, uint64_t start, uint64_t end)
{
    for (uint64_t next; start < end; start = next) {
        bool gap;
        next = verify_gap(v, m->vdev->id, start, end, &gap);
        if (!gap) {
            leak_piece(v, m, start, next);
            continue;
        }
        pthread_mutex_lock(&v->lock);
        v->gaps += next - start;
        pthread_mutex_unlock(&v->lock);
    }
}

/* Takes the bits of an allocated range away; reports those that were not set. */
static int clear_range(struct verify *v, const struct metaslab *m, const struct range *r)
{
    struct claims *c = &v->claims[m->vdev->id];
    uint64_t at = r->start >> c->shift, end = r->end >> c->shift, next, leak_from = UINT64_MAX;
    for (; at < end; at = next) {
        uint64_t mask = mask_of(at, end, &next), *word = word_of(c, at);
        if (!word)
            return -ENOMEM;
        uint64_t unset = mask & ~__atomic_fetch_and(word, ~mask, __ATOMIC_RELAXED);
        if (unset == mask && leak_from != UINT64_MAX)
            continue;
        for (uint64_t s = at; unset | (leak_from != UINT64_MAX) && s < next; s++) {
            bool lost = unset >> (s & 63) & 1;
            if (lost && leak_from == UINT64_MAX)
                leak_from = s;
            if (!lost && leak_from != UINT64_MAX) {
                leak(v, m, leak_from << c->shift, s << c->shift);
                leak_from = UINT64_MAX;
            }
        }
    }
    if (leak_from != UINT64_MAX)
        leak(v, m, leak_from << c->shift, end << c->shift);
    return 0;
}

static void cleanup_set(struct rangeset **s)
{
    rangeset_free(*s);
}

static int compare_metaslab(struct verify *v, struct metaslab *m)
{
    CLEANUP(cleanup_set) struct rangeset *set = rangeset_new();
    struct range r;
    int rc = set ? 0 : -ENOMEM;
    if (rc)
        return rc;
    err_clear();
    int one = m->object ? spa_metaslab_allocated(v->spa, m, set) : 0;
    if (one == -ENOMEM)
        return one;
    if (one) {
        verify_found(v, "space_map", "%s", err_text(one));
        return 0;
    }
    uint64_t total = rangeset_total(set), header = (uint64_t)(m->map_alloc + m->log_alloc);
    pthread_mutex_lock(&v->lock);
    v->class_alloc[m->vdev->is_log ? VDEV_CLASS_LOG : m->vdev->class] += total;
    v->class_size[m->vdev->is_log ? VDEV_CLASS_LOG : m->vdev->class] += m->size;
    pthread_mutex_unlock(&v->lock);
    if (total != header)
        verify_found(v, "space_map",
                     "metaslab %u of vdev %u: its header says that %llu bytes are "
                     "allocated, its map has %llu",
                     m->id, m->vdev->id, (unsigned long long)header, (unsigned long long)total);
    rc = claim_logs_of(v, m, set);
    for (struct range *it = rangeset_first(set, &r); it && rc == 0; it = rangeset_after(set, &r))
        rc = clear_range(v, m, &r);
    return rc;
}

static int compare_job(void *arg, size_t i)
{
    struct verify *v = arg;
    struct vdev *root = v->pool->root;
    for (unsigned k = 0; k < root->children; k++) {
        struct vdev *top = root->child[k];
        size_t n = top->allocator ? alloc_metaslab_count(top) : 0;
        if (i < n)
            return compare_metaslab(v, alloc_metaslab(top, (unsigned)i));
        i -= n;
    }
    return 0;
}

/* What is used still has its bits: the space maps call it free. */
static void report_used_but_free(struct verify *v, const struct vdev *top)
{
    struct claims *c = &v->claims[top->id];
    uint64_t from = UINT64_MAX, last = 0;
    for (size_t k = 0; k < c->pieces; k++) {
        size_t words = (size_t)1 << (c->piece_shift - c->shift - 6);
        for (size_t i = 0; c->piece[k] && i < words; i++)
            for (uint64_t w = c->piece[k][i]; w; w &= w - 1) {
                uint64_t sector = ((uint64_t)k << (c->piece_shift - c->shift)) + i * 64 +
                                  (uint64_t)__builtin_ctzll(w);
                if (from != UINT64_MAX && sector == last + 1) {
                    last = sector;
                    continue;
                }
                if (from != UINT64_MAX && v->used_but_free++ < VERIFY_REPORT_MAX)
                    verify_found(v, "used_but_free",
                                 "vdev %u, offset 0x%llx, size %llu: in use, but free "
                                 "by the space map",
                                 top->id, (unsigned long long)(from << c->shift),
                                 (unsigned long long)((last + 1 - from) << c->shift));
                from = last = sector;
            }
    }
    if (from != UINT64_MAX && v->used_but_free++ < VERIFY_REPORT_MAX)
        verify_found(v, "used_but_free",
                     "vdev %u, offset 0x%llx, size %llu: in use, but free by the space map",
                     top->id, (unsigned long long)(from << c->shift),
                     (unsigned long long)((last + 1 - from) << c->shift));
}

int verify_space(struct verify *v)
{
    struct vdev *root = v->pool->root;
    size_t n = 0;
    int rc = 0;
    for (unsigned i = 0; i < root->children && rc == 0; i++) {
        struct vdev *top = root->child[i];
        if (!top->allocator || !v->claims[top->id].piece)
            continue;
        v->found_alloc += atomic_load(&v->claims[top->id].asize);
        n += alloc_metaslab_count(top);
        err_clear();
        int one = claim_checkpoint(v, top);
        if (one == -ENOMEM)
            rc = one;
        else if (one)
            verify_found(v, "space_map", "%s", err_text(one));
        if (rc == 0 && v->checkpointed)
            check_checkpoint(v, top);
    }
    if (rc == 0)
        rc = workers_each(v->pool->workers, n, compare_job, v);
    for (unsigned i = 0; i < root->children && rc == 0; i++)
        if (v->claims[root->child[i]->id].piece)
            report_used_but_free(v, root->child[i]);
    return rc;
}
