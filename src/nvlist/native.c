/*
 * The native form (01 3.5): images of OpenZFS's structures in memory, in the byte order of the
 * writer. A nested list's pairs follow the pair that holds its header.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvlist/nvlist_impl.h"
#include "util/bytes.h"

#define PAD(n)      P2_ROUND_UP((size_t)(n), (size_t)8)
#define PAIR_HEADER 16
#define LIST_HEADER 24

static void put_pairs(struct nv_writer *w, const struct nvlist *l, unsigned depth);

static void put_word(struct nv_writer *w, uint32_t v)
{
    unsigned char *at = nv_reserve(w, 4);

    if (at)
        memcpy(at, &v, 4);
}

/* at: zeroed room for the value's size; pointers stay zero. */
static void put_value(unsigned char *at, const struct nvpair *p, const struct nv_kind *k)
{
    size_t pointers = k->array ? 8 * (size_t)p->count : 0;

    if (k->form == NV_FORM_INT && p->count > 0)
        memcpy(at, p->value, (size_t)k->width * p->count);
    at += pointers;
    for (uint32_t i = 0; k->form == NV_FORM_STRING && i < p->count; i++) {
        size_t len = strlen(nvpair_strings(p)[i]) + 1;
        memcpy(at, nvpair_strings(p)[i], len);
        at += len;
    }
    for (uint32_t i = 0; k->form == NV_FORM_LIST && i < p->count; i++, at += LIST_HEADER)
        memcpy(at + 4, &nvpair_lists(p)[i]->nvflag, 4);
}

static void put_pair(struct nv_writer *w, const struct nvpair *p, unsigned depth)
{
    const struct nv_kind *k = nv_kind(p->type);
    uint32_t size = (uint32_t)nvpair_native_size(p), type = p->type;
    uint16_t name_size = (uint16_t)(strlen(p->name) + 1);
    unsigned char *at = nv_reserve(w, size);

    if (!at)
        return;
    memcpy(at, &size, 4);
    memcpy(at + 4, &name_size, 2);
    memcpy(at + 8, &p->count, 4);
    memcpy(at + 12, &type, 4);
    memcpy(at + PAIR_HEADER, p->name, name_size);
    put_value(at + PAD(PAIR_HEADER + name_size), p, k);
    for (uint32_t i = 0; k->form == NV_FORM_LIST && i < p->count; i++)
        put_pairs(w, nvpair_lists(p)[i], depth + 1);
}

static void put_pairs(struct nv_writer *w, const struct nvlist *l, unsigned depth)
{
    if (depth > NVLIST_DEPTH_MAX)
        w->rc = w->rc < 0 ? w->rc : -EINVAL;
    for (const struct nvpair *p = l->first; p && w->rc == 0; p = p->next)
        put_pair(w, p, depth);
    put_word(w, 0);
}

int nvlist_pack_native(const struct nvlist *l, unsigned char **out, size_t *n)
{
    struct nv_writer w = {0};
    unsigned char *header = nv_reserve(&w, NV_HEADER_SIZE);

    if (header) {
        header[0] = NV_ENCODING_NATIVE;
        header[1] = !BYTES_HOST_BIG;
    }
    put_word(&w, 0);
    put_word(&w, l->nvflag);
    put_pairs(&w, l, 0);
    return nv_finish(&w, out, n);
}

/* One pair inside the input, its sizes checked. */
struct pair_image {
    const char *name;
    uint32_t name_len, type, count;
    const unsigned char *value;
    size_t value_size; /* with padding */
    bool big;
};

static int take_image(struct nv_reader *r, uint32_t size, bool big, struct pair_image *m)
{
    const unsigned char *at;
    uint32_t name_size;

    /* The reader stands behind the size itself. */
    if (size < PAIR_HEADER || size % 8 != 0 || !(at = nv_take(r, size - 4)))
        return -EINVAL;
    at -= 4;
    name_size = get_u16(at + 4, big);
    if (name_size == 0 || name_size > NVLIST_NAME_MAX + 1 || PAD(PAIR_HEADER + name_size) > size ||
        memchr(at + PAIR_HEADER, 0, name_size) != at + PAIR_HEADER + name_size - 1)
        return -EINVAL;
    *m = (struct pair_image){
        .name = (const char *)at + PAIR_HEADER,
        .name_len = name_size - 1,
        .count = get_u32(at + 8, big),
        .type = get_u32(at + 12, big),
        .value = at + PAD(PAIR_HEADER + name_size),
        .value_size = size - PAD(PAIR_HEADER + name_size),
        .big = big,
    };
    return 0;
}

