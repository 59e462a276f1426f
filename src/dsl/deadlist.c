/*
 * Deadlists (spec 04 6.3): for each dataset the blocks that its previous snapshot has and it has not,
 * sorted by birth into one block list per earlier snapshot. A ZAP maps the lowest birth (exclusive) of
 * each list to its object.
 *
 * The sync thread keeps the maps of the lists it used lately in memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/bytes.h"
#include "util/err.h"

#define DEADLIST_BONUS 320

struct entry {
    uint64_t key, bpobj;
};

struct deadlist {
    uint64_t object;
    struct dnode *dn;
    bool old;               /* a plain block list, of pools before version 26 */
    struct entry *e;        /* ascending keys */
    size_t n, cap;
    uint64_t w[3];          /* used, comp, uncomp */
    unsigned used_at;
};

static int cmp_entry(const void *a, const void *b)
{
    uint64_t x = ((const struct entry *)a)->key, y = ((const struct entry *)b)->key;

    return x < y ? -1 : x > y;
}

static void deadlist_close(struct deadlist *l)
{
    if (!l)
        return;
    dnode_rele(l->dn);
    free(l->e);
    free(l);
}

static int add_entry(struct deadlist *l, size_t at, uint64_t key, uint64_t bpobj)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        struct entry *e = realloc(l->e, cap * sizeof *e);

        if (!e)
            return -ENOMEM;
        l->e = e;
        l->cap = cap;
    }
    memmove(&l->e[at + 1], &l->e[at], (l->n - at) * sizeof *l->e);
    l->e[at] = (struct entry){key, bpobj};
    l->n++;
    return 0;
}

static void drop_entry(struct deadlist *l, size_t at)
{
    l->n--;
    memmove(&l->e[at], &l->e[at + 1], (l->n - at) * sizeof *l->e);
}

static int parse_key(const char *name, uint64_t *key)
{
    char *end;

    *key = strtoull(name, &end, 16);
    return *end == 0 && end != name ? 0 : -EINVAL;
}

static int read_entries(struct deadlist *l)
{
    struct zap_cursor c;
    struct zap_entry e;
    int rc;

    zap_cursor_init(&c, l->dn, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        uint64_t key;

        if (parse_key(e.name, &key) != 0)
            continue;
        rc = add_entry(l, l->n, key, e.first);
        if (rc != 0)
            return rc;
    }
    if (rc != -ENOENT)
        return rc;
    if (l->n)
        qsort(l->e, l->n, sizeof *l->e, cmp_entry);
    return 0;
}

static int read_header(struct deadlist *l)
{
    unsigned char bonus[DEADLIST_BONUS] = {0};
    size_t len;
    int rc;

    if (dnode_type(l->dn) == OT_BPOBJ) {
        l->old = true;
        return 0;
    }
    if (dnode_type(l->dn) != OT_DEADLIST)
        return err_set(EBADE, "MOS object %llu is no deadlist", (unsigned long long)l->object);
    rc = dnode_bonus_get(l->dn, bonus, sizeof bonus, &len);
    if (rc == -ERANGE)
        rc = 0;
    if (rc == 0 && len < 24)
        rc = err_set(EBADE, "the header of deadlist %llu is too short", (unsigned long long)l->object);
    memcpy(l->w, bonus, sizeof l->w);
    return rc ? rc : read_entries(l);
}

static int deadlist_open(struct dsl *dsl, uint64_t object, struct deadlist **out)
{
    struct deadlist *l = calloc(1, sizeof *l);
    int rc = l ? dnode_hold(dsl->mos, object, &l->dn) : -ENOMEM;

    if (rc == 0) {
        l->object = object;
        rc = read_header(l);
    }
    if (rc != 0) {
        deadlist_close(l);
        return err_prefix(rc, "deadlist %llu", (unsigned long long)object);
    }
    *out = l;
    return 0;
}

/* ---- The sync thread's cache ---- */

