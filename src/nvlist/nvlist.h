/*
 * Name/value lists (spec 01 3): the form of labels, the pool configuration, history records and
 * SA xattrs. Values keep their insertion order. Nothing here trusts its input.
 */
#ifndef NVLIST_NVLIST_H
#define NVLIST_NVLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/cleanup.h"

enum nvtype {
    NV_BOOLEAN = 1, NV_BYTE, NV_INT16, NV_UINT16, NV_INT32, NV_UINT32, NV_INT64, NV_UINT64,
    NV_STRING, NV_BYTE_ARRAY, NV_INT16_ARRAY, NV_UINT16_ARRAY, NV_INT32_ARRAY, NV_UINT32_ARRAY,
    NV_INT64_ARRAY, NV_UINT64_ARRAY, NV_STRING_ARRAY, NV_HRTIME, NV_NVLIST, NV_NVLIST_ARRAY,
    NV_BOOLEAN_VALUE, NV_INT8, NV_UINT8, NV_BOOLEAN_ARRAY, NV_INT8_ARRAY, NV_UINT8_ARRAY, NV_DOUBLE,
};

struct nvlist;
struct nvpair;

#define NVLIST_DEPTH_MAX 20

struct nvlist *nvlist_new(void);               /* flag "unique names" set; NULL: out of memory */
void nvlist_free(struct nvlist *l);            /* NULL is allowed; frees nested lists */
struct nvlist *nvlist_dup(const struct nvlist *l);

static inline void nvlist_cleanup(struct nvlist **l)
{
    nvlist_free(*l);
}
#define CLEANUP_NVLIST CLEANUP(nvlist_cleanup)

/* Adding removes a pair of the same name and puts the new one last. Values are copied, nested lists
 * too. 0, -ENOMEM, or -EINVAL for a name of more than NVLIST_NAME_MAX bytes. */
#define NVLIST_NAME_MAX 32766
int nvlist_add_boolean(struct nvlist *l, const char *name);
int nvlist_add_boolean_value(struct nvlist *l, const char *name, bool v);
int nvlist_add_uint64(struct nvlist *l, const char *name, uint64_t v);
int nvlist_add_int64(struct nvlist *l, const char *name, int64_t v);
int nvlist_add_uint32(struct nvlist *l, const char *name, uint32_t v);
int nvlist_add_string(struct nvlist *l, const char *name, const char *v);
int nvlist_add_bytes(struct nvlist *l, const char *name, const void *v, size_t n); /* BYTE_ARRAY */
int nvlist_add_uint64_array(struct nvlist *l, const char *name, const uint64_t *v, size_t n);
int nvlist_add_string_array(struct nvlist *l, const char *name, const char *const *v, size_t n);
int nvlist_add_nvlist(struct nvlist *l, const char *name, const struct nvlist *v);
int nvlist_add_nvlist_array(struct nvlist *l, const char *name, struct nvlist *const *v, size_t n);
/* n elements of any integer or boolean type, an array or not, in C's form (booleans: uint32_t). */
int nvlist_add_raw(struct nvlist *l, const char *name, enum nvtype type, const void *v, size_t n);
/* As nvlist_add_nvlist, but the list becomes the owner of v itself, whatever the result. */
int nvlist_give_nvlist(struct nvlist *l, const char *name, struct nvlist *v);
int nvlist_remove(struct nvlist *l, const char *name); /* 0 or -ENOENT */

/* Looking up gives -ENOENT if absent, -EINVAL if of another type. Pointers stay owned by the list. */
int nvlist_get_uint64(const struct nvlist *l, const char *name, uint64_t *v);
int nvlist_get_int64(const struct nvlist *l, const char *name, int64_t *v);
int nvlist_get_string(const struct nvlist *l, const char *name, const char **v);
int nvlist_get_boolean_value(const struct nvlist *l, const char *name, bool *v);
/* Of BYTE_ARRAY, UINT8_ARRAY and INT8_ARRAY, which are the same in memory. */
int nvlist_get_bytes(const struct nvlist *l, const char *name, const void **v, size_t *n);
int nvlist_get_uint64_array(const struct nvlist *l, const char *name, const uint64_t **v, size_t *n);
int nvlist_get_nvlist(const struct nvlist *l, const char *name, struct nvlist **v);
int nvlist_get_nvlist_array(const struct nvlist *l, const char *name, struct nvlist ***v, size_t *n);
bool nvlist_exists(const struct nvlist *l, const char *name);
uint64_t nvlist_uint64_or(const struct nvlist *l, const char *name, uint64_t otherwise);
const char *nvlist_string_or(const struct nvlist *l, const char *name, const char *otherwise);

/* Iteration in insertion order: for (p = nvlist_first(l); p; p = nvlist_after(l, p)). */
const struct nvpair *nvlist_first(const struct nvlist *l);
const struct nvpair *nvlist_after(const struct nvlist *l, const struct nvpair *p);
const char *nvpair_name(const struct nvpair *p);
enum nvtype nvpair_type(const struct nvpair *p);
size_t nvpair_count(const struct nvpair *p); /* elements */
/* The i-th element as an integer (any integer or boolean type, sign-extended; 1 for BOOLEAN), string
 * or list; 0 or NULL if there is no such element or it is of another kind. */
uint64_t nvpair_uint64(const struct nvpair *p, size_t i);
const char *nvpair_string(const struct nvpair *p, size_t i);
struct nvlist *nvpair_nvlist(const struct nvpair *p, size_t i);
const void *nvpair_bytes(const struct nvpair *p, size_t *n); /* NULL if no byte array */
size_t nvlist_count(const struct nvlist *l);

/* XDR form with its 4-byte header (01 3.2). pack allocates *out with malloc. unpack reads one list
 * from at most n bytes and says in *used (may be NULL) how many it took. Errors: -ENOMEM, -EINVAL
 * for anything malformed, and of pack for too deep nesting. Sizes: a list takes at most
 * NVLIST_SIZE_MAX bytes; nested lists may be NVLIST_DEPTH_MAX levels below the outer one. */
#define NVLIST_SIZE_MAX (16u << 20)
int nvlist_pack_xdr(const struct nvlist *l, unsigned char **out, size_t *n);
int nvlist_unpack_xdr(const void *data, size_t n, struct nvlist **out, size_t *used);

/* Native form with its 4-byte header (01 3.5), either byte order on reading, host order on writing. */
int nvlist_pack_native(const struct nvlist *l, unsigned char **out, size_t *n);
int nvlist_unpack_native(const void *data, size_t n, struct nvlist **out, size_t *used);

/* Either, by the header. */
int nvlist_unpack(const void *data, size_t n, struct nvlist **out, size_t *used);

#endif
