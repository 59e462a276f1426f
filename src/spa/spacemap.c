/*
 * Space maps as MOS objects (spec 05 2, 3): reading one into a set when the allocator wants the
 * metaslab, and appending what a pass of the txg allocated and freed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/tx.h"
#include "dmu/zap.h"
#include "spa/spa_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/rangeset.h"
#include "vdev/vdev.h"

#define HEADER_V0        24
#define HEADER_HISTOGRAM 320
#define MAP_BLOCK        16384
#define MAP_INDIRECT     14
#define READ_CHUNK       (128u << 10)
#define MAP_LENGTH_MAX   (1ull << 40)

/* Calls apply for successive pieces of the map; a piece ends at a block border, which no two-word
 * entry crosses. */
static int each_piece(struct dnode *dn, uint64_t length,
                      int (*apply)(void *arg, const void *words, uint64_t n), void *arg)
{
    uint64_t step = MAX((uint64_t)READ_CHUNK, dnode_block_size(dn));
    step = ROUND_DOWN(step, dnode_block_size(dn));
    CLEANUP_FREE unsigned char *words = malloc(step);
    if (!words)
        return -ENOMEM;
    int rc = 0;
    for (uint64_t pos = 0; pos < length && rc == 0; pos += step) {
        uint64_t n = MIN(step, length - pos);
        rc = dnode_read(dn, pos, words, n);
        if (rc == 0)
            rc = apply(arg, words, n);
    }
    return rc;
}

struct load {
    struct metaslab *m;
    struct rangeset *allocated;
};

static int load_piece(void *arg, const void *words, uint64_t n)
{
    struct load *l = arg;
    return spacemap_apply(l->allocated, l->m->start, l->m->size, l->m->vdev->ashift, words, n,
                          BYTES_HOST_BIG);
}

static int merge_unflushed(struct spa *spa, struct metaslab *m, struct rangeset *allocated)
{
    struct rangeset *allocs = spa_logmap_set(spa, m, false), *frees = spa_logmap_set(spa, m, true);
    struct range r;
    int rc = 0;
    for (struct range *it = allocs ? rangeset_first(allocs, &r) : NULL; it && rc == 0;
         it = rangeset_after(allocs, &r))
        rc = rangeset_add_exact(allocated, r.start, r.end);
    for (struct range *it = frees ? rangeset_first(frees, &r) : NULL; it && rc == 0;
         it = rangeset_after(frees, &r))
        rc = rangeset_remove_exact(allocated, r.start, r.end);
    return rc == -EEXIST || rc == -ENOENT ? -EBADE : rc;
}

int spa_spacemap_load(void *arg, struct metaslab *m, struct rangeset *allocated)
{
    struct spa *spa = arg;
    int rc = 0;
    if (m->object != 0) {
        struct dnode *dn;
        struct load l = {m, allocated};
        rc = dnode_hold(spa->mos, m->object, &dn);
        if (rc == 0) {
            rc = each_piece(dn, m->map_length, load_piece, &l);
            dnode_rele(dn);
        }
    }
    if (rc == 0)
        rc = merge_unflushed(spa, m, allocated);
    return err_prefix(rc, "space map of metaslab %u of vdev %u", m->id, m->vdev->id);
}

int spa_metaslab_allocated(struct spa *spa, struct metaslab *m, struct rangeset *allocated)
{
    return spa_spacemap_load(spa, m, allocated);
}

/* Reads the header of a metaslab's map into m. */
static int read_header(struct spa *spa, struct metaslab *m)
{
    unsigned char h[HEADER_HISTOGRAM] = {0};
    size_t len;
    struct dnode *dn;
    int rc = dnode_hold(spa->mos, m->object, &dn);
    if (rc != 0)
        return rc;
    rc = dnode_bonus_get(dn, h, sizeof h, &len);
    if (rc == 0 && len < HEADER_V0)
        rc = -EBADE;
    dnode_rele(dn);
    if (rc != 0)
        return rc;
    uint64_t words[HEADER_HISTOGRAM / 8];
    memcpy(words, h, sizeof h);
    m->map_length = words[1];
    m->map_alloc = (int64_t)words[2];
    m->header_size = len >= HEADER_HISTOGRAM ? HEADER_HISTOGRAM : HEADER_V0;
    memcpy(m->histogram, words + 8, sizeof m->histogram);
    if (m->map_length % 8 != 0 || m->map_length > MAP_LENGTH_MAX || m->map_alloc < 0 ||
        (uint64_t)m->map_alloc > m->size)
        return -EBADE;
    return 0;
}

