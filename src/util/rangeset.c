/*
 * The ranges by (start, end), with their number per power of two of length, and for best fit a
 * second sequence by (length, start). That index is built on the first best fit and kept while it
 * is asked for: many sets are never asked, and it doubles memory and work. If memory for it runs
 * out it is dropped, and best fit searches.
 */
#include "util/rangeset.h"

#include <errno.h>
#include <stdlib.h>

#include "util/bytes.h"
#include "util/pairs_impl.h"

struct rangeset {
    struct pairs by_start;
    uint64_t total;
    uint64_t classes[64]; /* ranges with 2^i <= length < 2^(i+1) */
    bool indexed;         /* by_length holds all ranges */
    struct pairs by_length;
    size_t unasked; /* changes since the last best fit */
};

struct rangeset *rangeset_new(void)
{
    return calloc(1, sizeof(struct rangeset));
}

void rangeset_clear(struct rangeset *s)
{
    pairs_clear(&s->by_start);
    pairs_clear(&s->by_length);
    *s = (struct rangeset){0};
}

void rangeset_free(struct rangeset *s)
{
    if (!s)
        return;
    rangeset_clear(s);
    free(s);
}

static void drop_index(struct rangeset *s)
{
    s->indexed = false;
    pairs_clear(&s->by_length);
}

static void count_in(struct rangeset *s, struct pair p)
{
    uint64_t len = p.b - p.a;

    s->total += len;
    s->classes[high_bit(len) - 1]++;
    if (!s->indexed)
        return;
    /* Nobody has asked for more changes than there are ranges: building it again is cheaper. */
    if (++s->unasked > s->by_start.count + 1024 ||
        pairs_insert(&s->by_length, (struct pair){len, p.a}) < 0)
        drop_index(s);
}

static void count_out(struct rangeset *s, struct pair p)
{
    uint64_t len = p.b - p.a;

    s->total -= len;
    s->classes[high_bit(len) - 1]--;
    if (s->indexed)
        pairs_erase(&s->by_length, pairs_find(&s->by_length, len, p.a));
}

static int insert(struct rangeset *s, struct pair p)
{
    int rc = pairs_insert(&s->by_start, p);

    if (rc == 0)
        count_in(s, p);
    return rc;
}

static void replace(struct rangeset *s, struct pairs_pos at, struct pair p)
{
    count_out(s, pairs_at(&s->by_start, at));
    pairs_replace(&s->by_start, at, p);
    count_in(s, p);
}

/* Removes the ranges from at on that end at or before end, a chunk's worth at a time. */
static void erase_until(struct rangeset *s, struct pairs_pos at, uint64_t end)
{
    while (!pairs_end(&s->by_start, at)) {
        const struct pairs_chunk *c = &s->by_start.chunks[at.chunk];
        unsigned n = 0;

        while (at.i + n < c->count && c->pairs[at.i + n].b <= end)
            count_out(s, c->pairs[at.i + n++]);
        if (n == 0)
            break;
        at = pairs_erase_run(&s->by_start, at, n);
    }
}

/* The first range that ends at or after pos. */
static struct pairs_pos touching(const struct rangeset *s, uint64_t pos)
{
    struct pairs_pos at = pairs_find(&s->by_start, pos, 0), before = at;

    if (pairs_before(&s->by_start, &before) && pairs_at(&s->by_start, before).b >= pos)
        return before;
    return at;
}

/* The first range that ends after pos. */
static struct pairs_pos after(const struct rangeset *s, uint64_t pos)
{
    struct pairs_pos at = touching(s, pos);

    if (!pairs_end(&s->by_start, at) && pairs_at(&s->by_start, at).b == pos)
        at = pairs_after(&s->by_start, at);
    return at;
}

/* The last range that starts at or before pos; there must be one. */
static struct pair last_from(const struct rangeset *s, uint64_t pos)
{
    /* No range starts at the highest number, because it would be empty. */
    struct pairs_pos at = pairs_find(&s->by_start, pos == UINT64_MAX ? pos : pos + 1, 0);

    pairs_before(&s->by_start, &at);
    return pairs_at(&s->by_start, at);
}

