/* The XDR form (01 3.2 to 3.4): everything big-endian in units of four bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvlist/nvlist_impl.h"
#include "util/bytes.h"

#define PAD(n) P2_ROUND_UP((size_t)(n), (size_t)4)

static void put_word(struct nv_writer *w, uint32_t v)
{
    unsigned char *at = nv_reserve(w, 4);

    if (at)
        put_be32(at, v);
}

static void put_bytes(struct nv_writer *w, const void *p, size_t n)
{
    unsigned char *at = nv_reserve(w, PAD(n));

    if (at && n > 0)
        memcpy(at, p, n);
}

static void put_string(struct nv_writer *w, const char *s)
{
    size_t len = strlen(s);

    put_word(w, (uint32_t)len);
    put_bytes(w, s, len);
}

/* Bytes that an integer takes: nothing is shorter than four. */
static unsigned int_size(const struct nv_kind *k)
{
    return k->width == 8 ? 8 : 4;
}

static void put_ints(struct nv_writer *w, const struct nvpair *p, const struct nv_kind *k)
{
    unsigned size = int_size(k);
    unsigned char *at;

    if (p->type == NV_BYTE_ARRAY) {
        put_bytes(w, p->value, p->count);
        return;
    }
    if (k->array)
        put_word(w, p->count);
    at = nv_reserve(w, (size_t)size * p->count);
    for (uint32_t i = 0; at && i < p->count; i++, at += size) {
        uint64_t v = nv_load(p->value, k->width, k->is_signed, i);
        if (size == 8)
            put_be64(at, v);
        else
            put_be32(at, (uint32_t)v);
    }
}

static void put_list(struct nv_writer *w, const struct nvlist *l, unsigned depth);

static void put_value(struct nv_writer *w, const struct nvpair *p, unsigned depth)
{
    const struct nv_kind *k = nv_kind(p->type);

    if (p->count == 0)
        return;
    if (k->form == NV_FORM_INT)
        put_ints(w, p, k);
    for (uint32_t i = 0; k->form == NV_FORM_STRING && i < p->count; i++)
        put_string(w, nvpair_strings(p)[i]);
    for (uint32_t i = 0; k->form == NV_FORM_LIST && i < p->count; i++)
        put_list(w, nvpair_lists(p)[i], depth + 1);
}

static void put_list(struct nv_writer *w, const struct nvlist *l, unsigned depth)
{
    if (depth > NVLIST_DEPTH_MAX)
        w->rc = w->rc < 0 ? w->rc : -EINVAL;
    put_word(w, 0);
    put_word(w, l->nvflag);
    for (const struct nvpair *p = l->first; p && w->rc == 0; p = p->next) {
        size_t start = w->used;
        put_word(w, 0);
        put_word(w, (uint32_t)nvpair_native_size(p));
        put_string(w, p->name);
        put_word(w, p->type);
        put_word(w, p->count);
        put_value(w, p, depth);
        if (w->rc == 0)
            put_be32(w->data + start, (uint32_t)(w->used - start));
    }
    put_word(w, 0);
    put_word(w, 0);
}

int nvlist_pack_xdr(const struct nvlist *l, unsigned char **out, size_t *n)
{
    struct nv_writer w = {0};
    unsigned char *header = nv_reserve(&w, NV_HEADER_SIZE);

    if (header) {
        header[0] = NV_ENCODING_XDR;
        header[1] = !BYTES_HOST_BIG;
    }
    put_list(&w, l, 0);
    return nv_finish(&w, out, n);
}

static int take_word(struct nv_reader *r, uint32_t *v)
{
    const unsigned char *at = nv_take(r, 4);

    if (!at)
        return -EINVAL;
    *v = get_be32(at);
    return 0;
}

/* A string inside the input, not ended by NUL and without NUL in it. */
static int take_string(struct nv_reader *r, const char **s, uint32_t *len)
{
    const unsigned char *at;

    if (take_word(r, len) < 0 || *len > NVLIST_SIZE_MAX)
        return -EINVAL;
    at = nv_take(r, PAD(*len));
    if (!at || memchr(at, 0, *len))
        return -EINVAL;
    *s = (const char *)at;
    return 0;
}

struct pair_header {
    const char *name;
    uint32_t name_len, native_size, type, count;
};

static int take_ints(struct nv_reader *r, const struct pair_header *h, const struct nv_kind *k,
                     struct nvpair **out)
{
    unsigned size = int_size(k);
    const unsigned char *at;
    uint32_t again;
    bool bytes = h->type == NV_BYTE_ARRAY;

