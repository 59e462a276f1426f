#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/command_impl.h"
#include "cli/report_impl.h"
#include "cli/zfs_impl.h"
#include "server/client.h"
#include "tool/tool.h"
#include "util/err.h"

static const char *program = "tarn";
static const struct command *running;
static char line[8192];

/* ---- Messages ---- */

static void print_usage(FILE *to, const struct command *list)
{
    if (running) {
        fprintf(to, "usage: %s %s %s\n", program, running->name,
                running->usage ? running->usage : "...");
        return;
    }
    fprintf(to, "usage: %s COMMAND ...\n\nCommands:\n", program);
    for (const struct command *c = list; c && c->name; c++)
        if (c->usage)
            fprintf(to, "    %s %s\n", c->name, c->usage);
}

int usage_shown(void)
{
    print_usage(stderr, NULL);
    return 2;
}

int usage_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return usage_shown();
}

int unsupported(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " is not supported yet\n");
    return 1;
}

int usage_option(int opt)
{
    if (opt == ':')
        return usage_error("missing argument for '%c' option", optopt);
    return usage_error("invalid option '%c'", optopt);
}

/* Sentences that say already what could not be done, and to what. */
static bool is_whole(const char *text)
{
    static const char *const starts[] = {"cannot mount '",   "cannot unmount '",
                                         "cannot destroy '", "cannot create snapshot",
                                         "cannot open '",    "could not find any "};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(text, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

int fail(int rc, const char *fmt, ...)
{
    va_list ap;
    char why[ERR_TEXT_MAX];
    snprintf(why, sizeof why, "%s", err_text(rc));
    if (is_whole(why)) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, ": %s\n", why);
    return 1;
}

/* ---- Talking to pool processes ---- */

static struct client *open_client(const char *name, const char *missing)
{
    struct client *c;
    char pool[256];
    snprintf(pool, sizeof pool, "%.*s", (int)strcspn(name, "/@#"), name);
    int rc = client_open(&c, pool);
    if (rc == 0)
        return c;
    if (rc == -ENOENT)
        err_set(ENOENT, "%s", missing);
    fail(rc, "cannot open '%s'", name);
    return NULL;
}

struct client *open_pool(const char *dataset)
{
    return open_client(dataset, "dataset does not exist");
}

struct client *open_named_pool(const char *pool)
{
    if (pool[strcspn(pool, "/@#")]) {
        fprintf(stderr, "cannot open '%s': invalid character '%c' in pool name\n", pool,
                pool[strcspn(pool, "/@#")]);
        return NULL;
    }
    return open_client(pool, "no such pool");
}

int call_simple(struct client *c, const char *op, struct json_object *args)
{
    return client_call(c, op, args, NULL, NULL, NULL);
}

const char *command_line(void)
{
    return line;
}

void record_command(struct client *c, const char *name)
{
    static char last[256];
    struct json_object *args;
    size_t n = strcspn(name, "/@#");
    if (strlen(last) == n && strncmp(last, name, n) == 0)
        return; /* once for all datasets of a pool */
    snprintf(last, sizeof last, "%.*s", (int)n, name);
    args = json_object_new_object();
    json_object_object_add(args, "text", json_object_new_string(line));
    (void)call_simple(c, "pool.command", args);
}

void put_flag(struct json_object *o, const char *key, bool v)
{
    json_object_object_add(o, key, json_object_new_boolean(v));
}

void put_string(struct json_object *o, const char *key, const char *text)
{
    json_object_object_add(o, key, json_object_new_string(text));
}

bool add_assignment(struct json_object *props, const char *text)
{
    const char *eq = strchr(text, '=');
    char name[512];
    if (!eq || (size_t)(eq - text) >= sizeof name) {
        fprintf(stderr, "missing '=' for property=value argument\n");
        return false;
    }
    snprintf(name, sizeof name, "%.*s", (int)(eq - text), text);
    if (json_object_object_get_ex(props, name, NULL)) {
        fprintf(stderr, "property '%s' specified multiple times\n", name);
        return false;
    }
    json_object_object_add(props, name, json_object_new_string(eq + 1));
    return true;
}

struct json_object *split_list(const char *text)
{
    struct json_object *a = json_object_new_array();
    while (*text) {
        size_t n = strcspn(text, ",");
        if (n > 0)
            json_object_array_add(a, json_object_new_string_len(text, (int)n));
        text += n + (text[n] == ',');
    }
    return a;
}

/* ---- Dispatch ---- */

static void remember_line(int argc, char **argv)
{
    size_t used = (size_t)snprintf(line, sizeof line, "%s", program);
    for (int i = 1; i < argc && used < sizeof line; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " %s", argv[i]);
}

static const struct command *find_command(const struct command *list, const char *name)
{
    while (list->name && strcmp(list->name, name) != 0)
        list++;
    return list->name ? list : NULL;
}

static bool is_word(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

static int help(int argc, char **argv, const struct command *list)
{
    running = argc > 2 ? find_command(list, argv[2]) : NULL;
    print_usage(stdout, list);
    return 0;
}

int print_version(const char *name, int argc, char **argv)
{
    bool json = argc == 2 && is_word(argv[1], "-j", "--json", "-j");
    if (argc > 1 && !json)
        return argv[1][0] == '-' ? usage_error("invalid option '%c'", argv[1][1])
                                 : usage_error("too many arguments");
    if (!json) {
        printf("tarn-%s\n", TARN_VERSION);
        return 0;
    }
    char command[32];
    snprintf(command, sizeof command, "%s version", name);
    struct json_object *o = report_json_begin(command), *v = json_object_new_object();
    put_string(v, "userland", "tarn-" TARN_VERSION);
    put_string(v, "kernel", "-"); /* there is none */
    json_object_object_add(o, "zfs_version", v);
    return report_json_end(o);
}

static int run_commands(int argc, char **argv, const struct command *list)
{
    remember_line(argc, argv);
    if (argc < 2) {
        fprintf(stderr, "missing command\n");
        print_usage(stderr, list);
        return 2;
    }
    if (is_word(argv[1], "help", "-?", "--help") || strcmp(argv[1], "-h") == 0)
        return help(argc, argv, list);
    if (is_word(argv[1], "-V", "--version", "--version"))
        return print_version(program, 1, argv);
    running = find_command(list, argv[1]);
    if (!running) {
        fprintf(stderr, "unrecognized command '%s'\n", argv[1]);
        print_usage(stderr, list);
        return 2;
    }
    if (strcmp(argv[1], "version") == 0)
        return print_version(program, argc - 1, argv + 1);
    opterr = 0;
    return running->run ? running->run(argc - 1, argv + 1)
                        : unsupported("%s %s", program, running->name);
}

static int tarn_help(FILE *to)
{
    fprintf(to, "usage: tarn zpool ...\n       tarn zfs ...\n       tarn version\n"
                "       tarn COMMAND ...\n\n"
                "Commands that read a pool from its devices or images, without importing it:\n");
    tool_usage_all(to);
    return to == stdout ? 0 : 2;
}

int cli_main(int argc, char **argv)
{
    char *path = strdup(argv[0]);
    const char *name = path ? basename(path) : "tarn";
    if (strcmp(name, "tarn") == 0 && argc > 1) {
        name = argv[1];
        argc--;
        argv++;
    }
    int rc;
    if (strcmp(name, "zpool") == 0) {
        program = "zpool";
        rc = run_commands(argc, argv, zpool_commands);
    } else if (strcmp(name, "zfs") == 0) {
        program = "zfs";
        rc = run_commands(argc, argv, zfs_commands);
    } else if (strcmp(name, "mount.tarn") == 0) {
        rc = mount_tarn(argc, argv);
    } else if (is_word(name, "version", "--version", "-V")) {
        rc = print_version("tarn", argc, argv);
    } else if (tool_exists(name)) {
        rc = tool_main(argc, argv);
    } else if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0) {
        rc = tarn_help(stdout);
    } else {
        rc = tarn_help(stderr);
    }
    free(path);
    return rc;
}
