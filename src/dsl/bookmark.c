/*
 * Keeping bookmarks right that know what was freed since (flag HAS_FBN, spec 04 12). The bookmarks of a
 * head are in a ZAP named in its own; each is an array of 64-bit words.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/bookmark_impl.h"
#include "util/err.h"

void bookmark_list_free(struct bookmark_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->e[i].name);
    free(l->e);
    dnode_rele(l->zap);
}

/* An entry of so many words: of a longer one than this version knows the first. */
static int read_words(struct dnode *zap, const char *name, size_t count, uint64_t w[BM_WORDS])
{
    uint64_t *all;
    int rc;

    if (count <= BM_WORDS)
        return zap_lookup(zap, name, 8, count, w);
    all = calloc(count, 8);
    rc = all ? zap_lookup(zap, name, 8, count, all) : -ENOMEM;
    if (rc == 0)
        memcpy(w, all, BM_WORDS * sizeof *w);
    free(all);
    return rc;
}

static int add_entry(struct bookmark_list *l, const struct zap_entry *e)
{
    struct bookmark_entry *b;

    if (e->size != 8 || e->count == 0)
        return err_set(EBADE, "bookmark %s has a value of the wrong form", e->name);
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        struct bookmark_entry *grown = realloc(l->e, cap * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        l->e = grown;
        l->cap = cap;
    }
    b = &l->e[l->n];
    memset(b, 0, sizeof *b);
    b->name = strdup(e->name);
    if (!b->name)
        return -ENOMEM;
    l->n++;
    b->count = e->count < BM_WORDS ? e->count : BM_WORDS;
    return read_words(l->zap, e->name, e->count, b->w);
}

int bookmark_list_load(struct dataset *head, struct bookmark_list *l)
{
    struct zap_cursor c;
    struct zap_entry e;
    uint64_t object;
    int rc = ds_zap_get(head, KEY_BOOKMARKS, &object);

    memset(l, 0, sizeof *l);
    if (rc != 0)
        return rc == -ENOENT ? 0 : rc;
    rc = dnode_hold(head->dsl->mos, object, &l->zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, l->zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        rc = add_entry(l, &e);
        if (rc != 0)
            return rc;
    }
    return rc == -ENOENT ? 0 : rc;
}

static int write_entry(struct bookmark_list *l, const struct bookmark_entry *b, struct tx *tx)
{
    return zap_update(l->zap, b->name, 8, BM_WORDS, b->w, tx);
}

/* The counts of the features that an entry uses. */
int bookmark_count(struct dsl *dsl, size_t count, uint64_t flags, int delta, struct tx *tx)
{
    int rc = 0;

    /* The reference can have counted more or fewer of them (04 17.10). */
    if (count > BM_REDACT && (delta > 0 || feature_refs(dsl, FEATURE_BOOKMARK_V2) > 0))
        rc = feature_change(dsl, FEATURE_BOOKMARK_V2, delta, tx);
    if (rc == 0 && count >= BM_WORDS && (flags & BM_HAS_FBN))
        rc = feature_change(dsl, FEATURE_BOOKMARK_WRITTEN, delta, tx);
    return rc;
}

/* ---- While blocks are killed ---- */

int bookmarks_load_fbn(struct dataset *head, struct fbn **out, size_t *n)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    int rc = bookmark_list_load(head, &l);

    *out = NULL;
    *n = 0;
    if (rc != 0 || l.n == 0)
        return rc;
    *out = calloc(l.n, sizeof **out);
    if (!*out)
        return -ENOMEM;
    for (size_t i = 0; i < l.n; i++) {
        if (!bookmark_has_fbn(&l.e[i]))
            continue;
        (*out)[*n].txg = l.e[i].w[BM_TXG];
        (*out)[*n].name = l.e[i].name;
        l.e[i].name = NULL;
        (*n)++;
    }
    return 0;
}

void bookmarks_free_fbn(struct fbn *fbn, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(fbn[i].name);
    free(fbn);
}

static int write_fbn(struct dnode *zap, struct fbn *f, struct tx *tx)
{
    uint64_t w[BM_WORDS] = {0};
    unsigned size;
    size_t count;
    int rc;

    if (f->used == 0 && f->comp == 0 && f->uncomp == 0)
        return 0;
    rc = zap_length(zap, f->name, &size, &count);
    if (rc == 0)
        rc = read_words(zap, f->name, count, w);
    if (rc != 0)
        return rc;
    w[BM_FREED] += (uint64_t)atomic_exchange(&f->used, 0);
    w[BM_FREED_COMP] += (uint64_t)atomic_exchange(&f->comp, 0);
    w[BM_FREED_UNCOMP] += (uint64_t)atomic_exchange(&f->uncomp, 0);
    return zap_update(zap, f->name, 8, BM_WORDS, w, tx);
}

