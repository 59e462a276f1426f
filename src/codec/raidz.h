/*
 * The parity of RAID-Z and dRAID (spec 02 12): up to three parity columns P, Q, R over the field
 * GF(2^8) with the polynomial 0x11d. Columns of one stripe: parity first, then data. A column may
 * be shorter than others; what it lacks counts as zero. All sizes are multiples of RAIDZ_UNIT
 * bytes.
 */
#ifndef CODEC_RAIDZ_H
#define CODEC_RAIDZ_H

#include <stdbool.h>
#include <stddef.h>

#define RAIDZ_PARITY_MAX  3
#define RAIDZ_COLUMNS_MAX 255
#define RAIDZ_UNIT        256

struct raidz_column {
    unsigned char *data;
    size_t size; /* bytes; of a parity column that of the longest data column */
};

/* Computes all parity columns from the data columns. 1 <= nparity <= 3, nparity < cols. */
void raidz_generate(const struct raidz_column *col, unsigned cols, unsigned nparity);

/* Computes the columns with bad[c] set from the others; of parity only what has memory. -EINVAL if
 * there are more than nparity. */
int raidz_reconstruct(const struct raidz_column *col, unsigned cols, unsigned nparity,
                      const bool *bad);

const char *raidz_implementation(void);

#endif
