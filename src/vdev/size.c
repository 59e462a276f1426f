#include "vdev/size.h"

#include "util/bytes.h"

enum {
    LABEL = 0x40000,    /* a label */
    RESERVED = 0x480000 /* labels and boot region of a leaf */
};

uint64_t size_psize(uint64_t device_size)
{
    return P2_ROUND_DOWN(device_size, (uint64_t)LABEL);
}

uint64_t size_leaf(uint64_t psize)
{
    return psize > RESERVED ? psize - RESERVED : 0;
}

uint64_t size_raidz(uint64_t child, uint64_t children)
{
    return child * children;
}

uint64_t size_draid(uint64_t child, uint64_t children, uint64_t ndata, uint64_t nparity,
                    uint64_t nspares)
{
    const uint64_t row = 16ull << 20, reserve = 32ull << 20;
    uint64_t group = (ndata + nparity) * row;
    if (child < reserve || nspares >= children || group == 0)
        return 0;
    uint64_t rows = (child - reserve) / row * row;
    return rows * (children - nspares) / group * group;
}

unsigned size_metaslab_shift(uint64_t asize)
{
    enum { SMALLEST = 24, USUAL = 29, LARGEST = 34, FEW = 16, MANY = 200, MOST = 131072 };
    uint64_t count = asize >> USUAL;
    int shift = USUAL;
    if (count < FEW)
        shift = high_bit(asize / FEW);
    else if (count > MANY)
        shift = high_bit(asize / MANY);
    if (shift < SMALLEST)
        return SMALLEST;
    if (shift > LARGEST)
        shift = asize >> LARGEST > MOST ? high_bit(asize / MOST) : LARGEST;
    return (unsigned)shift;
}
