/* Runs a fuzz target over the files named on the command line, or in the folders named there:
 * libFuzzer's corpora as a test, with any compiler. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data, *exact;
    const size_t most = 1 << 24;
    size_t n;

    data = malloc(most);
    if (!f || !data)
        return -1;
    n = fread(data, 1, most, f);
    fclose(f);
    exact = malloc(n ? n : 1); /* so that a sanitizer sees the first byte too far */
    if (!exact)
        return -1;
    memcpy(exact, data, n);
    free(data);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 0;
}

static int replay(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    int count = 0;

    if (!d)
        return replay_file(path) < 0 ? -1 : 1;
    while ((e = readdir(d))) {
        char name[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (replay_file(name) < 0) {
            closedir(d);
            return -1;
        }
        count++;
    }
    closedir(d);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;

    for (int i = 1; i < argc; i++) {
        int count = replay(argv[i]);
        if (count < 0) {
            fprintf(stderr, "cannot read %s\n", argv[i]);
            return 1;
        }
        total += count;
    }
    printf("%d inputs\n", total);
    return total > 0 ? 0 : 1; /* an empty corpus tests nothing */
}
