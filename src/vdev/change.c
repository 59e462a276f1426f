/*
 * Changing the shape of a tree (vdev/change.h). The struct of a top-level vdev never moves: when a
 * disk becomes a mirror, the struct becomes the mirror and what the disk was moves down into a new
 * one; when a mirror has one device left, that moves up.
 */
#include "vdev/change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/rangeset.h"
#include "vdev/gate_impl.h"
#include "vdev/leaf_impl.h"
#include "vdev/size.h"
#include "vdev/vdev_impl.h"

static struct vdev *root_of(struct vdev *v)
{
    while (v->parent)
        v = v->parent;
    return v;
}

static bool is_top(const struct vdev *v)
{
    return v->parent && v->parent->kind == &vdev_kind_root;
}

/* ---- Devices ---- */

uint64_t vdev_leaf_needs(const struct vdev *leaf)
{
    const struct vdev *top = leaf->top;
    uint64_t asize = top->asize;

    if (top->metaslab_shift) /* what is behind the last metaslab is not used */
        asize = asize >> top->metaslab_shift << top->metaslab_shift;
    return top->kind == &vdev_kind_raidz ? (asize + top->children - 1) / top->children : asize;
}

int vdev_bring_back(struct vdev *leaf, struct vdev_opened *o)
{
    leaf->device = o->device;
    if (!leaf->private && leaf_queue_new(leaf) != 0) {
        leaf->device = NULL;
        return -ENOMEM;
    }
    o->device = NULL;
    leaf->psize = o->psize;
    leaf->offline = leaf->offline_for_now = leaf->faulted = leaf->not_present = false;
    leaf->went_away = false;
    free(leaf->in_use);
    leaf->in_use = NULL;
    vdev_take_failed(leaf);
    vdev_change_state(leaf, VDEV_HEALTHY, NULL);
    return 0;
}

void vdev_put_away(struct vdev *leaf, enum vdev_state state, const char *why)
{
    vdev_change_state(leaf, state, why);
    leaf->kind->close(leaf);
}

/* ---- Lists of children ---- */

/* The old list, which others may still be looking at, is kept. Readers see the list before the
 * number. */
int vdev_append_top(struct vdev *root, struct vdev *top)
{
    unsigned n = root->children;
    struct vdev **list = NULL, **old = root->child;

    if (gate_retire_room(root->gate) != 0 || !(list = malloc((n + 1) * sizeof *list)))
        return -ENOMEM;
    if (n > 0)
        memcpy(list, old, n * sizeof *list);
    list[n] = top;
    top->id = n;
    top->parent = root;
    top->gate = root->gate;
    vdev_set_top(top, top);
    __atomic_store_n(&root->child, list, __ATOMIC_RELEASE);
    __atomic_store_n(&root->children, n + 1, __ATOMIC_RELEASE);
    if (old)
        gate_retire(root->gate, old);
    vdev_restate(root);
    return 0;
}

static void adopt(struct vdev *parent, unsigned id, struct vdev *child)
{
    parent->child[id] = child;
    child->id = id;
    child->parent = parent;
    child->gate = NULL;
    vdev_set_top(child, parent->top);
}

/* ---- Up and down ---- */

/* The set of missed txgs goes along; each struct keeps its own lock. */
static void move_dtl(struct vdev *to, struct vdev *from)
{
    to->dtl = STEAL(from->dtl);
    to->dtl_changed = from->dtl_changed;
    to->dtl_lost = from->dtl_lost;
    __atomic_store_n(&to->lacking, from->lacking, __ATOMIC_RELEASE);
    from->dtl_changed = from->dtl_lost = false;
    __atomic_store_n(&from->lacking, false, __ATOMIC_RELEASE);
}

static void move_leaf(struct vdev *to, struct vdev *from)
{
    to->device = STEAL(from->device);
    to->path = STEAL(from->path);
    to->in_use = STEAL(from->in_use);
    to->private = STEAL(from->private);
    to->psize = from->psize;
    to->dtl_object = from->dtl_object;
    to->resilver_txg = from->resilver_txg;
    move_dtl(to, from);
    __atomic_store_n(&to->failed, vdev_take_failed(from), __ATOMIC_RELEASE);
    to->whole_disk = from->whole_disk;
    to->offline = from->offline;
    to->offline_for_now = from->offline_for_now;
    to->faulted = from->faulted;
    to->faulted_by_hand = from->faulted_by_hand;
    to->not_present = from->not_present;
    to->is_spare = from->is_spare;
    to->went_away = from->went_away;
    from->dtl_object = from->resilver_txg = from->psize = 0;
    from->whole_disk = from->offline = from->offline_for_now = from->faulted = false;
    from->faulted_by_hand = from->not_present = from->is_spare = false;
    from->went_away = false;
}

