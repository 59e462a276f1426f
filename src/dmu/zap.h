/*
 * ZAPs (spec 03 11-14): micro and fat, looked up by name. A ZAP is used through its held dnode; forms
 * that take an objset and object number hold it for the call. All calls on one ZAP are safe from
 * several threads (a lock per ZAP inside).
 *
 * Values are arrays of count integers of size 1, 2, 4 or 8 bytes, host order in memory.
 * Errors: -ENOENT, -EEXIST, -EBADE (damaged), -EINVAL (a value of another shape than asked for),
 * -ENAMETOOLONG, -ENOSPC (value too big), -EIO, -ENOMEM.
 */
#ifndef DMU_ZAP_H
#define DMU_ZAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dmu/dnode.h"

#define ZAP_NAME_MAX   1024 /* with NUL */
#define ZAP_NORM_UPPER 2u   /* normflags: fold to upper case; others -ENOTSUP when written */

/* Creates an empty microzap; bonus and dnode size by params (its block size is ignored). Held result. */
int zap_create(struct objset *os, const struct object_params *params, unsigned normflags, struct tx *tx,
               struct dnode **out);
/* Plain case: type only, no bonus; gives the number. */
int zap_create_simple(struct objset *os, uint8_t type, unsigned normflags, struct tx *tx,
                      uint64_t *object);
/* Makes an existing object without data a microzap (zapify without the type change). */
int zap_format(struct dnode *dn, unsigned normflags, struct tx *tx);

/* size may be wider than what is stored; a value shorter than count leaves the rest of out zero. */
int zap_lookup(struct dnode *zap, const char *name, unsigned size, size_t count, void *out);
/* The first integer, whatever the shape (directory entries). */
int zap_get(struct dnode *zap, const char *name, uint64_t *first);
/* For ZAPs whose keys are arrays of u64 (dedup and clone tables). */
int zap_lookup_words(struct dnode *zap, const uint64_t *words, unsigned n, unsigned size, size_t count,
                     void *out);
/* Shape of a value. */
int zap_length(struct dnode *zap, const char *name, unsigned *size, size_t *count);
int zap_add(struct dnode *zap, const char *name, unsigned size, size_t count, const void *value,
            struct tx *tx);
int zap_update(struct dnode *zap, const char *name, unsigned size, size_t count, const void *value,
               struct tx *tx);
int zap_remove(struct dnode *zap, const char *name, struct tx *tx);
int zap_count(struct dnode *zap, uint64_t *count);

/* One u64, the common case; u64 forms with number and object set. */
int zap_get_u64(struct objset *os, uint64_t object, const char *name, uint64_t *value);
int zap_set_u64(struct objset *os, uint64_t object, const char *name, uint64_t value, struct tx *tx);
int zap_add_u64(struct objset *os, uint64_t object, const char *name, uint64_t value, struct tx *tx);
int zap_del(struct objset *os, uint64_t object, const char *name, struct tx *tx);
/* Adds delta (mod 2^64) to a u64 entry; creates it, and removes it when it becomes 0 if drop_zero. */
int zap_increment(struct objset *os, uint64_t object, const char *name, uint64_t delta, bool drop_zero,
                  struct tx *tx);
int zap_increment_in(struct dnode *zap, const char *name, uint64_t delta, bool drop_zero,
                     struct tx *tx);
/* Keys that are numbers in lower-case hex ("set of ints" and int-keyed, spec 04). */
int zap_int_get(struct objset *os, uint64_t object, uint64_t key, uint64_t *value);
int zap_int_set(struct objset *os, uint64_t object, uint64_t key, uint64_t value, struct tx *tx);
int zap_int_del(struct objset *os, uint64_t object, uint64_t key, struct tx *tx);
void zap_int_key(uint64_t key, char out[17]);
/* The name of the first entry whose (first) value, masked, equals value. */
int zap_find_value(struct objset *os, uint64_t object, uint64_t value, uint64_t mask, char *name,
                   size_t cap);
int zap_destroy(struct objset *os, uint64_t object, struct tx *tx); /* frees the object */

/* Iteration in (hash, cd) order; survives changes between calls. cookie 0 starts; after each call it
 * stands behind the returned entry (03 14); -ENOENT at the end. Values longer than 8 bytes are fetched
 * with zap_lookup. */
struct zap_entry {
    char name[ZAP_NAME_MAX]; /* or key_words host-order u64 */
    unsigned key_words;    /* 0: the key is a string */
    unsigned size;         /* integer size */
    size_t count;
    uint64_t first;        /* the first integer, if any */
};
struct zap_cursor {
    struct dnode *zap;
    uint64_t hash;         /* position, masked */
    uint32_t cd;
    unsigned bits;         /* of the hash that count */
    int error;             /* of zap_cursor_init, or -ENOENT behind the last entry */
};
void zap_cursor_init(struct zap_cursor *c, struct dnode *zap, uint64_t cookie);
int zap_cursor_next(struct zap_cursor *c, struct zap_entry *e);
uint64_t zap_cursor_cookie(const struct zap_cursor *c);

/* Turns a whole block of a ZAP from the other byte order into host order: for the layer that reads
 * blocks (03 11.5). */
void zap_byteswap(void *block, size_t size);

#endif
