#include <errno.h>
#include <string.h>

#include "../support/test.h"
#include "pool/blkptr.h"
#include "pool/pool.h"
#include "util/err.h"

/* L1 of a meta-dnode on three raidz1 vdevs (the description's example). */
static const struct blkptr indirect = {
    .w = {0x10, 0x40530, 0x0000000100000010, 0x5e0, 0x0000000200000010, 0x160410,
          0x810a070f000700ff, 0, 0, 0, 0x1f7, 0x120, 0x000000e8d8448c49, 0x00028db427d74a49,
          0x03baac0a0f09d76b, 0xc7601ac869659f2a}};
static const struct blkptr embedded = {.w = {0x0100032117000000, 0x00090643c9804100,
                                             0x000050d9ff00020f, 0, 0, 0, 0x800d008f340001ff, 0, 0,
                                             0, 6}};
static const struct blkptr hole = {.w = {[6] = 0x00050000000000ff, [10] = 0x1b4}};
static const struct blkptr encrypted = {
    .w = {0x10, 0x40, 0x0000000100000010, 0x5e0, 0x98bbb77cf5506607, 0x3ed8294c72d6071c,
          0xa00a0802001f001f, 0, 0, 0, 50, 0x07976d3500000006, 0x83289594e9d2f88c,
          0x0ec9f42d560303bc, 0x8dff947c8b49336a, 0xdc65732e20b7cdee}};

static void fields(void **state)
{
    assert_int_equal(bp_lsize(&indirect), 0x20000);
    assert_int_equal(bp_psize(&indirect), 0x1000);
    assert_int_equal(bp_level(&indirect), 1);
    assert_int_equal(bp_type(&indirect), 10);
    assert_int_equal(bp_copies(&indirect), 3);
    assert_int_equal(dva_offset(&indirect, 0), 0x80a6000);
    assert_int_equal(dva_asize(&indirect, 0), 0x2000);
    assert_int_equal(dva_vdev(&indirect, 2), 2);
    assert_int_equal(bp_birth(&indirect), 503);
    assert_int_equal(bp_phys_birth(&indirect), 503);
    assert_int_equal(bp_fill(&indirect), 288);
    assert_false(bp_big_endian(&indirect));

    assert_true(bp_embedded(&embedded));
    assert_int_equal(bp_lsize(&embedded), 512);
    assert_int_equal(bp_psize(&embedded), 27);
    assert_int_equal(bp_copies(&embedded), 0);
    assert_true(bp_hole(&hole));
    assert_int_equal(bp_lsize(&hole), 0x20000);
    assert_int_equal(bp_birth(&hole), 436);

    assert_int_equal(bp_copies(&encrypted), 2);
    assert_int_equal(bp_fill(&encrypted), 6);
}

static void good_pointers(void **state)
{
    struct blkptr zero = {{0}};

    assert_int_equal(bp_check(&indirect), 0);
    assert_int_equal(bp_check(&embedded), 0);
    assert_int_equal(bp_check(&hole), 0);
    assert_int_equal(bp_check(&encrypted), 0);
    assert_int_equal(bp_check(&zero), 0);
}

static int check_with(const struct blkptr *bp, int word, uint64_t value)
{
    struct blkptr changed = *bp;

    changed.w[word] = value;
    return bp_check(&changed);
}

static void bad_pointers(void **state)
{
    assert_int_equal(check_with(&indirect, 6, 0x8136070f000700ff), -EBADE); /* type 54 */
    assert_int_equal(check_with(&indirect, 6, 0x818a070f000700ff), -EBADE); /* class 10 */
    assert_int_equal(check_with(&indirect, 6, 0x81c4070f000700ff), 0);      /* type 196 */
    assert_int_equal(check_with(&indirect, 6, 0x810a0711000700ff), -EBADE); /* compression 17 */
    assert_int_equal(check_with(&indirect, 6, 0x810a0f0f000700ff), -EBADE); /* checksum 15 */
    assert_int_equal(check_with(&indirect, 6, 0x810a070f00078000), -EBADE); /* more than 16 MiB */
    assert_int_equal(check_with(&indirect, 6, 0x810a070f800000ff), -EBADE);
    assert_int_equal(check_with(&indirect, 0, 0x0000000100000000), -EBADE); /* no size */
    assert_int_equal(check_with(&indirect, 2, 0x0000000100000000), -EBADE);
    assert_int_equal(check_with(&indirect, 3, 0x80000000000005e0), -EBADE); /* half a gang */
    assert_int_equal(check_with(&embedded, 6, 0x800d038f340001ff), -EBADE); /* kind 3 */
    assert_int_equal(check_with(&embedded, 6, 0x800d008ffe0001ff), -EBADE); /* 128 bytes */
    assert_non_null(strstr(err_text(-EBADE), "128"));
}

static void printing(void **state)
{
    char text[400], small[20];

    bp_print(&indirect, text, sizeof text);
    assert_non_null(strstr(text, "DVA[0]=<0:80a6000:2000> DVA[1]=<1:bc000:2000> "
                                 "DVA[2]=<2:2c082000:2000> [L1 type 10] fletcher4 lz4 "
                                 "unencrypted LE size=20000L/1000P birth=503L/503P fill=288"));
    bp_print(&embedded, text, sizeof text);
    assert_non_null(strstr(text, "EMBEDDED et=0 [L0 type 13] lz4 size=200L/1bP birth=6L"));
    bp_print(&hole, text, sizeof text);
    assert_string_equal(text, "HOLE [L0 type 5] size=20000L birth=436L");
    bp_print(&indirect, small, sizeof small);
    assert_int_equal(strlen(small), sizeof small - 1);
    bp_print(&indirect, small, 0);
}

static void coding(void **state)
{
    unsigned char bytes[BLKPTR_SIZE], swapped[BLKPTR_SIZE];
    struct blkptr bp;

    bp_encode(&indirect, bytes);
    bp_decode(&bp, bytes, BYTES_HOST_BIG);
    assert_memory_equal(&bp, &indirect, sizeof bp);
    for (int i = 0; i < BLKPTR_SIZE; i++)
        swapped[i] = bytes[i / 8 * 8 + 7 - i % 8];
    bp_decode(&bp, swapped, !BYTES_HOST_BIG);
    assert_memory_equal(&bp, &indirect, sizeof bp);
}

static void pool_names(void **state)
{
    static const char *const good[] = {"tank", "a", "rpool-2_x.y:z", "c", "cx0", "Logs", "data 1",
                                       "c0", "c1t0d0"};
    static const char *const bad[] = {"",      "0tank", "-a",      "mirror", "mirrors", "raidz1",
                                      "draid", "spare", "spare-1", "log",    "a/b",     "a@b",
                                      "a%b",   "ta\tnk", "\xc3\xa4"};
    char longest[257];

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(pool_name_check(good[i]), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(pool_name_check(bad[i]), -EINVAL);
    memset(longest, 'a', sizeof longest);
    longest[255] = 0;
    assert_int_equal(pool_name_check(longest), 0);
    longest[255] = 'a';
    longest[256] = 0;
    assert_int_equal(pool_name_check(longest), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields),   cmocka_unit_test(good_pointers), cmocka_unit_test(bad_pointers),
        cmocka_unit_test(printing), cmocka_unit_test(coding),        cmocka_unit_test(pool_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