int bookmarks_write_fbn(struct dataset *head, struct tx *tx)
{
    struct dnode *zap;
    uint64_t object;
    int rc;

    if (head->nfbn == 0)
        return 0;
    rc = ds_zap_get(head, KEY_BOOKMARKS, &object);
    if (rc == 0)
        rc = dnode_hold(head->dsl->mos, object, &zap);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < head->nfbn && rc == 0; i++)
        rc = write_fbn(zap, &head->fbn[i], tx);
    dnode_rele(zap);
    return rc;
}

/* ---- Snapshots come and go ---- */

int bookmarks_add_keys(struct dataset *head, uint64_t deadlist, uint64_t old_prev_txg, struct tx *tx)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    int rc = bookmark_list_load(head, &l);

    for (size_t i = 0; i < l.n && rc == 0; i++)
        if (bookmark_has_fbn(&l.e[i]) && l.e[i].w[BM_TXG] > old_prev_txg)
            rc = deadlist_add_key(head->dsl, deadlist, l.e[i].w[BM_TXG], tx);
    return rc;
}

static int one_snapshot_gone(struct dataset *snap, struct bookmark_list *l, struct bookmark_entry *b,
                             uint64_t next_deadlist, bool *keep, struct tx *tx)
{
    uint64_t txg = b->w[BM_TXG];
    struct space s;
    int rc;

    if (txg >= snap->w[DS_PREV_TXG] && txg < snap->w[DS_CTXG]) {
        rc = deadlist_space(snap->dsl, next_deadlist, 0, txg, &s);
        if (rc != 0)
            return rc;
        b->w[BM_FREED] += (uint64_t)s.used;
        b->w[BM_FREED_COMP] += (uint64_t)s.comp;
        b->w[BM_FREED_UNCOMP] += (uint64_t)s.uncomp;
        return write_entry(l, b, tx);
    }
    if (txg != snap->w[DS_CTXG])
        return 0;
    b->w[BM_FLAGS] &= ~(uint64_t)BM_SNAPSHOT_EXISTS;
    *keep = true;
    return write_entry(l, b, tx);
}

int bookmarks_snapshot_gone(struct dataset *head, struct dataset *snap, uint64_t next_deadlist, bool *keep,
                            struct tx *tx)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    int rc = bookmark_list_load(head, &l);

    *keep = false;
    for (size_t i = 0; i < l.n && rc == 0; i++)
        if (bookmark_has_fbn(&l.e[i]))
            rc = one_snapshot_gone(snap, &l, &l.e[i], next_deadlist, keep, tx);
    return rc;
}

int bookmarks_newest(struct dataset *head, uint64_t *txg)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    int rc = bookmark_list_load(head, &l);

    *txg = 0;
    for (size_t i = 0; i < l.n && rc == 0; i++)
        if (l.e[i].count > BM_TXG && l.e[i].w[BM_TXG] > *txg)
            *txg = l.e[i].w[BM_TXG];
    return rc;
}

/* The head is what the snapshot of txg is: nothing has been freed since. */
int bookmarks_rolled_back(struct dataset *head, uint64_t txg, struct tx *tx)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    int rc = bookmark_list_load(head, &l);

    for (size_t i = 0; i < l.n && rc == 0; i++) {
        uint64_t *w = l.e[i].w;

        if (!bookmark_has_fbn(&l.e[i]) || w[BM_TXG] != txg)
            continue;
        w[BM_FREED] = w[BM_FREED_COMP] = w[BM_FREED_UNCOMP] = 0;
        rc = write_entry(&l, &l.e[i], tx);
    }
    return rc;
}

/* With the dataset. */
int bookmarks_destroy_all(struct dataset *head, struct tx *tx)
{
    CLEANUP_LIST struct bookmark_list l = {0};
    struct dsl *dsl = head->dsl;
    int rc = bookmark_list_load(head, &l);

    if (rc != 0 || !l.zap)
        return rc;
    for (size_t i = 0; i < l.n && rc == 0; i++) {
        if (l.e[i].count > BM_REDACT && l.e[i].w[BM_REDACT] != 0)
            return err_set(ENOTSUP, "the dataset has redaction bookmarks, which this version cannot "
                           "destroy");
        rc = bookmark_count(dsl, l.e[i].count, l.e[i].w[BM_FLAGS], -1, tx);
    }
    if (rc == 0)
        rc = zap_remove(head->dn, KEY_BOOKMARKS, tx);
    if (rc == 0)
        rc = zap_destroy(dsl->mos, dnode_object(l.zap), tx);
    if (rc == 0)
        rc = feature_change(dsl, FEATURE_BOOKMARKS, -1, tx);
    return rc;
}
