/* Making, destroying and listing bookmarks (spec 04 12). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/bookmark.h"
#include "dsl/bookmark_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

#define KEY_IVSET "com.datto:ivset_guid"

/* ---- Names ---- */

int bookmark_name_check(const char *name)
{
    char path[DATASET_NAME_MAX];
    size_t n = strcspn(name, "#");

    if (strlen(name) >= sizeof path)
        return err_set(ENAMETOOLONG, "name is too long");
    if (name[n] == 0 || strchr(name, '@') || strchr(name + n + 1, '#'))
        return err_set(EINVAL, name[n] == 0 ? "missing '#' delimiter in bookmark name"
                                            : "multiple '@' and/or '#' delimiters in name");
    strcpy(path, name);
    path[n] = '@'; /* the rest is as with snapshots */
    return dataset_name_check(path);
}

/* The file system of "fs#mark" (or "fs@snap"), and what is behind the delimiter. */
static int hold_fs(struct dsl *dsl, const char *name, struct dataset **head, const char **mark)
{
    char fs[DATASET_NAME_MAX];
    size_t n = strcspn(name, "#@");

    snprintf(fs, sizeof fs, "%.*s", (int)n, name);
    *mark = name + n + 1;
    return ds_hold_name(dsl, fs, head);
}

static int find(const struct bookmark_list *l, const char *mark, const struct bookmark_entry **out)
{
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->e[i].name, mark) == 0) {
            *out = &l->e[i];
            return 0;
        }
    }
    return -ENOENT;
}

static int look_up(struct dataset *head, const char *mark, uint64_t w[BM_WORDS], size_t *count)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    const struct bookmark_entry *e;
    int rc = bookmark_list_load(head, &l);

    if (rc == 0)
        rc = find(&l, mark, &e);
    if (rc != 0)
        return rc;
    memcpy(w, e->w, sizeof e->w);
    *count = e->count;
    return 0;
}

/* ---- Making ---- */

struct create {
    const char *name, *source;
    uint64_t w[BM_WORDS];
    size_t count;    /* words to be stored */
    uint64_t object; /* of the snapshot; 0: made of a bookmark */
};

/* The words of what follows a snapshot on the way to a head: of the origin of a clone that is the
 * clone's own. */
static int next_words(struct dataset *head, const struct dataset *snap, uint64_t w[DS_WORDS])
{
    int rc = 0;

    if (snap->dir == head->dir)
        return ds_words(head->dsl, snap->w[DS_NEXT], w);
    memcpy(w, head->w, sizeof head->w);
    while (w[DS_PREV] != snap->object && w[DS_PREV] != 0 && rc == 0)
        rc = ds_words(head->dsl, w[DS_PREV], w);
    return rc;
}

/* What was freed between a snapshot and the next one is on the next one's deadlist. */
static int size_of_snapshot(struct dataset *head, struct dataset *snap, struct create *c)
{
    uint64_t next[DS_WORDS];
    struct space dead;
    int rc = next_words(head, snap, next);

    if (rc == 0)
        rc = deadlist_totals(snap->dsl, next[DS_DEADLIST], &dead);
    if (rc != 0)
        return rc;
    c->w[BM_FLAGS] = BM_HAS_FBN | BM_SNAPSHOT_EXISTS;
    c->w[BM_REF] = snap->w[DS_REF];
    c->w[BM_COMP] = snap->w[DS_COMP];
    c->w[BM_UNCOMP] = snap->w[DS_UNCOMP];
    c->w[BM_FREED] = (uint64_t)dead.used;
    c->w[BM_FREED_COMP] = (uint64_t)dead.comp;
    c->w[BM_FREED_UNCOMP] = (uint64_t)dead.uncomp;
    return 0;
}

