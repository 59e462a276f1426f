/* Looking values up, and walking through a list. */
#include <errno.h>
#include <string.h>

#include "nvlist/nvlist_impl.h"

static int find(const struct nvlist *l, const char *name, enum nvtype type,
                const struct nvpair **out)
{
    *out = nvlist_find(l, name);
    if (!*out)
        return -ENOENT;
    return (*out)->type == type ? 0 : -EINVAL;
}

static int get_word(const struct nvlist *l, const char *name, enum nvtype type, uint64_t *v)
{
    const struct nvpair *p;
    int rc = find(l, name, type, &p);

    if (rc == 0)
        *v = nvpair_uint64(p, 0);
    return rc;
}

int nvlist_get_uint64(const struct nvlist *l, const char *name, uint64_t *v)
{
    return get_word(l, name, NV_UINT64, v);
}

int nvlist_get_int64(const struct nvlist *l, const char *name, int64_t *v)
{
    uint64_t word = 0;
    int rc = get_word(l, name, NV_INT64, &word);

    if (rc == 0)
        *v = (int64_t)word;
    return rc;
}

int nvlist_get_boolean_value(const struct nvlist *l, const char *name, bool *v)
{
    uint64_t word = 0;
    int rc = get_word(l, name, NV_BOOLEAN_VALUE, &word);

    if (rc == 0)
        *v = word != 0;
    return rc;
}

int nvlist_get_string(const struct nvlist *l, const char *name, const char **v)
{
    const struct nvpair *p;
    int rc = find(l, name, NV_STRING, &p);

    if (rc == 0)
        *v = nvpair_strings(p)[0];
    return rc;
}

int nvlist_get_bytes(const struct nvlist *l, const char *name, const void **v, size_t *n)
{
    const struct nvpair *p = nvlist_find(l, name);

    if (!p)
        return -ENOENT;
    *v = nvpair_bytes(p, n);
    return *v ? 0 : -EINVAL;
}

int nvlist_get_uint64_array(const struct nvlist *l, const char *name, const uint64_t **v, size_t *n)
{
    const struct nvpair *p;
    int rc = find(l, name, NV_UINT64_ARRAY, &p);

    if (rc == 0) {
        *v = p->value;
        *n = p->count;
    }
    return rc;
}

int nvlist_get_nvlist(const struct nvlist *l, const char *name, struct nvlist **v)
{
    const struct nvpair *p;
    int rc = find(l, name, NV_NVLIST, &p);

    if (rc == 0)
        *v = nvpair_lists(p)[0];
    return rc;
}

int nvlist_get_nvlist_array(const struct nvlist *l, const char *name, struct nvlist ***v, size_t *n)
{
    const struct nvpair *p;
    int rc = find(l, name, NV_NVLIST_ARRAY, &p);

    if (rc == 0) {
        *v = nvpair_lists(p);
        *n = p->count;
    }
    return rc;
}

bool nvlist_exists(const struct nvlist *l, const char *name)
{
    return nvlist_find(l, name) != NULL;
}

uint64_t nvlist_uint64_or(const struct nvlist *l, const char *name, uint64_t otherwise)
{
    nvlist_get_uint64(l, name, &otherwise);
    return otherwise;
}

const char *nvlist_string_or(const struct nvlist *l, const char *name, const char *otherwise)
{
    nvlist_get_string(l, name, &otherwise);
    return otherwise;
}

size_t nvlist_count(const struct nvlist *l)
{
    return l->count;
}

const struct nvpair *nvlist_first(const struct nvlist *l)
{
    return l->first;
}

const struct nvpair *nvlist_after(const struct nvlist *l, const struct nvpair *p)
{
    return p->next;
}

const char *nvpair_name(const struct nvpair *p)
{
    return p->name;
}

enum nvtype nvpair_type(const struct nvpair *p)
{
    return p->type;
}

size_t nvpair_count(const struct nvpair *p)
{
    return p->count;
}

struct nvlist **nvpair_lists(const struct nvpair *p)
{
    return p->value;
}

const char **nvpair_strings(const struct nvpair *p)
{
    return p->value;
}

uint64_t nv_load(const void *value, unsigned width, bool is_signed, size_t i)
{
    uint8_t v8;
    uint16_t v16;
    uint32_t v32;
    uint64_t v64;
    const char *at = (const char *)value + i * width;

    switch (width) {
    case 1:
        memcpy(&v8, at, 1);
        return is_signed ? (uint64_t)(int8_t)v8 : v8;
    case 2:
        memcpy(&v16, at, 2);
        return is_signed ? (uint64_t)(int16_t)v16 : v16;
    case 4:
        memcpy(&v32, at, 4);
        return is_signed ? (uint64_t)(int32_t)v32 : v32;
    default:
        memcpy(&v64, at, 8);
        return v64;
    }
}

uint64_t nvpair_uint64(const struct nvpair *p, size_t i)
{
    const struct nv_kind *k = nv_kind(p->type);

    if (k->form == NV_FORM_FLAG)
        return 1;
    if (k->form != NV_FORM_INT || i >= p->count)
        return 0;
    return nv_load(p->value, k->width, k->is_signed, i);
}

const char *nvpair_string(const struct nvpair *p, size_t i)
{
    if (nv_kind(p->type)->form != NV_FORM_STRING || i >= p->count)
        return NULL;
    return nvpair_strings(p)[i];
}

struct nvlist *nvpair_nvlist(const struct nvpair *p, size_t i)
{
    if (nv_kind(p->type)->form != NV_FORM_LIST || i >= p->count)
        return NULL;
    return nvpair_lists(p)[i];
}

const void *nvpair_bytes(const struct nvpair *p, size_t *n)
{
    const struct nv_kind *k = nv_kind(p->type);

    if (k->form != NV_FORM_INT || !k->array || k->width != 1)
        return NULL;
    *n = p->count;
    return p->value;
}