static int deadlist_get(struct dsl *dsl, uint64_t object, struct deadlist **out)
{
    unsigned victim = 0;
    int rc;

    for (unsigned i = 0; i < DEADLIST_CACHE; i++) {
        struct deadlist *l = dsl->deadlists[i];

        if (l && l->object == object) {
            l->used_at = ++dsl->deadlist_clock;
            *out = l;
            return 0;
        }
        if (!l || (dsl->deadlists[victim] && l->used_at < dsl->deadlists[victim]->used_at))
            victim = i;
    }
    rc = deadlist_open(dsl, object, out);
    if (rc != 0)
        return rc;
    /* Operations on two lists at a time get both: the least recent is never the other one. */
    deadlist_close(dsl->deadlists[victim]);
    dsl->deadlists[victim] = *out;
    (*out)->used_at = ++dsl->deadlist_clock;
    return 0;
}

static void cache_drop(struct dsl *dsl, uint64_t object)
{
    for (unsigned i = 0; i < DEADLIST_CACHE; i++) {
        if (dsl->deadlists[i] && dsl->deadlists[i]->object == object) {
            deadlist_close(dsl->deadlists[i]);
            dsl->deadlists[i] = NULL;
        }
    }
}

void deadlist_cache_clear(struct dsl *dsl)
{
    for (unsigned i = 0; i < DEADLIST_CACHE; i++) {
        deadlist_close(dsl->deadlists[i]);
        dsl->deadlists[i] = NULL;
    }
}

static int need_new_format(const struct deadlist *l)
{
    if (!l->old)
        return 0;
    return err_set(ENOTSUP, "deadlist %llu is of a format before pool version 26, which this version "
                   "only appends to", (unsigned long long)l->object);
}

/* For the checks of operations that cannot work on the old format. */
int deadlist_check(struct dsl *dsl, uint64_t object)
{
    struct dnode *dn;
    int rc = dnode_hold(dsl->mos, object, &dn);

    if (rc != 0)
        return err_prefix(rc, "deadlist %llu", (unsigned long long)object);
    if (dnode_type(dn) == OT_BPOBJ)
        rc = err_set(ENOTSUP, "the dataset's deadlist is of a format before pool version 26, which this "
                     "version only appends to");
    else if (dnode_type(dn) != OT_DEADLIST)
        rc = err_set(EBADE, "MOS object %llu is no deadlist", (unsigned long long)object);
    dnode_rele(dn);
    return rc;
}

/* ---- Small steps ---- */

int deadlist_create(struct dsl *dsl, struct tx *tx, uint64_t *object)
{
    struct object_params params = {.type = OT_DEADLIST, .bonus_type = OT_DEADLIST_HDR,
                                   .bonus_len = DEADLIST_BONUS};
    struct dnode *dn;
    int rc = zap_create(dsl->mos, &params, 0, tx, &dn);

    if (rc != 0)
        return rc;
    *object = dnode_object(dn);
    dnode_rele(dn);
    return 0;
}

int deadlist_totals(struct dsl *dsl, uint64_t object, struct space *out)
{
    unsigned char bonus[DEADLIST_BONUS] = {0};
    struct dnode *dn;
    size_t len;
    uint64_t w[3];
    int rc = dnode_hold(dsl->mos, object, &dn);

    if (rc != 0)
        return rc;
    if (dnode_type(dn) == OT_BPOBJ) {
        dnode_rele(dn);
        return bpobj_space(dsl, object, out);
    }
    rc = dnode_bonus_get(dn, bonus, sizeof bonus, &len);
    dnode_rele(dn);
    memcpy(w, bonus, sizeof w);
    *out = (struct space){(int64_t)w[0], (int64_t)w[1], (int64_t)w[2]};
    return rc == -ERANGE ? 0 : rc;
}

static int write_totals(struct deadlist *l, const struct space *delta, int sign, struct tx *tx)
{
    l->w[0] += (uint64_t)(sign * delta->used);
    l->w[1] += (uint64_t)(sign * delta->comp);
    l->w[2] += (uint64_t)(sign * delta->uncomp);
    return dnode_bonus_patch(l->dn, 0, l->w, sizeof l->w, tx);
}

static int zap_put(struct deadlist *l, uint64_t key, uint64_t bpobj, struct tx *tx)
{
    char name[17];

    zap_int_key(key, name);
    return zap_update(l->dn, name, 8, 1, &bpobj, tx);
}

