/* zfs diff */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/zfs_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

struct diffing {
    bool classify, scripted, timestamps, human;
    FILE *out; /* the lines, until all have come: the pool process waits for who takes them */
};

/* As the server sends it, bytes that are not plain are "\0ooo"; -h wants them as they are. */
static void print_path(const struct diffing *d, const char *path)
{
    for (unsigned byte; *path; path++) {
        if (d->human && *path == '\\' && sscanf(path + 1, "%4o", &byte) == 1) {
            putc((int)byte, d->out);
            path += 4;
        } else {
            putc(*path, d->out);
        }
    }
}

static char type_sign(mode_t mode)
{
    return S_ISBLK(mode)    ? 'B'
           : S_ISCHR(mode)  ? 'C'
           : S_ISDIR(mode)  ? '/'
           : S_ISFIFO(mode) ? '|'
           : S_ISLNK(mode)  ? '@'
           : S_ISSOCK(mode) ? '='
                            : 'F';
}

static int print_row(void *arg, struct json_object *row)
{
    const struct diffing *d = arg;
    const char *new = json_text(row, "new", NULL);
    long long links = json_number(row, "links", 0);
    if (d->timestamps)
        fprintf(d->out, "%10lld.%09lld\t", json_number(row, "ctime", 0),
                json_number(row, "nsec", 0));
    fprintf(d->out, "%s\t", json_text(row, "change", "?"));
    if (d->classify)
        fprintf(d->out, "%c\t", type_sign((mode_t)json_number(row, "mode", 0)));
    print_path(d, json_text(row, "path", "?"));
    if (new) {
        fprintf(d->out, "%s", d->scripted ? "\t" : " -> ");
        print_path(d, new);
    }
    if (links != 0)
        fprintf(d->out, "\t(%+lld)", links);
    putc('\n', d->out);
    return ferror(d->out) ? err_set(EIO, "cannot write to a temporary file") : 0;
}

static int print_all(FILE *from)
{
    char buf[65536];
    size_t n;
    if (fflush(from) != 0)
        return err_set(EIO, "cannot write to a temporary file");
    rewind(from);
    while ((n = fread(buf, 1, sizeof buf, from)) > 0)
        if (fwrite(buf, 1, n, stdout) != n)
            break;
    if (fflush(stdout) != 0 || ferror(stdout))
        return err_set(EIO, "cannot write the output");
    return ferror(from) ? err_set(EIO, "cannot read from a temporary file") : 0;
}

/* "@snap" belongs to the file system of the first one. */
static int diff(struct diffing *d, const char *from, const char *to)
{
    char head[256], full[512];
    size_t n = strcspn(from, "@");
    if (from[n] != '@' && to) {
        fprintf(stderr, "Unable to determine which snapshots to compare: invalid name\n");
        return 1;
    }
    if (from[n] != '@') {
        fprintf(stderr, "Badly formed snapshot name %s: missing '@' delimiter in snapshot name\n",
                from);
        return 1;
    }
    snprintf(head, sizeof head, "%.*s", (int)n, from);
    struct client *c = open_pool(head);
    if (!c)
        return 1;
    struct json_object *args = json_object_new_object();
    put_string(args, "name", from);
    snprintf(full, sizeof full, "%s%s", to && to[0] == '@' ? head : "", to ? to : "");
    if (to)
        put_string(args, "to", full);
    int rc = client_call(c, "zfs.diff", args, print_row, d, NULL);
    client_close(c);
    int printed = print_all(d->out); /* what there is, also if it is not all */
    if (rc == 0)
        rc = printed;
    if (rc == -ENOENT && strcmp(err_text(rc), "dataset does not exist") == 0)
        fail(rc, "cannot open '%s'", head);
    else if (rc != 0)
        fprintf(stderr, "%s\n", err_text(rc));
    return rc ? 1 : 0;
}

int zfs_diff(int argc, char **argv)
{
    struct diffing d = {0};
    int opt;
    while ((opt = getopt(argc, argv, ":FHth")) != -1) {
        if (opt == 'F')
            d.classify = true;
        else if (opt == 'H')
            d.scripted = true;
        else if (opt == 't')
            d.timestamps = true;
        else if (opt == 'h')
            d.human = true;
        else
            return usage_option(opt);
    }
    if (optind == argc)
        return usage_error("must provide at least one snapshot name");
    if (argc - optind > 2)
        return usage_error("too many arguments");
    d.out = tmpfile();
    if (!d.out) {
        fprintf(stderr, "cannot make a temporary file: %s\n", strerror(errno));
        return 1;
    }
    int rc = diff(&d, argv[optind], argv[optind + 1]);
    fclose(d.out);
    return rc;
}
