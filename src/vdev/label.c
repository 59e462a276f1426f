#include "vdev/label.h"

#include <errno.h>
#include <string.h>

#include "codec/checksum.h"
#include "device/device.h"
#include "nvlist/nvlist.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/label_impl.h"
#include "vdev/size.h"

uint64_t label_offset(uint64_t psize, unsigned l)
{
    return l < LABELS / 2 ? l * LABEL_SIZE : psize - (LABELS - l) * LABEL_SIZE;
}

/* ---- reading ---- */

static void decode(struct label *l, const unsigned char *area)
{
    const uint64_t verifier[4] = {l->offset + LABEL_CONFIG_OFFSET};
    bool big;
    int sum = checksum_verify_trailer(area, LABEL_CONFIG_SIZE, verifier, &big);
    int rc = nvlist_unpack_xdr(area, LABEL_CONFIG_MAX, &l->config, NULL);
    if (rc) {
        l->config = NULL;
        l->rc = rc == -ENOMEM ? rc : sum ? -ENOENT : -EINVAL;
        return;
    }
    l->rc = sum;
    l->guid = nvlist_uint64_or(l->config, "guid", 0);
    l->txg = nvlist_uint64_or(l->config, "txg", 0);
    l->state = nvlist_uint64_or(l->config, "state", UINT64_MAX);
}

int label_read(struct device *d, struct label_set *out)
{
    struct buf *area CLEANUP(label_buf_free) = buf_new(LABEL_CONFIG_SIZE);
    struct device_info info;
    int error = -ENOENT;
    bool any = false, read = false;
    if (!area)
        return -ENOMEM;
    device_info(d, &info);
    *out = (struct label_set){.psize = size_psize(info.size)};
    if (out->psize < LABELS * LABEL_SIZE)
        return -ENOENT;
    for (unsigned i = 0; i < LABELS; i++) {
        struct label *l = &out->label[i];
        *l = (struct label){.offset = label_offset(out->psize, i), .state = UINT64_MAX};
        l->rc = device_read(d, l->offset + LABEL_CONFIG_OFFSET, area->data, LABEL_CONFIG_SIZE);
        if (l->rc) {
            error = l->rc;
            continue;
        }
        read = true;
        decode(l, area->data);
        any |= l->config != NULL;
        if (l->rc == -ENOMEM) {
            label_set_free(out);
            return -ENOMEM;
        }
    }
    return any ? 0 : read ? -ENOENT : error;
}

void label_set_free(struct label_set *s)
{
    for (unsigned i = 0; i < LABELS; i++) {
        nvlist_free(s->label[i].config);
        s->label[i].config = NULL;
    }
}

bool label_usable(const struct label *l)
{
    if (!l->config || l->rc || !l->guid || l->state > POOL_STATE_L2CACHE)
        return false;
    return l->txg || l->state == POOL_STATE_SPARE || l->state == POOL_STATE_L2CACHE;
}

const struct label *label_best(const struct label_set *s, uint64_t max_txg)
{
    const struct label *best = NULL;
    for (unsigned i = 0; i < LABELS; i++) {
        const struct label *l = &s->label[i];
        if (label_usable(l) && l->txg <= max_txg && (!best || l->txg > best->txg))
            best = l;
    }
    return best;
}

/* ---- writing ---- */

static int check_sizes(const struct device *d, uint64_t psize, size_t n)
{
    if (psize < LABELS * LABEL_SIZE)
        return err_set(EOVERFLOW, "%s is too small for the labels of a pool", d->path);
    if (n > LABEL_CONFIG_MAX)
        return err_set(ENAMETOOLONG, "the configuration does not fit in the label of %s", d->path);
    return 0;
}

/* The configuration area at offset of the device. */
static void encode_config(unsigned char *area, const void *packed, size_t n, uint64_t offset)
{
    const uint64_t verifier[4] = {offset};
    memcpy(area, packed, n);
    memset(area + n, 0, LABEL_CONFIG_SIZE - n);
    checksum_seal_trailer(area, LABEL_CONFIG_SIZE, verifier);
}

