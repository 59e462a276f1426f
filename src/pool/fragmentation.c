/* The fragmentation metric (spec 05 6.3): how much of the free space is in small pieces. */
#include "pool/alloc_impl.h"
#include "util/bytes.h"
#include "vdev/vdev.h"

/* By log2 of the piece: 512 bytes, 1 KiB, ... 256 MiB; larger ones count 0. */
static const unsigned char factor[] = {100, 99, 97, 93, 88, 83, 77, 71, 64, 57,
                                       50,  43, 36, 29, 23, 17, 12, 7,  3,  1};

unsigned fragmentation_of(const uint64_t hist[32], unsigned shift)
{
    unsigned __int128 sum = 0, total = 0;

    for (unsigned i = 0; i < 32; i++) {
        unsigned log = i + shift;
        unsigned __int128 bytes = (unsigned __int128)hist[i] << log;
        unsigned f = log < 9 ? 100 : log - 9 < ARRAY_LEN(factor) ? factor[log - 9] : 0;
        total += bytes;
        sum += bytes * f;
    }
    return total ? (unsigned)(sum / total) : 0;
}

/* The mean over metaslabs, weighted with free space; unknown if too few have a value. */
unsigned group_fragmentation(const struct group *g)
{
    unsigned __int128 sum = 0;
    uint64_t free = 0;
    unsigned known = 0;

    for (unsigned i = 0; i < g->count; i++) {
        struct metaslab_impl *s = &g->impl[i];
        unsigned f = atomic_load(&s->frag);
        uint64_t room = atomic_load(&s->room);
        if (f == FRAG_UNKNOWN)
            continue;
        known++;
        free += room;
        sum += (unsigned __int128)f * room;
    }
    if (known < (g->count + 1) / 2 || g->count == 0)
        return FRAG_UNKNOWN;
    return free ? (unsigned)(sum / free) : 0;
}
