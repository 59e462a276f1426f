/*
 * Any bytes as a partition table. Input: a byte of flags (1: sectors of 4096 bytes, 2: make the
 * checksums right, 4: at the end of the device too), then the device from sector 1 on.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "device/device.h"
#include "fuzz.h"
#include "util/bytes.h"

static void seal(uint8_t *image, size_t size, unsigned sector)
{
    uint8_t *h = image + sector;
    uint64_t table = get_le64(h + 72);
    uint64_t n = (uint64_t)get_le32(h + 80) * get_le32(h + 84);
    uint32_t header = get_le32(h + 12);
    if (table < size / sector && n <= size - table * sector)
        put_le32(h + 88, (uint32_t)crc32(0, image + table * sector, (uInt)n));
    put_le32(h + 16, 0);
    if (header <= sector)
        put_le32(h + 16, (uint32_t)crc32(0, h, header));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t image[1 << 17];
    struct device *d;
    struct device_info info;
    uint64_t start, size;
    if (n < 1)
        return 0;
    unsigned sector = data[0] & 1 ? 4096 : 512;
    memset(image, 0, sizeof image);
    memcpy(image + sector, data + 1, MIN(n - 1, sizeof image - sector));
    if (data[0] & 2)
        seal(image, sizeof image, sector);
    if (data[0] & 4)
        memcpy(image + sizeof image - sector, image + sector, sector);
    if (device_memory(&d, sizeof image))
        return 0;
    device_write(d, 0, image, sizeof image);
    device_info(d, &info);
    if (device_find_gpt(d, &start, &size) == 0 &&
        (size == 0 || start == 0 || start >= info.size || size > info.size - start))
        abort();
    device_close(d);
    return 0;
}
