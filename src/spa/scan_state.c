/* The state of a scan in the MOS, and how it follows the datasets (spec 05 18.2, 04 9). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/tx.h"
#include "dmu/zap.h"
#include "dsl/lineage.h"
#include "spa/scan_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define SCAN_KEY "scan"

/* ---- The queue ---- */

static int reserve(void *list, size_t n, size_t *cap, size_t size)
{
    void **at = list;
    if (n < *cap)
        return 0;
    void *more = realloc(*at, (*cap ? 2 * *cap : 32) * size);
    if (!more)
        return -ENOMEM;
    *at = more;
    *cap = *cap ? 2 * *cap : 32;
    return 0;
}

static struct scan_entry *find(struct scan *s, uint64_t dataset)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->queue[i].dataset == dataset)
            return &s->queue[i];
    return NULL;
}

int scan_enqueue(struct scan *s, uint64_t dataset, uint64_t since)
{
    struct scan_entry *e = find(s, dataset);
    if (e) {
        if (since < e->since)
            *e = (struct scan_entry){dataset, since, false};
    } else if (reserve(&s->queue, s->n, &s->cap, sizeof *s->queue) == 0) {
        s->queue[s->n++] = (struct scan_entry){dataset, since, false};
    } else {
        return -ENOMEM;
    }
    s->dirty = true;
    return 0;
}

/* Takes an entry out, in the MOS too. */
static int take(struct scan *s, size_t i, struct scan_entry *out)
{
    *out = s->queue[i];
    if (out->saved) {
        if (reserve(&s->forgotten, s->nforgotten, &s->forgotten_cap, sizeof *s->forgotten) != 0)
            return -ENOMEM;
        s->forgotten[s->nforgotten++] = out->dataset;
    }
    s->queue[i] = s->queue[--s->n];
    s->dirty = true;
    return 0;
}

bool scan_dequeue(struct scan *s, struct scan_entry *out)
{
    int rc = s->n > 0 ? take(s, s->n - 1, out) : -ENOENT;
    if (rc == -ENOMEM)
        s->error = rc;
    return rc == 0;
}

void scan_queue_clear(struct scan *s)
{
    free(s->queue);
    free(s->forgotten);
    s->queue = NULL;
    s->forgotten = NULL;
    s->n = s->cap = s->nforgotten = s->forgotten_cap = 0;
}

/* ---- In the MOS ---- */

static int load_queue(struct scan *s)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc = dnode_hold(s->spa->mos, s->w[SCAN_QUEUE], &zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        rc = scan_enqueue(s, strtoull(e.name, NULL, 16), e.first);
        if (rc != 0)
            break;
        s->queue[s->n - 1].saved = true;
    }
    dnode_rele(zap);
    s->dirty = false;
    return rc == -ENOENT ? 0 : rc;
}

static int load_words(struct scan *s)
{
    struct dnode *dir;
    unsigned size;
    size_t count;
    int rc = dnode_hold(s->spa->mos, MOS_DIRECTORY, &dir);
    if (rc != 0)
        return rc;
    rc = zap_length(dir, SCAN_KEY, &size, &count);
    if (rc == 0 && (size != 8 || count != SCAN_WORDS))
        rc = -ENOTSUP;
    if (rc == 0)
        rc = zap_lookup(dir, SCAN_KEY, 8, SCAN_WORDS, s->w);
    dnode_rele(dir);
    return rc;
}

int scan_load(struct scan *s)
{
    int rc = load_words(s);
    if (rc == -ENOENT)
        return 0;
    if (rc == -ENOTSUP || (rc == 0 && scan_active(s) && s->w[SCAN_FUNC] != SPA_SCAN_SCRUB &&
                           s->w[SCAN_FUNC] != SPA_SCAN_RESILVER))
        return err_set(EROFS, "a scan is in progress of a kind that this version does not know");
    if (rc == 0 && scan_active(s) && s->w[SCAN_QUEUE] != 0)
        rc = load_queue(s);
    return err_prefix(rc, "the state of the last scrub or resilver");
}

