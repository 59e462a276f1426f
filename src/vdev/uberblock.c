#include "vdev/uberblock.h"

#include <errno.h>
#include <string.h>

#include "codec/checksum.h"
#include "device/device.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "vdev/label.h"
#include "vdev/label_impl.h"

/* Where the fields are, in 64-bit words. */
enum {
    W_MAGIC,
    W_VERSION,
    W_TXG,
    W_GUID_SUM,
    W_TIMESTAMP,
    W_ROOTBP,
    W_SOFTWARE_VERSION = W_ROOTBP + 16,
    W_MMP_MAGIC,
    W_MMP_DELAY,
    W_MMP_CONFIG,
    W_CHECKPOINT_TXG,
    W_RAIDZ_REFLOW,
    WORDS
};

unsigned uberblock_shift(unsigned ashift)
{
    return MIN(MAX(ashift, UBERBLOCK_SHIFT_MIN), UBERBLOCK_SHIFT_MAX);
}

unsigned uberblock_slots(unsigned ashift)
{
    return LABEL_RING_SIZE >> uberblock_shift(ashift);
}

unsigned uberblock_slot(unsigned ashift, const struct uberblock *u, bool multihost)
{
    uint64_t txg = u->txg;
    if (uberblock_reflow_state(u) == UBERBLOCK_REFLOW_VALID && txg)
        txg--;
    return (unsigned)(txg % (uberblock_slots(ashift) - multihost));
}

uint64_t uberblock_offset(uint64_t psize, unsigned label, unsigned ashift, unsigned slot)
{
    return label_offset(psize, label) + LABEL_RING_OFFSET +
           ((uint64_t)slot << uberblock_shift(ashift));
}

void uberblock_encode(const struct uberblock *u, void *slot, size_t size, uint64_t offset)
{
    const uint64_t verifier[4] = {offset};
    uint64_t w[WORDS] = {
        [W_MAGIC] = UBERBLOCK_MAGIC,
        [W_VERSION] = u->version,
        [W_TXG] = u->txg,
        [W_GUID_SUM] = u->guid_sum,
        [W_TIMESTAMP] = u->timestamp,
        [W_SOFTWARE_VERSION] = u->software_version,
        [W_MMP_MAGIC] = u->mmp_magic,
        [W_MMP_DELAY] = u->mmp_delay,
        [W_MMP_CONFIG] = u->mmp_config,
        [W_CHECKPOINT_TXG] = u->checkpoint_txg,
        [W_RAIDZ_REFLOW] = u->raidz_reflow,
    };
    memcpy(&w[W_ROOTBP], u->rootbp, sizeof u->rootbp);
    memset(slot, 0, size);
    for (size_t i = 0; i < WORDS; i++)
        put_u64((unsigned char *)slot + 8 * i, w[i], BYTES_HOST_BIG);
    checksum_seal_trailer(slot, size, verifier);
}

int uberblock_decode(struct uberblock *u, const void *slot, size_t size, uint64_t offset)
{
    const uint64_t verifier[4] = {offset};
    const unsigned char *p = slot;
    uint64_t w[WORDS];
    bool big;
    /* The trailer is in the writer's byte order as well; the fields tell by the magic. */
    if (get_le64(p) != UBERBLOCK_MAGIC && get_be64(p) != UBERBLOCK_MAGIC)
        return -EINVAL;
    int rc = checksum_verify_trailer(slot, size, verifier, &big);
    if (rc)
        return rc;
    for (size_t i = 0; i < WORDS; i++)
        w[i] = get_u64(p + 8 * i, big);
    if (w[W_MAGIC] != UBERBLOCK_MAGIC)
        return -EINVAL;
    *u = (struct uberblock){
        .version = w[W_VERSION],
        .txg = w[W_TXG],
        .guid_sum = w[W_GUID_SUM],
        .timestamp = w[W_TIMESTAMP],
        .software_version = w[W_SOFTWARE_VERSION],
        .mmp_magic = w[W_MMP_MAGIC],
        .mmp_delay = w[W_MMP_DELAY],
        .mmp_config = w[W_MMP_CONFIG],
        .checkpoint_txg = w[W_CHECKPOINT_TXG],
        .raidz_reflow = w[W_RAIDZ_REFLOW],
        .big = big,
    };
    memcpy(u->rootbp, &w[W_ROOTBP], sizeof u->rootbp);
    return u->txg ? 0 : -EINVAL;
}

