/*
 * With m data columns, parity p weighs data column i by (2^p)^(m-1-i): 1, powers of 2, powers of 4.
 * Missing data columns are the unknowns of as many equations as there are; the inverse of that
 * small matrix, multiplied by the weights of the rest, gives each missing column as one linear
 * combination of what is there. So generating and reconstructing are the same loop (raidz_impl.h)
 * with other factors.
 */
#include "codec/raidz.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "codec/raidz_impl.h"
#include "util/bytes.h"

const struct raidz_variant raidz_variants[] = {
#if defined(__x86_64__)
    {"gfni512", raidz_gfni512_supported, raidz_gfni512},
    {"gfni", raidz_gfni_supported, raidz_gfni},
    {"avx2", raidz_avx2_supported, raidz_avx2},
    {"ssse3", raidz_ssse3_supported, raidz_ssse3},
#elif defined(__aarch64__)
    {"neon", NULL, raidz_neon},
#endif
    {"plain", NULL, raidz_plain},
};
const size_t raidz_variant_count = ARRAY_LEN(raidz_variants);

static const struct raidz_variant *_Atomic chosen;

void raidz_use(const struct raidz_variant *v)
{
    atomic_store_explicit(&chosen, v, memory_order_release);
}

static const struct raidz_variant *choose(void)
{
    const struct raidz_variant *v = atomic_load_explicit(&chosen, memory_order_acquire);

    if (v)
        return v;
    for (v = raidz_variants; v->supported && !v->supported(); v++)
        ;
    raidz_use(v);
    return v;
}

const char *raidz_implementation(void)
{
    return choose()->name;
}

/* One side of a job: a column and its factors. */
struct input {
    const struct raidz_column *col;
    unsigned char factor[RAIDZ_PARITY_MAX];
};

struct combination {
    unsigned outs, ins;
    const struct raidz_column *out[RAIDZ_PARITY_MAX];
    struct input in[RAIDZ_COLUMNS_MAX];
};

/* The part of the columns from start to end, where no column ends between; which ones are there
 * differs from part to part. */
static void run_part(const struct combination *c, size_t start, size_t end)
{
    struct raidz_job job; /* large: what is not used stays undefined */
    unsigned row[RAIDZ_PARITY_MAX];

    job.n = end - start;
    job.outs = job.ins = 0;
    for (unsigned o = 0; o < c->outs; o++)
        if (c->out[o]->size > start) {
            row[job.outs] = o;
            job.out[job.outs++] = c->out[o]->data + start;
        }
    if (job.outs == 0)
        return;
    job.sum = true;
    for (unsigned i = 0; i < c->ins; i++) {
        if (c->in[i].col->size <= start)
            continue;
        for (unsigned o = 0; o < job.outs; o++)
            job.coef[o][job.ins] = c->in[i].factor[row[o]];
        job.sum &= job.coef[0][job.ins] == 1;
        job.in[job.ins++] = c->in[i].col->data + start;
    }
    choose()->run(&job);
}

static size_t next_end(const struct combination *c, size_t start)
{
    size_t end = SIZE_MAX;

    for (unsigned i = 0; i < c->ins; i++)
        if (c->in[i].col->size > start)
            end = MIN(end, c->in[i].col->size);
    for (unsigned o = 0; o < c->outs; o++)
        if (c->out[o]->size > start)
            end = MIN(end, c->out[o]->size);
    return end;
}

static void combine(const struct combination *c)
{
    for (size_t start = 0, end; (end = next_end(c, start)) != SIZE_MAX; start = end)
        run_part(c, start, end);
}

/* Of parity p, for data column i of m. */
static unsigned char weight(unsigned p, unsigned i, unsigned m)
{
    return raidz_tables()->power[p * (m - 1 - i) % 255];
}

