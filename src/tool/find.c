/* tarn find: a list of tests, all of which must hold. */
#include <errno.h>
#include <fnmatch.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tool/tool_impl.h"
#include "util/err.h"

#define TESTS_MAX 64

enum test_kind { NAME, INAME, PATH, TYPE, SIZE, UID, GID, INUM, LINKS, PERM, EMPTY };

struct test {
    enum test_kind kind;
    bool not ;
    const char *text;
    int sign; /* of numbers: more (1), less (-1), equal */
    uint64_t number, unit;
};

struct find {
    struct tool *t;
    struct test test[TESTS_MAX];
    size_t n;
    uint64_t min_depth, max_depth;
    enum { PRINT, PRINT0, LIST } action;
};

static bool compare(const struct test *x, uint64_t v)
{
    return x->sign > 0 ? v > x->number : x->sign < 0 ? v < x->number : v == x->number;
}

static bool is_empty(const struct walk_entry *e)
{
    struct name_list list;
    if (S_ISREG(e->attr.mode))
        return e->attr.size == 0;
    if (!S_ISDIR(e->attr.mode))
        return false;
    bool empty = dir_list(e->fs, e->attr.ino, &list) == 0 && list.n == 0;
    dir_list_free(&list);
    return empty;
}

static bool check(const struct test *x, const struct walk_entry *e)
{
    const struct fs_attr *a = &e->attr;
    char letter = tool_type_letter(a->mode);
    switch (x->kind) {
    case NAME:
        return fnmatch(x->text, e->name, 0) == 0;
    case INAME:
        return fnmatch(x->text, e->name, FNM_CASEFOLD) == 0;
    case PATH:
        return fnmatch(x->text, e->path, 0) == 0;
    case TYPE:
        return strchr(x->text, letter == '-' ? 'f' : letter) != NULL;
    case SIZE:
        return compare(x, (a->size + x->unit - 1) / x->unit);
    case UID:
        return compare(x, a->uid);
    case GID:
        return compare(x, a->gid);
    case INUM:
        return compare(x, a->ino);
    case LINKS:
        return compare(x, a->nlink);
    case PERM:
        return x->sign ? (a->mode & x->number) == x->number : (a->mode & 07777) == x->number;
    case EMPTY:
        return is_empty(e);
    }
    return false;
}

static char *link_target(const struct walk_entry *e)
{
    char target[65536];
    int n = S_ISLNK(e->attr.mode) ? fs_readlink(e->fs, e->attr.ino, target, sizeof target - 1) : -1;
    return n < 0 ? NULL : strndup(target, (size_t)n);
}

static void list(const struct find *f, const struct walk_entry *e, const char *target)
{
    char mode[11], time[64];
    struct tm tm;
    time_t s = e->attr.mtime.tv_sec;
    tool_mode_text(e->attr.mode, mode);
    localtime_r(&s, &tm);
    strftime(time, sizeof time, "%b %e %Y %H:%M", &tm);
    printf("%9llu %6llu %s %3u %-8u %-8u %12llu %s ", (unsigned long long)e->attr.ino,
           (unsigned long long)(e->attr.blocks + 1) / 2, mode, e->attr.nlink, e->attr.uid,
           e->attr.gid, (unsigned long long)e->attr.size, time);
    tool_print_name(f->t, stdout, e->path);
    if (target) {
        printf(" -> ");
        tool_print_name(f->t, stdout, target);
    }
    putchar('\n');
}

static void act(const struct find *f, const struct walk_entry *e)
{
    char *target = f->t->json || f->action == LIST ? link_target(e) : NULL;
    if (f->t->json) {
        struct json_object *o = tool_attr_row(e->path, &e->attr);
        if (target)
            json_put_name(o, "target", target);
        tool_row(f->t, o);
    } else if (f->action == LIST) {
        list(f, e, target);
    } else if (f->action == PRINT0) {
        fputs(e->path, stdout);
        putchar('\0');
    } else {
        tool_print_name(f->t, stdout, e->path);
        putchar('\n');
    }
    free(target);
}

static int visit(void *arg, const struct walk_entry *e, enum walk_when when)
{
    struct find *f = arg;
    bool good = e->depth >= f->min_depth;
    if (when != WALK_ENTRY)
        return 0;
    for (size_t i = 0; i < f->n && good; i++)
        good = check(&f->test[i], e) != f->test[i].not ;
    if (good)
        act(f, e);
    return e->depth >= f->max_depth;
}

/* ---- The expression ---- */

