/* Arithmetic in GF(2^8), polynomial x^8 + x^4 + x^3 + x^2 + 1, and the loop without SIMD. */
#include <pthread.h>
#include <string.h>

#include "codec/raidz_impl.h"

static struct raidz_tables tables;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static unsigned char slow_mul(unsigned a, unsigned b)
{
    unsigned product = 0;

    for (; b; b >>= 1) {
        if (b & 1)
            product ^= a;
        a = a << 1 ^ (a & 0x80 ? 0x11d : 0);
    }
    return (unsigned char)product;
}

/* Row i of the matrix, in byte 7 - i, has the bits of x that bit i of the product is the sum of. */
static uint64_t matrix_of(unsigned factor)
{
    uint64_t m = 0;

    for (unsigned j = 0; j < 8; j++) {
        unsigned product = slow_mul(factor, 1u << j);
        for (unsigned i = 0; i < 8; i++)
            if (product & 1u << i)
                m |= 1ull << (8 * (7 - i) + j);
    }
    return m;
}

static void make_tables(void)
{
    unsigned power = 1;

    for (unsigned i = 0; i < 255; i++) {
        tables.power[i] = (unsigned char)power;
        tables.log[power] = (unsigned char)i;
        power = slow_mul(power, 2);
    }
    for (unsigned f = 0; f < 256; f++) {
        for (unsigned x = 0; x < 16; x++) {
            tables.nibble[f][x] = slow_mul(f, x);
            tables.nibble[f][16 + x] = slow_mul(f, x << 4);
        }
        tables.matrix[f] = matrix_of(f);
    }
}

const struct raidz_tables *raidz_tables(void)
{
    pthread_once(&tables_once, make_tables);
    return &tables;
}

unsigned char raidz_mul(unsigned char a, unsigned char b)
{
    const struct raidz_tables *t = raidz_tables();

    return a && b ? t->power[(t->log[a] + t->log[b]) % 255u] : 0;
}

/* Eight bytes at a time, each times 2. */
static uint64_t twice(uint64_t x)
{
    uint64_t high = x & 0x8080808080808080ull;

    return (x ^ high) << 1 ^ (high >> 7) * 0x1d;
}

static uint64_t times(uint64_t x, unsigned factor)
{
    uint64_t product = 0;

    for (; factor; factor >>= 1) {
        if (factor & 1)
            product ^= x;
        x = twice(x);
    }
    return product;
}

void raidz_plain(const struct raidz_job *job)
{
    for (unsigned o = 0; o < job->outs; o++)
        memset(job->out[o], 0, job->n);
    for (unsigned i = 0; i < job->ins; i++)
        for (unsigned o = 0; o < job->outs; o++)
            for (size_t at = 0; at < job->n; at += 8) {
                uint64_t x, sum;
                memcpy(&x, job->in[i] + at, 8);
                memcpy(&sum, job->out[o] + at, 8);
                sum ^= times(x, job->coef[o][i]);
                memcpy(job->out[o] + at, &sum, 8);
            }
}
