/* Lists and pairs in memory, and what the two encodings share. */
#ifndef NVLIST_NVLIST_IMPL_H
#define NVLIST_NVLIST_IMPL_H

#include "nvlist/nvlist.h"
#include "util/hashmap.h"

#define NVFLAG_UNIQUE 1u

struct nvlist {
    uint32_t nvflag;
    struct nvpair *first, *last;
    size_t count;
    struct hashmap by_name; /* slots is NULL while the list is short */
};

/* One allocation holds the pair, its name, and the value aligned to 8 bytes:
 * integers      a C array of count elements (booleans: uint32_t)
 * strings       count pointers, then the strings
 * lists         count pointers to lists that the pair owns */
struct nvpair {
    struct nvpair *next, *prev;
    struct hashmap_node node;
    enum nvtype type;
    uint32_t count;
    void *value;
    char name[];
};

enum nv_form { NV_FORM_INVALID, NV_FORM_FLAG, NV_FORM_INT, NV_FORM_STRING, NV_FORM_LIST };

struct nv_kind {
    uint8_t form;  /* enum nv_form */
    uint8_t width; /* bytes of an integer in memory */
    bool array;
    bool is_signed;
};

/* NULL for a number that is no type. */
const struct nv_kind *nv_kind(uint32_t type);

/* A pair in no list, with a zeroed value of that many bytes; NULL when memory is short. */
struct nvpair *nvpair_new(const char *name, size_t name_len, enum nvtype type, size_t count,
                          size_t value_bytes);
void nvpair_free(struct nvpair *p);

/* A string pair from strings that end in NUL. */
struct nvpair *nvpair_new_strings(const char *name, size_t name_len, enum nvtype type,
                                  const char *const *strings, size_t count);

/* Puts the pair last; in a list with unique names it replaces one of its name. */
void nvlist_link(struct nvlist *l, struct nvpair *p);

/* The last pair of that name. */
struct nvpair *nvlist_find(const struct nvlist *l, const char *name);

struct nvlist **nvpair_lists(const struct nvpair *p);
const char **nvpair_strings(const struct nvpair *p);

/* Elements as 64-bit numbers, whatever their width. */
uint64_t nv_load(const void *value, unsigned width, bool is_signed, size_t i);
void nv_store(void *value, unsigned width, size_t i, uint64_t v);

/* Bytes of the value in OpenZFS's memory (01 3.4), and of the pair. */
size_t nvpair_native_value_size(const struct nvpair *p);
size_t nvpair_native_size(const struct nvpair *p);

/* Growing output. After a failure further writes do nothing and rc stays. */
struct nv_writer {
    unsigned char *data;
    size_t used, capacity;
    int rc;
};
/* Room for n more zeroed bytes, at the returned place until the next call; NULL after a failure. */
unsigned char *nv_reserve(struct nv_writer *w, size_t n);
/* Hands the bytes over, or frees them if the writing failed. */
int nv_finish(struct nv_writer *w, unsigned char **out, size_t *n);

/* Bounded input. */
struct nv_reader {
    const unsigned char *data;
    size_t left;
};
/* The next n bytes, NULL if there are not so many. */
const unsigned char *nv_take(struct nv_reader *r, size_t n);

#define NV_HEADER_SIZE 4
enum { NV_ENCODING_NATIVE, NV_ENCODING_XDR };

#endif
