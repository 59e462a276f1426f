/*
 * A set of disjoint, merged half-open ranges [start, end) of unsigned 64-bit numbers: free space,
 * missing txgs, punched file ranges. Compact (about 20 bytes per range) because a metaslab can have
 * hundreds of thousands. Not locked: the owner's lock guards it. Functions that take a const set may
 * run in several threads at once, but not rangeset_best_fit, which builds an index on first use.
 */
#ifndef UTIL_RANGESET_H
#define UTIL_RANGESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rangeset;

struct range {
    uint64_t start, end;
};

struct rangeset *rangeset_new(void);   /* NULL: out of memory */
void rangeset_free(struct rangeset *s);
void rangeset_clear(struct rangeset *s);

/* rangeset_add: the part of the range that is already in the set is ignored. remove: the part that
 * is not in the set is ignored. Return 0 or -ENOMEM (the set is then unchanged). */
int rangeset_add(struct rangeset *s, uint64_t start, uint64_t end);
int rangeset_remove(struct rangeset *s, uint64_t start, uint64_t end);

/* Exact forms: -EEXIST if any part is already present, -ENOENT if any part is absent. */
int rangeset_add_exact(struct rangeset *s, uint64_t start, uint64_t end);
int rangeset_remove_exact(struct rangeset *s, uint64_t start, uint64_t end);

bool rangeset_contains(const struct rangeset *s, uint64_t start, uint64_t end); /* all of it */
bool rangeset_overlaps(const struct rangeset *s, uint64_t start, uint64_t end); /* any of it */

/* The first range that ends after pos (so it contains pos or follows it); false if none. */
bool rangeset_next(const struct rangeset *s, uint64_t pos, struct range *out);

uint64_t rangeset_total(const struct rangeset *s); /* sum of lengths */
size_t rangeset_count(const struct rangeset *s);   /* number of ranges */
size_t rangeset_memory(const struct rangeset *s);  /* bytes, about */
uint64_t rangeset_largest(const struct rangeset *s);

/* First fit: the lowest range at or after pos that has at least len, looking at no more than
 * max_steps ranges (0 = no limit; a run of ranges that are all too short counts as one). Of a range
 * that contains pos only the part from pos on counts and is given. Best fit: the smallest range
 * that has at least len, the lowest of these. False if none. */
bool rangeset_first_fit(const struct rangeset *s, uint64_t pos, uint64_t len, unsigned max_steps,
                        struct range *out);
bool rangeset_best_fit(struct rangeset *s, uint64_t len, struct range *out);

/* hist[i] += number of ranges with 2^(i+shift) <= length < 2^(i+shift+1); n buckets, larger ones
 * count as multiples in the last one, shorter ones not at all (05 2.6). */
void rangeset_histogram(const struct rangeset *s, unsigned shift, uint64_t *hist, unsigned n);

/* Moves all ranges of src into dst (which must not overlap them); src is empty afterwards. With
 * -ENOMEM each range is still in one of the two. */
int rangeset_move(struct rangeset *dst, struct rangeset *src);

/* for (struct range r, *it = rangeset_first(s, &r); it; it = rangeset_after(s, &r)): the set must
 * not change meanwhile. */
struct range *rangeset_first(const struct rangeset *s, struct range *r);
struct range *rangeset_after(const struct rangeset *s, struct range *r);

#endif