static int from_snapshot(struct dsl *dsl, struct dataset *head, struct create *c)
{
    CLEANUP_DS struct dataset *snap = NULL;
    bool after = false;
    int rc = ds_hold_name(dsl, c->source, &snap);

    if (rc == -ENOENT)
        return err_set(ESRCH, "cannot open '%s': dataset does not exist", c->source);
    if (rc != 0)
        return rc;
    rc = ds_after(head, snap->dir, snap->w[DS_CTXG], &after);
    if (rc == 0 && !after)
        rc = err_set(EXDEV, "source is not an ancestor of the new bookmark's dataset");
    c->object = snap->object;
    c->w[BM_GUID] = snap->w[DS_GUID];
    c->w[BM_TXG] = snap->w[DS_CTXG];
    c->w[BM_TIME] = snap->w[DS_CTIME];
    c->count = BM_REDACT;
    if (rc == 0 && ds_zap_get(snap, KEY_IVSET, &c->w[BM_IVSET]) == 0)
        c->count = BM_WORDS;
    if (rc == 0 && feature_enabled(dsl, FEATURE_BOOKMARK_WRITTEN)) {
        c->count = BM_WORDS;
        rc = size_of_snapshot(head, snap, c);
    }
    if (!feature_enabled(dsl, FEATURE_BOOKMARK_V2))
        c->count = BM_REDACT;
    return rc;
}

static int from_bookmark(struct dsl *dsl, struct dataset *head, struct create *c)
{
    CLEANUP_DS struct dataset *other = NULL;
    const char *mark;
    int rc = hold_fs(dsl, c->source, &other, &mark);

    if (rc == 0)
        rc = look_up(other, mark, c->w, &c->count);
    if (rc == -ENOENT)
        rc = err_set(ESRCH, "cannot open '%s': no such pool or dataset", c->source);
    if (rc == 0 && other != head)
        rc = err_set(EXDEV, "source is not an ancestor of the new bookmark's dataset");
    c->w[BM_REDACT] = 0;
    return rc;
}

/* What the bookmark will be. */
static int prepare(struct dsl *dsl, struct create *c, struct dataset **head, const char **mark)
{
    uint64_t unused[BM_WORDS];
    size_t count;
    int rc = hold_fs(dsl, c->name, head, mark);

    memset(c->w, 0, sizeof c->w);
    if (rc == -ENOENT)
        rc = err_set(ENOENT, "dataset does not exist");
    if (rc != 0)
        return rc;
    rc = look_up(*head, *mark, unused, &count);
    if (rc == 0)
        return err_set(EEXIST, "bookmark exists");
    if (rc != -ENOENT)
        return rc;
    return strchr(c->source, '@') ? from_snapshot(dsl, *head, c) : from_bookmark(dsl, *head, c);
}

static int create_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    CLEANUP_DS struct dataset *head = NULL;
    const char *mark;

    if (!feature_enabled(dsl, FEATURE_BOOKMARKS))
        return err_set(ENOTSUP, "bookmark feature not enabled");
    return prepare(dsl, arg, &head, &mark);
}

static int make_zap(struct dataset *head, struct tx *tx, uint64_t *object)
{
    struct dsl *dsl = head->dsl;
    int rc = zap_create_simple(dsl->mos, OT_ZAP_METADATA, ZAP_NORM_UPPER, tx, object);

    if (rc == 0)
        rc = zapify(dsl, head->dn, tx);
    if (rc == 0)
        rc = zap_add(head->dn, KEY_BOOKMARKS, 8, 1, object, tx);
    return rc ? rc : feature_change(dsl, FEATURE_BOOKMARKS, 1, tx);
}

static int add_bookmark(struct dataset *head, const char *mark, const uint64_t *w, size_t count,
                        struct tx *tx)
{
    struct dsl *dsl = head->dsl;
    struct dnode *zap;
    uint64_t object;
    int rc = ds_zap_get(head, KEY_BOOKMARKS, &object);

    if (rc == -ENOENT)
        rc = make_zap(head, tx, &object);
    if (rc == 0)
        rc = dnode_hold(dsl->mos, object, &zap);
    if (rc != 0)
        return rc;
    rc = zap_add(zap, mark, 8, count, w, tx);
    dnode_rele(zap);
    ds_acct_reset(head);
    return rc;
}

static void log_creation(struct dataset *head, const char *mark, const struct create *c,
                         struct tx *tx)
{
    unsigned long long txg = c->w[BM_TXG], guid = c->w[BM_GUID], object = c->object;

    if (object != 0)
        dsl_event(head->dsl, "bookmark", head, tx,
                  "name=%s creation_txg=%llu target_snap=%llu redact_obj=0", mark, txg, object);
    else
        dsl_event(head->dsl, "bookmark", head, tx, "name=%s creation_txg=%llu source_guid=%llu",
                  mark, txg, guid);
}

