/* Adding values to a list. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "nvlist/nvlist_impl.h"

static int link_new(struct nvlist *l, struct nvpair *p)
{
    if (!p)
        return -ENOMEM;
    if (strlen(p->name) > NVLIST_NAME_MAX) {
        nvpair_free(p);
        return -EINVAL;
    }
    nvlist_link(l, p);
    return 0;
}

int nvlist_add_raw(struct nvlist *l, const char *name, enum nvtype type, const void *v, size_t n)
{
    const struct nv_kind *k = nv_kind(type);
    struct nvpair *p;

    assert(k && (k->form == NV_FORM_INT || k->form == NV_FORM_FLAG));
    assert(k->array || n == (k->form == NV_FORM_INT ? 1 : 0));
    if (n > NVLIST_SIZE_MAX)
        return -ENOMEM;
    p = nvpair_new(name, strlen(name), type, n, n * k->width);
    if (p && n > 0)
        memcpy(p->value, v, n * k->width);
    return link_new(l, p);
}

int nvlist_add_boolean(struct nvlist *l, const char *name)
{
    return nvlist_add_raw(l, name, NV_BOOLEAN, NULL, 0);
}

int nvlist_add_boolean_value(struct nvlist *l, const char *name, bool v)
{
    uint32_t word = v;

    return nvlist_add_raw(l, name, NV_BOOLEAN_VALUE, &word, 1);
}

int nvlist_add_uint64(struct nvlist *l, const char *name, uint64_t v)
{
    return nvlist_add_raw(l, name, NV_UINT64, &v, 1);
}

int nvlist_add_int64(struct nvlist *l, const char *name, int64_t v)
{
    return nvlist_add_raw(l, name, NV_INT64, &v, 1);
}

int nvlist_add_uint32(struct nvlist *l, const char *name, uint32_t v)
{
    return nvlist_add_raw(l, name, NV_UINT32, &v, 1);
}

int nvlist_add_bytes(struct nvlist *l, const char *name, const void *v, size_t n)
{
    return nvlist_add_raw(l, name, NV_BYTE_ARRAY, v, n);
}

int nvlist_add_uint64_array(struct nvlist *l, const char *name, const uint64_t *v, size_t n)
{
    return nvlist_add_raw(l, name, NV_UINT64_ARRAY, v, n);
}

int nvlist_add_string(struct nvlist *l, const char *name, const char *v)
{
    return link_new(l, nvpair_new_strings(name, strlen(name), NV_STRING, &v, 1));
}

int nvlist_add_string_array(struct nvlist *l, const char *name, const char *const *v, size_t n)
{
    if (n > NVLIST_SIZE_MAX)
        return -ENOMEM;
    return link_new(l, nvpair_new_strings(name, strlen(name), NV_STRING_ARRAY, v, n));
}

static struct nvpair *new_lists(const char *name, enum nvtype type, struct nvlist *const *v,
                                size_t n)
{
    struct nvpair *p = nvpair_new(name, strlen(name), type, n, n * sizeof(struct nvlist *));

    for (size_t i = 0; p && i < n; i++) {
        nvpair_lists(p)[i] = nvlist_dup(v[i]);
        if (!nvpair_lists(p)[i]) {
            nvpair_free(p);
            return NULL;
        }
    }
    return p;
}

int nvlist_add_nvlist(struct nvlist *l, const char *name, const struct nvlist *v)
{
    struct nvlist *copy = nvlist_dup(v);

    return copy ? nvlist_give_nvlist(l, name, copy) : -ENOMEM;
}

int nvlist_give_nvlist(struct nvlist *l, const char *name, struct nvlist *v)
{
    struct nvpair *p = nvpair_new(name, strlen(name), NV_NVLIST, 1, sizeof v);

    if (!p) {
        nvlist_free(v);
        return -ENOMEM;
    }
    nvpair_lists(p)[0] = v;
    return link_new(l, p);
}

int nvlist_add_nvlist_array(struct nvlist *l, const char *name, struct nvlist *const *v, size_t n)
{
    if (n > NVLIST_SIZE_MAX)
        return -ENOMEM;
    return link_new(l, new_lists(name, NV_NVLIST_ARRAY, v, n));
}
