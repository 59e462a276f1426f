/* zfs bookmark */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/zfs_impl.h"
#include "server/client.h"
#include "util/err.h"

/* "fs@snap" or "fs#mark" of a name that may be "#mark" alone, which means the other's file system.
 */
static void complete(const char *name, const char *other, char out[512])
{
    size_t n = name[0] == '#' || name[0] == '@' ? strcspn(other, "@#") : 0;
    snprintf(out, 512, "%.*s%s", (int)n, other, name);
}

static int bookmark(const char *source, const char *name)
{
    char head[256];
    snprintf(head, sizeof head, "%.*s", (int)strcspn(source, "@#"), source);
    struct client *c = open_pool(head);
    if (!c)
        return usage_shown();
    struct json_object *args = json_object_new_object();
    put_string(args, "name", name);
    put_string(args, "source", source);
    int rc = call_simple(c, "zfs.bookmark", args);
    if (rc == 0)
        record_command(c, name);
    else if (rc == -ESRCH)
        fprintf(stderr, "%s\n", err_text(rc));
    else
        fail(rc, "cannot create bookmark '%s'", name);
    client_close(c);
    return rc == -ESRCH ? usage_shown() : rc ? 1 : 0;
}

int zfs_bookmark(int argc, char **argv)
{
    char source[512], name[512];
    if (argc > 1 && argv[1][0] == '-')
        return usage_error("invalid option '%c'", argv[1][1]);
    if (argc < 2)
        return usage_error("missing source argument");
    if (argc < 3)
        return usage_error("missing bookmark argument");
    if (!strpbrk(argv[1], "@#"))
        return usage_error("invalid source name '%s': must contain a '@' or '#'", argv[1]);
    if (!strchr(argv[2], '#'))
        return usage_error("invalid bookmark name '%s': must contain a '#'", argv[2]);
    complete(argv[1], argv[2], source);
    complete(argv[2], argv[1], name);
    return bookmark(source, name);
}