static int create_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    CLEANUP_DS struct dataset *head = NULL;
    struct create *c = arg;
    const char *mark;
    int rc = prepare(dsl, c, &head, &mark);

    if (rc == 0)
        rc = add_bookmark(head, mark, c->w, c->count, tx);
    if (rc == 0)
        rc = bookmark_count(dsl, c->count, c->w[BM_FLAGS], 1, tx);
    if (rc == 0)
        log_creation(head, mark, c, tx);
    return rc;
}

int bookmark_create(struct dsl *dsl, const char *name, const char *source)
{
    struct create c = {.name = name, .source = source};
    int rc = bookmark_name_check(name);

    if (rc == -EINVAL)
        rc = err_set(EINVAL, "invalid argument");
    if (rc == 0 && !strpbrk(source, "@#"))
        rc = err_set(EINVAL, "'%s' is neither a snapshot nor a bookmark", source);
    if (rc == 0)
        rc = strchr(source, '#') ? bookmark_name_check(source) : dataset_name_check(source);
    return rc ? rc : dsl_task(dsl, create_check, create_sync, &c, DSL_SPACE_NORMAL);
}

/* ---- Moving to another head, when that is promoted ---- */

int bookmarks_conflict(struct dataset *from, struct dataset *to, uint64_t upto)
{
    CLEANUP_LIST struct bookmark_list a = {0}, b = {0};
    const struct bookmark_entry *other;
    int rc = bookmark_list_load(from, &a);

    if (rc == 0)
        rc = bookmark_list_load(to, &b);
    for (size_t i = 0; i < a.n && rc == 0; i++) {
        if (a.e[i].w[BM_TXG] <= upto && find(&b, a.e[i].name, &other) == 0)
            rc = err_set(EEXIST, "conflicting bookmark '%s'", a.e[i].name);
    }
    return rc;
}

static int drop_zap(struct dataset *head, uint64_t object, struct tx *tx)
{
    struct dsl *dsl = head->dsl;
    int rc = zap_remove(head->dn, KEY_BOOKMARKS, tx);

    if (rc == 0)
        rc = zap_destroy(dsl->mos, object, tx);
    return rc ? rc : feature_change(dsl, FEATURE_BOOKMARKS, -1, tx);
}

/* Takes an entry away, and the list with its last one. */
static int remove_entry(struct dataset *head, const char *mark, struct tx *tx)
{
    struct dnode *zap;
    uint64_t object, left = 0;
    int rc = ds_zap_get(head, KEY_BOOKMARKS, &object);

    if (rc == 0)
        rc = dnode_hold(head->dsl->mos, object, &zap);
    if (rc != 0)
        return rc;
    rc = zap_remove(zap, mark, tx);
    if (rc == 0)
        rc = zap_count(zap, &left);
    dnode_rele(zap);
    ds_acct_reset(head);
    return rc == 0 && left == 0 ? drop_zap(head, object, tx) : rc;
}

int bookmarks_move(struct dataset *from, struct dataset *to, uint64_t upto,
                   const struct space *freed, struct tx *tx)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    int rc = bookmark_list_load(from, &l);

    for (size_t i = 0; i < l.n && rc == 0; i++) {
        struct bookmark_entry *b = &l.e[i];

        if (b->w[BM_TXG] > upto)
            continue;
        if (b->w[BM_TXG] == upto && bookmark_has_fbn(b)) {
            b->w[BM_FREED] = (uint64_t)freed->used;
            b->w[BM_FREED_COMP] = (uint64_t)freed->comp;
            b->w[BM_FREED_UNCOMP] = (uint64_t)freed->uncomp;
        }
        rc = remove_entry(from, b->name, tx);
        if (rc == 0)
            rc = add_bookmark(to, b->name, b->w, b->count, tx);
    }
    return rc;
}

/* ---- Destroying ---- */

struct destroy {
    const char *const *names;
    size_t n;
};

static int destroy_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct destroy *d = arg;
    int rc = 0;

    for (size_t i = 0; i < d->n && rc == 0; i++) {
        CLEANUP_DS struct dataset *head = NULL;
        uint64_t w[BM_WORDS];
        const char *mark;
        size_t count;

        rc = hold_fs(dsl, d->names[i], &head, &mark);
        if (rc == 0)
            rc = look_up(head, mark, w, &count);
        if (rc == -ENOENT)
            rc = err_set(ENOENT, "bookmark '%s' does not exist.", d->names[i]);
        if (rc == 0 && w[BM_REDACT] != 0)
            rc = err_set(ENOTSUP,
                         "it has a list of redacted blocks, which this version cannot destroy");
    }
    return rc;
}

