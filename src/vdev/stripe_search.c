/*
 * All columns could be read, or computed, and still the block is wrong: some device told wrong
 * bytes and does not know it. Every combination of up to nparity devices is taken to be the liars;
 * what they told is computed from the rest, and the block's checksum says whether that was it. A
 * liar is a device, not a column, since one that damages one row of a block may have damaged
 * another.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/raidz.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "vdev/stripe_impl.h"
#include "vdev/vdev_impl.h"

#define TRIED_BYTES_MAX (1ull << 36) /* a very wide vdev with nothing but damage would take hours  \
                                      */

struct search {
    struct stripe_map *m;
    unsigned char *told; /* what the devices told, all columns in order */
    size_t size;         /* of all data */
    unsigned suspect[RAIDZ_COLUMNS_MAX], suspects;
    bool liar[256]; /* by child */
    const void *data;
    int (*verify)(void *arg, const void *data);
    void *arg;
};

/* Calls fn with each column and what its device told. */
static bool each_column(struct search *s, bool (*fn)(struct search *s, struct stripe_column *col,
                                                     unsigned char *told))
{
    unsigned char *told = s->told;

    for (unsigned c = 0; c < s->m->cols; c++) {
        if (!fn(s, &s->m->col[c], told))
            return false;
        told += s->m->col[c].size;
    }
    return true;
}

static bool keep(struct search *s, struct stripe_column *col, unsigned char *told)
{
    if (col->data)
        memcpy(told, col->data, col->size);
    return true;
}

static bool restore(struct search *s, struct stripe_column *col, unsigned char *told)
{
    if (col->data && col->rc == 0 && s->liar[col->child])
        memcpy(col->data, told, col->size);
    return true;
}

/* Computes one stripe as if the suspects had told nothing. False: too much is missing then. */
static bool suppose(struct search *s, const struct stripe *t)
{
    struct raidz_column column[RAIDZ_COLUMNS_MAX];
    bool bad[RAIDZ_COLUMNS_MAX];
    unsigned nparity = s->m->nparity;

    for (unsigned c = 0; c < t->cols; c++) {
        const struct stripe_column *col = &s->m->col[t->first + c];
        bad[c] = col->size && (col->rc != 0 || s->liar[col->child]);
        column[c] = (struct raidz_column){c < nparity && bad[c] ? NULL : col->data, col->size};
    }
    return raidz_reconstruct(column, t->cols, nparity, bad) == 0;
}

static int attempt(struct search *s)
{
    int rc = -EBADE;
    bool possible = true;

    for (unsigned i = 0; i < s->m->stripes && possible; i++)
        possible = suppose(s, &s->m->stripe[i]);
    if (possible)
        rc = s->verify(s->arg, s->data);
    if (rc)
        each_column(s, restore);
    return rc;
}

/* The next choice of k suspects, as ascending indices; false after the last one. */
static bool next_choice(unsigned *index, unsigned k, unsigned n)
{
    for (unsigned i = k; i-- > 0;) {
        if (index[i] == n - k + i)
            continue;
        index[i]++;
        for (unsigned j = i + 1; j < k; j++)
            index[j] = index[j - 1] + 1;
        return true;
    }
    return false;
}

static void set_liars(struct search *s, const unsigned *index, unsigned k)
{
    memset(s->liar, 0, sizeof s->liar);
    for (unsigned i = 0; i < k; i++)
        s->liar[s->suspect[index[i]]] = true;
}

static int try_all(struct search *s, int first)
{
    uint64_t tried = 0;

    for (unsigned k = 1; k <= s->m->nparity && k <= s->suspects; k++) {
        unsigned index[RAIDZ_PARITY_MAX] = {0, 1, 2};
        do {
            set_liars(s, index, k);
            int rc = attempt(s);
            if (rc != -EBADE && rc != -ESTALE)
                return rc;
            tried += s->size;
        } while (next_choice(index, k, s->suspects) && tried < TRIED_BYTES_MAX);
    }
    return first;
}

void stripe_convict(const struct stripe_map *m)
{
    bool counted[256] = {false};

    for (unsigned c = 0; c < m->cols; c++) {
        const struct stripe_column *col = &m->col[c];
        if (!col->wrong || col->stale || counted[col->child])
            continue;
        counted[col->child] = true;
        vdev_count_wrong(m->v->child[col->child]);
    }
}

static int begin(struct search *s, uint64_t birth)
{
    size_t total = 0;
    bool seen[256] = {false};
    int rc = stripe_parity_memory(s->m);

    for (unsigned c = 0; c < s->m->cols; c++)
        if (s->m->col[c].rc == COLUMN_UNREAD)
            s->m->col[c].rc = COLUMN_WANTED;
    rc = rc ? rc : stripe_run(s->m, false, birth);
    if (rc)
        return rc;
    for (unsigned c = 0; c < s->m->cols; c++) {
        const struct stripe_column *col = &s->m->col[c];
        total += col->size;
        if (col->rc == 0 && col->size && !seen[col->child]) {
            seen[col->child] = true;
            s->suspect[s->suspects++] = col->child;
        }
    }
    s->size = total;
    s->told = malloc(total ? total : 1);
    if (!s->told)
        return -ENOMEM;
    each_column(s, keep);
    return 0;
}

static bool compare(struct search *s, struct stripe_column *col, unsigned char *told)
{
    col->wrong = col->rc == 0 && memcmp(col->data, told, col->size) != 0;
    return true;
}

/* The data is right now; so is the parity that follows from it. Whoever told something else is
 * wrong. */
static void convict(struct search *s)
{
    for (unsigned i = 0; i < s->m->stripes; i++)
        stripe_generate(s->m, &s->m->stripe[i]);
    each_column(s, compare);
    stripe_convict(s->m);
}

/* Nothing helps: the damage is on more devices than can be found, so all are suspect. */
static void accuse_all(const struct search *s)
{
    vdev_count_wrong(s->m->v);
    for (unsigned i = 0; i < s->suspects; i++)
        vdev_count_wrong(s->m->v->child[s->suspect[i]]);
}

int stripe_search(struct stripe_map *m, uint64_t birth, int first, const void *data,
                  int (*verify)(void *arg, const void *data), void *arg)
{
    struct search *s CLEANUP_FREE = calloc(1, sizeof *s);
    int rc;

    if (!s)
        return -ENOMEM;
    *s = (struct search){.m = m, .data = data, .verify = verify, .arg = arg};
    rc = begin(s, birth);
    rc = rc ? rc : try_all(s, first);
    if (rc == 0)
        convict(s);
    else if (rc == -EBADE)
        accuse_all(s);
    free(s->told);
    return rc;
}
