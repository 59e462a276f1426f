/* zfs destroy */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/zfs_impl.h"
#include "dsl/props.h"
#include "server/client.h"
#include "server/json.h"
#include "util/err.h"

struct destroying {
    bool recursive, clones, force, verbose, parsable, dry, defer;
};

static void print_reclaim(const struct destroying *d, unsigned long long n)
{
    char size[16];
    prop_format_size(n, size);
    if (d->parsable)
        printf("reclaim\t%llu\n", n);
    else if (d->verbose)
        printf("%s reclaim %s\n", d->dry ? "would" : "will", size);
}

static int destroyed_row(void *arg, struct json_object *row)
{
    const struct destroying *d = arg;
    const char *name = json_text(row, "name", "?");
    if (json_member(row, "reclaim"))
        print_reclaim(d, json_unsigned(row, "reclaim"));
    else if (d->parsable)
        printf("destroy\t%s\n", name);
    else if (d->verbose)
        printf("%s %s\n", d->dry ? "would destroy" : "will destroy", name);
    return 0;
}

static int destroy(const struct destroying *d, const char *name)
{
    struct json_object *args = json_object_new_object();
    char head[256];
    snprintf(head, sizeof head, "%.*s", (int)strcspn(name, "@#"), name);
    struct client *c = open_pool(head);
    if (!c) {
        json_object_put(args);
        return 1;
    }
    put_string(args, "name", name);
    put_flag(args, "recursive", d->recursive);
    put_flag(args, "clones", d->clones);
    put_flag(args, "defer", d->defer);
    put_flag(args, "force", d->force);
    put_flag(args, "dry_run", d->dry);
    put_flag(args, "reclaim", d->verbose || d->parsable);
    int rc = client_call(c, "zfs.destroy", args, destroyed_row, (void *)d, NULL);
    if (rc != 0)
        fflush(stdout);
    if (rc == -ENOENT && strchr(name, '#'))
        fprintf(stderr, "bookmark '%s' does not exist.\n", name);
    else if (rc == -ELOOP || (rc != 0 && strncmp(err_text(rc), "cannot destroy", 14) == 0))
        fprintf(stderr, "%s\n", err_text(rc));
    else if (rc == -ENOENT)
        fail(rc, "cannot open '%s'", head);
    else if (rc != 0)
        fail(rc, "cannot destroy '%s'", name);
    else if (!d->dry)
        record_command(c, name);
    client_close(c);
    return rc ? 1 : 0;
}

/* Options that make no sense with a bookmark. */
static bool refused(const struct destroying *d, const char *name)
{
    const char *what = d->dry         ? "dryrun"
                       : d->defer     ? "defer destroy"
                       : d->recursive ? "recursive"
                                      : NULL;
    if (strchr(name, '#') && what) {
        fprintf(stderr, "%s is not supported with bookmark\n", what);
        return true;
    }
    return false;
}

int zfs_destroy(int argc, char **argv)
{
    struct destroying d = {0};
    int opt;
    while ((opt = getopt(argc, argv, ":rRfnvpd")) != -1) {
        if (opt == 'r')
            d.recursive = true;
        else if (opt == 'f')
            d.force = true;
        else if (opt == 'n')
            d.dry = true;
        else if (opt == 'v')
            d.verbose = true;
        else if (opt == 'p')
            d.parsable = true;
        else if (opt == 'R')
            d.clones = d.recursive = true;
        else if (opt == 'd')
            d.defer = true;
        else
            return usage_option(opt);
    }
    if (optind == argc)
        return usage_error("missing dataset argument");
    if (argc - optind > 1)
        return usage_error("too many arguments");
    if (d.defer && !strpbrk(argv[optind], "@#")) {
        fprintf(stderr, "cannot open '%s': missing '@' delimiter in snapshot name\n", argv[optind]);
        return 1;
    }
    return refused(&d, argv[optind]) ? 255 : destroy(&d, argv[optind]);
}