/* Did the deadlists keep a key for this bookmark alone? */
static bool last_with_key(const struct bookmark_list *l, const struct bookmark_entry *b)
{
    if (!bookmark_has_fbn(b) || (b->w[BM_FLAGS] & BM_SNAPSHOT_EXISTS))
        return false;
    for (size_t i = 0; i < l->n; i++)
        if (&l->e[i] != b && bookmark_has_fbn(&l->e[i]) && l->e[i].w[BM_TXG] == b->w[BM_TXG])
            return false;
    return true;
}

static int destroy_one(struct dataset *head, const char *mark, struct tx *tx)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    const struct bookmark_entry *b;
    struct dsl *dsl = head->dsl;
    uint64_t txg;
    int rc = bookmark_list_load(head, &l);

    if (rc == 0)
        rc = find(&l, mark, &b);
    if (rc != 0)
        return rc;
    txg = b->w[BM_TXG];
    if (last_with_key(&l, b) && txg < head->w[DS_PREV_TXG]) {
        rc = deadlist_remove_key(dsl, head->w[DS_DEADLIST], txg, tx);
        if (rc == 0)
            rc = deadlists_forget(dsl, head->dir, txg, tx);
    }
    if (rc == 0)
        rc = bookmark_count(dsl, b->count, b->w[BM_FLAGS], -1, tx);
    return rc ? rc : remove_entry(head, mark, tx);
}

static int destroy_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct destroy *d = arg;
    int rc = 0;

    for (size_t i = 0; i < d->n && rc == 0; i++) {
        CLEANUP_DS struct dataset *head = NULL;
        const char *mark;

        rc = hold_fs(dsl, d->names[i], &head, &mark);
        if (rc == 0)
            rc = destroy_one(head, mark, tx);
        if (rc == 0)
            dsl_event(dsl, "remove bookmark", head, tx, "name=%s", mark);
    }
    return rc;
}

int bookmark_destroy(struct dsl *dsl, const char *const *names, size_t n)
{
    struct destroy d = {names, n};
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = bookmark_name_check(names[i]);
    return rc ? rc : dsl_task(dsl, destroy_check, destroy_sync, &d, DSL_SPACE_RESERVED);
}

/* ---- Looking ---- */

static void fill(struct bookmark_stats *s, const char *fs, const char *mark, const uint64_t *w,
                 size_t count)
{
    memset(s, 0, sizeof *s);
    snprintf(s->name, sizeof s->name, "%.*s#%s", (int)strcspn(fs, "#"), fs, mark);
    s->guid = w[BM_GUID];
    s->creation_txg = w[BM_TXG];
    s->creation_time = w[BM_TIME];
    s->sized = count >= BM_WORDS && (w[BM_FLAGS] & BM_HAS_FBN);
    s->referenced = w[BM_REF];
    s->compressed = w[BM_COMP];
    s->uncompressed = w[BM_UNCOMP];
}

int bookmark_stats(struct dsl *dsl, const char *name, struct bookmark_stats *out)
{
    DSL_READ_GUARD(dsl);
    CLEANUP_DS struct dataset *head = NULL;
    uint64_t w[BM_WORDS];
    const char *mark;
    size_t count;
    int rc = bookmark_name_check(name);

    if (rc == 0)
        rc = hold_fs(dsl, name, &head, &mark);
    if (rc == 0)
        rc = look_up(head, mark, w, &count);
    if (rc == 0)
        fill(out, name, mark, w, count);
    return rc;
}

static int cmp_name(const void *a, const void *b)
{
    const struct bookmark_entry *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static int load_locked(struct dataset *head, struct bookmark_list *l, char fs[DATASET_NAME_MAX])
{
    DSL_READ_GUARD(head->dsl);

    if (head->dead || ds_is_snapshot(head))
        return 0;
    ds_name(head, fs);
    return bookmark_list_load(head, l);
}

int bookmark_each(struct dataset *head, bookmark_each_fn *fn, void *arg)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    char fs[DATASET_NAME_MAX];
    int rc = load_locked(head, &l, fs);

    if (l.n > 1)
        qsort(l.e, l.n, sizeof *l.e, cmp_name);
    for (size_t i = 0; i < l.n && rc == 0; i++) {
        struct bookmark_stats s;

        fill(&s, fs, l.e[i].name, l.e[i].w, l.e[i].count);
        rc = fn(arg, &s);
    }
    return rc;
}
