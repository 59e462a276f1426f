/* Output: names that do not disturb a terminal, tables, JSON, and what went wrong. */
#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/tool_impl.h"
#include "util/err.h"

/* ---- Names ---- */

/* Bytes of the UTF-8 character at s that may be shown, or 0. */
static unsigned printable(const unsigned char *s)
{
    uint32_t c;
    unsigned n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (n <= 1)
        return n && *s >= ' ' && *s != 0x7f;
    c = *s & (0x7fu >> n);
    for (unsigned i = 1; i < n; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || (c >= 0x80 && c < 0xa0)
               ? 0
               : n;
}

static bool is_plain(const char *name)
{
    unsigned n;
    if (!*name)
        return false;
    for (const unsigned char *s = (const void *)name; *s; s += n)
        if (!(n = printable(s)) || strchr(" '\"\\$`*?[]{}()<>|&;!#~", *s))
            return false;
    return true;
}

static bool has_control(const char *name)
{
    unsigned n;
    for (const unsigned char *s = (const void *)name; *s; s += n)
        if (!(n = printable(s)))
            return true;
    return false;
}

struct text {
    char *at, *end;
};

static void add(struct text *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n && t->at + 1 < t->end; i++)
        *t->at++ = s[i];
}

static void add_escape(struct text *t, unsigned char c)
{
    static const char letters[] = "\aa\bb\tt\nn\vv\ff\rr";
    char s[8];
    const char *known = NULL;
    for (const char *l = letters; *l && !known; l += 2)
        known = (unsigned char)*l == c ? l + 1 : NULL;
    int n = known ? snprintf(s, sizeof s, "\\%c", *known) : snprintf(s, sizeof s, "\\%03o", c);
    add(t, s, (size_t)n);
}

/* 'a'$'\n''b', as ls writes it. */
char *tool_quote(const char *name, bool always, char *out, size_t cap)
{
    struct text t = {out, out + cap};
    unsigned n;
    bool in = false; /* inside $'...' */
    if (!always && is_plain(name)) {
        add(&t, name, strlen(name));
        *t.at = '\0';
        return out;
    }
    add(&t, "'", 1);
    for (const unsigned char *s = (const void *)name; *s; s += n ? n : 1) {
        n = printable(s);
        if (!n && !in)
            add(&t, "'$'", 3);
        else if (n && in)
            add(&t, "''", 2);
        in = !n;
        if (!n)
            add_escape(&t, *s);
        else if (*s == '\'')
            add(&t, "'\\''", 4);
        else
            add(&t, (const char *)s, n);
    }
    add(&t, "'", 1);
    *t.at = '\0';
    return out;
}

void tool_print_name(const struct tool *t, FILE *to, const char *name)
{
    size_t cap = 8 * strlen(name) + 8;
    char *quoted = t->terminal && has_control(name) ? malloc(cap) : NULL;
    fputs(quoted ? tool_quote(name, true, quoted, cap) : name, to);
    free(quoted);
}

/* ---- Errors ---- */

int tool_error(struct tool *t, int rc, const char *fmt, ...)
{
    char what[4096], why[4096], quoted[4096];
    va_list ap;
    snprintf(why, sizeof why, "%s", err_text(rc));
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    fflush(stdout);
    fprintf(stderr, "tarn %s: %s: %s\n", t->name,
            has_control(what) ? tool_quote(what, true, quoted, sizeof quoted) : what, why);
    t->status = t->status ? t->status : 1;
    if (t->json) {
        struct json_object *e = json_object_new_object();
        json_put_name(e, "name", what);
        json_put_text(e, "error", why);
        json_put_signed(e, "errno", -rc);
        if (!t->errors)
            t->errors = json_object_new_array();
        json_object_array_add(t->errors, e);
    }
    return 1;
}

/* ---- JSON ---- */

static void put(struct json_object *o, const char *key, struct json_object *v)
{
    json_object_object_add(o, key, v);
}

void json_put_text(struct json_object *o, const char *key, const char *text)
{
    json_put_name(o, key, text);
}

