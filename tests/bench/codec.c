/* Throughput of the codecs over 128 KiB blocks that stay in the cache, one thread. The lines can be
 * compared with each other, not with those of another machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rate.h"

#include "codec/checksum.h"
#include "codec/compress.h"
#include "codec/fletcher_impl.h"
#include "util/env.h"

enum { SIZE = 128 * 1024 };

static uint8_t data[SIZE], packed[2 * SIZE], back[SIZE];
static uint64_t words[4];
static uint8_t salt[CHECKSUM_SALT_SIZE];
static unsigned type;
static size_t packed_len;
static const struct fletcher4_variant *variant;

static void run_variant(void)
{
    variant->run(data, SIZE, false, words);
}

static void run_checksum(void)
{
    checksum_compute(type, data, SIZE, salt, false, words);
}

static void run_encode(void)
{
    compress_encode(type, 0, data, SIZE, packed, sizeof packed, &packed_len);
}

static void run_decode(void)
{
    compress_decode(type, packed, packed_len, back, SIZE);
}

/* Half of it copies of what came before, like text or records. */
static void make_data(void)
{
    struct env e;

    env_init_seeded(&e, 1);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (uint8_t)("etaoin shrdlu\n01"[e.random(&e) % 16]);
    for (size_t i = 4096; i + 64 < SIZE; i += 64 + e.random(&e) % 64)
        memcpy(data + i, data + i - 64 - e.random(&e) % 4000, 16 + e.random(&e) % 48);
}

int main(void)
{
    static const unsigned types[] = {COMPRESS_LZJB, COMPRESS_LZ4, COMPRESS_ZLE, COMPRESS_ZSTD,
                                     COMPRESS_GZIP_1 + 5};

    make_data();
    for (size_t i = 0; i < fletcher4_variant_count; i++) {
        variant = &fletcher4_variants[i];
        if (!variant->supported || variant->supported())
            printf("fletcher4 %-8s %7.2f GB/s\n", variant->name, gigabytes_per_second(run_variant, SIZE));
    }
    for (type = CHECKSUM_FLETCHER2; type < CHECKSUM_COUNT; type++) {
        if (type != CHECKSUM_NOPARITY && type != CHECKSUM_ZILOG2)
            printf("%-18s %7.2f GB/s\n", checksum_info(type)->name,
                   gigabytes_per_second(run_checksum, SIZE));
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        double encode;
        type = types[i];
        encode = gigabytes_per_second(run_encode, SIZE);
        printf("%-8s %5.2f:1 encode %7.2f GB/s, decode %7.2f GB/s\n", compress_name(type),
               (double)SIZE / (double)packed_len, encode, gigabytes_per_second(run_decode, SIZE));
    }
    return 0;
}
