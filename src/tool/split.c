/* Taking an argument apart. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/tool_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

#define TEXT_MAX 65536

void target_text_free(struct target_text *t)
{
    free(t->location);
    free(t->name);
    *t = (struct target_text){0};
}

static int give(struct target_text *out, const char *location, size_t n, const char *name)
{
    out->location = location ? strndup(location, n) : NULL;
    out->name = strdup(name);
    if (out->name && (out->location || !location))
        return 0;
    target_text_free(out);
    return -ENOMEM;
}

int target_split(const char *text, bool with_location, bool (*exists)(const char *path),
                 struct target_text *out)
{
    *out = (struct target_text){0};
    if (!*text)
        return err_set(EINVAL, "an empty name");
    if (strlen(text) > TEXT_MAX)
        return err_set(ENAMETOOLONG, "the name is too long");
    for (const char *colon = strchr(text, ':'); with_location && colon;
         colon = strchr(colon + 1, ':')) {
        CLEANUP_FREE char *prefix = strndup(text, (size_t)(colon - text));
        if (!prefix)
            return -ENOMEM;
        if (*prefix && exists(prefix))
            return give(out, prefix, strlen(prefix), colon + 1);
    }
    if (with_location && exists(text))
        return give(out, text, strlen(text), "");
    if (text[0] == '/')
        return err_set(ENOENT, "there is no such image or folder");
    return give(out, NULL, 0, text);
}