static bool number(struct test *x, const char *text)
{
    static const char units[] = "cwbkMG";
    static const uint64_t bytes[] = {1, 2, 512, 1024, 1048576, 1073741824};
    char digits[32];
    x->sign = *text == '+' ? 1 : *text == '-' ? -1 : 0;
    text += x->sign != 0;
    size_t n = strspn(text, "0123456789");
    x->unit = 512;
    if (x->kind == SIZE && text[n] && strchr(units, text[n]) && !text[n + 1])
        x->unit = bytes[strchr(units, text[n]) - units];
    else if (text[n])
        return false;
    snprintf(digits, sizeof digits, "%.*s", (int)n, text);
    return tool_number(digits, &x->number);
}

static bool mode(struct test *x, const char *text)
{
    char *end;
    x->sign = *text == '-';
    x->number = strtoul(text + (x->sign != 0), &end, 8);
    return *end == '\0' && end > text && x->number <= 07777;
}

static const struct {
    const char *word;
    enum test_kind kind;
} words[] = {{"-name", NAME},   {"-iname", INAME}, {"-path", PATH},  {"-type", TYPE},
             {"-size", SIZE},   {"-uid", UID},     {"-gid", GID},    {"-inum", INUM},
             {"-links", LINKS}, {"-perm", PERM},   {"-empty", EMPTY}};

/* A test at argv: arguments taken, 0 if it is none, -1 after a message. */
static int parse_test(struct find *f, int argc, char **argv, bool not )
{
    size_t i = 0, count = sizeof words / sizeof *words;
    struct test x = {.not = not };
    while (i < count && strcmp(words[i].word, argv[0]) != 0)
        i++;
    if (i == count)
        return 0;
    x.kind = words[i].kind;
    x.text = x.kind == EMPTY ? "" : argc > 1 ? argv[1] : NULL;
    bool good = x.text && f->n < TESTS_MAX;
    if (good && x.kind >= SIZE && x.kind <= LINKS)
        good = number(&x, x.text);
    if (good && x.kind == PERM)
        good = mode(&x, x.text);
    if (good && x.kind == TYPE)
        good = *x.text && strspn(x.text, "fdlcbps,") == strlen(x.text);
    if (!good) {
        tool_usage(f->t, "%s: a wrong or missing argument", argv[0]);
        return -1;
    }
    f->test[f->n++] = x;
    return x.kind == EMPTY ? 1 : 2;
}

static int parse_other(struct find *f, int argc, char **argv)
{
    uint64_t *depth = strcmp(argv[0], "-maxdepth") == 0   ? &f->max_depth
                      : strcmp(argv[0], "-mindepth") == 0 ? &f->min_depth
                                                          : NULL;
    if (depth && argc > 1 && tool_number(argv[1], depth))
        return 2;
    if (strcmp(argv[0], "-print") == 0 || strcmp(argv[0], "-a") == 0)
        return 1;
    if (strcmp(argv[0], "-print0") == 0 || strcmp(argv[0], "-ls") == 0) {
        f->action = argv[0][1] == 'p' ? PRINT0 : LIST;
        return 1;
    }
    return tool_common_option(f->t, argc, argv);
}

static int parse(struct find *f, int argc, char **argv)
{
    bool not = false;
    for (int i = 0; i < argc;) {
        if (strcmp(argv[i], "!") == 0 || strcmp(argv[i], "-not") == 0) {
            not = !not ;
            i++;
            continue;
        }
        int n = parse_test(f, argc - i, argv + i, not );
        if (n == 0)
            n = parse_other(f, argc - i, argv + i);
        if (n < 0)
            return 2;
        if (n == 0)
            return tool_usage(f->t, "unknown or incomplete test '%s'", argv[i]);
        i += n;
        not = false;
    }
    return 0;
}

int tool_find(struct tool *t, int argc, char **argv)
{
    struct find f = {.t = t, .max_depth = UINT64_MAX};
    int first = 1, end;
    for (int n; first < argc && (n = tool_common_option(t, argc - first, argv + first)) != 0;) {
        if (n < 0)
            return 2;
        first += n;
    }
    for (end = first; end < argc && argv[end][0] != '-' && strcmp(argv[end], "!") != 0; end++)
        ;
    if (end == first)
        return tool_usage(t, "missing target");
    if (parse(&f, argc - end, argv + end) != 0)
        return 2;
    for (int i = first; i < end; i++) {
        struct target x;
        if (target_open(t, argv[i], 0, &x) != 0)
            continue;
        walk_tree(t, x.fs, &x.attr, argv[i], visit, &f);
        target_close(&x);
    }
    return 0;
}