/* The parity columns with which[p] set; NULL: all. */
static void make_parity(const struct raidz_column *col, unsigned cols, unsigned nparity,
                        const bool *which)
{
    struct combination c;

    c.outs = c.ins = 0;
    for (unsigned i = 0; i < cols - nparity; i++)
        c.in[c.ins++].col = &col[nparity + i];
    for (unsigned p = 0; p < nparity; p++) {
        if ((which && !which[p]) || !col[p].data)
            continue;
        for (unsigned i = 0; i < c.ins; i++)
            c.in[i].factor[c.outs] = weight(p, i, c.ins);
        c.out[c.outs++] = &col[p];
    }
    if (c.outs > 0)
        combine(&c);
}

void raidz_generate(const struct raidz_column *col, unsigned cols, unsigned nparity)
{
    make_parity(col, cols, nparity, NULL);
}

/* The inverse of the k x k matrix a, by Gauss and Jordan. The matrices here are always regular. */
static void invert(unsigned k, unsigned char a[3][3], unsigned char inverse[3][3])
{
    const struct raidz_tables *t = raidz_tables();

    for (unsigned r = 0; r < k; r++)
        for (unsigned c = 0; c < k; c++)
            inverse[r][c] = r == c;
    for (unsigned c = 0; c < k; c++) {
        unsigned pivot = c;
        while (pivot + 1 < k && a[pivot][c] == 0)
            pivot++;
        for (unsigned i = 0; pivot != c && i < k; i++) {
            a[c][i] ^= a[pivot][i];
            inverse[c][i] ^= inverse[pivot][i];
        }
        unsigned char f = t->power[(255 - t->log[a[c][c]]) % 255];
        for (unsigned i = 0; i < k; i++) {
            a[c][i] = raidz_mul(a[c][i], f);
            inverse[c][i] = raidz_mul(inverse[c][i], f);
        }
        for (unsigned r = 0; r < k; r++) {
            unsigned char g = a[r][c];
            for (unsigned i = 0; r != c && i < k; i++) {
                a[r][i] ^= raidz_mul(g, a[c][i]);
                inverse[r][i] ^= raidz_mul(g, inverse[c][i]);
            }
        }
    }
}

/* The missing data columns, from the parity columns in use and the data that is there. */
static void solve(const struct raidz_column *col, unsigned cols, unsigned nparity, const bool *bad,
                  const unsigned *missing, const unsigned *parity, unsigned k)
{
    unsigned m = cols - nparity;
    unsigned char a[3][3], inverse[3][3];
    struct combination c;

    for (unsigned r = 0; r < k; r++)
        for (unsigned i = 0; i < k; i++)
            a[r][i] = weight(parity[r], missing[i], m);
    invert(k, a, inverse);
    c.outs = k;
    c.ins = 0;
    for (unsigned o = 0; o < k; o++)
        c.out[o] = &col[nparity + missing[o]];
    for (unsigned r = 0; r < k; r++) {
        struct input *in = &c.in[c.ins++];
        in->col = &col[parity[r]];
        for (unsigned o = 0; o < k; o++)
            in->factor[o] = inverse[o][r];
    }
    for (unsigned i = 0; i < m; i++) {
        if (bad[nparity + i])
            continue;
        struct input *in = &c.in[c.ins++];
        in->col = &col[nparity + i];
        for (unsigned o = 0; o < k; o++) {
            in->factor[o] = 0;
            for (unsigned r = 0; r < k; r++)
                in->factor[o] ^= raidz_mul(inverse[o][r], weight(parity[r], i, m));
        }
    }
    combine(&c);
}

int raidz_reconstruct(const struct raidz_column *col, unsigned cols, unsigned nparity,
                      const bool *bad)
{
    unsigned missing[RAIDZ_PARITY_MAX], parity[RAIDZ_PARITY_MAX];
    unsigned lost = 0, have = 0, total = 0;

    for (unsigned c = 0; c < cols; c++)
        total += bad[c];
    if (total > nparity)
        return -EINVAL;
    for (unsigned i = nparity; i < cols; i++)
        if (bad[i])
            missing[lost++] = i - nparity;
    for (unsigned p = 0; p < nparity && have < lost; p++)
        if (!bad[p])
            parity[have++] = p;
    if (lost > 0)
        solve(col, cols, nparity, bad, missing, parity, lost);
    if (total > lost)
        make_parity(col, cols, nparity, bad);
    return 0;
}