    if (h->count > r->left)
        return -EINVAL;
    if (k->array && !bytes && h->count > 0 && (take_word(r, &again) < 0 || again != h->count))
        return -EINVAL;
    at = nv_take(r, bytes ? PAD(h->count) : (size_t)size * h->count);
    if (!at)
        return -EINVAL;
    *out = nvpair_new(h->name, h->name_len, h->type, h->count, (size_t)k->width * h->count);
    if (!*out)
        return -ENOMEM;
    if (bytes) {
        memcpy((*out)->value, at, h->count);
        return 0;
    }
    for (uint32_t i = 0; i < h->count; i++, at += size)
        nv_store((*out)->value, k->width, i, size == 8 ? get_be64(at) : get_be32(at));
    return 0;
}

static int take_strings(struct nv_reader *r, const struct pair_header *h, struct nvpair **out)
{
    struct nv_reader ahead = *r;
    size_t bytes = h->count * sizeof(char *);
    const char *s;
    uint32_t len;
    char *to;

    if (h->count > r->left / 4)
        return -EINVAL;
    for (uint32_t i = 0; i < h->count; i++) {
        if (take_string(&ahead, &s, &len) < 0)
            return -EINVAL;
        bytes += (size_t)len + 1;
    }
    *out = nvpair_new(h->name, h->name_len, h->type, h->count, bytes);
    if (!*out)
        return -ENOMEM;
    to = (char *)(nvpair_strings(*out) + h->count);
    for (uint32_t i = 0; i < h->count; i++, to += len + 1) {
        take_string(r, &s, &len);
        memcpy(to, s, len);
        nvpair_strings(*out)[i] = to;
    }
    return 0;
}

static int take_list(struct nv_reader *r, unsigned depth, struct nvlist **out);

static int take_lists(struct nv_reader *r, const struct pair_header *h, unsigned depth,
                      struct nvpair **out)
{
    if (h->count > r->left / 16) /* an empty list */
        return -EINVAL;
    *out = nvpair_new(h->name, h->name_len, h->type, h->count, h->count * sizeof(struct nvlist *));
    if (!*out)
        return -ENOMEM;
    for (uint32_t i = 0; i < h->count; i++) {
        int rc = take_list(r, depth + 1, &nvpair_lists(*out)[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* What follows the two sizes. *out may be set even if it fails. */
static int take_pair(struct nv_reader *r, uint32_t native_size, unsigned depth, struct nvpair **out)
{
    struct pair_header h;
    const struct nv_kind *k;
    int rc;

    if (take_string(r, &h.name, &h.name_len) < 0 || h.name_len > NVLIST_NAME_MAX ||
        take_word(r, &h.type) < 0 || take_word(r, &h.count) < 0)
        return -EINVAL;
    k = nv_kind(h.type);
    if (!k || (!k->array && h.count != (k->form == NV_FORM_FLAG ? 0 : 1)))
        return -EINVAL;
    if (k->form == NV_FORM_STRING)
        rc = take_strings(r, &h, out);
    else if (k->form == NV_FORM_LIST)
        rc = take_lists(r, &h, depth, out);
    else
        rc = take_ints(r, &h, k, out);
    /* The reference refuses a list with a wrong size of the decoded form, so do we. The encoded
     * size it does not look at. */
    if (rc == 0 && nvpair_native_size(*out) != native_size)
        rc = -EINVAL;
    return rc;
}

static int take_pairs(struct nv_reader *r, unsigned depth, struct nvlist *l)
{
    uint32_t encoded, decoded;

    for (;;) {
        struct nvpair *p = NULL;
        int rc;
        if (take_word(r, &encoded) < 0 || take_word(r, &decoded) < 0)
            return -EINVAL;
        if (encoded == 0 && decoded == 0)
            return 0;
        rc = take_pair(r, decoded, depth, &p);
        if (rc < 0) {
            nvpair_free(p);
            return rc;
        }
        nvlist_link(l, p);
    }
}

static int take_list(struct nv_reader *r, unsigned depth, struct nvlist **out)
{
    uint32_t version, nvflag;
    struct nvlist *l;
    int rc;

    if (depth > NVLIST_DEPTH_MAX || take_word(r, &version) < 0 || version != 0 ||
        take_word(r, &nvflag) < 0)
        return -EINVAL;
    l = nvlist_new();
    if (!l)
        return -ENOMEM;
    l->nvflag = nvflag;
    rc = take_pairs(r, depth, l);
    if (rc < 0) {
        nvlist_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

int nvlist_unpack_xdr(const void *data, size_t n, struct nvlist **out, size_t *used)
{
    struct nv_reader r = {data, MIN(n, (size_t)NVLIST_SIZE_MAX)};
    const unsigned char *header = nv_take(&r, NV_HEADER_SIZE);
    int rc;

    if (!header || header[0] != NV_ENCODING_XDR || header[1] > 1)
        return -EINVAL;
    rc = take_list(&r, 0, out);
    if (rc == 0 && used)
        *used = (size_t)(r.data - (const unsigned char *)data);
    return rc;
}