static int open_vdev(struct spa *spa, struct vdev *top)
{
    unsigned n = alloc_metaslab_count(top);
    CLEANUP_FREE uint64_t *objects = calloc(n ? n : 1, sizeof *objects);
    if (!objects)
        return -ENOMEM;
    struct dnode *dn;
    int rc = dnode_hold(spa->mos, top->metaslab_array, &dn);
    if (rc != 0)
        return err_prefix(rc, "metaslab array of vdev %u", top->id);
    rc = dnode_read(dn, 0, objects, n * sizeof *objects);
    dnode_rele(dn);
    for (unsigned i = 0; i < n && rc == 0; i++) {
        struct metaslab *m = alloc_metaslab(top, i);
        m->object = objects[i];
        if (m->object != 0)
            rc = err_prefix(read_header(spa, m), "space map of metaslab %u of vdev %u", i, top->id);
    }
    return rc;
}

/* Adds what a checkpoint keeps on this vdev: its map's alloc is minus the bytes (05 15). */
static int add_checkpoint(struct spa *spa, struct vdev *top)
{
    uint64_t object, header[3] = {0};
    struct dnode *dn;
    size_t len;
    int rc = top->zap_top ? zap_get_u64(spa->mos, top->zap_top, "com.delphix:pool_checkpoint_sm", &object)
                          : -ENOENT;
    if (rc == 0)
        rc = dnode_hold(spa->mos, object, &dn);
    if (rc != 0)
        return rc == -ENOENT ? 0 : rc;
    rc = dnode_bonus_get(dn, header, sizeof header, &len);
    dnode_rele(dn);
    if ((rc == 0 || rc == -ERANGE) && (int64_t)header[2] < 0)
        spa->pool.checkpoint_bytes += 0 - header[2];
    return rc == -ERANGE ? 0 : rc;
}

/* Makes the space of all top-level vdevs known to the allocator. */
int spa_spacemap_open(struct spa *spa)
{
    struct vdev *root = spa->pool.root;
    int rc = alloc_init(&spa->pool, spa_spacemap_load, spa);
    for (unsigned i = 0; i < root->children && rc == 0; i++) {
        struct vdev *top = root->child[i];
        if (top->metaslab_array == 0 || top->asize == 0)
            continue;
        rc = alloc_add_vdev(&spa->pool, top);
        if (rc == 0)
            rc = open_vdev(spa, top);
        if (rc == 0)
            rc = add_checkpoint(spa, top);
    }
    return rc;
}

/* ---- Writing ---- */

static void free_set(struct rangeset **set)
{
    if (*set)
        rangeset_free(*set);
}

static int create_map(struct spa *spa, struct metaslab *m, struct tx *tx)
{
    bool histogram = feature_enabled(spa->dsl, FEATURE_SPACEMAP_HISTOGRAM);
    struct object_params p = {.type = OT_SPACE_MAP,
                              .bonus_type = OT_SPACE_MAP_HEADER,
                              .bonus_len = histogram ? HEADER_HISTOGRAM : HEADER_V0,
                              .block_size = MAP_BLOCK,
                              .indirect_shift = MAP_INDIRECT};
    struct dnode *map, *array;
    int rc = object_create(spa->mos, 0, &p, tx, &map);
    if (rc != 0)
        return rc;
    m->object = dnode_object(map);
    m->header_size = p.bonus_len;
    dnode_rele(map);
    if (histogram)
        rc = feature_change(spa->dsl, FEATURE_SPACEMAP_HISTOGRAM, 1, tx);
    if (rc == 0)
        rc = dnode_hold(spa->mos, m->vdev->metaslab_array, &array);
    if (rc == 0) {
        rc = dnode_write(array, m->id * sizeof(uint64_t), &m->object, sizeof m->object, tx);
        dnode_rele(array);
    }
    return rc;
}

int spa_spacemap_append(struct spa *spa, struct metaslab *m, const struct rangeset *set, bool is_free,
                        unsigned pass, struct tx *tx)
{
    if (rangeset_count(set) == 0)
        return 0;
    struct dnode *dn;
    int rc = dnode_hold(spa->mos, m->object, &dn);
    if (rc != 0)
        return rc;
    CLEANUP_FREE unsigned char *words = NULL;
    uint64_t n = 0;
    rc = spacemap_encode(set, is_free, m->start, m->vdev->ashift, tx->txg, pass,
                         feature_refs(spa->dsl, FEATURE_SPACEMAP_V2) > 0, dnode_block_size(dn),
                         m->map_length, &words, &n);
    if (rc == 0)
        rc = dnode_write(dn, m->map_length, words, n, tx);
    if (rc == 0)
        m->map_length += n;
    dnode_rele(dn);
    return rc;
}

