/*
 * Log space maps of pools that have them active (spec 05 5). We read the logs at open and keep what has
 * not been flushed per metaslab; the first txg we write flushes everything and deletes the logs (05 5.5),
 * and from then on changes go straight to the metaslabs' own maps. OpenZFS starts logging again by
 * itself when it takes the pool back.
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

#define UNFLUSHED_KEY "com.delphix:ms_unflushed_phys_txgs"
#define LOGS_KEY      "com.delphix:log_spacemap_zap"
#define LOG_SHIFT     9
#define LOGS_MAX      (1u << 20)

/* spa->unflushed[vdev][2 * metaslab + is_free] */

struct rangeset *spa_logmap_set(struct spa *spa, const struct metaslab *m, bool is_free)
{
    unsigned v = m->vdev->id;
    if (v >= spa->unflushed_vdevs || !spa->unflushed[v])
        return NULL;
    return spa->unflushed[v][2 * m->id + is_free];
}

static struct rangeset **slot(struct spa *spa, const struct metaslab *m, bool is_free)
{
    struct rangeset **s = &spa->unflushed[m->vdev->id][2 * m->id + is_free];
    if (!*s)
        *s = rangeset_new();
    return s;
}

struct log {
    uint64_t txg, object;
};

struct replay {
    struct spa *spa;
    uint64_t txg;
    uint64_t **flushed; /* per vdev, per metaslab: U(m) */
};

/* allocs and frees cancel each other: 05 5.3, step 4. */
static int replay_range(struct spa *spa, struct metaslab *m, bool is_free, uint64_t start, uint64_t end)
{
    struct rangeset **same = slot(spa, m, is_free), **other = slot(spa, m, !is_free);
    if (!*same || !*other)
        return -ENOMEM;
    struct range r;
    uint64_t pos = start;
    int rc = 0;
    while (pos < end && rc == 0) {
        if (!rangeset_next(*other, pos, &r) || r.start >= end)
            return rangeset_add_exact(*same, pos, end);
        if (r.start > pos)
            rc = rangeset_add_exact(*same, pos, r.start);
        uint64_t from = MAX(r.start, pos), to = MIN(r.end, end);
        if (rc == 0)
            rc = rangeset_remove(*other, from, to);
        pos = to;
    }
    return rc;
}

static int replay_entry(void *arg, bool is_free, uint64_t vdev, uint64_t offset, uint64_t run)
{
    struct replay *p = arg;
    struct vdev *top = vdev_lookup_top(p->spa->pool.root, vdev);
    if (!top || !top->allocator)
        return 0; /* removed since */
    uint64_t id = offset >> top->metaslab_shift;
    if (id >= alloc_metaslab_count(top) || run > (1ull << top->metaslab_shift))
        return err_set(EBADE, "a space map log names metaslab %llu of vdev %llu, which does not exist",
                       (unsigned long long)id, (unsigned long long)vdev);
    if (p->txg < p->flushed[vdev][id])
        return 0;
    struct metaslab *m = alloc_metaslab(top, id);
    if (offset + run > m->start + m->size)
        return err_set(EBADE, "a space map log entry crosses the end of metaslab %llu",
                       (unsigned long long)id);
    int rc = replay_range(p->spa, m, is_free, offset, offset + run);
    if (rc == 0)
        m->log_alloc += is_free ? -(int64_t)run : (int64_t)run;
    return rc == -EEXIST ? -EBADE : rc;
}

static int replay_log(struct spa *spa, struct replay *p, uint64_t object)
{
    struct dnode *dn;
    int rc = dnode_hold(spa->mos, object, &dn);
    if (rc != 0)
        return rc;
    uint64_t header[3] = {0}, step = MAX((uint64_t)dnode_block_size(dn), (uint64_t)BLOCK_OLD_MAX);
    size_t len;
    rc = dnode_bonus_get(dn, header, sizeof header, &len);
    if (rc == -ERANGE)
        rc = 0;
    CLEANUP_FREE unsigned char *words = malloc(step);
    if (!words)
        rc = -ENOMEM;
    for (uint64_t pos = 0; rc == 0 && pos < header[1]; pos += step) {
        uint64_t n = MIN(step, header[1] - pos);
        rc = dnode_read(dn, pos, words, n);
        if (rc == 0)
            rc = spacemap_each(0, UINT64_MAX, LOG_SHIFT, words, n, BYTES_HOST_BIG, replay_entry, p);
    }
    dnode_rele(dn);
    return rc;
}

