/*
 * Edon-R-512 as pools have it (02 5.4): a state of sixteen words, blocks of 128 bytes, each mixed
 * into it by eight steps of one quasigroup operation.
 */
#include <string.h>

#include "codec/hash_impl.h"
#include "util/bytes.h"

#define BLOCK     128
#define ROT(x, n) ((x) << (n) | (x) >> (64 - (n)))

/* r = x * y, all of eight words; r may be x or y. */
static void multiply(const uint64_t x[8], const uint64_t y[8], uint64_t r[8])
{
    const uint64_t k = 0xaaaaaaaaaaaaaaaaull;
    uint64_t s0 = k + x[0] + x[1] + x[2] + x[4] + x[7];
    uint64_t s1 = ROT(x[0] + x[1] + x[3] + x[4] + x[7], 5);
    uint64_t s2 = ROT(x[0] + x[1] + x[4] + x[6] + x[7], 15);
    uint64_t s3 = ROT(x[2] + x[3] + x[5] + x[6] + x[7], 22);
    uint64_t s4 = ROT(x[1] + x[2] + x[3] + x[5] + x[6], 31);
    uint64_t s5 = ROT(x[0] + x[2] + x[3] + x[4] + x[5], 40);
    uint64_t s6 = ROT(x[0] + x[1] + x[5] + x[6] + x[7], 50);
    uint64_t s7 = ROT(x[2] + x[3] + x[4] + x[5] + x[6], 59);
    uint64_t t0 = ~k + y[0] + y[1] + y[2] + y[5] + y[7];
    uint64_t t1 = ROT(y[0] + y[1] + y[3] + y[4] + y[6], 10);
    uint64_t t2 = ROT(y[0] + y[1] + y[2] + y[3] + y[5], 19);
    uint64_t t3 = ROT(y[2] + y[3] + y[4] + y[6] + y[7], 29);
    uint64_t t4 = ROT(y[0] + y[1] + y[3] + y[4] + y[5], 36);
    uint64_t t5 = ROT(y[2] + y[4] + y[5] + y[6] + y[7], 44);
    uint64_t t6 = ROT(y[1] + y[2] + y[5] + y[6] + y[7], 48);
    uint64_t t7 = ROT(y[0] + y[3] + y[4] + y[6] + y[7], 55);

    r[0] = (s0 ^ s1 ^ s4) + (t0 ^ t1 ^ t5);
    r[1] = (s0 ^ s4 ^ s7) + (t2 ^ t6 ^ t7);
    r[2] = (s1 ^ s6 ^ s7) + (t0 ^ t1 ^ t3);
    r[3] = (s2 ^ s3 ^ s4) + (t0 ^ t3 ^ t4);
    r[4] = (s0 ^ s1 ^ s7) + (t1 ^ t2 ^ t5);
    r[5] = (s3 ^ s5 ^ s6) + (t3 ^ t4 ^ t6);
    r[6] = (s2 ^ s5 ^ s6) + (t2 ^ t5 ^ t7);
    r[7] = (s2 ^ s3 ^ s5) + (t4 ^ t6 ^ t7);
}

static void mix_block(uint64_t p[16], const uint8_t *block)
{
    uint64_t d[16], reversed[16], a[8], b[8];

    for (int i = 0; i < 16; i++) {
        d[i] = get_le64(block + 8 * i);
        reversed[15 - i] = d[i];
    }
    multiply(reversed, d, a);
    multiply(a, d + 8, b);
    multiply(p + 8, a, a);
    multiply(a, b, b);
    multiply(a, p, a);
    multiply(b, a, b);
    multiply(reversed + 8, a, a);
    multiply(a, b, b);
    for (int i = 0; i < 8; i++) {
        p[i] ^= d[8 + i] ^ a[i];
        p[8 + i] ^= d[i] ^ b[i];
    }
}

static const uint8_t *mix_whole_blocks(uint64_t p[16], const uint8_t *data, size_t n)
{
    for (; n >= BLOCK; data += BLOCK, n -= BLOCK)
        mix_block(p, data);
    return data;
}

void hash_edonr512(const void *first, size_t first_len, const void *data, size_t n,
                   uint8_t digest[64])
{
    uint8_t last[2 * BLOCK] = {0};
    size_t rest = n % BLOCK, padded = rest + 9 <= BLOCK ? BLOCK : 2 * BLOCK;
    const uint8_t *tail;
    uint64_t p[16];

    for (unsigned i = 0; i < 16; i++)
        p[i] = 0x8081828384858687ull + i * 0x0808080808080808ull;
    mix_whole_blocks(p, first, first_len);
    tail = mix_whole_blocks(p, data, n);
    if (rest > 0)
        memcpy(last, tail, rest);
    last[rest] = 0x80;
    put_le64(last + padded - 8, (first_len + n) * 8);
    mix_whole_blocks(p, last, padded);
    for (int i = 0; i < 8; i++)
        put_le64(digest + 8 * i, p[8 + i]);
}