static int zap_drop(struct deadlist *l, uint64_t key, struct tx *tx)
{
    char name[17];

    zap_int_key(key, name);
    return zap_remove(l->dn, name, tx);
}

/* The entry with the greatest key below (or at, if exact) key; false if there is none. */
static bool find_entry(const struct deadlist *l, uint64_t key, bool exact, size_t *at)
{
    size_t lo = 0, hi = l->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (l->e[mid].key < key || (exact && l->e[mid].key == key))
            lo = mid + 1;
        else
            hi = mid;
    }
    *at = lo - 1;
    return lo > 0;
}

static int missing_key(const struct deadlist *l, uint64_t birth)
{
    return err_set(EBADE, "deadlist %llu has no list for blocks of txg %llu",
                   (unsigned long long)l->object, (unsigned long long)birth);
}

/* A private list in place of the shared empty one, before something is put there. */
static int own_list(struct dsl *dsl, struct deadlist *l, size_t at, struct tx *tx)
{
    uint64_t bpobj;
    int rc;

    if (l->e[at].bpobj != dsl->empty_bpobj)
        return 0;
    rc = bpobj_create(dsl, 0, tx, &bpobj);
    if (rc == 0)
        rc = zap_put(l, l->e[at].key, bpobj, tx);
    if (rc != 0)
        return rc;
    l->e[at].bpobj = bpobj;
    return bpobj_drop_empty(dsl, 1, tx);
}

/* ---- Inserting ---- */

static int cmp_birth(const void *a, const void *b)
{
    uint64_t x = bp_alloc_birth(a), y = bp_alloc_birth(b);

    return x < y ? -1 : x > y;
}

static int insert_run(struct dsl *dsl, struct deadlist *l, const struct blkptr *bps, size_t n,
                      struct tx *tx)
{
    struct space sum = {0}, s;
    size_t at;
    int rc;

    if (!find_entry(l, bp_alloc_birth(bps), false, &at))
        return missing_key(l, bp_alloc_birth(bps));
    rc = own_list(dsl, l, at, tx);
    if (rc == 0)
        rc = bpobj_append(dsl, l->e[at].bpobj, bps, n, tx);
    for (size_t i = 0; i < n; i++) {
        space_of_bp(dsl->pool, &bps[i], &s);
        space_add(&sum, &s, 1);
    }
    return rc ? rc : write_totals(l, &sum, 1, tx);
}

int deadlist_insert(struct dsl *dsl, uint64_t object, struct blkptr *bps, size_t n, struct tx *tx)
{
    struct deadlist *l;
    int rc = deadlist_get(dsl, object, &l);

    if (rc != 0 || n == 0)
        return rc;
    if (l->old)
        return bpobj_append(dsl, object, bps, n, tx);
    qsort(bps, n, sizeof *bps, cmp_birth);
    for (size_t i = 0; i < n && rc == 0;) {
        size_t at, end = i;
        uint64_t limit = KEY_MAX;

        if (!find_entry(l, bp_alloc_birth(&bps[i]), false, &at))
            return missing_key(l, bp_alloc_birth(&bps[i]));
        if (at + 1 < l->n)
            limit = l->e[at + 1].key;
        while (end < n && bp_alloc_birth(&bps[end]) <= limit)
            end++;
        rc = insert_run(dsl, l, &bps[i], end - i, tx);
        i = end;
    }
    return rc;
}

/* ---- Whole lists ---- */

/* Adds key -> empty for the keys of src below maxtxg. */
static int clone_keys(struct dsl *dsl, const struct deadlist *src, uint64_t maxtxg, struct deadlist *to,
                      struct tx *tx)
{
    int rc = 0;

    for (size_t i = 0; i < src->n && src->e[i].key < maxtxg && rc == 0; i++) {
        uint64_t empty;

        rc = bpobj_take_empty(dsl, tx, &empty);
        if (rc == 0)
            rc = zap_put(to, src->e[i].key, empty, tx);
        if (rc == 0)
            rc = add_entry(to, to->n, src->e[i].key, empty);
    }
    return rc;
}

