/*
 * Sets of features for pools that other systems are to import. The releases of OpenZFS are known
 * here; any other set is a file in /etc/zfs/compatibility.d or /usr/share/zfs/compatibility.d:
 * names separated by spaces, commas or newlines, comments behind '#'.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compat_impl.h"
#include "util/bytes.h"

/* The last feature of each release, in the order of enum feature_id. */
static const struct {
    const char *name;
    enum feature_id last;
} releases[] = {
    {"openzfs-2.0", FEATURE_ZSTD_COMPRESS},    {"openzfs-2.1", FEATURE_DRAID},
    {"openzfs-2.2", FEATURE_VDEV_ZAPS_V2},     {"openzfs-2.3", FEATURE_LARGE_MICROZAP},
    {"openzfs-2.4", FEATURE_PHYSICAL_REWRITE},
};

/* "openzfs-2.1", also with the name of a system behind it: they differ in nothing that is enabled
 * here. */
static bool known_release(const char *name, bool set[FEATURE_COUNT])
{
    static const char *const systems[] = {"", "-linux", "-freebsd"};
    for (size_t i = 0; i < ARRAY_LEN(releases); i++) {
        size_t n = strlen(releases[i].name);
        if (strncmp(name, releases[i].name, n) != 0)
            continue;
        for (size_t k = 0; k < ARRAY_LEN(systems); k++) {
            if (strcmp(name + n, systems[k]) != 0)
                continue;
            for (unsigned f = 0; f < FEATURE_COUNT; f++)
                set[f] = f <= (unsigned)releases[i].last;
            return true;
        }
    }
    return false;
}

static void parse_file(FILE *in, bool set[FEATURE_COUNT])
{
    char line[1024];
    while (fgets(line, sizeof line, in)) {
        char *save = NULL;
        line[strcspn(line, "#")] = 0;
        for (char *w = strtok_r(line, " \t\r\n,", &save); w;
             w = strtok_r(NULL, " \t\r\n,", &save)) {
            enum feature_id f = feature_by_name(w);
            if (f != FEATURE_COUNT)
                set[f] = true;
        }
    }
}

static bool read_file(const char *name, bool set[FEATURE_COUNT])
{
    static const char *const dirs[] = {"/etc/zfs/compatibility.d",
                                       "/usr/share/zfs/compatibility.d"};
    char path[512];
    if (strchr(name, '/'))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        snprintf(path, sizeof path, "%s/%s", dirs[i], name);
        FILE *in = fopen(path, "re");
        if (!in)
            continue;
        parse_file(in, set);
        fclose(in);
        return true;
    }
    return false;
}

static int one_set(const char *name, bool allowed[FEATURE_COUNT])
{
    bool set[FEATURE_COUNT] = {false};
    if (strcmp(name, "off") == 0)
        return 0;
    if (strcmp(name, "legacy") != 0 && !known_release(name, set) && !read_file(name, set))
        return -ENOENT;
    for (unsigned f = 0; f < FEATURE_COUNT; f++)
        allowed[f] &= set[f];
    return 0;
}

int compat_features(const char *sets, bool allowed[FEATURE_COUNT])
{
    char name[256];
    int rc = 0;
    for (unsigned f = 0; f < FEATURE_COUNT; f++)
        allowed[f] = true;
    while (*sets && rc == 0) {
        size_t n = strcspn(sets, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, sets);
        rc = one_set(name, allowed);
        sets += n + (sets[n] == ',');
    }
    return rc;
}
