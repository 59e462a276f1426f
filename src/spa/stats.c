/* Numbers and states of the live pool, for zpool list, status and get. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dsl/dataset.h"
#include "nvlist/nvlist.h"
#include "pool/txg.h"
#include "spa/scan.h"
#include "spa/spa_impl.h"
#include "spa/upkeep.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "vdev/change.h"
#include "vdev/vdev.h"

/* The pool's size counts special and dedup vdevs too, what can be written by people does not. */
static void add_classes(struct spa *spa, struct spa_stats *out)
{
    struct vdev *root = spa->pool.root;
    for (unsigned i = 0; i < vdev_tops(root); i++) {
        struct vdev *top = vdev_top_at(root, i);
        struct alloc_space s;
        if (top->class != VDEV_CLASS_SPECIAL && top->class != VDEV_CLASS_DEDUP)
            continue;
        alloc_vdev_space(top, &s);
        out->size += s.size;
        out->alloc += s.alloc;
        out->free += s.size - MIN(s.alloc, s.size);
    }
}

void spa_stats(struct spa *spa, struct spa_stats *out)
{
    struct alloc_space space;
    memset(out, 0, sizeof *out);
    alloc_space(&spa->pool, &space);
    out->guid = spa->pool.guid;
    out->size = space.size;
    out->alloc = space.alloc;
    out->free = space.size - MIN(space.alloc, space.size);
    add_classes(spa, out);
    out->dspace = space.dspace;
    out->fragmentation = space.fragmentation;
    out->freeing = dsl_freeing(spa->dsl);
    out->txg = txg_synced_number(spa->pool.txg);
    pthread_mutex_lock(&spa->lock);
    out->time = spa->ub.timestamp;
    pthread_mutex_unlock(&spa->lock);
    out->suspended = txg_suspended(spa->pool.txg) != 0;
    out->version = spa->version;
    snprintf(out->hostname, sizeof out->hostname, "%s", spa->hostname);
}

static void free_nvlist(struct nvlist **l)
{
    nvlist_free(*l);
}

static const char *class_name(const struct vdev *v)
{
    static const char *const names[] = {"normal", "log", "special", "dedup"};
    return names[(v->top ? v->top : v)->class];
}

static bool is_gone(const struct vdev *v)
{
    return v->kind->leaf && v->path && v->state == VDEV_CANT_OPEN && !v->went_away;
}

static bool lacks_something(struct vdev *v)
{
    uint64_t first, last;
    return v->kind->leaf && vdev_redundant(v) && vdev_readable(v) && vdev_dtl_bounds(v, &first, &last);
}

/* Of a device that lacks something. */
static const char *how_lacking(struct spa *spa, struct vdev *leaf)
{
    struct spa_scan_stats st;
    if (!spa_scan_resilvering(spa, leaf))
        return "(awaiting resilver)";
    spa_scan_stats(spa, &st);
    return st.repaired > 0 ? "(resilvering)" : NULL;
}

static int upkeep_facts(struct vdev *v, struct spa *spa, struct nvlist *l)
{
    static const char *const names[VDEV_UPKEEP_KINDS] = {[VDEV_TRIM] = "trim",
                                                         [VDEV_INITIALIZE] = "initialize"};
    static const char *const states[] = {"none", "active", "canceled", "suspended", "complete"};
    int rc = nvlist_add_uint64(l, "trim_unsupported", !vdev_can_trim(v));
    for (unsigned k = 0; k < VDEV_UPKEEP_KINDS && rc == 0; k++) {
        struct spa_upkeep_status st;
        char key[64];
        spa_upkeep_status(spa, v, (enum vdev_upkeep_kind)k, &st);
        snprintf(key, sizeof key, "%s_state", names[k]);
        rc = nvlist_add_string(l, key, states[st.state]);
        const struct {
            const char *suffix;
            uint64_t n;
        } numbers[] = {{"time", st.time}, {"done", st.done}, {"total", st.total}};
        for (size_t i = 0; i < ARRAY_LEN(numbers) && rc == 0; i++) {
            snprintf(key, sizeof key, "%s_%s", names[k], numbers[i].suffix);
            rc = nvlist_add_uint64(l, key, numbers[i].n);
        }
    }
    return rc;
}

