/* Byte 0 chooses the compressor, bit 7 of it the direction, bytes 1 and 2 the decoded or largest
 * encoded size; the rest is the input. What was encoded must decode to itself. */
#include <stdlib.h>
#include <string.h>

#include "codec/compress.h"
#include "fuzz.h"
#include "util/bytes.h"

static void encode(unsigned type, size_t cap, const uint8_t *src, size_t n)
{
    uint8_t *packed = malloc(cap ? cap : 1), *back = malloc(n ? n : 1);
    size_t len;

    if (packed && back && compress_encode(type, 0, src, n, packed, cap, &len) == 0) {
        if (len > cap)
            abort();
        if (type != COMPRESS_EMPTY &&
            (compress_decode(type, packed, len, back, n) < 0 || memcmp(src, back, n) != 0))
            abort();
    }
    free(packed);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t size;
    uint8_t *out;

    if (n < 3)
        return 0;
    size = get_le16(data + 1);
    if (data[0] & 0x80) {
        encode((data[0] & 0x7f) % COMPRESS_COUNT, size, data + 3, n - 3);
        return 0;
    }
    out = malloc(size ? size : 1);
    if (out)
        compress_decode(data[0] % COMPRESS_COUNT, data + 3, n - 3, out, size);
    free(out);
    return 0;
}
