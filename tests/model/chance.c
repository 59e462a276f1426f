/* Random numbers: splitmix64, so that a seed gives the same run everywhere. */
#include <string.h>

#include "model.h"

static uint64_t state;

void chance_seed(uint64_t seed)
{
    state = seed;
}

static uint64_t next(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint64_t chance(uint64_t below)
{
    return next() % below;
}

bool one_in(unsigned n)
{
    return chance(n) == 0;
}

/* Some runs of it are zeros or text, so that compression and holes have their part. */
void chance_bytes(void *buf, size_t size)
{
    uint8_t *p = buf;
    unsigned kind = chance(4);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t v = kind == 0 ? 0 : kind == 1 ? (step % 251) * 0x0101010101010101 : next();
        memcpy(p + i, &v, size - i < 8 ? size - i : 8);
    }
}

uint64_t chance_size(void)
{
    switch (chance(8)) {
    case 0:
        return chance(4);
    case 1:
        return 1 + chance(600);
    case 2:
        return 4096 * (1 + chance(40));
    case 3:
        return 131072 + chance(131072);
    case 4:
        return BUFFER - chance(3);
    default:
        return 1 + chance(20000);
    }
}

uint64_t chance_offset(uint64_t file_size)
{
    switch (chance(8)) {
    case 0:
        return 0;
    case 1:
        return file_size;
    case 2:
        return file_size + chance(200000);
    case 3:
        return 131072 * chance(16);
    case 4:
        return 4096 * chance(300) + chance(3);
    case 5:
        return one_in(10) ? ((uint64_t)1 << (30 + chance(9))) + chance(100000) : chance(3000);
    default:
        return chance(file_size + 1);
    }
}