static int vdev_facts(struct vdev *v, struct spa *spa, struct nvlist *l)
{
    bool lacking = lacks_something(v);
    struct alloc_space space = {.fragmentation = ~0u};
    if (v->top == v && v->allocator)
        alloc_vdev_space(v, &space);
    struct vdev_stats now, *s = &now;
    vdev_stats_read(v, s);
    char name[4096], was[4128];
    const char *why = lacking ? how_lacking(spa, v) : v->removing ? "(removing)" : v->why;
    vdev_print_name(v, name, sizeof name);
    if (is_gone(v)) { /* its path may be another device's by now */
        snprintf(was, sizeof was, "was %s", name);
        snprintf(name, sizeof name, "%llu", (unsigned long long)v->guid);
        why = was;
    }
    return nvlist_add_string(l, "name", v->parent ? name : spa->pool.name) ||
                   nvlist_add_string(l, "type", v->kind->type) ||
                   nvlist_add_uint64(l, "guid", v->guid) ||
                   nvlist_add_string(l, "state", vdev_state_name(v->state)) ||
                   nvlist_add_string(l, "why", why ? why : "") ||
                   nvlist_add_uint64(l, "read_errors", s->read_errors) ||
                   nvlist_add_uint64(l, "write_errors", s->write_errors) ||
                   nvlist_add_uint64(l, "checksum_errors", s->checksum_errors) ||
                   nvlist_add_uint64(l, "lacking", lacking) ||
                   nvlist_add_uint64(l, "read_ops", s->ops[0]) ||
                   nvlist_add_uint64(l, "write_ops", s->ops[1]) ||
                   nvlist_add_uint64(l, "read_bytes", s->bytes[0]) ||
                   nvlist_add_uint64(l, "write_bytes", s->bytes[1]) ||
                   nvlist_add_uint64(l, "size", space.size) ||
                   nvlist_add_uint64(l, "alloc", space.alloc) ||
                   nvlist_add_uint64(l, "asize", v->asize) ||
                   nvlist_add_uint64(l, "psize", v->psize) ||
                   nvlist_add_uint64(l, "dspace", space.dspace) ||
                   nvlist_add_string(l, "path", v->path ? v->path : "") ||
                   nvlist_add_uint64(l, "ashift", v->ashift) ||
                   nvlist_add_uint64(l, "is_log", v->is_log) ||
                   nvlist_add_string(l, "class", class_name(v)) ||
                   nvlist_add_uint64(l, "frag", space.fragmentation)
               ? -ENOMEM
               : 0;
}

static int vdev_list(struct vdev *v, struct spa *spa, struct nvlist **out)
{
    CLEANUP(free_nvlist) struct nvlist *l = nvlist_new();
    CLEANUP_FREE struct nvlist **child = calloc(v->children ? v->children : 1, sizeof *child);
    int rc = l && child ? vdev_facts(v, spa, l) : -ENOMEM;
    if (rc == 0 && v->kind->leaf)
        rc = upkeep_facts(v, spa, l);
    unsigned made = 0;
    while (rc == 0 && made < v->children) {
        rc = vdev_list(v->child[made], spa, &child[made]);
        made += rc == 0;
    }
    if (rc == 0 && v->children > 0)
        rc = nvlist_add_nvlist_array(l, "children", child, v->children);
    for (unsigned i = 0; i < made; i++)
        nvlist_free(child[i]);
    if (rc == 0)
        *out = STEAL(l);
    return rc;
}

int spa_vdev_list(struct spa *spa, struct nvlist **out)
{
    CLEANUP(free_nvlist) struct nvlist *l = NULL;
    unsigned slot = vdev_tree_enter(spa->pool.root);
    int rc = vdev_list(spa->pool.root, spa, &l);
    rc = rc ? rc : spa_aux_list(spa, l);
    vdev_tree_leave(spa->pool.root, slot);
    if (rc == 0)
        *out = STEAL(l);
    return rc;
}

int spa_config(struct spa *spa, struct nvlist **out)
{
    unsigned slot = vdev_tree_enter(spa->pool.root);
    int rc = spa_config_mos(spa, txg_synced_number(spa->pool.txg), out);
    vdev_tree_leave(spa->pool.root, slot);
    return rc;
}
