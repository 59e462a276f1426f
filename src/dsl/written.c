/* What was written since a snapshot or bookmark (spec 04 8.5). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dsl/bookmark_impl.h"
#include "util/err.h"

/* Old pools have none. */
static bool is_pool_origin(const struct dsl *dsl, uint64_t object)
{
    return dsl->origin && dsl->origin->object == object;
}

int ds_after(struct dataset *ds, const struct dir *d, uint64_t txg, bool *after)
{
    uint64_t limit = ds_is_snapshot(ds) ? ds->w[DS_CTXG] : UINT64_MAX;
    uint64_t origin = ds->dir->w[DIR_ORIGIN];
    const struct dir *here = ds->dir;

    while (here != d && origin != 0 && !is_pool_origin(ds->dsl, origin)) {
        CLEANUP_DS struct dataset *snap = NULL;
        int rc = ds_hold(ds->dsl, origin, &snap);

        if (rc != 0)
            return rc;
        if (snap->w[DS_CTXG] >= limit)
            return err_set(EBADE, "the origin of a clone is younger than the clone");
        limit = snap->w[DS_CTXG] + 1;
        origin = snap->dir->w[DIR_ORIGIN];
        here = snap->dir;
        if (here == d)
            break;
    }
    *after = here == d && txg < limit;
    return 0;
}

/* The moment that is compared with. */
struct since {
    uint64_t txg, referenced;
    uint64_t freed; /* of bookmarks: until the next snapshot */
    bool snapshot;
};

/* "@snap" and "#mark" belong to the dataset's own file system. */
static int full_name(struct dataset *ds, const char *name, char out[DATASET_NAME_MAX])
{
    char own[DATASET_NAME_MAX] = "";
    int n;

    if (name[0] == '@' || name[0] == '#')
        dir_name(ds->dir, own);
    n = snprintf(out, DATASET_NAME_MAX, "%s%s", own, name);
    return n < DATASET_NAME_MAX ? 0 : -ENOENT;
}

static int since_snapshot(struct dataset *ds, const char *name, struct since *s)
{
    CLEANUP_DS struct dataset *snap = NULL;
    bool after = false;
    int rc = ds_hold_name(ds->dsl, name, &snap);

    if (rc != 0)
        return rc;
    rc = ds_after(ds, snap->dir, snap->w[DS_CTXG], &after);
    *s = (struct since){snap->w[DS_CTXG], snap->w[DS_REF], 0, true};
    return rc == 0 && !after ? -ENOENT : rc;
}

static int since_bookmark(struct dataset *ds, const char *name, struct since *s)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    CLEANUP_DS struct dataset *head = NULL;
    char fs[DATASET_NAME_MAX];
    size_t n = strcspn(name, "#");
    bool after = false;
    int rc;

    snprintf(fs, sizeof fs, "%.*s", (int)n, name);
    rc = ds_hold_name(ds->dsl, fs, &head);
    if (rc == 0)
        rc = bookmark_list_load(head, &l);
    for (size_t i = 0; i < l.n && rc == 0; i++) {
        const uint64_t *w = l.e[i].w;

        if (strcmp(l.e[i].name, name + n + 1) != 0)
            continue;
        if (bookmark_has_fbn(&l.e[i]))
            rc = ds_after(ds, head->dir, w[BM_TXG], &after);
        *s = (struct since){w[BM_TXG], w[BM_REF], w[BM_FREED], false};
    }
    return rc == 0 && !after ? -ENOENT : rc;
}

/* From the dataset back to the moment. */
static int sum(struct dataset *ds, const struct since *s, uint64_t *bytes)
{
    struct dsl *dsl = ds->dsl;
    uint64_t dead = s->freed, w[DS_WORDS];
    struct space part;
    int rc = 0;

    memcpy(w, ds->w, sizeof w);
    while (rc == 0 && w[DS_PREV_TXG] > s->txg) {
        rc = deadlist_space_read(dsl, w[DS_DEADLIST], 0, s->txg, &part);
        if (rc == 0) {
            dead += (uint64_t)part.used;
            rc = ds_words(dsl, w[DS_PREV], w);
        }
    }
    if (rc == 0 && s->snapshot) {
        rc = deadlist_totals(dsl, w[DS_DEADLIST], &part);
        dead += (uint64_t)part.used;
    }
    *bytes = ds->w[DS_REF] - s->referenced + dead;
    return rc;
}

int dataset_written_since(struct dataset *ds, const char *name, uint64_t *bytes)
{
    DSL_READ_GUARD(ds->dsl);
    char full[DATASET_NAME_MAX];
    struct since s = {0};
    int rc = full_name(ds, name, full);

    if (rc == 0)
        rc = strchr(full, '#') ? since_bookmark(ds, full, &s) : since_snapshot(ds, full, &s);
    return rc ? rc : sum(ds, &s, bytes);
}