/* Writes object, length, alloc and histogram into the bonus. */
int spa_spacemap_header(struct spa *spa, struct metaslab *m, struct tx *tx)
{
    uint64_t words[HEADER_HISTOGRAM / 8] = {m->object, m->map_length, (uint64_t)m->map_alloc};
    if (m->header_size >= HEADER_HISTOGRAM) {
        uint64_t hist[ARRAY_LEN(m->histogram)]; /* the present one is an input where nothing is loaded */
        int rc = alloc_histogram(m, m->vdev->ashift, hist);
        if (rc != 0)
            return rc;
        memcpy(m->histogram, hist, sizeof hist);
        memcpy(words + 8, hist, sizeof hist);
    }
    struct dnode *dn;
    int rc = dnode_hold(spa->mos, m->object, &dn);
    if (rc != 0)
        return rc;
    rc = dnode_bonus_patch(dn, 0, words, m->header_size, tx);
    dnode_rele(dn);
    return rc;
}

struct sync_pass {
    struct spa *spa;
    struct tx *tx;
    unsigned pass;
};

/* Writes a map anew, as short as it can be, when it has grown to more than twice of that (05 2.7).
 * *done: the map now says everything, this pass's ranges too. */
static int condense(struct spa *spa, struct metaslab *m, unsigned pass, struct tx *tx, bool *done)
{
    struct dnode *dn;
    *done = false;
    if (pass != 1 || m->map_length <= 4 * MAX((uint64_t)MAP_BLOCK, 1ull << m->vdev->ashift))
        return 0;
    CLEANUP(free_set) struct rangeset *all = rangeset_new();
    int rc = all ? alloc_snapshot(m, all) : -ENOMEM;
    if (rc == -EBUSY || (rc == 0 && m->map_length < 2 * 8 * rangeset_count(all)))
        return 0;
    if (rc == 0)
        rc = dnode_hold(spa->mos, m->object, &dn);
    if (rc != 0)
        return rc;
    rc = dnode_free_range(dn, 0, UINT64_MAX, tx);
    dnode_rele(dn);
    if (rc != 0)
        return rc;
    m->map_length = 0;
    m->map_alloc = (int64_t)rangeset_total(all);
    *done = true;
    return spa_spacemap_append(spa, m, all, false, pass, tx);
}

static int sync_metaslab(void *arg, struct metaslab *m, const struct rangeset *allocs,
                         const struct rangeset *frees)
{
    struct sync_pass *s = arg;
    bool done = false;
    int rc = m->object == 0 ? create_map(s->spa, m, s->tx) : condense(s->spa, m, s->pass, s->tx, &done);
    if (rc == 0 && !done)
        rc = spa_spacemap_append(s->spa, m, allocs, false, s->pass, s->tx);
    if (rc == 0 && !done)
        rc = spa_spacemap_append(s->spa, m, frees, true, s->pass, s->tx);
    if (rc != 0)
        return rc;
    if (!done)
        m->map_alloc += (int64_t)rangeset_total(allocs) - (int64_t)rangeset_total(frees);
    return spa_spacemap_header(s->spa, m, s->tx);
}

/* One array of space map numbers per top-level vdev; made when the vdev first syncs. */
static int create_arrays(struct spa *spa, struct tx *tx)
{
    struct vdev *root = spa->pool.root;
    for (unsigned i = 0; i < root->children; i++) {
        struct vdev *top = root->child[i];
        unsigned n = top->allocator ? alloc_metaslab_count(top) : 0;
        if (n == 0 || top->metaslab_array != 0)
            continue;
        uint64_t bytes = P2_ROUND_UP((uint64_t)n * 8, (uint64_t)BLOCK_MIN_SIZE);
        struct object_params p = {.type = OT_OBJECT_ARRAY,
                                  .block_size = MIN(bytes, (uint64_t)BLOCK_OLD_MAX)};
        struct dnode *dn;
        int rc = object_create(spa->mos, 0, &p, tx, &dn);
        if (rc != 0)
            return rc;
        top->metaslab_array = dnode_object(dn);
        dnode_rele(dn);
        spa->config_dirty = true;
    }
    return 0;
}

int spa_spacemap_sync(struct spa *spa, struct tx *tx, unsigned pass, bool *any)
{
    struct sync_pass s = {spa, tx, pass};
    int rc = pass == 1 ? create_arrays(spa, tx) : 0;
    if (rc == 0)
        rc = alloc_sync(&spa->pool, tx->txg, sync_metaslab, &s, any);
    return rc;
}