int rangeset_add(struct rangeset *s, uint64_t start, uint64_t end)
{
    struct pairs_pos at;
    struct pair merged = {start, end}, p, last;

    if (start >= end)
        return 0;
    at = touching(s, start);
    if (pairs_end(&s->by_start, at) || pairs_at(&s->by_start, at).a > end)
        return insert(s, merged);
    p = pairs_at(&s->by_start, at);
    if (p.a <= start && p.b >= end)
        return 0;
    merged.a = MIN(p.a, start);
    last = last_from(s, end);
    merged.b = MAX(last.b, end);
    if (last.a != p.a)
        erase_until(s, pairs_after(&s->by_start, at), last.b);
    /* Erasing may have joined chunks. */
    replace(s, pairs_find(&s->by_start, p.a, 0), merged);
    return 0;
}

int rangeset_remove(struct rangeset *s, uint64_t start, uint64_t end)
{
    struct pairs_pos at;
    struct pair p;

    if (start >= end)
        return 0;
    at = after(s, start);
    if (pairs_end(&s->by_start, at))
        return 0;
    p = pairs_at(&s->by_start, at);
    if (p.a < start) {
        if (p.b > end) { /* a hole: the only case that needs memory, so it is tried first */
            int rc = insert(s, (struct pair){end, p.b});
            if (rc < 0)
                return rc;
        }
        replace(s, pairs_find(&s->by_start, p.a, 0), (struct pair){p.a, start});
        if (p.b >= end)
            return 0;
    }
    erase_until(s, pairs_find(&s->by_start, start, 0), end);
    at = pairs_find(&s->by_start, start, 0);
    if (!pairs_end(&s->by_start, at)) {
        p = pairs_at(&s->by_start, at);
        if (p.a < end)
            replace(s, at, (struct pair){end, p.b});
    }
    return 0;
}

int rangeset_add_exact(struct rangeset *s, uint64_t start, uint64_t end)
{
    return rangeset_overlaps(s, start, end) ? -EEXIST : rangeset_add(s, start, end);
}

int rangeset_remove_exact(struct rangeset *s, uint64_t start, uint64_t end)
{
    return rangeset_contains(s, start, end) ? rangeset_remove(s, start, end) : -ENOENT;
}

bool rangeset_next(const struct rangeset *s, uint64_t pos, struct range *out)
{
    struct pairs_pos at = after(s, pos);
    struct pair p;

    if (pairs_end(&s->by_start, at))
        return false;
    p = pairs_at(&s->by_start, at);
    *out = (struct range){p.a, p.b};
    return true;
}

bool rangeset_contains(const struct rangeset *s, uint64_t start, uint64_t end)
{
    struct range r;

    return start >= end || (rangeset_next(s, start, &r) && r.start <= start && r.end >= end);
}

bool rangeset_overlaps(const struct rangeset *s, uint64_t start, uint64_t end)
{
    struct range r;

    return start < end && rangeset_next(s, start, &r) && r.start < end;
}

uint64_t rangeset_total(const struct rangeset *s)
{
    return s->total;
}

size_t rangeset_count(const struct rangeset *s)
{
    return s->by_start.count;
}

static size_t pairs_memory(const struct pairs *p)
{
    return p->chunk_count * (sizeof(struct pairs_chunk) + PAIRS_CHUNK * sizeof(struct pair));
}

/* The last chunk may be smaller than counted; an empty set has none. */
size_t rangeset_memory(const struct rangeset *s)
{
    return sizeof *s + pairs_memory(&s->by_start) + pairs_memory(&s->by_length);
}

uint64_t rangeset_largest(const struct rangeset *s)
{
    uint64_t largest = 0;

    for (size_t i = 0; i < s->by_start.chunk_count; i++)
        largest = MAX(largest, s->by_start.chunks[i].widest);
    return largest;
}

bool rangeset_first_fit(const struct rangeset *s, uint64_t pos, uint64_t len, unsigned max_steps,
                        struct range *out)
{
    struct pairs_pos at = after(s, pos);
    unsigned steps = 0;