static int save_queue(struct scan *s, struct tx *tx)
{
    struct objset *mos = s->spa->mos;
    int rc = 0;
    if (s->w[SCAN_QUEUE] == 0)
        rc = zap_create_simple(mos, OT_SCAN_QUEUE, 0, tx, &s->w[SCAN_QUEUE]);
    for (size_t i = 0; i < s->nforgotten && rc == 0; i++) {
        rc = zap_int_del(mos, s->w[SCAN_QUEUE], s->forgotten[i], tx);
        rc = rc == -ENOENT ? 0 : rc;
    }
    s->nforgotten = 0;
    for (size_t i = 0; i < s->n && rc == 0; i++) {
        struct scan_entry *e = &s->queue[i];
        if (!e->saved)
            rc = zap_int_set(mos, s->w[SCAN_QUEUE], e->dataset, e->since, tx);
        e->saved = true;
    }
    return rc;
}

static int drop_queue(struct scan *s, struct tx *tx)
{
    int rc = s->w[SCAN_QUEUE] ? zap_destroy(s->spa->mos, s->w[SCAN_QUEUE], tx) : 0;
    s->w[SCAN_QUEUE] = 0;
    scan_queue_clear(s);
    return rc;
}

int scan_save(struct scan *s, struct tx *tx)
{
    struct dnode *dir;
    int rc = scan_active(s) ? save_queue(s, tx) : drop_queue(s, tx);
    if (rc == 0)
        rc = dnode_hold(s->spa->mos, MOS_DIRECTORY, &dir);
    if (rc != 0)
        return rc;
    rc = zap_update(dir, SCAN_KEY, 8, SCAN_WORDS, s->w, tx);
    dnode_rele(dir);
    s->dirty = rc != 0;
    return rc;
}

/* ---- When datasets change ---- */

static void replace(struct scan *s, uint64_t old, uint64_t new)
{
    struct scan_entry e;
    struct scan_entry *at = find(s, old);
    if (!at)
        return;
    int rc = take(s, (size_t)(at - s->queue), &e);
    rc = rc ? rc : scan_enqueue(s, new, e.since);
    s->error = rc ? rc : s->error;
}

/* What was to be visited in the head is in the snapshot; what comes later is too young. */
static void snapshotted(void *arg, uint64_t head, uint64_t snapshot)
{
    struct scan *s = arg;
    if (!scan_active(s))
        return;
    replace(s, head, snapshot);
    if (s->w[SCAN_BOOKMARK] == head)
        s->w[SCAN_BOOKMARK] = snapshot;
    s->dirty = true;
}

/* What of it is still needed is now the next one's, at the same places. That has blocks of its own,
 * too, for which it is visited afterwards. */
static void snapshot_gone(void *arg, uint64_t snapshot, uint64_t next)
{
    struct scan *s = arg;
    if (!scan_active(s))
        return;
    replace(s, snapshot, next);
    if (s->w[SCAN_BOOKMARK] == snapshot) {
        s->w[SCAN_BOOKMARK] = next;
        s->w[SCAN_FLAGS] |= SCAN_FLAG_AGAIN;
    }
    s->dirty = true;
}

static void head_gone(void *arg, uint64_t head)
{
    struct scan *s = arg;
    struct scan_entry e, *at = scan_active(s) ? find(s, head) : NULL;
    if (at && take(s, (size_t)(at - s->queue), &e) != 0)
        s->error = -ENOMEM;
    if (scan_active(s) && s->w[SCAN_BOOKMARK] == head) {
        memset(&s->w[SCAN_BOOKMARK], 0, 4 * sizeof s->w[0]);
        s->w[SCAN_BOOKMARK] = SCAN_OBJSET_NONE;
        s->dirty = true;
    }
}

const struct lineage_ops scan_lineage_ops = {snapshotted, snapshot_gone, head_gone};
