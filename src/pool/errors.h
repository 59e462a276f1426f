/*
 * Blocks that could not be read, whatever was tried, since the pool was opened: data is lost there. For
 * zpool status. Each block counts once. Thread-safe.
 */
#ifndef POOL_ERRORS_H
#define POOL_ERRORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bookmark;
struct pool;
struct pool_errors;

int pool_errors_new(struct pool_errors **out); /* -ENOMEM */
void pool_errors_free(struct pool_errors *e);

/* Adds one; silently not, when there is no memory or there are very many already. */
void pool_errors_note(struct pool *pool, const struct bookmark *bm);
/* A scrub reads everything: what was not found again between begin and end (whole) is mended or gone. */
void pool_errors_scan_begin(struct pool *pool);
void pool_errors_scan_end(struct pool *pool, bool whole);
size_t pool_errors_count(const struct pool *pool);

/* The objects that have such blocks, in order and each once: *out is malloc'ed, *n its length. -ENOMEM */
struct damaged_object {
    uint64_t objset, object;
};
int pool_errors_objects(const struct pool *pool, struct damaged_object **out, size_t *n);

#endif
