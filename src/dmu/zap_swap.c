/*
 * Turns a ZAP block of the other byte order into host order (spec 03 11.5). Which kind of block it
 * is shows in its first word. Values and keys inside leaf chunks are big-endian everywhere and
 * stay.
 */
#include "dmu/zap_impl.h"

static void swap16(unsigned char *p)
{
    store16(p, __builtin_bswap16(load16(p)));
}
static void swap32(unsigned char *p)
{
    store32(p, __builtin_bswap32(load32(p)));
}
static void swap64(unsigned char *p)
{
    store64(p, __builtin_bswap64(load64(p)));
}

static void swap_micro(unsigned char *b, size_t size)
{
    for (size_t at = 0; at < 24; at += 8)
        swap64(b + at);
    for (size_t at = MICRO_ENTRY_SIZE; at + MICRO_ENTRY_SIZE <= size; at += MICRO_ENTRY_SIZE) {
        swap64(b + at);
        swap32(b + at + 8);
        swap16(b + at + 12);
    }
}

static void swap_chunk(unsigned char *c)
{
    if (c[0] == 252) {
        for (int at = 2; at < 12; at += 2)
            swap16(c + at);
        swap32(c + 12);
        swap64(c + 16);
    } else {
        swap16(c + 22);
    }
}

static void swap_leaf(unsigned char *b, unsigned bs)
{
    swap64(b);
    swap64(b + 8);
    swap64(b + 16);
    swap32(b + 24);
    for (int at = 28; at < 36; at += 2)
        swap16(b + at);
    unsigned char *p = b + 48;
    for (unsigned i = 0; i < leaf_slots(bs); i++, p += 2)
        swap16(p);
    for (unsigned i = 0; i < leaf_chunks(bs); i++, p += 24)
        swap_chunk(p);
}

void zap_swap_as(unsigned char *b, size_t size, uint64_t type)
{
    if (type == ZAP_TYPE_MICRO) {
        swap_micro(b, size);
    } else if (type == ZAP_TYPE_LEAF && is_pow2(size) && size <= 1u << 20) {
        swap_leaf(b, high_bit(size) - 1);
    } else {
        for (size_t at = 0; at + 8 <= size; at += 8)
            swap64(b + at);
    }
}

void zap_byteswap(void *block, size_t size)
{
    if (size >= 512)
        zap_swap_as(block, size, __builtin_bswap64(load64(block)));
}
