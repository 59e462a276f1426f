/*
 * Blocks of a pool made by the reference. big-2.zstd and big-4.zstd decode to two 128 KiB blocks of
 * one file that other datasets of the pool hold with other checksums and compressors; what their
 * block pointers say is here. The small ones are the same 3 KiB in each compressor's form.
 */
#include "../support/test.h"

#include <string.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "util/bytes.h"

enum { BIG = 128 * 1024, SMALL = 3072 };

static const uint8_t salt[CHECKSUM_SALT_SIZE] = {
    0x71, 0xea, 0x5b, 0x1c, 0xdc, 0xf7, 0x4e, 0xed, 0x5f, 0x2c, 0x74, 0xbe, 0x4e, 0x56, 0x4d, 0x8c,
    0xbd, 0xff, 0xab, 0x8b, 0xe6, 0xde, 0xc5, 0x7d, 0x71, 0xf5, 0x09, 0xec, 0x1d, 0x99, 0xf6, 0xae};

static uint8_t *load_block(const char *name, unsigned type, size_t size)
{
    size_t n;
    uint8_t *packed = test_load(name, &n), *data = malloc(size);

    assert_int_equal(compress_decode(type, packed, n, data, size), 0);
    free(packed);
    return data;
}

static void all_checksums(void **state)
{
    static const struct {
        unsigned type;
        uint64_t words[4];
    } expect[] = {
        {CHECKSUM_FLETCHER2,
         {0x0c1984e5f0f86e60ull, 0xc492ae96a7baf7eaull, 0x03b999b8b76bd0b3ull,
          0xdaaab2d747def4f7ull}},
        {CHECKSUM_FLETCHER4,
         {0x00002a40695f84a2ull, 0x0a8c9964c82eeaaeull, 0xbf26f476ec496567ull,
          0x50199e880f63be99ull}},
        {CHECKSUM_SHA256,
         {0xffc9b4e4d5eb09b1ull, 0x5c5a7194dff000dbull, 0x371f15b5672d3251ull,
          0x0238024c14482366ull}},
        {CHECKSUM_SHA512,
         {0x2adfc9e34d280141ull, 0x81e2ce7da73dd133ull, 0x250fa7143a06a3f5ull,
          0x9a90e498d9a43247ull}},
        {CHECKSUM_SKEIN,
         {0x8f5a1bd3003c7e6bull, 0xa5740c80a791b238ull, 0x3d13b0c2713abc41ull,
          0xd4462914ed1a53fcull}},
        {CHECKSUM_EDONR,
         {0x2c86bfd55f35984dull, 0xbd26e491ae022a4full, 0x0beeb1011c14dadcull,
          0xbc47f0d03381980full}},
        {CHECKSUM_BLAKE3,
         {0xe4f9e9dd2a15e19cull, 0xbc378a7c2c4680e4ull, 0x311041a0866388a8ull,
          0x5d23cda028a4d88eull}},
    };
    uint8_t *data = load_block("blocks/big-2.zstd", COMPRESS_ZSTD, BIG);
    uint64_t words[4];

    for (size_t i = 0; i < ARRAY_LEN(expect); i++) {
        assert_int_equal(checksum_compute(expect[i].type, data, BIG, salt, false, words), 0);
        assert_memory_equal(words, expect[i].words, sizeof words);
    }
    free(data);
}

static void all_decoders(void **state)
{
    static const struct {
        const char *name;
        unsigned type;
    } blocks[] = {
        {"blocks/small.lzjb", COMPRESS_LZJB},         {"blocks/small.gzip-1", COMPRESS_GZIP_1},
        {"blocks/small.gzip-6", COMPRESS_GZIP_1 + 5}, {"blocks/small.gzip-9", COMPRESS_GZIP_9},
        {"blocks/small.lz4", COMPRESS_LZ4},           {"blocks/small.zstd-1", COMPRESS_ZSTD},
        {"blocks/small.zstd-3", COMPRESS_ZSTD},       {"blocks/small.zstd-19", COMPRESS_ZSTD},
        {"blocks/small.zstd-fast-10", COMPRESS_ZSTD},
    };
    uint8_t *first = load_block(blocks[0].name, blocks[0].type, SMALL);

    for (size_t i = 1; i < ARRAY_LEN(blocks); i++) {
        uint8_t *data = load_block(blocks[i].name, blocks[i].type, SMALL);
        assert_memory_equal(data, first, SMALL);
        free(data);
    }
    free(first);
}

/* Our LZJB and ZLE give the very bytes that the reference wrote; fletcher-4 of them, with their
 * padding, is in its block pointers. */
static void same_encoders(void **state)
{
    static const struct {
        const char *name;
        unsigned type;
        size_t psize;
        uint64_t words[4];
    } blocks[] = {
        {"blocks/big-2.zstd",
         COMPRESS_LZJB,
         69632,
         {0x0000118489dba4d9ull, 0x025330ad4c87b48eull, 0xc9e78c39666217c5ull,
          0xc118f3e32616bff2ull}},
        {"blocks/big-4.zstd",
         COMPRESS_LZJB,
         41984,
         {0x00000b2fcf7e7e55ull, 0x00d9bc0590e363a2ull, 0x9b3ecb9b51b1aeeeull,
          0x96f6599735ac03d8ull}},
        {"blocks/big-4.zstd",
         COMPRESS_ZLE,
         77312,
         {0x000018fe510067eeull, 0x03aa62b34c221063ull, 0x562bdd4e2f22da93ull,
          0x41e0bb8f220affa4ull}},
    };
    uint8_t *packed = malloc(BIG), *back = malloc(BIG);
    uint64_t words[4];
    size_t n;

    for (size_t i = 0; i < ARRAY_LEN(blocks); i++) {
        uint8_t *data = load_block(blocks[i].name, COMPRESS_ZSTD, BIG);
        assert_int_equal(compress_encode(blocks[i].type, 0, data, BIG, packed, BIG - BIG / 8, &n),
                         0);
        assert_int_equal(ROUND_UP(n, 512), blocks[i].psize);
        memset(packed + n, 0, blocks[i].psize - n);
        fletcher4(packed, blocks[i].psize, false, words);
        assert_memory_equal(words, blocks[i].words, sizeof words);
        assert_int_equal(compress_decode(blocks[i].type, packed, blocks[i].psize, back, BIG), 0);
        assert_memory_equal(back, data, BIG);
        free(data);
    }
    free(packed);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_checksums),
        cmocka_unit_test(all_decoders),
        cmocka_unit_test(same_encoders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
