/* Memory devices with the labels of real ones (tests/data/labels). */
#ifndef TESTS_VDEV_LABEL_SAMPLE_H
#define TESTS_VDEV_LABEL_SAMPLE_H

#include <string.h>
#include <zstd.h>

#include "../support/test.h"
#include "device/device.h"
#include "util/bytes.h"
#include "vdev/size.h"

enum { SAMPLE_PART = 0x80000, SAMPLE_BYTES = 8 + 2 * SAMPLE_PART };

/* The bytes of a sample; static storage. */
static inline const unsigned char *sample_bytes(const char *name)
{
    static unsigned char packed[65536], bytes[SAMPLE_BYTES];
    char path[4096];
    snprintf(path, sizeof path, "%s/labels/%s.zst", TEST_DATA, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is missing", path);
    size_t n = fread(packed, 1, sizeof packed, f);
    fclose(f);
    assert_int_equal(ZSTD_decompress(bytes, sizeof bytes, packed, n), SAMPLE_BYTES);
    return bytes;
}

static inline void sample_write(struct device *d, const unsigned char *bytes)
{
    uint64_t psize = size_psize(get_le64(bytes));
    assert_int_equal(device_write(d, 0, bytes + 8, SAMPLE_PART), 0);
    assert_int_equal(device_write(d, psize - SAMPLE_PART, bytes + 8 + SAMPLE_PART, SAMPLE_PART), 0);
}

static inline struct device *sample_device(const char *name)
{
    const unsigned char *bytes = sample_bytes(name);
    struct device *d;
    assert_int_equal(device_memory(&d, get_le64(bytes)), 0);
    sample_write(d, bytes);
    return d;
}

#endif
