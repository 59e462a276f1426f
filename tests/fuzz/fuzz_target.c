/* Takes the input apart as an argument of the offline tools, and quotes it as a file name. The
 * parts must be those of the text, and what is quoted must not disturb a terminal. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tool/tool_impl.h"
#include "util/hashmap.h"

/* A path exists or not by chance, but always the same. */
static bool exists(const char *path)
{
    return hash_bytes(path, strlen(path), 1) & 1;
}

static void split(const char *text, bool with_location)
{
    struct target_text t;
    if (target_split(text, with_location, exists, &t) != 0)
        return;
    size_t location = t.location ? strlen(t.location) : 0, name = strlen(t.name);
    if ((t.location && (!with_location || strncmp(text, t.location, location) != 0)) ||
        strcmp(text + strlen(text) - name, t.name) != 0 || location + name > strlen(text))
        abort();
    target_text_free(&t);
}

static void quote(const char *text)
{
    size_t cap = 8 * strlen(text) + 8;
    char *out = malloc(cap), *cut = malloc(cap);
    if (!out || !cut)
        abort();
    for (size_t i = 0; tool_quote(text, true, out, cap)[i]; i++)
        if ((unsigned char)out[i] < ' ' || out[i] == 0x7f)
            abort();
    tool_quote(text, false, cut, cap > 40 ? 40 : cap);
    if (strlen(cut) >= 40)
        abort();
    free(out);
    free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = strndup((const char *)data, n);
    if (!text)
        return 0;
    split(text, true);
    split(text, false);
    quote(text);
    free(text);
    return 0;
}
