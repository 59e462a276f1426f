/*
 * What the MOS says about changes of the pool's shape that are under way or were the last ones, and
 * about its checkpoint, for zpool status: removal of devices (spec 05 16), expansion of raidz (02 13),
 * and the checkpoint (05 15). All of them are others' work: this version only reads such pools.
 */
#include <errno.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/zap.h"
#include "nvlist/nvlist.h"
#include "spa/spa_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "vdev/change.h"

#define MAPPING_ENTRY 24 /* bytes */

static const char *const states[] = {"none", "scanning", "finished", "canceled"};

struct number {
    const char *name;
    uint64_t n;
};

static int add_numbers(struct nvlist *l, const struct number *number, size_t n)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = nvlist_add_uint64(l, number[i].name, number[i].n);
    return rc;
}

/* A list of its own under this name, with what makes it one: a vdev's name and a state. */
static int add_list(struct nvlist *out, const char *key, const char *name, uint64_t state,
                    const struct number *number, size_t n)
{
    CLEANUP_NVLIST struct nvlist *l = nvlist_new();
    int rc = l ? nvlist_add_string(l, "name", name) : -ENOMEM;
    rc = rc ? rc : nvlist_add_string(l, "state", states[state]);
    rc = rc ? rc : add_numbers(l, number, n);
    return rc ? rc : nvlist_add_nvlist(out, key, l);
}

#define WORDS_MAX 32 /* that an entry may have */

/* The words of an entry of the MOS directory, at least n of them. -ENOENT: there is none. */
static int directory_words(struct spa *spa, const char *name, uint64_t w[WORDS_MAX], size_t n)
{
    struct dnode *dir;
    unsigned size;
    size_t count;
    int rc = dnode_hold(spa->mos, MOS_DIRECTORY, &dir);
    if (rc != 0)
        return rc;
    rc = zap_length(dir, name, &size, &count);
    if (rc == 0 && (size != 8 || count < n || count > WORDS_MAX))
        rc = -ENOENT;
    if (rc == 0)
        rc = zap_lookup(dir, name, 8, count, w);
    dnode_rele(dir);
    return rc;
}

static void print_name(struct spa *spa, const struct vdev *top, char *name, size_t cap)
{
    unsigned slot = vdev_tree_enter(spa->pool.root);
    vdev_print_name(top, name, cap);
    vdev_tree_leave(spa->pool.root, slot);
}

/* ---- Removal ---- */

static uint64_t mapping_entries(struct spa *spa, uint64_t object)
{
    uint64_t w[3] = {0};
    struct dnode *dn;
    size_t len;
    if (object == 0 || dnode_hold(spa->mos, object, &dn) != 0)
        return 0;
    if (dnode_bonus_get(dn, w, sizeof w, &len) != 0 && len < sizeof w)
        w[2] = 0;
    dnode_rele(dn);
    return w[2];
}

static int add_removal(struct spa *spa, struct nvlist *out)
{
    enum { STATE, VDEV, PREVIOUS, START, END, TO_COPY, COPIED, WORDS };
    uint64_t w[WORDS_MAX], memory = 0;
    struct vdev *root = spa->pool.root;
    char name[4096];
    if (directory_words(spa, "com.delphix:removing", w, WORDS) != 0 || w[STATE] == 0 ||
        w[STATE] >= ARRAY_LEN(states))
        return 0;
    for (unsigned i = 0; i < vdev_tops(root); i++)
        if (vdev_is_indirect(vdev_top_at(root, i)))
            memory += MAPPING_ENTRY * mapping_entries(spa, vdev_mapping_object(vdev_top_at(root, i)));
    struct vdev *top = vdev_lookup_top(root, w[VDEV]);
    if (top && !vdev_is_indirect(top))
        print_name(spa, top, name, sizeof name);
    else
        strcpy(name, "indirect");
    const struct number numbers[] = {{"vdev", w[VDEV]},       {"start", w[START]},
                                     {"end", w[END]},         {"to_copy", w[TO_COPY]},
                                     {"copied", w[COPIED]},   {"mapping_memory", memory}};
    return add_list(out, "removal", name, w[STATE], numbers, ARRAY_LEN(numbers));
}

/* ---- Expansion ---- */

static uint64_t top_word(struct spa *spa, const struct vdev *top, const char *name)
{
    uint64_t n;
    return top->zap_top && zap_get_u64(spa->mos, top->zap_top, name, &n) == 0 ? n : 0;
}

static int add_expansion(struct spa *spa, struct nvlist *out)
{
    struct vdev *root = spa->pool.root, *last = NULL;
    uint64_t started = 0;
    char name[4096];
    for (unsigned i = 0; i < vdev_tops(root); i++) {
        uint64_t start = top_word(spa, vdev_top_at(root, i), "org.openzfs:raidz_expand_start_time");
        if (start > started) {
            started = start;
            last = vdev_top_at(root, i);
        }
    }
    uint64_t state = last ? top_word(spa, last, "org.openzfs:raidz_expand_state") : 0;
    if (state == 0 || state >= ARRAY_LEN(states))
        return 0;
    struct alloc_space space = {.alloc = 0};
    if (last->allocator)
        alloc_vdev_space(last, &space);
    print_name(spa, last, name, sizeof name);
    const struct number numbers[] = {
        {"vdev", last->id},
        {"start", started},
        {"end", top_word(spa, last, "org.openzfs:raidz_expand_end_time")},
        {"to_copy", space.alloc},
        {"copied", top_word(spa, last, "org.openzfs:raidz_expand_bytes_copied")}};
    return add_list(out, "expansion", name, state, numbers, ARRAY_LEN(numbers));
}

/* ---- Checkpoint ---- */

static int add_checkpoint(struct spa *spa, struct nvlist *out)
{
    enum { TIMESTAMP = 4, WORDS = 5 }; /* of an uberblock */
    uint64_t w[WORDS_MAX];
    if (directory_words(spa, "com.delphix:zpool_checkpoint", w, WORDS) != 0)
        return 0;
    const struct number numbers[] = {{"start", w[TIMESTAMP]}, {"space", spa->pool.checkpoint_bytes}};
    return add_list(out, "checkpoint", "", 0, numbers, ARRAY_LEN(numbers));
}

int spa_shape_list(struct spa *spa, struct nvlist **out)
{
    CLEANUP_NVLIST struct nvlist *l = nvlist_new();
    int rc = l ? add_removal(spa, l) : -ENOMEM;
    rc = rc ? rc : add_expansion(spa, l);
    rc = rc ? rc : add_checkpoint(spa, l);
    if (rc == 0)
        *out = STEAL(l);
    return rc;
}
