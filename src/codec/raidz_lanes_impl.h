/*
 * The loop of all vector variants; included once for each. Before it: LANES_FN(name), TARGET, VEC,
 * VECS (vectors per step: their bytes divide RAIDZ_UNIT), LOAD(p), STORE(p, v), XOR(a, b), ZERO,
 * TABLE (what multiplies by a factor), TABLE_OF(tables, factor), TIMES(v, table).
 *
 * The sums of a step stay in registers while the columns pass by; the counts of outputs are
 * constants for the compiler, which unrolls the inner loops.
 */
TARGET static inline __attribute__((always_inline)) void
LANES_FN(rows)(const struct raidz_job *job, const unsigned outs, const unsigned sums)
{
    const struct raidz_tables *tables = raidz_tables();

    for (size_t at = 0; at < job->n; at += VECS * sizeof(VEC)) {
        VEC acc[RAIDZ_PARITY_MAX][VECS], x[VECS];
#pragma GCC unroll 3
        for (unsigned o = 0; o < outs; o++)
#pragma GCC unroll 4
            for (unsigned v = 0; v < VECS; v++)
                acc[o][v] = ZERO;
        for (unsigned i = 0; i < job->ins; i++) {
#pragma GCC unroll 4
            for (unsigned v = 0; v < VECS; v++) {
                x[v] = LOAD(job->in[i] + at + v * sizeof(VEC));
                if (sums)
                    acc[0][v] = XOR(acc[0][v], x[v]);
            }
#pragma GCC unroll 3
            for (unsigned o = sums; o < outs; o++) {
                TABLE table = TABLE_OF(tables, job->coef[o][i]);
#pragma GCC unroll 4
                for (unsigned v = 0; v < VECS; v++)
                    acc[o][v] = XOR(acc[o][v], TIMES(x[v], table));
            }
        }
#pragma GCC unroll 3
        for (unsigned o = 0; o < outs; o++)
#pragma GCC unroll 4
            for (unsigned v = 0; v < VECS; v++)
                STORE(job->out[o] + at + v * sizeof(VEC), acc[o][v]);
    }
}

TARGET void LANES_FN(raidz)(const struct raidz_job *job)
{
    unsigned form = 2 * job->outs + job->sum;

    if (form == 2)
        LANES_FN(rows)(job, 1, 0);
    else if (form == 3)
        LANES_FN(rows)(job, 1, 1);
    else if (form == 4)
        LANES_FN(rows)(job, 2, 0);
    else if (form == 5)
        LANES_FN(rows)(job, 2, 1);
    else if (form == 6)
        LANES_FN(rows)(job, 3, 0);
    else
        LANES_FN(rows)(job, 3, 1);
}

#undef LANES_FN
#undef TARGET
#undef VEC
#undef VECS
#undef LOAD
#undef STORE
#undef XOR
#undef ZERO
#undef TABLE
#undef TABLE_OF
#undef TIMES