void json_put_number(struct json_object *o, const char *key, uint64_t v)
{
    put(o, key, json_object_new_uint64(v));
}

void json_put_signed(struct json_object *o, const char *key, int64_t v)
{
    put(o, key, json_object_new_int64(v));
}

void json_put_bool(struct json_object *o, const char *key, bool v)
{
    put(o, key, json_object_new_boolean(v));
}

void json_put_hex(struct json_object *o, const char *key, const void *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    char *text = malloc(2 * n + 1);
    for (size_t i = 0; text && i < n; i++) {
        text[2 * i] = digits[from[i] >> 4];
        text[2 * i + 1] = digits[from[i] & 15];
    }
    put(o, key, json_object_new_string_len(text ? text : "", text ? (int)(2 * n) : 0));
    free(text);
}

static bool is_utf8(const char *name)
{
    unsigned n;
    for (const unsigned char *s = (const void *)name; *s; s += n) {
        n = printable(s);
        if (!n && *s < 0x80)
            n = 1;
        else if (!n && s[0] == 0xc2 && s[1] < 0xa0 && s[1] >> 6 == 2)
            n = 2;
        if (!n)
            return false;
    }
    return true;
}

void json_put_name(struct json_object *o, const char *key, const char *name)
{
    if (is_utf8(name)) {
        put(o, key, json_object_new_string(name));
        return;
    }
    char hex[64], *text = malloc(3 * strlen(name) + 1), *at = text;
    unsigned n;
    for (const unsigned char *s = (const void *)name; text && *s; s += n ? n : 1) {
        n = *s < 0x80 ? 1 : printable(s);
        memcpy(at, n ? (const char *)s : "\xef\xbf\xbd", n ? n : 3);
        at += n ? n : 3;
    }
    put(o, key, json_object_new_string_len(text ? text : "", text ? (int)(at - text) : 0));
    free(text);
    snprintf(hex, sizeof hex, "%s_hex", key);
    json_put_hex(o, hex, name, strlen(name));
}

static const char *plain(struct json_object *o)
{
    return json_object_to_json_string_ext(o,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

void tool_row(struct tool *t, struct json_object *row)
{
    if (t->json) {
        if (t->rows++ == 0)
            printf("{\"command\":\"tarn %s\",\"version\":1,\"rows\":[\n", t->name);
        else
            printf(",\n");
        fputs(plain(row), stdout);
    }
    json_object_put(row);
}

void tool_finish(struct tool *t)
{
    if (t->rows == 0)
        printf("{\"command\":\"tarn %s\",\"version\":1,\"rows\":[", t->name);
    printf("\n],\n\"errors\":%s", t->errors ? plain(t->errors) : "[]");
    if (t->devices)
        printf(",\n\"devices\":%s", plain(t->devices));
    if (t->summary)
        printf(",\n\"summary\":%s", plain(t->summary));
    printf("}\n");
}

/* ---- Tables ---- */

void tool_table_head(const struct tool_column *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%*s", i ? "  " : "",
               i + 1 == n && c[i].left ? 0
               : c[i].left             ? -c[i].width
                                       : c[i].width,
               c[i].head);
    printf("\n");
}

void tool_table_row(const struct tool *t, const struct tool_column *c, size_t n,
                    struct json_object *row)
{
    for (size_t i = 0; i < n; i++) {
        struct json_object *v = NULL;
        bool there = json_object_object_get_ex(row, c[i].key, &v) && v;
        const char *text = there ? json_object_get_string(v) : "-";
        printf("%s", i ? "  " : "");
        if (!c[i].left)
            printf("%*s", c[i].width, text);
        else if (i + 1 == n || has_control(text))
            tool_print_name(t, stdout, text);
        else
            printf("%-*s", c[i].width, text);
    }
    printf("\n");
}

static void print_field(const struct tool *t, const char *key, struct json_object *v, int indent)
{
    if (json_object_is_type(v, json_type_object)) {
        printf("%*s%s:\n", indent, "", key);
        json_object_object_foreach(v, k, inner) print_field(t, k, inner, indent + 4);
        return;
    }
    if (json_object_is_type(v, json_type_array) && json_object_array_length(v) > 0 &&
        json_object_is_type(json_object_array_get_idx(v, 0), json_type_object)) {
        for (size_t i = 0; i < json_object_array_length(v); i++) {
            char name[300];
            snprintf(name, sizeof name, "%s[%zu]", key, i);
            print_field(t, name, json_object_array_get_idx(v, i), indent);
        }
        return;
    }
    printf("%*s%s: ", indent, "", key);
    tool_print_name(t, stdout, v ? json_object_get_string(v) : "-");
    printf("\n");
}

void tool_print_fields(struct tool *t, struct json_object *row)
{
    if (!t->json) {
        json_object_object_foreach(row, key, v) print_field(t, key, v, 0);
    }
    tool_row(t, row);
}

/* ---- Words ---- */

const char *tool_size(uint64_t bytes, bool human, char buf[32])
{
    static const char units[] = "KMGTPE";
    if (!human || bytes < 1024) {
        snprintf(buf, 32, "%llu", (unsigned long long)bytes);
        return buf;
    }
    unsigned u = 0;
    double v = (double)bytes / 1024;
    for (; v >= 1024 && units[u + 1]; u++)
        v /= 1024;
    snprintf(buf, 32, v < 10 ? "%.1f%c" : "%.0f%c", v, units[u]);
    return buf;
}

static const struct {
    uint32_t mode;
    char letter;
    const char *word;
} types[] = {
    {S_IFREG, '-', "regular file"},
    {S_IFDIR, 'd', "directory"},
    {S_IFLNK, 'l', "symbolic link"},
    {S_IFCHR, 'c', "character special file"},
    {S_IFBLK, 'b', "block special file"},
    {S_IFIFO, 'p', "fifo"},
    {S_IFSOCK, 's', "socket"},
};

char tool_type_letter(uint32_t mode)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].mode == (mode & S_IFMT))
            return types[i].letter;
    return '?';
}

