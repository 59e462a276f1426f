/*
 * Removed vdevs (spec 05 16): a block that a pointer places there is where the mapping has moved it
 * to. A mapping copies neighbouring blocks with what was free between them; such gaps are allocated
 * for good and used by nobody.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "nvlist/nvlist.h"
#include "pool/pool.h"
#include "spa/spa.h"
#include "tool/verify_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/rangeset.h"
#include "vdev/vdev.h"

#define ENTRY_SIZE  24
#define ENTRIES_MAX (1ull << 28)

struct mapping {
    uint64_t *entry; /* source offset, then the two words of the place it was moved to */
    size_t n;
};

static uint64_t source(const struct mapping *m, size_t i)
{
    return (m->entry[3 * i] & ~(1ull << 63)) << 9;
}

static struct blkptr place(const struct mapping *m, size_t i)
{
    return (struct blkptr){{m->entry[3 * i + 1], m->entry[3 * i + 2]}};
}

/* Marks where the entries lead to, for the gaps. */
static int add_destinations(struct verify *v, const struct mapping *m)
{
    int rc = 0;
    for (size_t i = 0; i < m->n && rc == 0; i++) {
        struct blkptr bp = place(m, i);
        uint64_t vdev = dva_vdev(&bp, 0), offset = dva_offset(&bp, 0);
        if (i && source(m, i) < source(m, i - 1))
            return err_set(EBADE, "its entries are not in order");
        if (vdev >= v->tops)
            return err_set(EBADE, "an entry leads to vdev %llu", (unsigned long long)vdev);
        if (!v->moved[vdev] && !(v->moved[vdev] = rangeset_new()))
            return -ENOMEM;
        rc = rangeset_add(v->moved[vdev], offset, offset + dva_asize(&bp, 0));
    }
    return rc;
}

static int load(struct verify *v, uint64_t object, struct mapping *m)
{
    uint64_t bonus[3];
    struct dnode *dn;
    int rc = verify_hold(v, object, bonus, 3, 3, &dn);
    if (rc)
        return rc;
    rc = bonus[2] > ENTRIES_MAX ? err_set(EBADE, "its header is damaged")
                                : verify_fits(dn, bonus[2], ENTRY_SIZE);
    if (rc == 0) {
        m->n = bonus[2];
        m->entry = malloc(m->n * ENTRY_SIZE + 1);
        rc = m->entry ? dnode_read(dn, 0, m->entry, m->n * ENTRY_SIZE) : -ENOMEM;
    }
    dnode_rele(dn);
    return rc ? rc : add_destinations(v, m);
}

int verify_mappings_load(struct verify *v)
{
    CLEANUP_NVLIST struct nvlist *config = NULL;
    struct nvlist *tree, **child;
    size_t n;
    v->mapping = calloc(v->tops + 1, sizeof *v->mapping);
    v->moved = calloc(v->tops + 1, sizeof *v->moved);
    int rc = v->mapping && v->moved ? spa_config_read(v->mos, &config, NULL) : -ENOMEM;
    if (rc || nvlist_get_nvlist(config, "vdev_tree", &tree) != 0 ||
        nvlist_get_nvlist_array(tree, "children", &child, &n) != 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        uint64_t id = nvlist_uint64_or(child[i], "id", i), object;
        if (id >= v->tops ||
            nvlist_get_uint64(child[i], "com.delphix:indirect_object", &object) != 0 ||
            object == 0 || strcmp(nvlist_string_or(child[i], "type", ""), "indirect") != 0)
            continue;
        err_clear();
        rc = load(v, object, &v->mapping[id]);
        if (rc == -ENOMEM)
            return rc;
        if (rc)
            verify_found(v, "mapping", "the mapping of removed vdev %llu: %s",
                         (unsigned long long)id, err_text(rc));
    }
    return 0;
}

void verify_mappings_free(struct verify *v)
{
    for (unsigned i = 0; v->mapping && i < v->tops; i++)
        free(v->mapping[i].entry);
    for (unsigned i = 0; v->moved && i < v->tops; i++)
        rangeset_free(v->moved[i]);
    free(v->mapping);
    free(v->moved);
}

int verify_moved(struct verify *v, uint64_t vdev, uint64_t offset, uint64_t asize,
                 block_place_fn *fn, void *arg)
{
    const struct mapping *m = &v->mapping[vdev];
    size_t low = 0, high = m->n;
    while (low < high) { /* the first entry behind offset */
        size_t mid = low + (high - low) / 2;
        if (source(m, mid) <= offset)
            low = mid + 1;
        else
            high = mid;
    }
    for (size_t i = low ? low - 1 : 0; asize > 0 && i < m->n; i++) {
        struct blkptr bp = place(m, i);
        uint64_t from = source(m, i), size = dva_asize(&bp, 0);
        if (offset < from || offset - from >= size)
            break;
        uint64_t n = MIN(asize, size - (offset - from));
        int rc = fn(arg, dva_vdev(&bp, 0), dva_offset(&bp, 0) + (offset - from), n);
        if (rc)
            return rc;
        offset += n;
        asize -= n;
    }
    return asize ? -ENOENT : 0;
}

uint64_t verify_gap(struct verify *v, unsigned vdev, uint64_t start, uint64_t end, bool *gap)
{
    struct range r;
    if (!v->moved[vdev] || !rangeset_next(v->moved[vdev], start, &r) || r.start >= end) {
        *gap = false;
        return end;
    }
    *gap = r.start <= start;
    return MIN(*gap ? r.end : r.start, end);
}
