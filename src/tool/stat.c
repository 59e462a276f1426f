/* tarn stat. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tool/tool_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static void print_time(const struct timespec *ts)
{
    char text[64], zone[16];
    struct tm tm;
    time_t s = ts->tv_sec;
    localtime_r(&s, &tm);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
    strftime(zone, sizeof zone, "%z", &tm);
    printf("%s.%09ld %s", text, ts->tv_nsec, zone);
}

static void print_link(struct tool *t, const struct target *x)
{
    char target[65536];
    int n = S_ISLNK(x->attr.mode) ? fs_readlink(x->fs, x->ino, target, sizeof target - 1) : -1;
    if (n < 0)
        return;
    target[n] = '\0';
    printf(" -> ");
    tool_print_name(t, stdout, target);
}

/* Names and lengths of the extended attributes. */
static struct json_object *xattrs(struct tool *t, const struct target *x)
{
    ssize_t n = fs_listxattr(x->fs, x->ino, NULL, 0, true);
    CLEANUP_FREE char *names = n > 0 ? malloc((size_t)n) : NULL;
    struct json_object *list = json_object_new_array();
    if (names)
        n = fs_listxattr(x->fs, x->ino, names, (size_t)n, true);
    if (n < 0 && n != -EOPNOTSUPP)
        tool_error(t, (int)n, "%s: extended attributes", x->text);
    for (const char *name = names; name && n > 0 && name < names + n; name += strlen(name) + 1) {
        ssize_t size = fs_getxattr(x->fs, x->ino, name, NULL, 0);
        CLEANUP_FREE unsigned char *value = size > 0 ? malloc((size_t)size) : NULL;
        if (value)
            size = fs_getxattr(x->fs, x->ino, name, value, (size_t)size);
        if (size < 0) {
            tool_error(t, (int)size, "%s: extended attribute %s", x->text, name);
            continue;
        }
        struct json_object *o = json_object_new_object();
        json_put_name(o, "name", name);
        json_put_number(o, "size", (uint64_t)size);
        json_put_hex(o, "value_hex", value, (size_t)size);
        json_object_array_add(list, o);
    }
    return list;
}

static void print_long(struct tool *t, const struct target *x)
{
    const struct fs_attr *a = &x->attr;
    char mode[11];
    struct json_object *list = xattrs(t, x);
    tool_mode_text(a->mode, mode);
    printf("  File: ");
    tool_print_name(t, stdout, x->text);
    print_link(t, x);
    printf("\n  Size: %-15llu Blocks: %-10llu IO Block: %-6u %s\n", (unsigned long long)a->size,
           (unsigned long long)a->blocks, a->blksize, tool_type_word(a->mode));
    printf("Object: %-15llu Generation: %-10llu Links: %u\n", (unsigned long long)a->ino,
           (unsigned long long)a->gen, a->nlink);
    printf("Access: (%04o/%s)  Uid: %u   Gid: %u\nAccess: ", a->mode & 07777, mode, a->uid, a->gid);
    print_time(&a->atime);
    printf("\nModify: ");
    print_time(&a->mtime);
    printf("\nChange: ");
    print_time(&a->ctime);
    printf("\n Birth: ");
    print_time(&a->crtime);
    printf("\n");
    stat_print_acl(t, x);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *o = json_object_array_get_idx(list, i), *v;
        printf(" Xattr: ");
        tool_print_name(t, stdout,
                        json_object_object_get_ex(o, "name", &v) ? json_object_get_string(v) : "");
        printf(" (%s bytes)\n",
               json_object_object_get_ex(o, "size", &v) ? json_object_get_string(v) : "?");
    }
    json_object_put(list);
}

static void print_row(struct tool *t, const struct target *x)
{
    struct json_object *o = tool_attr_row(x->text, &x->attr);
    char target[65536];
    int n = S_ISLNK(x->attr.mode) ? fs_readlink(x->fs, x->ino, target, sizeof target - 1) : -1;
    if (n >= 0) {
        target[n] = '\0';
        json_put_name(o, "target", target);
    }
    json_put_text(o, "dataset", x->dataset);
    json_put_number(o, "generation", x->attr.gen);
    stat_put_acl(t, x, o);
    json_object_object_add(o, "xattrs", xattrs(t, x));
    tool_row(t, o);
}

static void print_code(struct tool *t, const struct target *x, char c)
{
    const struct fs_attr *a = &x->attr;
    char mode[11];
    const struct timespec *time = c == 'X' || c == 'x'   ? &a->atime
                                  : c == 'Y' || c == 'y' ? &a->mtime
                                  : c == 'Z' || c == 'z' ? &a->ctime
                                                         : &a->crtime;
    switch (c) {
    case 'n':
        tool_print_name(t, stdout, x->text);
        break;
    case 's':
        printf("%llu", (unsigned long long)a->size);
        break;
    case 'a':
        printf("%o", a->mode & 07777);
        break;
    case 'f':
        printf("%x", a->mode);
        break;
    case 'A':
        tool_mode_text(a->mode, mode);
        printf("%s", mode);
        break;
    case 'F':
        printf("%s",
               a->size == 0 && S_ISREG(a->mode) ? "regular empty file" : tool_type_word(a->mode));
        break;
    case 'i':
        printf("%llu", (unsigned long long)a->ino);
        break;
    case 'h':
        printf("%u", a->nlink);
        break;
    case 'u':
        printf("%u", a->uid);
        break;
    case 'g':
        printf("%u", a->gid);
        break;
    case 'b':
        printf("%llu", (unsigned long long)a->blocks);
        break;
    case 'B':
        printf("512");
        break;
    case 'o':
        printf("%u", a->blksize);
        break;
    case 'N':
        tool_print_name(t, stdout, x->text);
        print_link(t, x);
        break;
    case 'W':
    case 'X':
    case 'Y':
    case 'Z':
        printf("%lld", (long long)time->tv_sec);
        break;
    case 'w':
    case 'x':
    case 'y':
    case 'z':
        print_time(time);
        break;
    default:
        putchar(c);
        break;
    }
}

static void print_format(struct tool *t, const struct target *x, const char *format)
{
    for (const char *f = format; *f; f++) {
        if (*f != '%' || !f[1])
            putchar(*f);
        else
            print_code(t, x, *++f);
    }
    putchar('\n');
}

int tool_stat(struct tool *t, int argc, char **argv)
{
    static const struct option longs[] = {{"format", required_argument, NULL, 'c'}, {0}};
    const char *format = NULL;
    int opt;
    while ((opt = tool_getopt(t, argc, argv, "c:", longs)) != -1) {
        if (opt == '?')
            return 2;
        format = optarg;
    }
    if (optind == argc)
        return tool_usage(t, "missing target");
    for (int i = optind; i < argc; i++) {
        struct target x;
        if (target_open(t, argv[i], 0, &x) != 0)
            continue;
        if (t->json)
            print_row(t, &x);
        else if (format)
            print_format(t, &x, format);
        else
            print_long(t, &x);
        target_close(&x);
    }
    return 0;
}
