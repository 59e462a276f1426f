/*
 * What leaves have missed (spec 01 21, 05 18.1): for each a set of txgs of which blocks may be absent. It
 * grows when a write fails or a leaf is away while a txg is written, and shrinks when a resilver has
 * been there. The pool writes it into the MOS before the txg that was missed becomes the pool.
 */
#include <errno.h>

#include "util/cleanup.h"
#include "util/rangeset.h"
#include "vdev/vdev_impl.h"

/* With the lock held: the flag that spares others the lock. */
static void update_flag(struct vdev *leaf)
{
    __atomic_store_n(&leaf->lacking, leaf->dtl_lost || (leaf->dtl && rangeset_count(leaf->dtl) > 0),
                     __ATOMIC_RELEASE);
}

void vdev_set_dtl(struct vdev *leaf, struct rangeset *missing)
{
    MUTEX_GUARD(&leaf->dtl_lock);
    if (leaf->dtl)
        rangeset_free(leaf->dtl);
    leaf->dtl = missing;
    update_flag(leaf);
}

void vdev_missed(struct vdev *leaf, uint64_t from, uint64_t to)
{
    MUTEX_GUARD(&leaf->dtl_lock);
    if (!leaf->dtl)
        leaf->dtl = rangeset_new();
    if (leaf->dtl && rangeset_contains(leaf->dtl, from, to))
        return;
    if (!leaf->dtl || rangeset_add(leaf->dtl, from, to) != 0)
        leaf->dtl_lost = true;
    leaf->dtl_changed = true;
    update_flag(leaf);
}

int vdev_caught_up(struct vdev *leaf, uint64_t from, uint64_t to)
{
    MUTEX_GUARD(&leaf->dtl_lock);
    int rc = leaf->dtl ? rangeset_remove(leaf->dtl, from, to) : 0;

    leaf->dtl_changed = true;
    update_flag(leaf);
    return rc;
}

bool vdev_dtl_bounds(struct vdev *leaf, uint64_t *first, uint64_t *last)
{
    MUTEX_GUARD(&leaf->dtl_lock);
    struct range r;
    bool any = false;

    if (!leaf->dtl)
        return false;
    for (struct range *it = rangeset_first(leaf->dtl, &r); it; it = rangeset_after(leaf->dtl, &r)) {
        if (!any)
            *first = r.start;
        any = true;
        *last = r.end - 1;
    }
    return any;
}

int vdev_dtl_copy(struct vdev *leaf, struct rangeset *out)
{
    MUTEX_GUARD(&leaf->dtl_lock);
    struct range r;
    int rc = leaf->dtl_lost ? -ENOMEM : 0;

    for (struct range *it = leaf->dtl ? rangeset_first(leaf->dtl, &r) : NULL; it && rc == 0;
         it = rangeset_after(leaf->dtl, &r))
        rc = rangeset_add(out, r.start, r.end);
    leaf->dtl_changed &= rc != 0;
    return rc;
}

bool vdev_dtl_changed(struct vdev *leaf)
{
    MUTEX_GUARD(&leaf->dtl_lock);

    return leaf->dtl_changed;
}

static bool leaf_lacks(const struct vdev *leaf, uint64_t birth)
{
    if (!__atomic_load_n(&leaf->lacking, __ATOMIC_ACQUIRE))
        return false;
    MUTEX_GUARD((pthread_mutex_t *)&leaf->dtl_lock);
    return leaf->dtl_lost || (leaf->dtl && rangeset_overlaps(leaf->dtl, birth, birth + 1));
}

bool vdev_lacks(const struct vdev *v, uint64_t birth)
{
    if (v->kind->leaf)
        return leaf_lacks(v, birth);
    if (!vdev_is_mirror(v))
        return false;
    for (unsigned i = 0; i < v->children; i++)
        if (vdev_readable(v->child[i]) && !vdev_lacks(v->child[i], birth))
            return false;
    return true;
}

bool vdev_needs(struct vdev *v, uint64_t birth)
{
    if (v->kind->leaf)
        return vdev_readable(v) && leaf_lacks(v, birth) && vdev_mendable(v);
    for (unsigned i = 0; i < v->children; i++)
        if (vdev_needs(v->child[i], birth))
            return true;
    return false;
}

bool vdev_redundant(const struct vdev *leaf)
{
    return leaf->parent && vdev_spare_children(leaf->parent) > 0;
}

/* Could v be read completely without this leaf, and without what others have missed? */
static bool whole_without(const struct vdev *v, const struct vdev *leaf)
{
    unsigned bad = 0;

    if (v == leaf || !vdev_readable(v))
        return false;
    if (v->kind->leaf)
        return !__atomic_load_n(&v->lacking, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < v->children; i++)
        bad += !whole_without(v->child[i], leaf);
    return bad <= vdev_spare_children(v);
}

bool vdev_dispensable(const struct vdev *leaf)
{
    return whole_without(leaf->top, leaf);
}

/* How many of its children cannot give what was born in that txg? */
static unsigned lacking_at(const struct vdev *top, uint64_t txg)
{
    unsigned n = 0;

    for (unsigned i = 0; i < top->children; i++)
        n += !vdev_readable(top->child[i]) || vdev_lacks(top->child[i], txg);
    return n;
}

static bool next_missed(struct vdev *leaf, uint64_t pos, struct range *r)
{
    MUTEX_GUARD(&leaf->dtl_lock);

    return leaf->dtl && rangeset_next(leaf->dtl, pos, r);
}

/* Too many lack something where a range of this leaf begins. */
static int breaks(struct vdev *leaf, void *arg)
{
    const struct vdev *top = arg;
    struct range r;

    for (uint64_t pos = 0; next_missed(leaf, pos, &r); pos = r.end)
        if (lacking_at(top, r.start) > vdev_spare_children(top))
            return 1;
    return 0;
}

bool vdev_is_whole(struct vdev *top)
{
    if (lacking_at(top, 0) > vdev_spare_children(top)) /* before all ranges: the absent */
        return false;
    /* Most lack something where somebody's range begins. */
    return vdev_each_leaf(top, breaks, top) == 0;
}

/* The states of interior vdevs follow those of their children. */
void vdev_restate(struct vdev *v)
{
    bool ailing = false;

    for (unsigned i = 0; i < v->children; i++) {
        vdev_restate(v->child[i]);
        ailing |= v->child[i]->state != VDEV_HEALTHY && v->child[i]->kind != &vdev_kind_hole;
    }
    if (v->kind == &vdev_kind_root)
        vdev_set_state(v, ailing ? VDEV_DEGRADED : VDEV_HEALTHY, NULL);
    else if (!v->kind->leaf && v->kind != &vdev_kind_indirect && v->state != VDEV_CANT_OPEN)
        redundant_open(v, 0);
}

void vdev_change_state(struct vdev *leaf, enum vdev_state state, const char *why)
{
    struct vdev *root = leaf;

    vdev_set_state(leaf, state, why);
    while (root->parent)
        root = root->parent;
    vdev_restate(root);
}

bool vdev_take_failed(struct vdev *leaf)
{
    return __atomic_exchange_n(&leaf->failed, false, __ATOMIC_ACQ_REL);
}

void vdev_set_failed(struct vdev *leaf)
{
    __atomic_store_n(&leaf->failed, true, __ATOMIC_RELEASE);
}
