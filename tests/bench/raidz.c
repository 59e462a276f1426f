/* Throughput of generating and reconstructing RAID-Z parity, one thread: bytes of data (parity not
 * counted) in a second of processor time, eight data columns, blocks of 128 KiB in the cache. The
 * lines can be compared with each other, not with those of another machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rate.h"

#include "codec/raidz_impl.h"

enum { DATA = 8, BLOCK = 128 * 1024, COLUMNS = DATA + RAIDZ_PARITY_MAX };

static struct raidz_column column[COLUMNS];
static unsigned nparity;
static bool bad[COLUMNS];

static void generate(void)
{
    raidz_generate(column, DATA + nparity, nparity);
}

static void reconstruct(void)
{
    raidz_reconstruct(column, DATA + nparity, nparity, bad);
}

static void lose(unsigned first, unsigned n)
{
    memset(bad, 0, sizeof bad);
    for (unsigned i = 0; i < n; i++)
        bad[first + i] = true;
}

int main(void)
{
    for (unsigned c = 0; c < COLUMNS; c++) {
        column[c] = (struct raidz_column){aligned_alloc(4096, BLOCK / DATA), BLOCK / DATA};
        for (size_t i = 0; i < column[c].size; i++)
            column[c].data[i] = (unsigned char)rand();
    }
    printf("%-10s %8s %8s %8s %8s %8s %8s\n", "GB/s", "gen P", "gen PQ", "gen PQR", "rec P",
           "rec PQ", "rec PQR");
    for (size_t v = 0; v < raidz_variant_count; v++) {
        if (raidz_variants[v].supported && !raidz_variants[v].supported())
            continue;
        raidz_use(&raidz_variants[v]);
        printf("%-10s", raidz_variants[v].name);
        for (nparity = 1; nparity <= 3; nparity++)
            printf(" %8.2f", gigabytes_per_second(generate, BLOCK));
        for (nparity = 1; nparity <= 3; nparity++) {
            lose(nparity + 1, nparity);
            printf(" %8.2f", gigabytes_per_second(reconstruct, BLOCK));
        }
        putchar('\n');
    }
    return 0;
}
