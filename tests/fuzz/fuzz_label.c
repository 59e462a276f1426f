/*
 * Any bytes as the labels of a device, and the pool that a scan makes of them. Input: a byte of
 * flags (1: make the checksums right, 2: the labels are of two devices, 4: the rest is an uberblock
 * slot and not a configuration), then the bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "fuzz.h"
#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "vdev/scan_impl.h"

enum { PSIZE = 4 * LABEL_SIZE };

static void put_ring(struct device *d)
{
    const struct uberblock u = {.version = 5000, .txg = 1ull << 40};
    uberblock_write(d, PSIZE, 12, &u, false);
}

static void put_labels(struct device *d, const uint8_t *data, size_t n, bool sealed)
{
    n = MIN(n, (size_t)LABEL_CONFIG_MAX);
    if (sealed) {
        label_write_pair(d, PSIZE, LABEL_PAIR_FIRST, data, n);
        label_write_pair(d, PSIZE, LABEL_PAIR_SECOND, data, n);
    } else {
        for (unsigned l = 0; l < LABELS; l++)
            device_write(d, label_offset(PSIZE, l) + LABEL_CONFIG_OFFSET, data, n);
    }
}

/* The scan of one or two devices with these labels, and what its users do with it. */
static void assemble(struct device *d, size_t n)
{
    static char name[] = "/dev/fuzz";
    char *names[] = {name};
    struct candidate item[2] = {{.name = names, .names = 1}, {.name = names, .names = 1}};
    struct candidates c = {.item = item, .n = n};
    for (size_t i = 0; i < n; i++) {
        item[i].order = i;
        candidate_look(&item[i], d);
    }
    if (item[0].label && item[0].pool_guid) {
        struct scan_pool pool = {.guid = item[0].pool_guid};
        if (scan_assemble(&pool, &c, pool.guid) == 0 && !pool.config && pool.status != SCAN_CORRUPT)
            abort();
        free(pool.name);
        free(pool.hostname);
        nvlist_free(pool.config);
    }
    for (size_t i = 0; i < n; i++)
        if (item[i].labelled)
            label_set_free(&item[i].set);
}

static void ring(struct device *d, const uint8_t *data, size_t n, bool sealed)
{
    struct uberblock u, again;
    static uint8_t slot[8192];
    uint64_t offset = uberblock_offset(PSIZE, 1, 13, 3);
    memset(slot, 0, sizeof slot);
    memcpy(slot, data, MIN(n, sizeof slot));
    if (sealed && n >= 216) { /* the fields, as they would have been written */
        for (unsigned i = 0; i < 16; i++)
            u.rootbp[i] = get_le64(data + 40 + 8 * i);
        u = (struct uberblock){.version = get_le64(data + 8),
                               .txg = get_le64(data + 16),
                               .mmp_magic = get_le64(data + 176),
                               .mmp_config = get_le64(data + 192),
                               .raidz_reflow = get_le64(data + 208)};
        uberblock_encode(&u, slot, sizeof slot, offset);
    }
    device_write(d, offset, slot, sizeof slot);
    if (uberblock_best(d, PSIZE, UINT64_MAX, &again) == 0)
        for (unsigned ashift = 9; ashift <= 16; ashift++)
            if (uberblock_slot(ashift, &again, true) >= uberblock_slots(ashift))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct device *d;
    if (n < 1 || device_memory(&d, PSIZE))
        return 0;
    if (data[0] & 4) {
        ring(d, data + 1, n - 1, data[0] & 1);
    } else {
        put_ring(d);
        put_labels(d, data + 1, n - 1, data[0] & 1);
        assemble(d, data[0] & 2 ? 2 : 1);
    }
    device_close(d);
    return 0;
}