    for (; !pairs_end(&s->by_start, at) && (max_steps == 0 || steps < max_steps); steps++) {
        struct pair p = pairs_at(&s->by_start, at);
        if (s->by_start.chunks[at.chunk].widest < len) {
            at = (struct pairs_pos){at.chunk + 1, 0};
            continue;
        }
        p.a = MAX(p.a, pos);
        if (p.b - p.a >= len) {
            *out = (struct range){p.a, p.b};
            return true;
        }
        at = pairs_after(&s->by_start, at);
    }
    return false;
}

static int compare_pairs(const void *x, const void *y)
{
    const struct pair *p = x, *q = y;

    if (p->a != q->a)
        return p->a < q->a ? -1 : 1;
    return p->b < q->b ? -1 : p->b > q->b;
}

/* Sorted first, so that the insertions all happen at the end. */
static void build_index(struct rangeset *s)
{
    struct pair *all = malloc(s->by_start.count * sizeof *all);
    size_t n = 0;
    bool whole = all != NULL;

    for (size_t i = 0; i < s->by_start.chunk_count && whole; i++) {
        const struct pairs_chunk *c = &s->by_start.chunks[i];
        for (unsigned j = 0; j < c->count; j++)
            all[n++] = (struct pair){c->pairs[j].b - c->pairs[j].a, c->pairs[j].a};
    }
    if (whole)
        qsort(all, n, sizeof *all, compare_pairs);
    for (size_t i = 0; i < n && whole; i++)
        whole = pairs_insert(&s->by_length, all[i]) == 0;
    free(all);
    s->indexed = whole;
    if (!whole)
        drop_index(s);
}

static bool search_best(const struct rangeset *s, uint64_t len, struct range *out)
{
    bool found = false;

    for (size_t i = 0; i < s->by_start.chunk_count; i++) {
        const struct pairs_chunk *c = &s->by_start.chunks[i];
        for (unsigned j = 0; j < c->count && c->widest >= len; j++) {
            uint64_t n = c->pairs[j].b - c->pairs[j].a;
            if (n >= len && (!found || n < out->end - out->start)) {
                *out = (struct range){c->pairs[j].a, c->pairs[j].b};
                found = true;
            }
        }
    }
    return found;
}

bool rangeset_best_fit(struct rangeset *s, uint64_t len, struct range *out)
{
    struct pairs_pos at;
    struct pair p;

    if (!s->indexed && s->by_start.count > PAIRS_CHUNK)
        build_index(s);
    s->unasked = 0;
    if (!s->indexed)
        return search_best(s, len, out);
    at = pairs_find(&s->by_length, len, 0);
    if (pairs_end(&s->by_length, at))
        return false;
    p = pairs_at(&s->by_length, at);
    *out = (struct range){p.b, p.b + p.a};
    return true;
}

void rangeset_histogram(const struct rangeset *s, unsigned shift, uint64_t *hist, unsigned n)
{
    for (unsigned i = shift; i < 64; i++) {
        unsigned bucket = i - shift;
        if (bucket < n)
            hist[bucket] += s->classes[i];
        else if (s->classes[i] > 0)
            hist[n - 1] += s->classes[i] << (bucket - (n - 1));
    }
}

int rangeset_move(struct rangeset *dst, struct rangeset *src)
{
    struct range r;

    if (dst->by_start.count == 0) {
        rangeset_clear(dst);
        *dst = *src;
        *src = (struct rangeset){0};
        return 0;
    }
    for (struct range *it = rangeset_first(src, &r); it; it = rangeset_after(src, &r)) {
        int rc = rangeset_add(dst, r.start, r.end);
        if (rc < 0) {
            rangeset_remove(src, 0, r.start); /* whole ranges: needs no memory */
            return rc;
        }
    }
    rangeset_clear(src);
    return 0;
}

struct range *rangeset_first(const struct rangeset *s, struct range *r)
{
    return rangeset_next(s, 0, r) ? r : NULL;
}

struct range *rangeset_after(const struct rangeset *s, struct range *r)
{
    return rangeset_next(s, r->end, r) ? r : NULL;
}
