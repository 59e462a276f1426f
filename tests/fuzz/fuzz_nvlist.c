/* Unpacks the input; what could be unpacked must pack, unpack and pack to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "nvlist/nvlist.h"

static void walk(const struct nvlist *l)
{
    for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_after(l, p)) {
        size_t n = nvpair_count(p);
        if (!nvlist_exists(l, nvpair_name(p)))
            abort();
        for (size_t i = 0; i < n; i++) {
            const char *s = nvpair_string(p, i);
            if (s && strlen(s) > NVLIST_SIZE_MAX)
                abort();
            nvpair_uint64(p, i);
            if (nvpair_nvlist(p, i))
                walk(nvpair_nvlist(p, i));
        }
    }
}

static void again(const struct nvlist *l,
                  int (*pack)(const struct nvlist *, unsigned char **, size_t *))
{
    unsigned char *one, *two;
    size_t n, m;
    struct nvlist *copy;

    if (pack(l, &one, &n) < 0)
        return; /* longer in this form than is allowed */
    if (nvlist_unpack(one, n, &copy, NULL) < 0 || pack(copy, &two, &m) < 0)
        abort();
    if (n != m || memcmp(one, two, n) != 0)
        abort();
    nvlist_free(copy);
    free(one);
    free(two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct nvlist *l, *copy;
    size_t used;

    if (nvlist_unpack(data, n, &l, &used) < 0)
        return 0;
    if (used > n)
        abort();
    walk(l);
    copy = nvlist_dup(l);
    nvlist_free(l);
    if (!copy)
        return 0;
    again(copy, nvlist_pack_xdr);
    again(copy, nvlist_pack_native);
    nvlist_free(copy);
    return 0;
}