static int compare_logs(const void *a, const void *b)
{
    uint64_t x = ((const struct log *)a)->txg, y = ((const struct log *)b)->txg;
    return x < y ? -1 : x > y;
}

/* The logs in ascending txg order. */
static int list_logs(struct spa *spa, struct log **out, size_t *n)
{
    struct dnode *zap;
    int rc = dnode_hold(spa->mos, spa->log_zap, &zap);
    if (rc != 0)
        return rc;
    struct zap_cursor c;
    CLEANUP_FREE struct zap_entry *e = malloc(sizeof *e);
    CLEANUP_FREE struct log *logs = NULL;
    size_t count = 0, cap = 0;
    rc = e ? 0 : -ENOMEM;
    zap_cursor_init(&c, zap, 0);
    while (rc == 0 && (rc = zap_cursor_next(&c, e)) == 0) {
        if (count == cap) {
            cap = cap ? 2 * cap : 64;
            struct log *more = cap > LOGS_MAX ? NULL : realloc(logs, cap * sizeof *logs);
            if (!more) {
                rc = -ENOMEM;
                break;
            }
            logs = more;
        }
        logs[count++] = (struct log){strtoull(e->name, NULL, 16), e->first};
    }
    dnode_rele(zap);
    if (rc != -ENOENT)
        return rc;
    if (count > 0)
        qsort(logs, count, sizeof *logs, compare_logs);
    *out = STEAL(logs);
    *n = count;
    return 0;
}

static int unflushed_object(struct spa *spa, struct vdev *top, uint64_t *object)
{
    *object = 0;
    if (top->zap_top == 0)
        return 0;
    int rc = zap_get_u64(spa->mos, top->zap_top, UNFLUSHED_KEY, object);
    return rc == -ENOENT ? 0 : rc;
}

/* U(m) of one vdev; *out has a word per metaslab. */
static int read_unflushed(struct spa *spa, struct vdev *top, uint64_t **out)
{
    unsigned n = alloc_metaslab_count(top);
    uint64_t object;
    *out = calloc(n ? n : 1, sizeof **out);
    if (!*out)
        return -ENOMEM;
    int rc = unflushed_object(spa, top, &object);
    if (rc != 0 || object == 0)
        return rc;
    struct dnode *dn;
    rc = dnode_hold(spa->mos, object, &dn);
    if (rc == 0) {
        rc = dnode_read(dn, 0, *out, n * sizeof **out);
        dnode_rele(dn);
    }
    return rc;
}

static int read_logs(struct spa *spa, uint64_t **flushed)
{
    CLEANUP_FREE struct log *logs = NULL;
    size_t n;
    int rc = list_logs(spa, &logs, &n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct replay p = {spa, logs[i].txg, flushed};
        rc = replay_log(spa, &p, logs[i].object);
    }
    return rc;
}

/* Reads all logs into the unflushed sets. Call after spa_spacemap_open. */
int spa_logmap_open(struct spa *spa)
{
    struct vdev *root = spa->pool.root;
    int rc = zap_get_u64(spa->mos, MOS_DIRECTORY, LOGS_KEY, &spa->log_zap);
    if (rc == -ENOENT)
        return 0;
    if (rc != 0)
        return rc;
    spa->unflushed = calloc(root->children ? root->children : 1, sizeof *spa->unflushed);
    CLEANUP_FREE uint64_t **flushed = calloc(root->children ? root->children : 1, sizeof *flushed);
    if (!spa->unflushed || !flushed)
        return -ENOMEM;
    spa->unflushed_vdevs = root->children;
    for (unsigned i = 0; i < root->children && rc == 0; i++) {
        struct vdev *top = root->child[i];
        if (!top->allocator)
            continue;
        spa->unflushed[i] = calloc(2 * (size_t)alloc_metaslab_count(top) + 2, sizeof **spa->unflushed);
        rc = spa->unflushed[i] ? read_unflushed(spa, top, &flushed[i]) : -ENOMEM;
    }
    if (rc == 0)
        rc = read_logs(spa, flushed);
    for (unsigned i = 0; i < root->children; i++)
        free(flushed[i]);
    spa->logs_pending = true;
    return err_prefix(rc, "space map logs");
}

