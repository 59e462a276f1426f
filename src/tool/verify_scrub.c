/* Reading one block from everywhere it is, and saying what was wrong. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tool/verify_impl.h"
#include "util/bytes.h"
#include "util/err.h"
#include "vdev/vdev.h"

#define TOLD_MAX 16

/* What is wrong with a block that can be read nevertheless. */
struct wrong {
    struct vdev *leaf[TOLD_MAX];
    int rc[TOLD_MAX];
    unsigned leaves; /* may be more than are kept */
    unsigned copies, copy, of;
};

static void on_device(void *arg, struct vdev *leaf, int rc)
{
    struct wrong *w = arg;
    for (unsigned i = 0; i < MIN(w->leaves, (unsigned)TOLD_MAX); i++)
        if (w->leaf[i] == leaf)
            return;
    if (w->leaves < TOLD_MAX) {
        w->leaf[w->leaves] = leaf;
        w->rc[w->leaves] = rc;
    }
    w->leaves++;
}

static void on_copy(void *arg, unsigned copy, unsigned copies, int rc)
{
    struct wrong *w = arg;
    w->copies++;
    w->copy = copy + 1;
    w->of = copies;
}

static void describe(const struct wrong *w, char *out, size_t cap)
{
    size_t n = 0;
    *out = '\0';
    if (w->copies)
        n += (size_t)snprintf(out, cap, "copy %u of %u cannot be read%s", w->copy, w->of,
                              w->leaves ? ": " : "");
    for (unsigned i = 0; i < MIN(w->leaves, (unsigned)TOLD_MAX) && n < cap; i++) {
        char name[512];
        vdev_print_name(w->leaf[i], name, sizeof name);
        n += (size_t)snprintf(out + n, cap - n, "%s%s %s", i ? ", " : "", name,
                              w->rc[i] == -EBADE ? "has wrong bytes" : "cannot be read");
    }
}

void verify_unreadable(struct verify *v, int rc)
{
    char why[2048];
    snprintf(why, sizeof why, "%s", err_text(rc));
    verify_found(v, "unreadable", "%s", why);
    pthread_mutex_lock(&v->lock);
    v->errors++;
    pthread_mutex_unlock(&v->lock);
}

static void repairable(struct verify *v, const struct bookmark *bm, const struct wrong *w)
{
    char what[2048];
    pthread_mutex_lock(&v->lock);
    bool tell = v->repairable++ < VERIFY_REPORT_MAX;
    v->t->status = 1;
    pthread_mutex_unlock(&v->lock);
    if (!tell)
        return;
    describe(w, what, sizeof what);
    verify_found(v, "repairable", "dataset %llu object %llu level %lld block %llu: %s",
                 (unsigned long long)bm->objset, (unsigned long long)bm->object,
                 (long long)bm->level, (unsigned long long)bm->blkid, what);
}

void verify_scrub(struct verify *v, struct counts *c, const struct blkptr *bp,
                  const struct bookmark *bm, bool reported)
{
    struct wrong w = {.leaves = 0};
    struct block_scrub s = {.device = on_device, .copy = on_copy, .arg = &w};
    err_clear();
    int rc = block_scrub(v->pool, bp, bm, &s);
    c->checked_blocks++;
    c->checked_bytes += bp_psize(bp);
    if (rc == 0 && (w.leaves || w.copies))
        repairable(v, bm, &w);
    else if (rc && !reported)
        verify_unreadable(v, rc);
}
