/* Options. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool/tool_impl.h"

#define LONGS_MAX 32

enum {
    OPT_JSON = 500,
    OPT_LIVE,
    OPT_HELP,
    OPT_CHECKPOINT,
    OPT_REWIND,
    OPT_REPLAY,
    OPT_LOAD_KEYS,
    OPT_KEY_LOCATION,
    OPT_KEY_FILE,
    OPT_END
};

static const struct option common[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"live", no_argument, NULL, OPT_LIVE},
    {"help", no_argument, NULL, OPT_HELP},
    {"destroyed", no_argument, NULL, 'D'},
    {"rewind", no_argument, NULL, OPT_REWIND},
    {"rewind-to-checkpoint", no_argument, NULL, OPT_CHECKPOINT},
    {"replay-in-memory", no_argument, NULL, OPT_REPLAY},
    {"load-keys", no_argument, NULL, OPT_LOAD_KEYS},
    {"key-location", required_argument, NULL, OPT_KEY_LOCATION},
    {"key-file", required_argument, NULL, OPT_KEY_FILE},
};

static void print_usage(const struct tool *t, FILE *to)
{
    fprintf(to, "usage: tarn %s [OPTION]... %s\n", t->name, t->command->usage);
}

static void print_help(const struct tool *t)
{
    print_usage(t, stdout);
    fputs("\nWhich pool, and which of its states:\n"
          "  -d DIR-or-DEVICE          search here (may be repeated)\n"
          "  -D, --destroyed           only destroyed pools\n"
          "  -T TXG                    as of this txg\n"
          "  --rewind                  if it cannot be read, as of the newest txg that can\n"
          "  --rewind-to-checkpoint    as its checkpoint keeps it\n",
          stdout);
    if (!t->command->structures)
        fputs("  --replay-in-memory        with the changes that wait in intent logs\n", stdout);
    fputs("  --live                    also if a process has imported it for writing\n"
          "Keys of encrypted datasets:\n"
          "  --load-keys               from where their keylocation says\n"
          "  --key-location LOCATION   prompt or file:///PATH (may be repeated)\n"
          "  --key-file FILE           the same as file:// (may be repeated)\n"
          "Output:\n"
          "  --json                    for programs\n",
          stdout);
}

int tool_usage(struct tool *t, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "tarn %s: ", t->name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    print_usage(t, stderr);
    fprintf(stderr, "Try 'tarn %s --help' for the options of all these commands.\n", t->name);
    return 2;
}

bool tool_number(const char *text, uint64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    return *end == '\0' && errno == 0;
}

static int add_dir(struct tool *t, const char *dir)
{
    if (t->ndirs == TOOL_DIRS_MAX)
        return tool_usage(t, "too many -d");
    t->dirs[t->ndirs++] = dir;
    return 0;
}

static int add_key(struct tool *t, const char *location, const char *file)
{
    if (t->nkeys == TOOL_KEYS_MAX)
        return tool_usage(t, "too many keys");
    if (location && strcmp(location, "prompt") != 0 && strncmp(location, "file:///", 8) != 0)
        return tool_usage(t, "invalid key location '%s': prompt or file:///PATH is wanted",
                          location);
    t->keys[t->nkeys++] =
        (struct key_source){.location = location, .file = file, .terminal = stderr};
    return 0;
}

static int take_replay(struct tool *t)
{
    if (t->command->structures)
        return tool_usage(t, "--replay-in-memory does not go with it: it shows what is on disk");
    t->in_memory = true;
    return 0;
}

static int take(struct tool *t, int opt, const char *value)
{
    switch (opt) {
    case 'd':
        return add_dir(t, value);
    case 'T':
        return tool_number(value, &t->txg) && t->txg ? 0 : tool_usage(t, "-T wants a txg");
    case OPT_JSON:
        t->json = true;
        return 0;
    case OPT_LIVE:
        t->live = true;
        return 0;
    case 'D':
        t->destroyed = true;
        return 0;
    case OPT_REWIND:
        t->rewind = true;
        return 0;
    case OPT_CHECKPOINT:
        t->checkpoint = true;
        return 0;
    case OPT_REPLAY:
        return take_replay(t);
    case OPT_LOAD_KEYS:
        t->load_keys = true;
        return 0;
    case OPT_KEY_LOCATION:
        return add_key(t, value, NULL);
    case OPT_KEY_FILE:
        return add_key(t, NULL, value);
    default:
        print_help(t);
        exit(0);
    }
}

int tool_getopt(struct tool *t, int argc, char **argv, const char *shorts,
                const struct option *longs)
{
    struct option all[LONGS_MAX] = {0};
    char letters[128];
    size_t n = 0;
    for (; n < sizeof common / sizeof *common; n++)
        all[n] = common[n];
    for (; longs && longs->name && n + 1 < LONGS_MAX; longs++)
        all[n++] = *longs;
    snprintf(letters, sizeof letters, ":d:DT:%s", shorts);
    opterr = 0;
    for (;;) {
        int opt = getopt_long(argc, argv, letters, all, NULL);
        if (opt == '?' || opt == ':') {
            const char *word = argv[optind - 1];
            if (opt == ':')
                tool_usage(t, "'%s' wants an argument", word);
            else if (optopt > 0 && optopt < 256)
                tool_usage(t, "invalid option '%c'", optopt);
            else
                tool_usage(t, "invalid option '%s'", word);
            return '?';
        }
        if (opt != 'd' && opt != 'D' && opt != 'T' && (opt < OPT_JSON || opt >= OPT_END))
            return opt;
        if (take(t, opt, optarg) != 0)
            return '?';
    }
}

int tool_common_option(struct tool *t, int argc, char **argv)
{
    const char *word = argv[0];
    size_t n = strcspn(word, "=");
    if ((strcmp(word, "-d") == 0 || strcmp(word, "-T") == 0) && argc > 1)
        return take(t, word[1], argv[1]) == 0 ? 2 : -1;
    if (strcmp(word, "-D") == 0)
        return take(t, 'D', NULL) == 0 ? 1 : -1;
    for (size_t i = 0; i < sizeof common / sizeof *common && strncmp(word, "--", 2) == 0; i++) {
        const struct option *o = &common[i];
        if (strlen(o->name) + 2 != n || strncmp(word + 2, o->name, n - 2) != 0)
            continue;
        bool with = word[n] == '=', wanted = o->has_arg == required_argument;
        if (with != wanted && (with || argc < 2))
            return 0;
        if (take(t, o->val, with ? word + n + 1 : wanted ? argv[1] : NULL) != 0)
            return -1;
        return wanted && !with ? 2 : 1;
    }
    return 0;
}
