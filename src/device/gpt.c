/*
 * GUID partition tables (UEFI specification, chapter 5). The header is in sector 1, its copy in the
 * last sector; both have a CRC-32 of themselves and of the table of entries.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "device/device.h"
#include "util/bytes.h"
#include "util/cleanup.h"

enum {
    HEADER_MIN = 92,
    ENTRY_MIN = 128,
    TABLE_MAX = 1 << 20 /* bytes; the usual table has 16 KiB */
};

struct table {
    unsigned char *bytes;
    uint32_t count, entry_size;
};

static void table_free(struct table *t)
{
    free(t->bytes);
}

/* Type GUIDs as they are on disk: the first three fields are little endian. */
static const unsigned char types[][16] = {
    {0xc3, 0x8c, 0x89, 0x6a, 0xd2, 0x1d, 0xb2, 0x11, 0x99, 0xa6, 0x08, 0x00, 0x20, 0x73, 0x66,
     0x31},
    {0xba, 0x7c, 0x6e, 0x51, 0xcf, 0x6e, 0xd6, 0x11, 0x8f, 0xf8, 0x00, 0x02, 0x2d, 0x09, 0x71,
     0x2b},
};

/* Reads the header in the given sector and its table. -ENOENT if it is not valid. */
static int read_table(struct device *d, uint64_t size, unsigned sector, uint64_t lba,
                      struct table *out)
{
    unsigned char h[4096];
    uint64_t sectors = size / sector;
    if (lba >= sectors)
        return -ENOENT;
    int rc = device_read(d, lba * sector, h, sector);
    if (rc)
        return rc;
    uint32_t header_size = get_le32(h + 12), crc = get_le32(h + 16);
    if (memcmp(h, "EFI PART", 8) || header_size < HEADER_MIN || header_size > sector ||
        get_le64(h + 24) != lba)
        return -ENOENT;
    put_le32(h + 16, 0);
    if (crc32(0, h, header_size) != crc)
        return -ENOENT;
    uint64_t table_lba = get_le64(h + 72);
    uint32_t count = get_le32(h + 80), entry_size = get_le32(h + 84);
    uint64_t n = (uint64_t)count * entry_size;
    if (entry_size < ENTRY_MIN || !is_pow2(entry_size) || n == 0 || n > TABLE_MAX ||
        table_lba >= sectors || n > size - table_lba * sector)
        return -ENOENT;
    unsigned char *bytes CLEANUP_FREE = malloc(n);
    if (!bytes)
        return -ENOMEM;
    rc = device_read(d, table_lba * sector, bytes, n);
    if (rc)
        return rc;
    if (crc32(0, bytes, (uInt)n) != get_le32(h + 88))
        return -ENOENT;
    *out = (struct table){STEAL(bytes), count, entry_size};
    return 0;
}

static int find_entry(const struct table *t, uint64_t sectors, unsigned sector, uint64_t *start,
                      uint64_t *size)
{
    for (uint32_t i = 0; i < t->count; i++) {
        const unsigned char *e = t->bytes + (size_t)i * t->entry_size;
        uint64_t first = get_le64(e + 32), last = get_le64(e + 40); /* last is inclusive */
        bool wanted = false;
        for (size_t k = 0; k < ARRAY_LEN(types); k++)
            wanted |= memcmp(e, types[k], 16) == 0;
        if (!wanted || first == 0 || last < first || last >= sectors)
            continue;
        *start = first * sector;
        *size = (last - first + 1) * sector;
        return 0;
    }
    return -ENOENT;
}

static int find_with_sector(struct device *d, uint64_t total, unsigned sector, uint64_t *start,
                            uint64_t *size)
{
    uint64_t sectors = total / sector;
    if (sectors < 3)
        return -ENOENT;
    struct table t CLEANUP(table_free) = {0};
    int rc = read_table(d, total, sector, 1, &t);
    if (rc && rc != -ENOMEM)
        rc = read_table(d, total, sector, sectors - 1, &t);
    return rc ? rc : find_entry(&t, sectors, sector, start, size);
}

int device_find_gpt(struct device *d, uint64_t *start, uint64_t *size)
{
    struct device_info info;
    device_info(d, &info);
    /* An image file does not tell which sectors the disk has that it is an image of. */
    unsigned own = info.logical_shift == 12 ? 4096 : 512;
    int rc = find_with_sector(d, info.size, own, start, size);
    if (rc == -ENOENT)
        rc = find_with_sector(d, info.size, own ^ 4096 ^ 512, start, size);
    return rc;
}
