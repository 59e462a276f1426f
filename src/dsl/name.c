/* The rules of dataset names (spec 04 1), with the reference's words for what is wrong. */
#include <errno.h>
#include <string.h>

#include "dsl/dsl_impl.h"
#include "util/err.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.: ";

static int check_component(const char *part, size_t n)
{
    if (n == 0)
        return err_set(EINVAL, "empty component or misplaced '@' or '#' delimiter in name");
    for (size_t i = 0; i < n; i++)
        if (!strchr(letters, part[i]) && part[i] != '%' && part[i] != '$')
            return err_set(EINVAL, "invalid character %c in name", part[i]);
    if (n == 1 && part[0] == '.')
        return err_set(EINVAL, "self reference, '.' is found in name");
    if (n == 2 && part[0] == '.' && part[1] == '.')
        return err_set(EINVAL, "parent reference, '..' is found in name");
    return 0;
}

/* '%' only begins internal names, like that of a clone that is being received; '$' those of what the
 * pool itself needs, which nobody may name. */
static int check_internal(const char *name)
{
    for (const char *p = name; *p; p++)
        if (*p == '$' || (*p == '%' && p > name && p[-1] != '/' && p[-1] != '@'))
            return err_set(EINVAL, "invalid character %c in name", *p);
    return 0;
}

int dataset_name_check(const char *name)
{
    size_t n = strlen(name);
    const char *part = name, *at = strchr(name, '@');
    unsigned depth = 0;
    int rc;

    if (n >= DATASET_NAME_MAX)
        return err_set(ENAMETOOLONG, "name is too long");
    if (n == 0)
        return err_set(EINVAL, "empty component or misplaced '@' or '#' delimiter in name");
    if (name[0] == '/')
        return err_set(EINVAL, "leading slash in name");
    if (name[n - 1] == '/')
        return err_set(EINVAL, "trailing slash in name");
    if (strchr(name, '#'))
        return err_set(EINVAL, "bookmark delimiter '#' is not expected here");
    if (at && (strchr(at + 1, '@') || strchr(at, '/')))
        return err_set(EINVAL, "multiple '@' and/or '#' delimiters in name");
    for (;;) {
        size_t len = strcspn(part, "/@");

        rc = check_component(part, len);
        if (rc != 0)
            return rc;
        if (part[len] == 0)
            break;
        if (part[len] == '/' && ++depth >= DIR_DEPTH_MAX)
            return err_set(ENAMETOOLONG, "name has too many components");
        part += len + 1;
    }
    return check_internal(name);
}
