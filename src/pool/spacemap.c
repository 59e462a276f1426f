/* Space map words (spec 05 2.3-2.5). */
#include <errno.h>
#include <stdlib.h>

#include "pool/alloc.h"
#include "pool/blkptr.h"
#include "util/bytes.h"
#include "util/err.h"
#include "util/rangeset.h"

#define ONE_RUN_MAX    32768u /* units in a one-word entry */
#define ONE_OFFSET_MAX (1ull << 47)
#define TWO_RUN_MAX    (1ull << 36)
#define PADDING        0x8000000000000000ull
#define NO_VDEV        (~0ull)

struct entry {
    bool is_free;
    uint64_t vdev, offset, run; /* offset and run in units */
};

/* Decodes the entry at words[i] (of n) and says how many words it takes; -EBADE if it is cut off.
 */
static int decode_entry(const void *words, uint64_t i, uint64_t n, bool big, struct entry *out)
{
    const unsigned char *p = (const unsigned char *)words + 8 * i;
    uint64_t w = get_u64(p, big), second;

    if (w >> 62 < 2) {
        *out = (struct entry){w >> 15 & 1, NO_VDEV, bits_get(w, 16, 47), bits_get(w, 0, 15) + 1};
        return 1;
    }
    if (i + 1 >= n)
        return err_set(EBADE, "space map: the last entry is cut off");
    second = get_u64(p + 8, big);
    *out = (struct entry){second >> 63, bits_get(w, 0, 24), bits_get(second, 0, 63),
                          bits_get(w, 24, 36) + 1};
    return 2;
}

/* To bytes, and inside [start, start + size). */
static int place_entry(const struct entry *e, uint64_t start, uint64_t size, unsigned shift,
                       uint64_t *offset, uint64_t *run)
{
    uint64_t units = size >> shift;

    if (e->offset >= units || e->run > units - e->offset)
        return err_set(EBADE, "space map: %llu units at %llu are outside of it",
                       (unsigned long long)e->run, (unsigned long long)e->offset);
    *offset = start + (e->offset << shift);
    *run = e->run << shift;
    return 0;
}

int spacemap_each(uint64_t start, uint64_t size, unsigned shift, const void *words, uint64_t bytes,
                  bool big, spacemap_entry_fn *fn, void *arg)
{
    uint64_t n = bytes / 8;

    if (bytes % 8 != 0 || shift >= 64)
        return err_set(EBADE, "space map: impossible length or unit");
    for (uint64_t i = 0; i < n;) {
        uint64_t offset = 0, run = 0, w = get_u64((const unsigned char *)words + 8 * i, big);
        struct entry e = {0};
        int used, rc;

        if (w >> 62 == 2) { /* debug or padding */
            i++;
            continue;
        }
        used = decode_entry(words, i, n, big, &e);
        if (used < 0)
            return used;
        i += (uint64_t)used;
        rc = place_entry(&e, start, size, shift, &offset, &run);
        rc = rc ? rc : fn(arg, e.is_free, e.vdev, offset, run);
        if (rc)
            return rc;
    }
    return 0;
}

static int apply_entry(void *arg, bool is_free, uint64_t vdev, uint64_t offset, uint64_t run)
{
    struct rangeset *allocated = arg;
    int rc = is_free ? rangeset_remove_exact(allocated, offset, offset + run)
                     : rangeset_add_exact(allocated, offset, offset + run);

    if (rc == -EEXIST || rc == -ENOENT)
        return err_set(EBADE, "space map: %llu bytes at %llu are %s twice", (unsigned long long)run,
                       (unsigned long long)offset, is_free ? "freed" : "allocated");
    return rc;
}

int spacemap_apply(struct rangeset *allocated, uint64_t start, uint64_t size, unsigned shift,
                   const void *words, uint64_t bytes, bool big)
{
    return spacemap_each(start, size, shift, words, bytes, big, apply_entry, allocated);
}

/* Words being written; grows as needed. */
struct writer {
    unsigned char *data;
    uint64_t used, room; /* bytes */
    uint64_t pos, block; /* where data begins in the object, and its block size */
    bool is_free, v2, log;
    uint64_t vdev;
};

static int put_word(struct writer *w, uint64_t word)
{
    if (w->used == w->room) {
        uint64_t room = w->room ? 2 * w->room : 256;
        unsigned char *data = realloc(w->data, room);
        if (!data)
            return -ENOMEM;
        w->data = data;
        w->room = room;
    }
    put_u64(w->data + w->used, word, BYTES_HOST_BIG);
    w->used += 8;
    return 0;
}

static int put_two(struct writer *w, uint64_t offset, uint64_t run)
{
    int rc = 0;

    if ((w->pos + w->used) % w->block == w->block - 8)
        rc = put_word(w, PADDING); /* both words in one block */
    rc = rc ? rc : put_word(w, 3ull << 62 | (run - 1) << 24 | w->vdev);
    return rc ? rc : put_word(w, (uint64_t)w->is_free << 63 | offset);
}

static int put_range(struct writer *w, uint64_t offset, uint64_t units)
{
    bool two = w->log || (w->v2 && (offset >= ONE_OFFSET_MAX || units > ONE_RUN_MAX));
    int rc = 0;

    if (!two && offset + units > ONE_OFFSET_MAX)
        return -EOVERFLOW;
    while (units > 0 && rc == 0) {
        uint64_t run = MIN(units, two ? TWO_RUN_MAX : ONE_RUN_MAX);
        rc = two ? put_two(w, offset, run)
                 : put_word(w, offset << 16 | (uint64_t)w->is_free << 15 | (run - 1));
        offset += run;
        units -= run;
    }
    return rc;
}

static int encode(struct writer *w, const struct rangeset *set, uint64_t start, unsigned shift,
                  uint64_t txg, unsigned pass, unsigned char **out, uint64_t *bytes)
{
    struct range r;
    int rc = 0;

    if (rangeset_count(set) > 0)
        rc = put_word(w, 2ull << 62 | (uint64_t)w->is_free << 60 | (uint64_t)(pass & 0x3ff) << 50 |
                             (txg & ((1ull << 50) - 1)));
    for (struct range *it = rangeset_first(set, &r); it && rc == 0; it = rangeset_after(set, &r))
        rc = put_range(w, (r.start - start) >> shift, (r.end - r.start) >> shift);
    if (rc) {
        free(w->data);
        return rc;
    }
    *out = w->data;
    *bytes = w->used;
    return 0;
}

int spacemap_encode(const struct rangeset *set, bool is_free, uint64_t start, unsigned shift,
                    uint64_t txg, unsigned pass, bool v2, uint64_t block, uint64_t pos,
                    unsigned char **out, uint64_t *bytes)
{
    struct writer w = {.is_free = is_free, .v2 = v2, .block = block, .pos = pos};

    return encode(&w, set, start, shift, txg, pass, out, bytes);
}

int spacemap_encode_log(const struct rangeset *set, bool is_free, uint64_t vdev, uint64_t txg,
                        unsigned pass, uint64_t block, uint64_t pos, unsigned char **out,
                        uint64_t *bytes)
{
    struct writer w = {.is_free = is_free, .log = true, .vdev = vdev, .block = block, .pos = pos};

    return encode(&w, set, 0, 9, txg, pass, out, bytes);
}