static int take_ints(const struct pair_image *m, const struct nv_kind *k, struct nvpair **out)
{
    struct nvpair *p;

    if (PAD((size_t)k->width * m->count) != m->value_size)
        return -EINVAL;
    p = *out = nvpair_new(m->name, m->name_len, m->type, m->count, (size_t)k->width * m->count);
    if (!p)
        return -ENOMEM;
    for (uint32_t i = 0; i < m->count; i++) {
        const unsigned char *at = m->value + (size_t)k->width * i;
        uint64_t v = k->width == 8   ? get_u64(at, m->big)
                     : k->width == 4 ? get_u32(at, m->big)
                     : k->width == 2 ? get_u16(at, m->big)
                                     : at[0];
        nv_store(p->value, k->width, i, v);
    }
    return 0;
}

static int take_strings(const struct pair_image *m, const struct nv_kind *k, struct nvpair **out)
{
    size_t at = k->array ? 8 * (size_t)m->count : 0;
    const char **strings;

    if (m->count > m->value_size || at > m->value_size)
        return -EINVAL;
    strings = malloc((m->count + 1) * sizeof *strings);
    if (!strings)
        return -ENOMEM;
    for (uint32_t i = 0; i < m->count; i++) {
        const unsigned char *s = m->value + at, *end = memchr(s, 0, m->value_size - at);
        if (!end) {
            free(strings);
            return -EINVAL;
        }
        strings[i] = (const char *)s;
        at += (size_t)(end - s) + 1;
    }
    if (PAD(at) == m->value_size)
        *out = nvpair_new_strings(m->name, m->name_len, m->type, strings, m->count);
    free(strings);
    return PAD(at) != m->value_size ? -EINVAL : *out ? 0 : -ENOMEM;
}

static int take_pairs(struct nv_reader *r, bool big, unsigned depth, struct nvlist *l);

static int take_lists(struct nv_reader *r, const struct pair_image *m, const struct nv_kind *k,
                      unsigned depth, struct nvpair **out)
{
    size_t pointers = k->array ? 8 * (size_t)m->count : 0;

    if (depth >= NVLIST_DEPTH_MAX || pointers + LIST_HEADER * (size_t)m->count != m->value_size)
        return -EINVAL;
    *out = nvpair_new(m->name, m->name_len, m->type, m->count, m->count * sizeof(struct nvlist *));
    if (!*out)
        return -ENOMEM;
    for (uint32_t i = 0; i < m->count; i++) {
        const unsigned char *header = m->value + pointers + LIST_HEADER * (size_t)i;
        struct nvlist *l = nvpair_lists(*out)[i] = nvlist_new();
        int rc;
        if (!l)
            return -ENOMEM;
        if (get_u32(header, m->big) != 0)
            return -EINVAL;
        l->nvflag = get_u32(header + 4, m->big);
        rc = take_pairs(r, m->big, depth + 1, l);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* What follows the size. *out may be set even if it fails. */
static int take_pair(struct nv_reader *r, uint32_t size, bool big, unsigned depth,
                     struct nvpair **out)
{
    struct pair_image m;
    const struct nv_kind *k;
    int rc = take_image(r, size, big, &m);

    if (rc < 0)
        return rc;
    k = nv_kind(m.type);
    if (!k || (!k->array && m.count != (k->form == NV_FORM_FLAG ? 0 : 1)))
        return -EINVAL;
    if (k->form == NV_FORM_STRING)
        return take_strings(&m, k, out);
    if (k->form == NV_FORM_LIST)
        return take_lists(r, &m, k, depth, out);
    return take_ints(&m, k, out);
}

static int take_pairs(struct nv_reader *r, bool big, unsigned depth, struct nvlist *l)
{
    for (;;) {
        const unsigned char *at = nv_take(r, 4);
        struct nvpair *p = NULL;
        int rc;
        if (!at)
            return -EINVAL;
        if (get_u32(at, big) == 0)
            return 0;
        rc = take_pair(r, get_u32(at, big), big, depth, &p);
        if (rc < 0) {
            nvpair_free(p);
            return rc;
        }
        nvlist_link(l, p);
    }
}

int nvlist_unpack_native(const void *data, size_t n, struct nvlist **out, size_t *used)
{
    struct nv_reader r = {data, MIN(n, (size_t)NVLIST_SIZE_MAX)};
    const unsigned char *header = nv_take(&r, NV_HEADER_SIZE + 8);
    struct nvlist *l;
    bool big;
    int rc;

    if (!header || header[0] != NV_ENCODING_NATIVE || header[1] > 1)
        return -EINVAL;
    big = header[1] == 0;
    if (get_u32(header + NV_HEADER_SIZE, big) != 0)
        return -EINVAL;
    l = nvlist_new();
    if (!l)
        return -ENOMEM;
    l->nvflag = get_u32(header + NV_HEADER_SIZE + 4, big);
    rc = take_pairs(&r, big, 0, l);
    if (rc < 0) {
        nvlist_free(l);
        return rc;
    }
    *out = l;
    if (used)
        *used = (size_t)(r.data - (const unsigned char *)data);
    return 0;
}