/* What a vdev is, but for its place and its guid: kind, device, children, counters. `to` is empty. */
static void move_self(struct vdev *to, struct vdev *from)
{
    move_leaf(to, from);
    to->create_txg = from->create_txg;
    to->zap_leaf = from->zap_leaf;
    from->zap_leaf = 0;
    nvlist_free(to->other);
    to->other = STEAL(from->other);
    to->deep = from->deep;
    to->stats = from->stats;
    memset(&from->stats, 0, sizeof from->stats);
    to->child = STEAL(from->child);
    to->children = from->children;
    from->children = 0;
    for (unsigned i = 0; i < to->children; i++)
        adopt(to, i, to->child[i]);
    __atomic_store_n(&to->kind, from->kind, __ATOMIC_RELEASE);
    vdev_set_state(to, from->state, from->why);
}

/* ---- Joining ---- */

/* Into the mirror that it is in already. */
static int widen(struct vdev *mirror, struct vdev *new_leaf)
{
    struct vdev **list = realloc(mirror->child, (mirror->children + 1) * sizeof *list);

    if (!list)
        return -ENOMEM;
    mirror->child = list;
    adopt(mirror, mirror->children++, new_leaf);
    return 0;
}

/* A pair in the place of *leaf. */
static int pair(struct vdev **leaf, struct vdev *new_leaf, const struct vdev_kind *kind, uint64_t guid)
{
    struct vdev *old = *leaf, *fresh = vdev_new(is_top(old) ? old->kind : kind), *v = fresh;
    struct vdev **list = calloc(2, sizeof *list);

    if (!fresh || !list) {
        free(list);
        vdev_free(fresh);
        return -ENOMEM;
    }
    if (is_top(old)) {
        fresh->guid = old->guid;
        move_self(fresh, old);
        v = old;
        old = fresh;
        __atomic_store_n(&v->kind, kind, __ATOMIC_RELEASE);
    } else {
        adopt(old->parent, old->id, v);
    }
    v->child = list;
    v->children = 2;
    v->guid = guid;
    v->create_txg = old->create_txg;
    adopt(v, 0, old);
    adopt(v, 1, new_leaf);
    vdev_set_state(v, VDEV_CLOSED, NULL); /* its children tell */
    *leaf = old;
    return 0;
}

int vdev_join(struct vdev **leaf, struct vdev *new_leaf, const char *type, uint64_t guid)
{
    const struct vdev_kind *kind = vdev_kind_find(type);
    struct vdev *parent = (*leaf)->parent, *root = root_of(parent);
    bool inside = kind == &vdev_kind_mirror && parent->kind == kind;
    int rc = inside ? widen(parent, new_leaf) : pair(leaf, new_leaf, kind, guid);

    if (rc == 0)
        vdev_restate(root);
    return rc;
}

/* ---- Parting ---- */

/* The memory of a vdev that is no more in the tree. There is room for it. */
static void retire(struct vdev_gate *gate, struct vdev *v)
{
    vdev_fini(v);
    gate_retire(gate, v);
}

/* The only child takes the place of v. */
static struct vdev *vanish(struct vdev_gate *gate, struct vdev *v)
{
    struct vdev *heir = v->child[0];

    if (is_top(v)) {
        free(v->child);
        v->child = NULL;
        v->children = 0;
        move_self(v, heir);
        retire(gate, heir);
        return v;
    }
    v->children = 0;
    adopt(v->parent, v->id, heir);
    retire(gate, v);
    return heir;
}

int vdev_part(struct vdev *leaf, struct vdev **heir)
{
    struct vdev *v = leaf->parent, *root = root_of(v);

    if (gate_retire_room(root->gate) != 0)
        return -ENOMEM;
    for (unsigned i = leaf->id; i + 1 < v->children; i++)
        adopt(v, i, v->child[i + 1]);
    v->children--;
    leaf->parent = NULL;
    leaf->top = leaf;
    *heir = v->children == 1 ? vanish(root->gate, v) : v;
    vdev_restate(root);
    return 0;
}
