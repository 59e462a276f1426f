/* The allocator: metaslabs of vdevs, and which top-level vdev gets a block (spec 05 6.4, 7). */
#include "pool/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/alloc_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/threads.h"

#define ROTOR_BYTES   (2u << 20) /* that an average vdev gets before the next one's turn */
#define METASLABS_MAX (1u << 20)
#define ASIZE_MAX     (0xffffffull << 9)

int alloc_init(struct pool *pool, metaslab_load_fn *load, void *arg)
{
    struct alloc *a = calloc(1, sizeof *a);

    if (!a)
        return -ENOMEM;
    a->pool = pool;
    a->load = load;
    a->arg = arg;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->back, NULL);
    pool->alloc = a;
    return 0;
}

static void metaslab_fini(struct metaslab_impl *s)
{
    set_free(&s->free);
    set_free(&s->syncing);
    set_free(&s->freed);
    set_free(&s->lent);
    set_free(&s->trim);
    for (int i = 0; i < 2; i++)
        set_free(&s->defer[i]);
    for (int i = 0; i < TXG_SLOTS; i++) {
        set_free(&s->allocating[i]);
        set_free(&s->freeing[i]);
    }
    pthread_mutex_destroy(&s->lock);
}

static void group_free(struct group *g)
{
    for (unsigned i = 0; g->impl && i < g->count; i++)
        metaslab_fini(&g->impl[i]);
    for (int i = 0; i < TXG_SLOTS; i++)
        free(g->dirty[i]);
    free(g->rotating);
    free(g->loaded);
    free(g->impl);
    free(g->metaslabs);
    pthread_cond_destroy(&g->idle);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

void alloc_fini(struct pool *pool)
{
    struct alloc *a = pool->alloc;

    if (!a)
        return;
    for (unsigned i = 0; i < pool->root->children; i++) {
        struct vdev *top = pool->root->child[i];
        if (top->allocator)
            group_free(top->allocator);
        top->allocator = NULL;
    }
    pthread_cond_destroy(&a->back);
    pthread_mutex_destroy(&a->lock);
    free(a);
    pool->alloc = NULL;
}

static void init_metaslab(struct group *g, unsigned id)
{
    struct vdev *v = g->vdev;
    uint64_t align = v->kind->alloc_align ? v->kind->alloc_align(v) : 1ull << v->ashift;
    uint64_t start = (uint64_t)id << v->metaslab_shift, end = start + (1ull << v->metaslab_shift);
    struct metaslab *m = &g->metaslabs[id];
    struct metaslab_impl *s = &g->impl[id];

    *m = (struct metaslab){.vdev = v, .id = id, .impl = s};
    m->start = ROUND_UP(start, align);
    m->size = m->start < end ? ROUND_DOWN(end - m->start, align) : 0;
    pthread_mutex_init(&s->lock, NULL);
    atomic_store(&s->frag, FRAG_UNKNOWN);
    atomic_store(&s->room, m->size);
    g->size += m->size;
}

static int group_new(struct group **out, struct alloc *a, struct vdev *top, unsigned count)
{
    struct group *g = calloc(1, sizeof *g);
    bool whole;

    if (!g)
        return -ENOMEM;
    g->vdev = top;
    g->alloc = a;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->idle, NULL);
    g->metaslabs = calloc(count, sizeof *g->metaslabs);
    g->impl = calloc(count, sizeof *g->impl);
    g->rotating = bitmap_new(count);
    g->loaded = bitmap_new(count);
    whole = g->metaslabs && g->impl && g->rotating && g->loaded;
    for (int i = 0; i < TXG_SLOTS; i++)
        whole = (g->dirty[i] = bitmap_new(count)) && whole;
    if (!whole) {
        group_free(g);
        return -ENOMEM;
    }
    *out = g;
    return 0;
}

int alloc_add_vdev(struct pool *pool, struct vdev *top)
{
    uint64_t count = top->metaslab_shift ? top->asize >> top->metaslab_shift : 0;
    struct group *g;
    int rc;

    if (count == 0 || count > METASLABS_MAX)
        return err_set(EINVAL, "vdev %u: %llu metaslabs of 2^%u bytes are impossible", top->id,
                       (unsigned long long)count, top->metaslab_shift);
    rc = group_new(&g, pool->alloc, top, (unsigned)count);
    if (rc)
        return rc;
    g->count = (unsigned)count;
    for (unsigned i = 0; i < g->count; i++)
        init_metaslab(g, i);
    /* Threads that allocate at the same time spread out only where there is much to spread over. */
    g->lane_sets = MAX(1u, MIN(MIN((unsigned)LANE_SETS, thread_cpu_count()), g->count / 32));
    for (unsigned set = 0; set < LANE_SETS; set++)
        for (unsigned i = 0; i < LANES; i++)
            atomic_store(&g->lanes[set][i].current, NO_METASLAB);
    top->allocator = g;
    return 0;
}

