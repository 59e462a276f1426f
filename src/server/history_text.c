/* Records of administrative calls in the history of pools that OpenZFS wrote. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "nvlist/nvlist.h"
#include "server/rows_impl.h"

#define DEPTH_MAX 8

static void print_list(FILE *f, const struct nvlist *l, int indent, int depth);

static void print_pair(FILE *f, const struct nvpair *p, int indent, int depth)
{
    fprintf(f, "\n%*s%s", indent, "", nvpair_name(p));
    switch (nvpair_type(p)) {
    case NV_BOOLEAN:
        break;
    case NV_STRING:
        fprintf(f, ": '%s'", nvpair_string(p, 0));
        break;
    case NV_NVLIST:
        fputc(':', f);
        print_list(f, nvpair_nvlist(p, 0), indent + 4, depth + 1);
        break;
    case NV_NVLIST_ARRAY:
        for (size_t i = 0; i < nvpair_count(p); i++) {
            fputc(':', f);
            print_list(f, nvpair_nvlist(p, i), indent + 4, depth + 1);
        }
        break;
    default:
        fprintf(f, ": %" PRIu64, nvpair_uint64(p, 0));
    }
}

static void print_list(FILE *f, const struct nvlist *l, int indent, int depth)
{
    if (depth > DEPTH_MAX)
        return;
    for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_after(l, p))
        print_pair(f, p, indent, depth);
}

char *history_ioctl_text(const struct nvlist *r)
{
    char *text = NULL;
    size_t size;
    struct nvlist *list;
    int64_t elapsed, error;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    if (nvlist_get_int64(r, "elapsed_ns", &elapsed) == 0)
        fprintf(f, "(%" PRId64 "ms) ", elapsed / 1000000);
    fprintf(f, "ioctl %s", nvlist_string_or(r, "ioctl", "?"));
    if (nvlist_get_nvlist(r, "in_nvl", &list) == 0) {
        fprintf(f, "\n    input:");
        print_list(f, list, 8, 0);
        fputc('\n', f);
    }
    if (nvlist_get_nvlist(r, "out_nvl", &list) == 0 && nvlist_first(list)) {
        fprintf(f, "    output:");
        print_list(f, list, 8, 0);
        fputc('\n', f);
    }
    if (nvlist_get_int64(r, "errno", &error) == 0)
        fprintf(f, "    errno: %" PRId64 "\n", error);
    fclose(f);
    return text;
}
