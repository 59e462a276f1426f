#include "nvlist/nvlist_impl.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/bytes.h"

/* Shorter lists are searched pair by pair. */
#define HASH_FROM 16

#define INT(width, is_signed)                                                                      \
    {                                                                                              \
        NV_FORM_INT, width, false, is_signed                                                       \
    }
#define ARRAY(width, is_signed)                                                                    \
    {                                                                                              \
        NV_FORM_INT, width, true, is_signed                                                        \
    }
static const struct nv_kind kinds[] = {
    [NV_BOOLEAN] = {NV_FORM_FLAG, 0, false, false},
    [NV_BYTE] = INT(1, false),
    [NV_INT16] = INT(2, true),
    [NV_UINT16] = INT(2, false),
    [NV_INT32] = INT(4, true),
    [NV_UINT32] = INT(4, false),
    [NV_INT64] = INT(8, true),
    [NV_UINT64] = INT(8, false),
    [NV_STRING] = {NV_FORM_STRING, 0, false, false},
    [NV_BYTE_ARRAY] = ARRAY(1, false),
    [NV_INT16_ARRAY] = ARRAY(2, true),
    [NV_UINT16_ARRAY] = ARRAY(2, false),
    [NV_INT32_ARRAY] = ARRAY(4, true),
    [NV_UINT32_ARRAY] = ARRAY(4, false),
    [NV_INT64_ARRAY] = ARRAY(8, true),
    [NV_UINT64_ARRAY] = ARRAY(8, false),
    [NV_STRING_ARRAY] = {NV_FORM_STRING, 0, true, false},
    [NV_HRTIME] = INT(8, true),
    [NV_NVLIST] = {NV_FORM_LIST, 0, false, false},
    [NV_NVLIST_ARRAY] = {NV_FORM_LIST, 0, true, false},
    [NV_BOOLEAN_VALUE] = INT(4, false),
    [NV_INT8] = INT(1, true),
    [NV_UINT8] = INT(1, false),
    [NV_BOOLEAN_ARRAY] = ARRAY(4, false),
    [NV_INT8_ARRAY] = ARRAY(1, true),
    [NV_UINT8_ARRAY] = ARRAY(1, false),
    [NV_DOUBLE] = INT(8, false), /* only its bits matter here */
};
#undef INT
#undef ARRAY

const struct nv_kind *nv_kind(uint32_t type)
{
    if (type >= ARRAY_LEN(kinds) || kinds[type].form == NV_FORM_INVALID)
        return NULL;
    return &kinds[type];
}

struct nvlist *nvlist_new(void)
{
    struct nvlist *l = calloc(1, sizeof *l);

    if (l)
        l->nvflag = NVFLAG_UNIQUE;
    return l;
}

void nvlist_free(struct nvlist *l)
{
    struct nvpair *next;

    if (!l)
        return;
    hashmap_destroy(&l->by_name);
    for (struct nvpair *p = l->first; p; p = next) {
        next = p->next;
        nvpair_free(p);
    }
    free(l);
}

struct nvpair *nvpair_new(const char *name, size_t name_len, enum nvtype type, size_t count,
                          size_t value_bytes)
{
    size_t value_at = P2_ROUND_UP(sizeof(struct nvpair) + name_len + 1, (size_t)8);
    struct nvpair *p;

    if (value_bytes > SIZE_MAX / 2 || count > UINT32_MAX)
        return NULL;
    p = calloc(1, value_at + value_bytes);
    if (!p)
        return NULL;
    p->type = type;
    p->count = (uint32_t)count;
    p->value = (char *)p + value_at;
    memcpy(p->name, name, name_len);
    return p;
}

void nvpair_free(struct nvpair *p)
{
    if (!p)
        return;
    if (kinds[p->type].form == NV_FORM_LIST) {
        for (uint32_t i = 0; i < p->count; i++)
            nvlist_free(nvpair_lists(p)[i]);
    }
    free(p);
}