const char *tool_type_word(uint32_t mode)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].mode == (mode & S_IFMT))
            return types[i].word;
    return "weird file";
}

void tool_mode_text(uint32_t mode, char out[11])
{
    static const char bits[] = "rwxrwxrwx";
    out[0] = tool_type_letter(mode);
    for (int i = 0; i < 9; i++)
        out[1 + i] = mode & (0400u >> i) ? bits[i] : '-';
    if (mode & S_ISUID)
        out[3] = mode & 0100 ? 's' : 'S';
    if (mode & S_ISGID)
        out[6] = mode & 010 ? 's' : 'S';
    if (mode & S_ISVTX)
        out[9] = mode & 1 ? 't' : 'T';
    out[10] = '\0';
}

static void put_time(struct json_object *o, const char *key, const struct timespec *ts)
{
    char text[64];
    snprintf(text, sizeof text, "%lld.%09ld", (long long)ts->tv_sec, ts->tv_nsec);
    put(o, key, json_object_new_string(text));
}

struct json_object *tool_attr_row(const char *path, const struct fs_attr *a)
{
    struct json_object *o = json_object_new_object();
    char octal[16];
    json_put_name(o, "path", path);
    json_put_text(o, "type", tool_type_word(a->mode));
    snprintf(octal, sizeof octal, "%06o", a->mode);
    json_put_text(o, "mode", octal);
    json_put_number(o, "inode", a->ino);
    json_put_number(o, "links", a->nlink);
    json_put_number(o, "uid", a->uid);
    json_put_number(o, "gid", a->gid);
    json_put_number(o, "size", a->size);
    json_put_number(o, "allocated", a->blocks * 512);
    json_put_number(o, "block_size", a->blksize);
    put_time(o, "mtime", &a->mtime);
    put_time(o, "ctime", &a->ctime);
    put_time(o, "atime", &a->atime);
    put_time(o, "birth", &a->crtime);
    if (S_ISCHR(a->mode) || S_ISBLK(a->mode)) {
        json_put_number(o, "major", (a->rdev >> 8) & 0xfff);
        json_put_number(o, "minor", (a->rdev & 0xff) | ((a->rdev >> 12) & 0xfff00));
    }
    return o;
}