int uberblock_compare(const struct uberblock *a, const struct uberblock *b)
{
    unsigned sa, sb;
    if (a->txg != b->txg)
        return a->txg < b->txg ? -1 : 1;
    if (a->timestamp != b->timestamp)
        return a->timestamp < b->timestamp ? -1 : 1;
    if (!uberblock_mmp_sequence(a, &sa))
        sa = 0;
    if (!uberblock_mmp_sequence(b, &sb))
        sb = 0;
    return sa < sb ? -1 : sa > sb;
}

/* The slot that starts at the given place of a ring, whatever its size. */
static int decode_any(struct uberblock *u, const unsigned char *ring, size_t at, uint64_t offset)
{
    int rc = -EINVAL;
    for (unsigned s = UBERBLOCK_SHIFT_MIN; rc && s <= UBERBLOCK_SHIFT_MAX; s++) {
        size_t size = (size_t)1 << s;
        if (at & (size - 1))
            break;
        const unsigned char *trailer = ring + at + size - CHECKSUM_TRAILER_SIZE;
        if (get_le64(trailer) == CHECKSUM_TRAILER_MAGIC ||
            get_be64(trailer) == CHECKSUM_TRAILER_MAGIC)
            rc = uberblock_decode(u, ring + at, size, offset);
    }
    return rc;
}

int uberblock_scan(struct device *d, uint64_t psize, uberblock_fn *fn, void *arg)
{
    struct buf *ring CLEANUP(label_buf_free) = buf_new(LABEL_RING_SIZE);
    int error = 0;
    unsigned rings = 0;
    if (!ring)
        return -ENOMEM;
    if (psize < LABELS * LABEL_SIZE)
        return 0;
    for (unsigned l = 0; l < LABELS; l++) {
        uint64_t start = label_offset(psize, l) + LABEL_RING_OFFSET;
        int rc = device_read(d, start, ring->data, LABEL_RING_SIZE);
        if (rc) {
            error = rc;
            continue;
        }
        rings++;
        for (size_t at = 0; at < LABEL_RING_SIZE; at += 1u << UBERBLOCK_SHIFT_MIN) {
            struct uberblock u;
            if (decode_any(&u, ring->data, at, start + at))
                continue;
            rc = fn(arg, &u, l, start + at);
            if (rc)
                return rc;
        }
    }
    return rings ? 0 : error;
}

struct best {
    struct uberblock *out;
    uint64_t max_txg;
    bool any;
};

static int keep_best(void *arg, const struct uberblock *u, unsigned label, uint64_t offset)
{
    struct best *b = arg;
    if (u->txg > b->max_txg || (b->any && uberblock_compare(u, b->out) <= 0))
        return 0;
    *b->out = *u;
    b->any = true;
    return 0;
}

int uberblock_best(struct device *d, uint64_t psize, uint64_t max_txg, struct uberblock *out)
{
    struct best b = {.out = out, .max_txg = max_txg};
    int rc = uberblock_scan(d, psize, keep_best, &b);
    return rc || b.any ? rc : -ENOENT;
}

int uberblock_write(struct device *d, uint64_t psize, unsigned ashift, const struct uberblock *u,
                    bool multihost)
{
    size_t size = (size_t)1 << uberblock_shift(ashift);
    unsigned slot = uberblock_slot(ashift, u, multihost), written;
    struct label_copy copies[LABELS];
    struct buf *bytes CLEANUP(label_buf_free) = buf_new(LABELS * size);
    if (!bytes)
        return -ENOMEM;
    for (unsigned l = 0; l < LABELS; l++) {
        copies[l] =
            (struct label_copy){uberblock_offset(psize, l, ashift, slot), bytes->data + l * size};
        uberblock_encode(u, copies[l].data, size, copies[l].offset);
    }
    int rc = label_write_copies(d, copies, LABELS, size, &written);
    return written ? 0 : rc;
}