/* ---- Flushing all and going on without logs ---- */

static int flush_metaslab(struct spa *spa, struct metaslab *m, struct tx *tx)
{
    struct rangeset **sets = &spa->unflushed[m->vdev->id][2 * m->id];
    int rc = 0;
    if ((!sets[0] || rangeset_count(sets[0]) == 0) && (!sets[1] || rangeset_count(sets[1]) == 0))
        return 0;
    if (m->object == 0)
        return err_set(EBADE, "metaslab %u of vdev %u has logged changes but no space map", m->id,
                       m->vdev->id);
    if (sets[0])
        rc = spa_spacemap_append(spa, m, sets[0], false, 1, tx);
    if (rc == 0 && sets[1])
        rc = spa_spacemap_append(spa, m, sets[1], true, 1, tx);
    m->map_alloc += m->log_alloc;
    m->log_alloc = 0;
    if (rc == 0)
        rc = spa_spacemap_header(spa, m, tx);
    return rc;
}

static int flush_vdev(struct spa *spa, struct vdev *top, struct tx *tx)
{
    unsigned n = alloc_metaslab_count(top);
    uint64_t object;
    int rc = unflushed_object(spa, top, &object);
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = flush_metaslab(spa, alloc_metaslab(top, i), tx);
    if (rc != 0 || object == 0)
        return rc;
    CLEANUP_FREE uint64_t *zero = calloc(n ? n : 1, sizeof *zero);
    struct dnode *dn;
    if (!zero)
        return -ENOMEM;
    rc = dnode_hold(spa->mos, object, &dn);
    if (rc == 0) {
        rc = dnode_write(dn, 0, zero, n * sizeof *zero, tx);
        dnode_rele(dn);
    }
    return rc;
}

static int delete_log(struct spa *spa, const struct log *log, struct tx *tx)
{
    struct dnode *dn;
    size_t len;
    uint64_t word;
    int rc = dnode_hold(spa->mos, log->object, &dn);
    if (rc != 0)
        return rc;
    rc = dnode_bonus_get(dn, &word, sizeof word, &len);
    if (rc == -ERANGE)
        rc = 0;
    if (rc == 0 && len >= 320)
        rc = feature_change(spa->dsl, FEATURE_SPACEMAP_HISTOGRAM, -1, tx);
    if (rc == 0)
        rc = object_free(dn, tx);
    dnode_rele(dn);
    if (rc == 0)
        rc = zap_int_del(spa->mos, spa->log_zap, log->txg, tx);
    return rc;
}

int spa_logmap_flush(struct spa *spa, struct tx *tx)
{
    struct vdev *root = spa->pool.root;
    CLEANUP_FREE struct log *logs = NULL;
    size_t n = 0;
    int rc = 0;
    if (!spa->logs_pending)
        return 0;
    for (unsigned i = 0; i < root->children && rc == 0; i++)
        if (root->child[i]->allocator)
            rc = flush_vdev(spa, root->child[i], tx);
    if (rc == 0)
        rc = list_logs(spa, &logs, &n);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = delete_log(spa, &logs[i], tx);
    if (rc != 0)
        return err_prefix(rc, "flushing the space map logs");
    spa->logs_pending = false;
    spa_logmap_close(spa);
    return 0;
}

void spa_logmap_close(struct spa *spa)
{
    for (size_t v = 0; v < spa->unflushed_vdevs; v++) {
        struct vdev *top = vdev_lookup_top(spa->pool.root, v);
        for (unsigned i = 0; spa->unflushed[v] && top && i < 2 * alloc_metaslab_count(top); i++)
            if (spa->unflushed[v][i])
                rangeset_free(spa->unflushed[v][i]);
        free(spa->unflushed[v]);
    }
    free(spa->unflushed);
    spa->unflushed = NULL;
    spa->unflushed_vdevs = 0;
}
