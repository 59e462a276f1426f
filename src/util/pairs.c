#include "util/pairs_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 4

static bool below(struct pair p, uint64_t a, uint64_t b)
{
    return p.a < a || (p.a == a && p.b < b);
}

static uint64_t width(struct pair p)
{
    return p.b - p.a;
}

void pairs_clear(struct pairs *s)
{
    for (size_t i = 0; i < s->chunk_count; i++)
        free(s->chunks[i].pairs);
    free(s->chunks);
    *s = (struct pairs){0};
}

/* The chunk in which (a, b) is or would be: the last one that begins at or below it, else the
 * first. Undefined for an empty sequence. */
static size_t find_chunk(const struct pairs *s, uint64_t a, uint64_t b)
{
    size_t low = 0, high = s->chunk_count; /* the answer is in [low, high) */

    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        struct pair first = s->chunks[mid].first;
        if (below(first, a, b) || (first.a == a && first.b == b))
            low = mid;
        else
            high = mid;
    }
    return low;
}

static unsigned find_in_chunk(const struct pairs_chunk *c, uint64_t a, uint64_t b)
{
    unsigned low = 0, high = c->count;

    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        if (below(c->pairs[mid], a, b))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct pairs_pos pairs_find(const struct pairs *s, uint64_t a, uint64_t b)
{
    struct pairs_pos at = {0, 0};

    if (s->chunk_count == 0)
        return at;
    at.chunk = find_chunk(s, a, b);
    at.i = find_in_chunk(&s->chunks[at.chunk], a, b);
    if (at.i == s->chunks[at.chunk].count)
        at = (struct pairs_pos){at.chunk + 1, 0};
    return at;
}

struct pairs_pos pairs_after(const struct pairs *s, struct pairs_pos at)
{
    if (++at.i == s->chunks[at.chunk].count)
        at = (struct pairs_pos){at.chunk + 1, 0};
    return at;
}

bool pairs_before(const struct pairs *s, struct pairs_pos *at)
{
    if (at->i == 0) {
        if (at->chunk == 0)
            return false;
        at->chunk--;
        at->i = s->chunks[at->chunk].count;
    }
    at->i--;
    return true;
}

static void measure(struct pairs_chunk *c)
{
    uint64_t widest = 0;

    for (unsigned i = 0; i < c->count; i++) {
        uint64_t w = width(c->pairs[i]);
        widest = w > widest ? w : widest;
    }
    c->widest = widest;
    c->first = c->pairs[0];
}

/* Makes room for one more header, and an empty chunk of that capacity at index i. */
static int open_chunk(struct pairs *s, size_t i, unsigned capacity)
{
    struct pair *pairs = malloc(capacity * sizeof *pairs);

    if (!pairs)
        return -ENOMEM;
    if (s->chunk_count == s->chunk_capacity) {
        size_t bigger = s->chunk_capacity ? s->chunk_capacity * 2 : 1;
        struct pairs_chunk *chunks = realloc(s->chunks, bigger * sizeof *chunks);
        if (!chunks) {
            free(pairs);
            return -ENOMEM;
        }
        s->chunks = chunks;
        s->chunk_capacity = bigger;
    }
    memmove(&s->chunks[i + 1], &s->chunks[i], (s->chunk_count - i) * sizeof *s->chunks);
    s->chunks[i] = (struct pairs_chunk){.pairs = pairs, .capacity = (uint16_t)capacity};
    s->chunk_count++;
    return 0;
}

static void close_chunk(struct pairs *s, size_t i)
{
    free(s->chunks[i].pairs);
    s->chunk_count--;
    memmove(&s->chunks[i], &s->chunks[i + 1], (s->chunk_count - i) * sizeof *s->chunks);
}

/* Divides a full chunk for an insertion at *at. Sequences that grow at the end keep their chunks
 * full: then nothing moves and the new chunk begins with the pair to come. */
static int split(struct pairs *s, struct pairs_pos *at)
{
    struct pairs_chunk *c, *d;
    unsigned left = PAIRS_CHUNK / 2;
    int rc = open_chunk(s, at->chunk + 1, PAIRS_CHUNK);

    if (rc < 0)
        return rc;
    c = &s->chunks[at->chunk];
    d = c + 1;
    if (at->i == PAIRS_CHUNK && at->chunk + 2 == s->chunk_count)
        left = PAIRS_CHUNK;
    d->count = (uint16_t)(PAIRS_CHUNK - left);
    memcpy(d->pairs, c->pairs + left, d->count * sizeof *d->pairs);
    c->count = (uint16_t)left;
    measure(c);
    if (d->count > 0)
        measure(d);
    if (at->i > left || left == PAIRS_CHUNK)
        *at = (struct pairs_pos){at->chunk + 1, at->i - left};
    return 0;
}

static int make_room(struct pairs *s, struct pairs_pos *at)
{
    struct pairs_chunk *c = &s->chunks[at->chunk];
    unsigned bigger;
    struct pair *pairs;

    if (c->count < c->capacity)
        return 0;
    if (c->capacity == PAIRS_CHUNK)
        return split(s, at);
    /* Most sets are tiny, so the first chunk starts small. */
    bigger = c->capacity * 2u;
    pairs = realloc(c->pairs, bigger * sizeof *pairs);
    if (!pairs)
        return -ENOMEM;
    c->pairs = pairs;
    c->capacity = (uint16_t)bigger;
    return 0;
}

int pairs_insert(struct pairs *s, struct pair p)
{
    struct pairs_pos at = {0, 0};
    struct pairs_chunk *c;
    int rc;

    if (s->chunk_count == 0) {
        rc = open_chunk(s, 0, CAPACITY_MIN);
    } else {
        at.chunk = find_chunk(s, p.a, p.b);
        at.i = find_in_chunk(&s->chunks[at.chunk], p.a, p.b);
        rc = make_room(s, &at);
    }
    if (rc < 0)
        return rc;
    c = &s->chunks[at.chunk];
    memmove(&c->pairs[at.i + 1], &c->pairs[at.i], (c->count - at.i) * sizeof p);
    c->pairs[at.i] = p;
    c->count++;
    s->count++;
    if (width(p) > c->widest)
        c->widest = width(p);
    c->first = c->pairs[0];
    return 0;
}

void pairs_replace(struct pairs *s, struct pairs_pos at, struct pair p)
{
    struct pairs_chunk *c = &s->chunks[at.chunk];
    uint64_t before = width(c->pairs[at.i]);

    c->pairs[at.i] = p;
    if (width(p) >= c->widest)
        c->widest = width(p);
    else if (before == c->widest)
        measure(c);
    c->first = c->pairs[0];
}

/* Chunks that lost most of their pairs join a neighbour, well below its capacity so that the next
 * insertion does not divide it again. */
static struct pairs_pos join(struct pairs *s, struct pairs_pos at)
{
    size_t left = at.chunk > 0 ? at.chunk - 1 : at.chunk;
    struct pairs_chunk *c, *d;

    if (s->chunks[at.chunk].count > PAIRS_CHUNK / 4 || left + 1 >= s->chunk_count)
        return at;
    c = &s->chunks[left];
    d = c + 1;
    if (c->capacity < PAIRS_CHUNK || c->count + d->count > PAIRS_CHUNK * 3 / 4)
        return at;
    memcpy(c->pairs + c->count, d->pairs, d->count * sizeof *d->pairs);
    if (at.chunk != left)
        at = (struct pairs_pos){left, c->count + at.i};
    c->count = (uint16_t)(c->count + d->count);
    c->widest = d->widest > c->widest ? d->widest : c->widest;
    close_chunk(s, left + 1);
    return at;
}

struct pairs_pos pairs_erase_run(struct pairs *s, struct pairs_pos at, unsigned n)
{
    struct pairs_chunk *c = &s->chunks[at.chunk];
    bool measure_again = at.i == 0;

    for (unsigned i = at.i; i < at.i + n && !measure_again; i++)
        measure_again = width(c->pairs[i]) == c->widest;
    c->count = (uint16_t)(c->count - n);
    s->count -= n;
    if (c->count == 0) {
        close_chunk(s, at.chunk);
        return (struct pairs_pos){at.chunk, 0};
    }
    memmove(&c->pairs[at.i], &c->pairs[at.i + n], (c->count - at.i) * sizeof *c->pairs);
    if (measure_again)
        measure(c);
    at = join(s, at);
    if (at.i == s->chunks[at.chunk].count)
        at = (struct pairs_pos){at.chunk + 1, 0};
    return at;
}

struct pairs_pos pairs_erase(struct pairs *s, struct pairs_pos at)
{
    return pairs_erase_run(s, at, 1);
}