int label_write_pair(struct device *d, uint64_t psize, enum label_pair pair, const void *packed,
                     size_t n)
{
    unsigned written = 0;
    struct label_copy copies[LABELS / 2];
    int rc = check_sizes(d, psize, n);
    if (rc)
        return rc;
    struct buf *bytes CLEANUP(label_buf_free) = buf_new(ARRAY_LEN(copies) * LABEL_CONFIG_SIZE);
    if (!bytes)
        return -ENOMEM;
    for (unsigned i = 0; i < ARRAY_LEN(copies); i++) {
        unsigned l = 2 * i + (pair == LABEL_PAIR_SECOND);
        copies[i] = (struct label_copy){label_offset(psize, l) + LABEL_CONFIG_OFFSET,
                                        bytes->data + i * LABEL_CONFIG_SIZE};
        encode_config(copies[i].data, packed, n, copies[i].offset);
    }
    rc = label_write_copies(d, copies, ARRAY_LEN(copies), LABEL_CONFIG_SIZE, &written);
    return written ? 0 : rc;
}

int label_init(struct device *d, uint64_t psize, const void *packed, size_t n)
{
    enum { BYTES = LABEL_SIZE - LABEL_BOOT_OFFSET };
    unsigned written;
    struct label_copy copies[LABELS];
    int rc = check_sizes(d, psize, n);
    if (rc)
        return rc;
    struct buf *bytes CLEANUP(label_buf_free) = buf_new_zero((size_t)LABELS * BYTES);
    if (!bytes)
        return -ENOMEM;
    for (unsigned l = 0; l < LABELS; l++) {
        uint64_t offset = label_offset(psize, l) + LABEL_BOOT_OFFSET;
        const uint64_t verifier[4] = {offset};
        unsigned char *p = bytes->data + (size_t)l * BYTES;
        copies[l] = (struct label_copy){offset, p};
        checksum_seal_trailer(p, LABEL_BOOT_SIZE, verifier);
        encode_config(p + LABEL_CONFIG_OFFSET - LABEL_BOOT_OFFSET, packed, n,
                      offset + LABEL_CONFIG_OFFSET - LABEL_BOOT_OFFSET);
    }
    return label_write_copies(d, copies, LABELS, BYTES, &written);
}

int label_clear(struct device *d)
{
    struct label_set set;
    struct label_copy copies[LABELS];
    unsigned written;
    int rc = label_read(d, &set);
    if (rc == -ENOENT)
        return err_set(ENOENT, "%s has no label of a pool", d->path);
    if (rc)
        return rc;
    uint64_t psize = set.psize;
    label_set_free(&set);
    struct buf *zeros CLEANUP(label_buf_free) = buf_new_zero(LABEL_SIZE);
    if (!zeros)
        return -ENOMEM;
    for (unsigned l = 0; l < LABELS; l++)
        copies[l] = (struct label_copy){label_offset(psize, l), zeros->data};
    rc = label_write_copies(d, copies, LABELS, LABEL_SIZE, &written);
    return rc ? rc : device_flush(d);
}

/* ---- opening ---- */

/* 1 if the device has a good label, 0 if not, or -ENOMEM. */
static int has_labels(struct device *d)
{
    struct label_set set;
    int rc = label_read(d, &set);
    if (rc)
        return rc == -ENOMEM ? rc : 0;
    for (unsigned i = 0; i < LABELS; i++)
        rc |= set.label[i].rc == 0;
    label_set_free(&set);
    return rc;
}

/* Replaces *d by its ZFS partition if it has one. */
static int use_partition(struct device **d)
{
    struct device *part;
    uint64_t start, size;
    int rc = device_find_gpt(*d, &start, &size);
    rc = rc ? rc : device_slice(&part, *d, start, size);
    if (rc == 0)
        *d = part;
    return rc == -ENOMEM ? rc : 0;
}

int label_open_device(struct device **out, const char *path, unsigned flags)
{
    struct device *d;
    int rc = device_open(&d, path, flags);
    if (rc)
        return rc;
    rc = has_labels(d);
    if (rc == 0)
        rc = use_partition(&d);
    if (rc < 0) {
        device_close(d);
        return rc;
    }
    *out = d;
    return 0;
}
