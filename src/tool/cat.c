/* tarn cat: files and volumes to standard output. What cannot be read is named, and zeros stand in
 * its place, so that what follows keeps its offset. With --json: a row with the size of each, and one for
 * each piece of it that is no hole, in hex. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/tool_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct out {
    struct copy_sink sink;
    struct tool *t;
    const char *path;
};

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

static struct json_object *range(const struct out *o, uint64_t off, size_t n)
{
    struct json_object *row = json_object_new_object();
    json_put_name(row, "path", o->path);
    json_put_number(row, "offset", off);
    json_put_number(row, "length", n);
    return row;
}

static int piece(struct copy_sink *s, uint64_t off, const void *data, size_t n)
{
    struct out *o = (struct out *)s;
    if (!o->t->json)
        return write_all(data, n);
    struct json_object *row = range(o, off, n);
    json_put_hex(row, "data_hex", data, n);
    tool_row(o->t, row);
    return ferror(stdout) ? err_set(EIO, "cannot write") : 0;
}

static int lost(struct copy_sink *s, uint64_t off, size_t n)
{
    struct out *o = (struct out *)s;
    if (o->t->json) {
        struct json_object *row = range(o, off, n);
        json_put_bool(row, "unreadable", true);
        tool_row(o->t, row);
        return 0;
    }
    CLEANUP_FREE void *zeros = calloc(1, n);
    return zeros ? write_all(zeros, n) : -ENOMEM;
}

static int begin(struct copy_sink *s, const struct copy_item *item, bool *skip)
{
    struct out *o = (struct out *)s;
    o->path = item->path;
    if (o->t->json) {
        struct json_object *row = json_object_new_object();
        json_put_name(row, "path", item->path);
        json_put_number(row, "size", item->attr.size);
        tool_row(o->t, row);
    }
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
    struct out o = {.sink = {.begin = begin, .data = piece, .lost = lost, .end = end}, .t = t};
    struct copy c = {.t = t, .sink = &o.sink};
    if (tool_getopt(t, argc, argv, "", NULL) != -1)
        return 2;
    if (optind == argc)
        return tool_usage(t, "missing target");
    c.whole = !t->json;
    for (int i = optind; i < argc; i++)
        if (cat(t, &c, argv[i]) != 0)
            return 1;
    return 0;
}
