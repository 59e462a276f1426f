/* Variants of the one loop behind all parity: outputs that are linear combinations of inputs. */
#ifndef CODEC_RAIDZ_IMPL_H
#define CODEC_RAIDZ_IMPL_H

#include <stdint.h>

#include "codec/raidz.h"

/* out[o] = sum over i of coef[o][i] * in[i], for n bytes, a multiple of RAIDZ_UNIT. At most three
 * outputs, so that each input is read once and no intermediate result is stored. */
struct raidz_job {
    unsigned outs, ins;
    bool sum; /* all of coef[0] is 1 */
    size_t n;
    unsigned char *out[RAIDZ_PARITY_MAX];
    const unsigned char *in[RAIDZ_COLUMNS_MAX];
    unsigned char coef[RAIDZ_PARITY_MAX][RAIDZ_COLUMNS_MAX];
};

struct raidz_variant {
    const char *name;
    bool (*supported)(void); /* NULL: always */
    void (*run)(const struct raidz_job *job);
};

/* Fastest first; the last is the plain one. */
extern const struct raidz_variant raidz_variants[];
extern const size_t raidz_variant_count;

/* Tests: the variant to use from now on; NULL: the best. */
void raidz_use(const struct raidz_variant *v);

/* Of each factor: the products with 0..15 and with 0x00, 0x10 .. 0xf0, for byte shuffles, and the
 * bit matrix as the affine instruction takes it. */
struct raidz_tables {
    _Alignas(64) unsigned char nibble[256][32];
    uint64_t matrix[256];
    unsigned char power[255]; /* of 2 */
    unsigned char log[256];   /* log[0] is not defined */
};
const struct raidz_tables *raidz_tables(void);

unsigned char raidz_mul(unsigned char a, unsigned char b);

void raidz_plain(const struct raidz_job *job);
#if defined(__x86_64__)
bool raidz_ssse3_supported(void);
void raidz_ssse3(const struct raidz_job *job);
bool raidz_avx2_supported(void);
void raidz_avx2(const struct raidz_job *job);
bool raidz_gfni_supported(void);
void raidz_gfni(const struct raidz_job *job);
bool raidz_gfni512_supported(void);
void raidz_gfni512(const struct raidz_job *job);
#elif defined(__aarch64__)
void raidz_neon(const struct raidz_job *job);
#endif

#endif
