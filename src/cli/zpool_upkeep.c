/* zpool trim, zpool initialize */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "cli/zpool_impl.h"
#include "dsl/props.h"
#include "server/client.h"
#include "server/json.h"

#define LIBRARY_FAILURE 255

struct upkeep {
    const char *kind, *action;
    char letter; /* of the action, 0: none was given */
    bool wait, secure, all;
    unsigned long long rate;
    bool has_rate;
    int ndevices;
    char **devices;
};

static struct json_object *upkeep_args(const struct upkeep *u)
{
    struct json_object *args = json_object_new_object(), *list = json_object_new_array();
    put_string(args, "kind", u->kind);
    for (int i = 0; i < u->ndevices; i++)
        json_object_array_add(list, json_object_new_string(u->devices[i]));
    json_object_object_add(args, "devices", list);
    return args;
}

static int wait_for(struct client *c, const struct upkeep *u)
{
    unsigned long long left = 1;
    while (left > 0) {
        struct json_object *ok = NULL;
        int rc = client_call(c, "device.upkeep_wait", upkeep_args(u), NULL, NULL, &ok);
        if (rc != 0)
            return rc;
        left = json_unsigned(ok, "left");
        json_object_put(ok);
    }
    return 0;
}

/* True if there were any. */
static bool print_refused(const struct upkeep *u, struct json_object *ok)
{
    struct json_object *list = json_member(ok, "refused");
    size_t n = list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        fprintf(stderr, "cannot %s '%s': %s\n", u->kind, json_text(one, "device", "?"),
                json_text(one, "why", "?"));
    }
    return n > 0;
}

static int upkeep_pool(const char *name, struct client *c, void *arg)
{
    const struct upkeep *u = arg;
    struct json_object *ok = NULL, *args = upkeep_args(u);
    put_string(args, "action", u->action);
    json_object_object_add(args, "rate", json_object_new_uint64(u->rate));
    put_flag(args, "secure", u->secure);
    int rc = client_call(c, "device.upkeep", args, NULL, NULL, &ok);
    if (rc != 0) {
        fail(rc, "cannot %s '%s'", u->kind, name);
        return LIBRARY_FAILURE;
    }
    bool refused = print_refused(u, ok);
    json_object_put(ok);
    if (refused)
        return LIBRARY_FAILURE;
    if (u->wait && (rc = wait_for(c, u)) != 0)
        return fail(rc, "cannot wait for '%s'", name);
    record_command(c, name);
    return 0;
}

static int take_action(struct upkeep *u, int letter, const char *action)
{
    if (u->letter && u->letter != letter)
        return usage_error("-%c cannot be combined with other options", letter);
    u->letter = (char)letter;
    u->action = action;
    return 0;
}

static int take_rate(struct upkeep *u)
{
    uint64_t rate;
    if (prop_parse_size(optarg, &rate) != 0)
        return usage_error("invalid value for rate: bad numeric value '%s'", optarg);
    u->rate = rate;
    u->has_rate = true;
    return 0;
}

static int parse(struct upkeep *u, int argc, char **argv, const char *letters,
                 const struct option *longs)
{
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        switch (opt) {
        case 'a':
            u->all = true;
            break;
        case 'c':
            rc = take_action(u, opt, "cancel");
            break;
        case 'd':
            u->secure = true;
            break;
        case 'r':
            rc = take_rate(u);
            break;
        case 's':
            rc = take_action(u, opt, "suspend");
            break;
        case 'u':
            rc = take_action(u, opt, "clear");
            break;
        case 'w':
            u->wait = true;
            break;
        default:
            return usage_option(opt);
        }
    }
    return rc;
}

/* With the rest of the arguments. */
static int run(struct upkeep *u, int argc, char **argv)
{
    if (argc == 0 && !u->all)
        return usage_error("missing pool name argument");
    if (argc > 0 && u->all)
        return usage_error("-a cannot be combined with individual %s or vdevs",
                           strcmp(u->kind, "trim") == 0 ? "zpools" : "pools");
    if (u->has_rate && u->letter)
        return usage_error("-r cannot be combined with the -c or -s options");
    if (u->all)
        return each_pool(0, NULL, NULL, upkeep_pool, u);
    u->ndevices = argc - 1;
    u->devices = argv + 1;
    struct client *c = open_named_pool(argv[0]);
    if (!c)
        return LIBRARY_FAILURE;
    int rc = upkeep_pool(argv[0], c, u);
    client_close(c);
    return rc;
}

int zpool_trim(int argc, char **argv)
{
    static const struct option longs[] = {{"all", no_argument, NULL, 'a'},
                                          {"cancel", no_argument, NULL, 'c'},
                                          {"secure", no_argument, NULL, 'd'},
                                          {"rate", required_argument, NULL, 'r'},
                                          {"suspend", no_argument, NULL, 's'},
                                          {"wait", no_argument, NULL, 'w'},
                                          {NULL, 0, NULL, 0}};
    struct upkeep u = {.kind = "trim", .action = "start"};
    int rc = parse(&u, argc, argv, ":acdr:sw", longs);
    if (rc == 0 && u.wait && u.letter)
        rc = usage_error("-w cannot be used with -c or -s options");
    return rc ? rc : run(&u, argc - optind, argv + optind);
}

int zpool_initialize(int argc, char **argv)
{
    static const struct option longs[] = {{"all", no_argument, NULL, 'a'},
                                          {"cancel", no_argument, NULL, 'c'},
                                          {"suspend", no_argument, NULL, 's'},
                                          {"uninit", no_argument, NULL, 'u'},
                                          {"wait", no_argument, NULL, 'w'},
                                          {NULL, 0, NULL, 0}};
    struct upkeep u = {.kind = "initialize", .action = "start"};
    int rc = parse(&u, argc, argv, ":acsuw", longs);
    if (rc == 0 && u.wait && u.letter)
        rc = usage_error("-w cannot be used with -c, -s or -u");
    return rc ? rc : run(&u, argc - optind, argv + optind);
}
