/* Byte 0: bit 7 the byte order, bits 0..4 the shift; the rest are words. What could be applied must
 * encode and apply to the same ranges. */
#include <stdlib.h>

#include "fuzz.h"
#include "pool/alloc.h"
#include "util/bytes.h"
#include "util/rangeset.h"

static const uint64_t start = 3ull << 40;

static void again(const struct rangeset *s, unsigned shift, uint64_t size, bool v2)
{
    struct rangeset *back = rangeset_new();
    unsigned char *words;
    uint64_t bytes;
    struct range r, q;

    if (back && spacemap_encode(s, false, start, shift, 7, 1, v2, 512, 8, &words, &bytes) == 0) {
        if (spacemap_apply(back, start, size, shift, words, bytes, BYTES_HOST_BIG) != 0 ||
            rangeset_total(back) != rangeset_total(s))
            abort();
        for (struct range *it = rangeset_first(s, &r); it; it = rangeset_after(s, &r))
            if (!rangeset_next(back, r.start, &q) || q.start != r.start || q.end != r.end)
                abort();
        free(words);
    }
    rangeset_free(back);
}

static int see(void *arg, bool is_free, uint64_t vdev, uint64_t offset, uint64_t run)
{
    if (run == 0 || offset + run < offset)
        abort();
    ++*(size_t *)arg;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct rangeset *s = rangeset_new();
    unsigned shift;
    uint64_t size;
    size_t entries = 0;

    if (!s || n < 1) {
        rangeset_free(s);
        return 0;
    }
    shift = data[0] & 0x1f;
    size = 1ull << (shift + 12);
    if (spacemap_apply(s, start, size, shift, data + 1, n - 1, data[0] & 0x80) == 0) {
        again(s, shift, size, false);
        again(s, shift, size, true);
    }
    spacemap_each(0, ~0ull, shift, data + 1, n - 1, data[0] & 0x80, see, &entries);
    rangeset_free(s);
    return 0;
}
