/* The shape of the vdev tree: making, joining, walking, freeing. */
#include <errno.h>
#include <stdlib.h>

#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/err.h"
#include "vdev/gate_impl.h"
#include "vdev/vdev_impl.h"

struct vdev *vdev_new(const struct vdev_kind *kind)
{
    struct vdev *v = calloc(1, sizeof *v);

    if (v) {
        v->kind = kind;
        v->deflate_ratio = 512;
        pthread_mutex_init(&v->dtl_lock, NULL);
        vdev_set_state(v, VDEV_CLOSED, NULL);
    }
    if (v && kind == &vdev_kind_root && !(v->gate = gate_new())) {
        vdev_free(v);
        return NULL;
    }
    return v;
}

void vdev_fini(struct vdev *v)
{
    for (unsigned i = 0; i < v->children; i++)
        vdev_free(v->child[i]);
    if (v->kind->close)
        v->kind->close(v);
    if (v->kind->free)
        v->kind->free(v);
    vdev_set_dtl(v, NULL);
    if (v->kind == &vdev_kind_root)
        gate_free(v->gate);
    pthread_mutex_destroy(&v->dtl_lock);
    free(v->child);
    free(v->path);
    free(v->in_use);
    nvlist_free(v->other);
}

void vdev_free(struct vdev *v)
{
    if (v)
        vdev_fini(v);
    free(v);
}

void vdev_tree_free(struct vdev *root)
{
    vdev_free(root);
}

void vdev_set_top(struct vdev *v, struct vdev *top)
{
    v->top = top;
    for (unsigned i = 0; i < v->children; i++)
        vdev_set_top(v->child[i], top);
}

int vdev_add_child(struct vdev *parent, struct vdev *child)
{
    struct vdev **list;

    if (parent->children > VDEV_ID_MAX)
        return err_set(E2BIG, "too many vdevs");
    list = realloc(parent->child, (parent->children + 1) * sizeof *list);
    if (!list)
        return -ENOMEM;
    parent->child = list;
    list[parent->children] = child;
    child->id = parent->children++;
    child->parent = parent;
    child->gate = parent->kind == &vdev_kind_root ? parent->gate : NULL;
    /* Below a vdev that is not yet in a tree, top is set when that one is added to the root. */
    vdev_set_top(child, parent->parent == NULL && parent->kind == &vdev_kind_root ? child : parent->top);
    return 0;
}

static uint64_t now(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void vdev_stats_read(const struct vdev *v, struct vdev_stats *out)
{
    for (int i = 0; i < 2; i++) {
        out->ops[i] = now(&v->stats.ops[i]);
        out->bytes[i] = now(&v->stats.bytes[i]);
    }
    out->read_errors = now(&v->stats.read_errors);
    out->write_errors = now(&v->stats.write_errors);
    out->checksum_errors = now(&v->stats.checksum_errors);
}

uint64_t vdev_guid_sum(const struct vdev *root)
{
    uint64_t sum = root->guid;

    for (unsigned i = 0; i < root->children; i++)
        sum += vdev_guid_sum(root->child[i]);
    return sum;
}

const char *vdev_state_name(enum vdev_state s)
{
    static const char *const names[] = {"UNAVAIL", "OFFLINE",  "REMOVED", "UNAVAIL",
                                        "FAULTED", "DEGRADED", "ONLINE"};

    return (unsigned)s < ARRAY_LEN(names) ? names[s] : "UNKNOWN";
}

struct vdev *vdev_lookup_top(const struct vdev *root, uint64_t id)
{
    return id < vdev_tops(root) ? vdev_top_at(root, (unsigned)id) : NULL;
}

int vdev_each_leaf(struct vdev *v, int (*fn)(struct vdev *leaf, void *arg), void *arg)
{
    if (v->kind->leaf)
        return fn(v, arg);
    for (unsigned i = 0; i < v->children; i++) {
        int rc = vdev_each_leaf(v->child[i], fn, arg);
        if (rc)
            return rc;
    }
    return 0;
}
