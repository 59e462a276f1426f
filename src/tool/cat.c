/* tarn cat: files and volumes to standard output. What cannot be read is named, and zeros stand in
 * its place, so that what follows keeps its offset. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/tool_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static int write_all(const void *data, size_t n)
{
    for (const char *p = data; n > 0;) {
        ssize_t done = write(STDOUT_FILENO, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_set(errno, "cannot write: %s", strerror(errno));
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

static int piece(struct copy_sink *s, uint64_t off, const void *data, size_t n)
{
    return write_all(data, n);
}

static int lost(struct copy_sink *s, uint64_t off, size_t n)
{
    CLEANUP_FREE void *zeros = calloc(1, n);
    return zeros ? write_all(zeros, n) : -ENOMEM;
}

static int begin(struct copy_sink *s, const struct copy_item *item, bool *skip)
{
    return 0;
}

static int end(struct copy_sink *s, const struct copy_item *item, bool damaged)
{
    return 0;
}

static int cat(struct tool *t, struct copy *c, const char *text)
{
    struct target x;
    if (target_open(t, text, TARGET_VOLUME, &x) != 0)
        return 0;
    int rc = 0;
    err_clear();
    if (!x.fs)
        rc = copy_volume(c, x.ds, text, text);
    else if (S_ISREG(x.attr.mode))
        rc = copy_tree(c, x.fs, &x.attr, text, text);
    else
        tool_error(t, S_ISDIR(x.attr.mode) ? -EISDIR : -EINVAL, "%s", text);
    if (rc)
        tool_error(t, rc, "standard output");
    target_close(&x);
    return rc;
}

int tool_cat(struct tool *t, int argc, char **argv)
{
    struct copy_sink sink = {.begin = begin, .data = piece, .lost = lost, .end = end};
    struct copy c = {.t = t, .sink = &sink, .whole = true};
    if (tool_getopt(t, argc, argv, "", NULL) != -1)
        return 2;
    if (optind == argc)
        return tool_usage(t, "missing target");
    if (t->json)
        return tool_usage(t, "cat prints contents; use stat --json for the rest");
    for (int i = optind; i < argc; i++)
        if (cat(t, &c, argv[i]) != 0)
            return 1;
    return 0;
}