int deadlist_clone(struct dsl *dsl, uint64_t object, uint64_t maxtxg, struct tx *tx, uint64_t *out)
{
    struct deadlist *l, *to;
    int rc = deadlist_get(dsl, object, &l);

    if (rc == 0)
        rc = need_new_format(l);
    if (rc == 0)
        rc = deadlist_create(dsl, tx, out);
    if (rc == 0)
        rc = deadlist_get(dsl, *out, &to);
    return rc ? rc : clone_keys(dsl, l, maxtxg, to, tx);
}

int deadlist_add_key(struct dsl *dsl, uint64_t object, uint64_t key, struct tx *tx)
{
    struct deadlist *l;
    uint64_t empty;
    size_t at;
    bool below;
    int rc = deadlist_get(dsl, object, &l);

    if (rc == 0)
        rc = need_new_format(l);
    if (rc != 0)
        return rc;
    below = find_entry(l, key, true, &at);
    if (below && l->e[at].key == key)
        return 0;
    rc = bpobj_take_empty(dsl, tx, &empty);
    if (rc == 0)
        rc = zap_put(l, key, empty, tx);
    return rc ? rc : add_entry(l, below ? at + 1 : 0, key, empty);
}

/* Merges a list into the entry for key (exact: that very key counts). */
static int merge_into(struct dsl *dsl, struct deadlist *l, uint64_t key, bool exact, uint64_t bpobj,
                      struct tx *tx)
{
    size_t at;
    int rc;

    if (!find_entry(l, key, exact, &at))
        return missing_key(l, key);
    if (bpobj == dsl->empty_bpobj)
        return bpobj_drop_empty(dsl, 1, tx);
    if (l->e[at].bpobj != dsl->empty_bpobj)
        return bpobj_enqueue(dsl, l->e[at].bpobj, bpobj, tx);
    rc = zap_put(l, l->e[at].key, bpobj, tx);
    l->e[at].bpobj = bpobj;
    return rc ? rc : bpobj_drop_empty(dsl, 1, tx);
}

int deadlist_remove_key(struct dsl *dsl, uint64_t object, uint64_t key, struct tx *tx)
{
    struct deadlist *l;
    uint64_t bpobj;
    size_t at;
    int rc = deadlist_get(dsl, object, &l);

    if (rc == 0)
        rc = need_new_format(l);
    if (rc != 0)
        return rc;
    if (!find_entry(l, key, true, &at) || l->e[at].key != key)
        return 0;
    bpobj = l->e[at].bpobj;
    rc = zap_drop(l, key, tx);
    drop_entry(l, at);
    return rc ? rc : merge_into(dsl, l, key, false, bpobj, tx);
}

static int space_of(struct dsl *dsl, const struct deadlist *l, uint64_t lo, uint64_t hi, struct space *out)
{
    int rc = need_new_format(l);

    *out = (struct space){0};
    for (size_t i = 0; rc == 0 && i < l->n; i++) {
        struct space s;

        if (l->e[i].key < lo || l->e[i].key >= hi || l->e[i].bpobj == dsl->empty_bpobj)
            continue;
        rc = bpobj_space(dsl, l->e[i].bpobj, &s);
        if (rc == 0)
            space_add(out, &s, 1);
    }
    return rc;
}

int deadlist_space(struct dsl *dsl, uint64_t object, uint64_t lo, uint64_t hi, struct space *out)
{
    struct deadlist *l;
    int rc = deadlist_get(dsl, object, &l);

    return rc ? rc : space_of(dsl, l, lo, hi, out);
}

int deadlist_space_read(struct dsl *dsl, uint64_t object, uint64_t lo, uint64_t hi, struct space *out)
{
    struct deadlist *l;
    int rc = deadlist_open(dsl, object, &l);

    if (rc != 0)
        return rc;
    rc = space_of(dsl, l, lo, hi, out);
    deadlist_close(l);
    return rc;
}

