/* What the two encodings share: sizes, growing output, bounded input, the choice by the header. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvlist/nvlist_impl.h"
#include "util/bytes.h"

#define NATIVE_LIST 24 /* OpenZFS's list header in memory */

void nv_store(void *value, unsigned width, size_t i, uint64_t v)
{
    uint8_t v8 = (uint8_t)v;
    uint16_t v16 = (uint16_t)v;
    uint32_t v32 = (uint32_t)v;
    char *at = (char *)value + i * width;

    switch (width) {
    case 1:
        memcpy(at, &v8, 1);
        break;
    case 2:
        memcpy(at, &v16, 2);
        break;
    case 4:
        memcpy(at, &v32, 4);
        break;
    default:
        memcpy(at, &v, 8);
    }
}

size_t nvpair_native_value_size(const struct nvpair *p)
{
    const struct nv_kind *k = nv_kind(p->type);
    size_t pointers = k->array ? 8 * (size_t)p->count : 0;

    if (k->form == NV_FORM_LIST)
        return pointers + NATIVE_LIST * (size_t)p->count;
    if (k->form != NV_FORM_STRING)
        return (size_t)k->width * p->count;
    for (uint32_t i = 0; i < p->count; i++)
        pointers += strlen(nvpair_strings(p)[i]) + 1;
    return pointers;
}

size_t nvpair_native_size(const struct nvpair *p)
{
    return P2_ROUND_UP(16 + strlen(p->name) + 1, (size_t)8) +
           P2_ROUND_UP(nvpair_native_value_size(p), (size_t)8);
}

unsigned char *nv_reserve(struct nv_writer *w, size_t n)
{
    unsigned char *at;

    if (w->rc < 0)
        return NULL;
    if (n > NVLIST_SIZE_MAX - w->used) {
        w->rc = -EINVAL; /* nobody would read it */
        return NULL;
    }
    if (n > w->capacity - w->used) {
        size_t bigger = MAX(w->used + n, MAX(w->capacity * 2, (size_t)1024));
        at = realloc(w->data, bigger);
        if (!at) {
            w->rc = -ENOMEM;
            return NULL;
        }
        w->data = at;
        w->capacity = bigger;
    }
    at = w->data + w->used;
    memset(at, 0, n);
    w->used += n;
    return at;
}

int nv_finish(struct nv_writer *w, unsigned char **out, size_t *n)
{
    if (w->rc < 0) {
        free(w->data);
        return w->rc;
    }
    *out = w->data;
    *n = w->used;
    return 0;
}

const unsigned char *nv_take(struct nv_reader *r, size_t n)
{
    const unsigned char *at = r->data;

    if (n > r->left)
        return NULL;
    r->data += n;
    r->left -= n;
    return at;
}

int nvlist_unpack(const void *data, size_t n, struct nvlist **out, size_t *used)
{
    if (n < NV_HEADER_SIZE)
        return -EINVAL;
    if (*(const unsigned char *)data == NV_ENCODING_XDR)
        return nvlist_unpack_xdr(data, n, out, used);
    return nvlist_unpack_native(data, n, out, used);
}
