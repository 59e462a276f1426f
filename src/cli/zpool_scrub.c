/* zpool scrub, zpool resilver */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <string.h>

#include "cli/zpool_impl.h"
#include "server/client.h"
#include "server/json.h"

struct scrub {
    const char *kind, *action, *verb;
    bool wait;
};

static int wait_for_end(struct client *c, const char *kind)
{
    bool runs = true;
    int rc = 0;
    while (runs && rc == 0) {
        struct json_object *ok, *args = json_object_new_object();
        put_string(args, "wait", kind);
        rc = client_call(c, "pool.activity", args, NULL, NULL, &ok);
        if (rc != 0)
            break;
        runs = scan_runs(json_member(ok, "scan_stats"));
        json_object_put(ok);
    }
    return rc;
}

static int scrub_pool(const char *name, struct client *c, void *arg)
{
    struct scrub *s = arg;
    struct json_object *args = json_object_new_object();
    put_string(args, "kind", s->kind);
    put_string(args, "action", s->action);
    int rc = call_simple(c, "pool.scan", args);
    if (rc != 0)
        return fail(rc, "cannot %s %s", s->verb, name);
    if (s->wait && (rc = wait_for_end(c, s->kind)) != 0)
        return fail(rc, "cannot wait for the scrub of %s", name);
    record_command(c, name);
    return 0;
}

int zpool_scrub(int argc, char **argv)
{
    struct scrub s = {.kind = "scrub", .action = "start", .verb = "scrub"};
    bool pause = false, stop = false, all = false;
    int opt;
    while ((opt = getopt(argc, argv, ":aspweCES")) != -1) {
        if (opt == 'a')
            all = true;
        else if (opt == 's')
            stop = true;
        else if (opt == 'p')
            pause = true;
        else if (opt == 'w')
            s.wait = true;
        else if (strchr("eCES", opt))
            return unsupported("option -%c", opt);
        else
            return usage_option(opt);
    }
    if (pause && stop)
        return usage_error("invalid option combination: -s and -p are mutually exclusive");
    if (s.wait && (pause || stop))
        return usage_error("invalid option combination: -w cannot be used with -p or -s");
    if (!all && optind == argc)
        return usage_error("missing pool name argument");
    if (all && optind < argc)
        return usage_error("invalid arguments: -a cannot be used with pool names");
    if (pause || stop) {
        s.action = pause ? "pause" : "stop";
        s.verb = pause ? "pause scrubbing" : "cancel scrubbing";
    }
    return each_pool(argc - optind, argv + optind, NULL, scrub_pool, &s);
}

int zpool_resilver(int argc, char **argv)
{
    struct scrub s = {.kind = "resilver", .action = "start", .verb = "resilver"};
    int opt = getopt(argc, argv, ":");
    if (opt != -1)
        return usage_option(opt);
    if (optind == argc)
        return usage_error("missing pool name argument");
    return each_pool(argc - optind, argv + optind, NULL, scrub_pool, &s);
}