int deadlist_move(struct dsl *dsl, uint64_t object, uint64_t lo, uint64_t bpobj, struct tx *tx)
{
    struct deadlist *l;
    int rc = deadlist_get(dsl, object, &l);

    if (rc == 0)
        rc = need_new_format(l);
    while (rc == 0 && l->n > 0 && l->e[l->n - 1].key >= lo) {
        struct entry e = l->e[l->n - 1];
        struct space s = {0};

        if (e.bpobj != dsl->empty_bpobj)
            rc = bpobj_space(dsl, e.bpobj, &s);
        if (rc == 0)
            rc = bpobj_enqueue(dsl, bpobj, e.bpobj, tx);
        if (rc == 0)
            rc = zap_drop(l, e.key, tx);
        if (rc == 0)
            rc = write_totals(l, &s, -1, tx);
        l->n--;
    }
    return rc;
}

static int merge_entry(struct dsl *dsl, struct deadlist *into, struct deadlist *from, struct tx *tx)
{
    struct entry e = from->e[from->n - 1];
    struct space s = {0};
    int rc = e.bpobj == dsl->empty_bpobj ? 0 : bpobj_space(dsl, e.bpobj, &s);

    if (rc == 0)
        rc = write_totals(into, &s, 1, tx);
    if (rc == 0)
        rc = merge_into(dsl, into, e.key, true, e.bpobj, tx);
    if (rc == 0)
        rc = zap_drop(from, e.key, tx);
    from->n--;
    return rc;
}

int deadlist_merge(struct dsl *dsl, uint64_t into, uint64_t from, struct tx *tx)
{
    struct deadlist *a, *b;
    int rc = deadlist_get(dsl, into, &a);

    if (rc == 0)
        rc = deadlist_get(dsl, from, &b);
    if (rc == 0)
        rc = need_new_format(a);
    if (rc == 0)
        rc = need_new_format(b);
    while (rc == 0 && b->n > 0)
        rc = merge_entry(dsl, a, b, tx);
    if (rc == 0) {
        memset(b->w, 0, sizeof b->w);
        rc = dnode_bonus_patch(b->dn, 0, b->w, sizeof b->w, tx);
    }
    return rc;
}

int deadlist_free(struct dsl *dsl, uint64_t object, struct tx *tx)
{
    struct deadlist *l;
    uint64_t shared = 0;
    int rc = deadlist_get(dsl, object, &l);

    if (rc != 0)
        return rc;
    if (l->old) {
        cache_drop(dsl, object);
        return bpobj_free(dsl, object, tx);
    }
    for (size_t i = 0; i < l->n && rc == 0; i++) {
        if (l->e[i].bpobj == dsl->empty_bpobj)
            shared++;
        else
            rc = bpobj_free(dsl, l->e[i].bpobj, tx);
    }
    if (rc == 0)
        rc = object_free(l->dn, tx);
    cache_drop(dsl, object);
    return rc || shared == 0 ? rc : bpobj_drop_empty(dsl, shared, tx);
}

/* ---- For livelists that are being deleted ---- */

/* The entry with the greatest key; *bpobj 0 if there is none. */
int deadlist_last(struct dsl *dsl, uint64_t object, uint64_t *key, uint64_t *bpobj)
{
    struct deadlist *l;
    int rc = deadlist_get(dsl, object, &l);

    *key = *bpobj = 0;
    if (rc == 0)
        rc = need_new_format(l);
    if (rc == 0 && l->n > 0) {
        *key = l->e[l->n - 1].key;
        *bpobj = l->e[l->n - 1].bpobj;
    }
    return rc;
}

/* Removes it with its list, whose blocks have been dealt with. */
int deadlist_drop_last(struct dsl *dsl, uint64_t object, struct space *gone, struct tx *tx)
{
    struct deadlist *l;
    struct entry e;
    int rc = deadlist_get(dsl, object, &l);

    if (rc != 0)
        return rc;
    e = l->e[--l->n];
    *gone = (struct space){0};
    rc = zap_drop(l, e.key, tx);
    if (rc == 0 && e.bpobj == dsl->empty_bpobj)
        return bpobj_drop_empty(dsl, 1, tx);
    if (rc == 0)
        rc = bpobj_space(dsl, e.bpobj, gone);
    if (rc == 0)
        rc = bpobj_free(dsl, e.bpobj, tx);
    return rc ? rc : write_totals(l, gone, -1, tx);
}
