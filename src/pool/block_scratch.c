/* Scratch space for compressors: kept, because a fresh one costs more than the compression of a
 * small block. */
#include <stdlib.h>

#include "pool/block_impl.h"
#include "util/bytes.h"

#define SCRATCH_MAX  16
#define SCRATCH_KEEP ((size_t)1 << 20)

struct scratch *scratch_get(struct block_state *s, size_t size)
{
    struct scratch *c;

    pthread_mutex_lock(&s->lock);
    c = s->scratch;
    if (c) {
        s->scratch = c->next;
        s->scratch_count--;
    }
    pthread_mutex_unlock(&s->lock);
    if (!c && !(c = calloc(1, sizeof *c)))
        return NULL;
    if (c->size < size) {
        free(c->data);
        c->size = MAX(size, (size_t)BLOCK_OLD_MAX);
        c->data = malloc(c->size);
        if (!c->data) {
            free(c);
            return NULL;
        }
    }
    return c;
}

void scratch_put(struct block_state *s, struct scratch *c)
{
    pthread_mutex_lock(&s->lock);
    if (s->scratch_count < SCRATCH_MAX && c->size <= SCRATCH_KEEP) {
        c->next = s->scratch;
        s->scratch = c;
        s->scratch_count++;
        c = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (c) {
        free(c->data);
        free(c);
    }
}