struct nvpair *nvpair_new_strings(const char *name, size_t name_len, enum nvtype type,
                                  const char *const *strings, size_t count)
{
    size_t bytes = count * sizeof(char *);
    struct nvpair *p;
    char *to;

    for (size_t i = 0; i < count; i++)
        bytes += strlen(strings[i]) + 1;
    p = nvpair_new(name, name_len, type, count, bytes);
    if (!p)
        return NULL;
    to = (char *)(nvpair_strings(p) + count);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(strings[i]) + 1;
        memcpy(to, strings[i], len);
        nvpair_strings(p)[i] = to;
        to += len;
    }
    return p;
}

/* The list's address seeds the hash, so that chosen names do not collide. */
static uint64_t name_hash(const struct nvlist *l, const char *name)
{
    return hash_bytes(name, strlen(name), (uintptr_t)l);
}

struct nvpair *nvlist_find(const struct nvlist *l, const char *name)
{
    uint64_t hash = name_hash(l, name);

    if (l->by_name.slots) {
        for (struct hashmap_node *n = hashmap_first(&l->by_name, hash); n; n = hashmap_next(n)) {
            struct nvpair *p = container_of(n, struct nvpair, node);
            if (strcmp(p->name, name) == 0)
                return p;
        }
        return NULL;
    }
    for (struct nvpair *p = l->last; p; p = p->prev) {
        if (p->node.hash == hash && strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

static void start_hashing(struct nvlist *l)
{
    if (hashmap_init(&l->by_name, 4 * HASH_FROM) < 0)
        return; /* slower, not wrong */
    for (struct nvpair *p = l->first; p; p = p->next)
        hashmap_insert(&l->by_name, &p->node, p->node.hash);
}

static void unlink_pair(struct nvlist *l, struct nvpair *p)
{
    if (l->by_name.slots)
        hashmap_remove(&l->by_name, &p->node);
    *(p->prev ? &p->prev->next : &l->first) = p->next;
    *(p->next ? &p->next->prev : &l->last) = p->prev;
    l->count--;
}

void nvlist_link(struct nvlist *l, struct nvpair *p)
{
    struct nvpair *old = (l->nvflag & NVFLAG_UNIQUE) ? nvlist_find(l, p->name) : NULL;

    if (old) {
        unlink_pair(l, old);
        nvpair_free(old);
    }
    p->node.hash = name_hash(l, p->name);
    p->next = NULL;
    p->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = p;
    l->last = p;
    l->count++;
    if (l->by_name.slots)
        hashmap_insert(&l->by_name, &p->node, p->node.hash);
    else if (l->count > HASH_FROM)
        start_hashing(l);
}

int nvlist_remove(struct nvlist *l, const char *name)
{
    struct nvpair *p = nvlist_find(l, name);

    if (!p)
        return -ENOENT;
    unlink_pair(l, p);
    nvpair_free(p);
    return 0;
}

static struct nvpair *dup_pair(const struct nvpair *p)
{
    const struct nv_kind *k = nv_kind(p->type);
    size_t name_len = strlen(p->name);
    struct nvpair *copy;

    if (k->form == NV_FORM_STRING)
        return nvpair_new_strings(p->name, name_len, p->type, nvpair_strings(p), p->count);
    copy = nvpair_new(p->name, name_len, p->type, p->count,
                      (size_t)p->count * MAX((size_t)k->width, sizeof(void *)));
    if (!copy)
        return NULL;
    if (k->form == NV_FORM_INT)
        memcpy(copy->value, p->value, (size_t)p->count * k->width);
    for (uint32_t i = 0; k->form == NV_FORM_LIST && i < p->count; i++) {
        nvpair_lists(copy)[i] = nvlist_dup(nvpair_lists(p)[i]);
        if (!nvpair_lists(copy)[i]) {
            nvpair_free(copy);
            return NULL;
        }
    }
    return copy;
}

struct nvlist *nvlist_dup(const struct nvlist *l)
{
    struct nvlist *copy = nvlist_new();

    if (!copy)
        return NULL;
    copy->nvflag = l->nvflag;
    for (const struct nvpair *p = l->first; p; p = p->next) {
        struct nvpair *q = dup_pair(p);
        if (!q) {
            nvlist_free(copy);
            return NULL;
        }
        nvlist_link(copy, q);
    }
    return copy;
}
