/* Group membership of the process behind a request. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuse/request_impl.h"

#define STATUS_LINE_MAX 65536 /* thousands of groups */

static bool listed(const char *groups, uint32_t gid)
{
    char *end;

    for (;; groups = end) {
        unsigned long g = strtoul(groups, &end, 10);
        if (end == groups)
            return false;
        if (g == gid)
            return true;
    }
}

bool fuse_in_group(const struct fuse_in_header *in, uint32_t gid)
{
    char path[64];
    char *line;
    bool found = false;
    FILE *f;

    if (in->gid == gid)
        return true;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/status", in->pid);
    f = fopen(path, "re");
    line = malloc(STATUS_LINE_MAX);
    while (f && line && !found && fgets(line, STATUS_LINE_MAX, f))
        if (strncmp(line, "Groups:", 7) == 0)
            found = listed(line + 7, gid);
    free(line);
    if (f)
        fclose(f);
    return found;
}