unsigned alloc_metaslab_count(const struct vdev *top)
{
    const struct group *g = top->allocator;

    return g ? g->count : 0;
}

struct metaslab *alloc_metaslab(const struct vdev *top, unsigned id)
{
    struct group *g = top->allocator;

    return g && id < g->count ? &g->metaslabs[id] : NULL;
}

/* The group of top-level vdev id if blocks of this class may go there now. */
static struct group *candidate(const struct pool *pool, unsigned id, enum vdev_class class)
{
    struct vdev *top = vdev_top_at(pool->root, id);
    struct group *g = top->allocator;

    if (top->class != class || !group_usable(g))
        return NULL;
    group_prepare(g);
    return g;
}

static uint64_t room_of(struct group *g)
{
    uint64_t used = atomic_load(&g->allocated);

    return used < g->size ? g->size - used : 0;
}

/* How many bytes vdev id gets in its turn: in proportion to its free space. */
static uint64_t quota(const struct pool *pool, struct group *g, enum vdev_class class)
{
    unsigned __int128 total = 0;
    unsigned n = 0;

    if (class == VDEV_CLASS_LOG)
        return 1;
    for (unsigned i = 0; i < vdev_tops(pool->root); i++) {
        struct group *other = candidate(pool, i, class);
        if (other) {
            total += room_of(other);
            n++;
        }
    }
    if (total == 0)
        return ROTOR_BYTES;
    return (uint64_t)MAX((unsigned __int128)BLOCK_OLD_MAX,
                         (unsigned __int128)ROTOR_BYTES * room_of(g) * n / total);
}

/* The vdev where a block of this class starts to look for space. */
static unsigned rotor_turn(struct pool *pool, enum vdev_class class, uint64_t size)
{
    struct alloc *a = pool->alloc;
    struct rotor *r = &a->rotor[class];
    unsigned n = vdev_tops(pool->root);

    MUTEX_GUARD(&a->lock);
    if (r->left == 0 || !candidate(pool, r->at % n, class)) {
        unsigned at = r->at % n;
        for (unsigned i = 1; i <= n; i++) {
            struct group *g = candidate(pool, (at + i) % n, class);
            if (g) {
                r->at = (at + i) % n;
                r->left = quota(pool, g, class);
                break;
            }
        }
    }
    r->left -= MIN(r->left, size);
    return r->at % n;
}

struct request {
    struct pool *pool;
    uint64_t txg, psize;
    bool metadata;
    enum vdev_class class;
    struct blkptr *bp;
};

/* One copy, on the first vdev from start on that has room. */
static int take_copy(const struct request *r, int copy, unsigned start, bool hard)
{
    unsigned n = vdev_tops(r->pool->root);

    for (unsigned i = 0; i < n; i++) {
        unsigned id = (start + i) % n;
        struct group *g = candidate(r->pool, id, r->class);
        uint64_t asize, offset;
        int rc;

        if (!g)
            continue;
        asize = vdev_psize_to_asize(g->vdev, r->psize, r->txg);
        if (asize > ASIZE_MAX)
            continue;
        rc = group_take(g, r->txg, asize, r->metadata, r->bp, copy, hard, &offset);
        if (rc == 0) {
            atomic_fetch_add(&g->allocated, asize);
            dva_set(r->bp, copy, id, offset, asize, false);
            return 0;
        }
        if (rc != -ENOSPC)
            return rc;
    }
    return -ENOSPC;
}

int alloc_blocks_class(struct pool *pool, uint64_t txg, uint64_t psize, int copies, bool metadata,
                       enum vdev_class class, struct blkptr *bp)
{
    struct request r = {pool, txg, psize, metadata, class, bp};
    unsigned start = rotor_turn(pool, class, psize);
    int rc;

    memset(bp->w, 0, 2 * BLKPTR_DVAS * sizeof bp->w[0]);
    for (int i = 0; i < copies; i++) {
        rc = take_copy(&r, i, start, false);
        if (rc == -ENOSPC && i > 0)
            rc = take_copy(&r, i, start, true);
        if (rc == -ENOSPC && i > 0)
            break; /* fewer copies are better than no block */
        if (rc) {
            alloc_undo(pool, txg, bp);
            return rc;
        }
        start = (unsigned)dva_vdev(bp, i) + 1;
    }
    return 0;
}

int alloc_blocks(struct pool *pool, uint64_t txg, uint64_t psize, int copies, bool metadata,
                 struct blkptr *bp)
{
    int rc = -ENOSPC;

    if (metadata)
        rc = alloc_blocks_class(pool, txg, psize, copies, metadata, VDEV_CLASS_SPECIAL, bp);
    while (rc == -ENOSPC) {
        rc = alloc_blocks_class(pool, txg, psize, copies, metadata, VDEV_CLASS_NORMAL, bp);
        if (rc == -ENOSPC && !alloc_wait_for_loans(pool->alloc))
            break;
    }
    return rc;
}
