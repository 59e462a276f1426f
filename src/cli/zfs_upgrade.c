/* zfs upgrade: which version file systems have. Those that this program makes have the newest one; it does not
 * convert older ones, which it can only read. */
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_impl.h"
#include "cli/zfs_impl.h"
#include "server/json.h"

#define NEWEST 5

static long long version_of(const struct report *r, size_t i)
{
    return json_number(report_prop(r->rows[i], "version"), "number", 0);
}

static int find(struct report *r, bool recursive, int argc, char **argv)
{
    struct selection s = {.recursive = recursive, .depth = recursive ? -1 : 0, .types = "filesystem"};
    s.props = json_object_new_array();
    json_object_array_add(s.props, json_object_new_string("version"));
    int rc = select_datasets(&s, argc, argv, r);
    json_object_put(s.props);
    return rc;
}

static int list_versions(void)
{
    puts("The following filesystem versions are supported:\n\n"
         "VER  DESCRIPTION\n"
         "---  --------------------------------------------------------\n"
         " 1   Initial ZFS filesystem version\n"
         " 2   Enhanced directory entries\n"
         " 3   Case insensitive and filesystem user identifier (FUID)\n"
         " 4   userquota, groupquota properties\n"
         " 5   System attributes\n\n"
         "For more information on a particular version, including supported releases,\n"
         "see the ZFS Administration Guide.\n");
    return 0;
}

static int list_old(void)
{
    struct report r = {0};
    bool any = false;
    int rc = find(&r, true, 0, NULL);
    printf("This system is currently running ZFS filesystem version %d.\n\n", NEWEST);
    for (size_t i = 0; i < r.n; i++) {
        if (version_of(&r, i) >= NEWEST)
            continue;
        if (!any)
            puts("The following filesystems are out of date, and can be upgraded.  After being\n"
                 "upgraded, these filesystems (and any 'zfs send' streams generated from\n"
                 "subsequent snapshots) will no longer be accessible by older software versions.\n\n\n"
                 "VER  FILESYSTEM\n"
                 "---  ------------");
        any = true;
        printf("%2lld   %s\n", version_of(&r, i), json_text(r.rows[i], "name", ""));
    }
    if (!any)
        puts("All filesystems are formatted with the current version.");
    report_free(&r);
    return rc;
}

static int upgrade(long version, bool recursive, int argc, char **argv)
{
    struct report r = {0};
    size_t same = 0;
    int rc = find(&r, recursive, argc, argv);
    for (size_t i = 0; i < r.n && rc != 2; i++) {
        const char *name = json_text(r.rows[i], "name", "");
        long long now = version_of(&r, i);
        if (now == version) {
            same++;
            continue;
        }
        rc = 1;
        if (now > version)
            printf("%s: can not be downgraded; it is already at version %lld\n", name, now);
        else
            fprintf(stderr, "%s: upgrading from version %lld is not supported yet\n", name, now);
    }
    report_free(&r);
    if (rc == 2)
        return rc;
    printf("0 filesystems upgraded\n");
    if (same > 0)
        printf("%zu filesystems already at this version\n", same);
    return rc;
}

static int parse_version(const char *text, long *version)
{
    char *end;
    *version = strcmp(text, "current") == 0 ? NEWEST : strtol(text, &end, 10);
    if (strcmp(text, "current") != 0 && (*end || end == text || *version < 1 || *version > NEWEST))
        return usage_error("invalid version %s", text);
    return 0;
}

int zfs_upgrade(int argc, char **argv)
{
    bool all = false, show = false, recursive = false, given = false;
    long version = NEWEST;
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt(argc, argv, ":arvV:")) != -1) {
        all |= opt == 'a';
        show |= opt == 'v';
        recursive |= opt == 'r';
        given |= opt == 'V';
        if (opt == 'V')
            rc = parse_version(optarg, &version);
        else if (!strchr("arv", opt))
            rc = usage_option(opt);
    }
    argc -= optind;
    argv += optind;
    if (rc != 0)
        return rc;
    if ((show && (all || recursive || given || argc > 0)) || (all && argc > 0) ||
        ((recursive || given) && !all && argc == 0))
        return usage_shown();
    if (show)
        return list_versions();
    return all || argc > 0 ? upgrade(version, all || recursive, argc, argv) : list_old();
}
