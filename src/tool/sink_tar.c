/*
 * A tar archive, POSIX.1-2001 ("pax"): ustar headers, and extended headers for what does not fit
 * them: long paths, nanoseconds, large sizes, extended attributes (SCHILY.xattr.*, as GNU tar and
 * star have them), POSIX ACLs (SCHILY.acl.*) and holes (GNU.sparse 1.0).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/tool_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define BLOCK     512
#define BUFFER    (1u << 20)
#define OCTAL_MAX 077777777777ull /* 11 octal digits */

struct sink_tar {
    struct copy_sink sink;
    struct tool *t;
    int fd;
    unsigned char *buffer;
    size_t used;
    uint64_t written;
    uint64_t left; /* of the present file's data */
};

struct records {
    char *text;
    size_t n, cap;
    int rc;
};

/* ---- Bytes ---- */

static int flush(struct sink_tar *s)
{
    for (size_t at = 0; at < s->used;) {
        ssize_t n = write(s->fd, s->buffer + at, s->used - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(n ? errno : EIO, "the archive cannot be written: %s",
                           strerror(n ? errno : EIO));
        at += (size_t)n;
    }
    s->used = 0;
    return 0;
}

static int put(struct sink_tar *s, const void *data, size_t n)
{
    const unsigned char *p = data;
    int rc = 0;
    s->written += n;
    while (n > 0 && rc == 0) {
        size_t part = MIN(n, BUFFER - s->used);
        if (p)
            memcpy(s->buffer + s->used, p, part);
        else
            memset(s->buffer + s->used, 0, part);
        s->used += part;
        p = p ? p + part : NULL;
        n -= part;
        if (s->used == BUFFER)
            rc = flush(s);
    }
    return rc;
}

static int pad(struct sink_tar *s)
{
    return put(s, NULL, (size_t)(-s->written & (BLOCK - 1)));
}

/* ---- Extended headers ---- */

static void record(struct records *r, const char *key, const void *value, size_t n)
{
    size_t body = strlen(key) + n + 3, len = body + 1; /* " KEY=VALUE\n" and the digits of len */
    char digits[32];
    while (len != body + (size_t)snprintf(digits, sizeof digits, "%zu", len))
        len = body + strlen(digits);
    if (r->n + len > r->cap) {
        char *grown = realloc(r->text, 2 * (r->n + len));
        if (!grown) {
            r->rc = -ENOMEM;
            return;
        }
        r->text = grown;
        r->cap = 2 * (r->n + len);
    }
    char *at = r->text + r->n;
    at += sprintf(at, "%zu %s=", len, key);
    memcpy(at, value, n);
    at[n] = '\n';
    r->n += len;
}

static void record_text(struct records *r, const char *key, const char *value)
{
    record(r, key, value, strlen(value));
}

static void record_number(struct records *r, const char *key, uint64_t v)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    record_text(r, key, text);
}

static void record_time(struct records *r, const char *key, const struct timespec *ts)
{
    char text[64];
    if (ts->tv_sec >= 0 || ts->tv_nsec == 0)
        snprintf(text, sizeof text, "%lld.%09ld", (long long)ts->tv_sec, ts->tv_nsec);
    else
        snprintf(text, sizeof text, "-%lld.%09ld", -(long long)(ts->tv_sec + 1),
                 1000000000 - ts->tv_nsec);
    record_text(r, key, text);
}

/* Linux's binary form of a POSIX ACL as the text that tar has: "user::rwx,user:5:r-x,...". */
static void record_acl(struct records *r, const char *key, const unsigned char *v, size_t n)
{
    static const struct {
        unsigned tag;
        const char *word;
        bool id;
    } tags[] = {{1, "user", false}, {2, "user", true},   {4, "group", false},
                {8, "group", true}, {16, "mask", false}, {32, "other", false}};
    CLEANUP_FREE char *text = calloc(1, 64 * (n / 8 + 1));
    char *at = text;
    if (!text) {
        r->rc = -ENOMEM;
        return;
    }
    for (size_t i = 4; i + 8 <= n; i += 8)
        for (size_t k = 0; k < ARRAY_LEN(tags); k++) {
            unsigned perm = get_le16(v + i + 2);
            char id[16] = "";
            if (tags[k].tag != get_le16(v + i))
                continue;
            if (tags[k].id)
                snprintf(id, sizeof id, "%u", get_le32(v + i + 4));
            at += sprintf(at, "%s%s:%s:%c%c%c", at == text ? "" : ",", tags[k].word, id,
                          perm & 4 ? 'r' : '-', perm & 2 ? 'w' : '-', perm & 1 ? 'x' : '-');
        }
    record_text(r, key, text);
}

static void record_xattrs(struct records *r, const struct copy_item *item)
{
    for (size_t i = 0; i < item->nxattr; i++) {
        const struct copy_xattr *x = &item->xattr[i];
        char key[512];
        if (strcmp(x->name, "system.posix_acl_access") == 0) {
            record_acl(r, "SCHILY.acl.access", x->value, x->n);
        } else if (strcmp(x->name, "system.posix_acl_default") == 0) {
            record_acl(r, "SCHILY.acl.default", x->value, x->n);
        } else if (!strchr(x->name, '=')) { /* the key ends at the first one */
            snprintf(key, sizeof key, "SCHILY.xattr.%s", x->name);
            record(r, key, x->value, x->n);
        }
    }
}

/* ---- Headers ---- */

static void octal(unsigned char *field, size_t n, uint64_t v)
{
    char text[32];
    snprintf(text, sizeof text, "%0*llo", (int)n - 1, (unsigned long long)v);
    memcpy(field, text, n - 1);
}

static void seal(unsigned char *h)
{
    unsigned sum = 0;
    char text[16];
    memcpy(h + 257, "ustar\00000", 8);
    memset(h + 148, ' ', 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += h[i];
    snprintf(text, sizeof text, "%06o", sum);
    memcpy(h + 148, text, 7);
}

static int put_extended(struct sink_tar *s, struct records *r)
{
    unsigned char h[BLOCK] = {0};
    int rc = r->rc;
    if (rc == 0 && r->n > 0) {
        memcpy(h, "PaxHeader", 9);
        octal(h + 100, 8, 0644);
        octal(h + 108, 8, 0);
        octal(h + 116, 8, 0);
        octal(h + 124, 12, r->n);
        octal(h + 136, 12, 0);
        h[156] = 'x';
        seal(h);
        rc = put(s, h, BLOCK);
        if (rc == 0)
            rc = put(s, r->text, r->n);
        if (rc == 0)
            rc = pad(s);
    }
    free(r->text);
    return rc;
}

static bool is_ascii(const char *s)
{
    while (*s && (unsigned char)*s < 0x80)
        s++;
    return !*s;
}

/* A string into its field, or the record into the extended header where it does not fit. */
static void name_field(struct records *r, unsigned char *field, const char *key, const char *value)
{
    size_t n = strlen(value);
    if (n > 100 || !is_ascii(value))
        record_text(r, key, value);
    memcpy(field, value, MIN(n, (size_t)100));
}

static void number_field(struct records *r, unsigned char *field, size_t n, const char *key,
                         uint64_t v)
{
    uint64_t max = n == 12 ? OCTAL_MAX : 07777777;
    if (v > max)
        record_number(r, key, v);
    octal(field, n, v > max ? 0 : v);
}

static char type_flag(const struct copy_item *item)
{
    if (item->hard_link)
        return '1';
    switch (item->attr.mode & S_IFMT) {
    case S_IFDIR:
        return '5';
    case S_IFLNK:
        return '2';
    case S_IFCHR:
        return '3';
    case S_IFBLK:
        return '4';
    case S_IFIFO:
        return '6';
    default:
        return '0';
    }
}

static int put_header(struct sink_tar *s, const struct copy_item *item, const char *name,
                      uint64_t size, struct records *r)
{
    const struct fs_attr *a = &item->attr;
    unsigned char h[BLOCK] = {0};
    name_field(r, h, "path", name);
    if (item->hard_link || item->target)
        name_field(r, h + 157, "linkpath", item->hard_link ? item->hard_link : item->target);
    octal(h + 100, 8, a->mode & 07777);
    number_field(r, h + 108, 8, "uid", a->uid);
    number_field(r, h + 116, 8, "gid", a->gid);
    number_field(r, h + 124, 12, "size", size);
    octal(h + 136, 12,
          a->mtime.tv_sec < 0 || (uint64_t)a->mtime.tv_sec > OCTAL_MAX ? 0
                                                                       : (uint64_t)a->mtime.tv_sec);
    h[156] = (unsigned char)type_flag(item);
    if (S_ISCHR(a->mode) || S_ISBLK(a->mode)) {
        octal(h + 329, 8, (a->rdev >> 8) & 0xfff);
        octal(h + 337, 8, (a->rdev & 0xff) | ((a->rdev >> 12) & 0xfff00));
    }
    record_time(r, "mtime", &a->mtime);
    record_time(r, "atime", &a->atime);
    record_time(r, "ctime", &a->ctime);
    if (!item->hard_link)
        record_xattrs(r, item);
    int rc = put_extended(s, r);
    seal(h);
    return rc ? rc : put(s, h, BLOCK);
}

/* ---- Holes: the map stands in front of the data, in blocks of its own ---- */

static bool is_sparse(const struct copy_item *item)
{
    return !(item->attr.size == 0 || (item->nextent == 1 && item->extent[0].start == 0 &&
                                      item->extent[0].end == item->attr.size));
}

static char *sparse_map(const struct copy_item *item, size_t *n, uint64_t *data)
{
    bool tail = item->nextent == 0 || item->extent[item->nextent - 1].end < item->attr.size;
    char *map = calloc(1, 48 * (item->nextent + 2) + BLOCK), *at = map;
    *data = 0;
    if (!map)
        return NULL;
    at += sprintf(at, "%zu\n", item->nextent + tail);
    for (size_t i = 0; i < item->nextent; i++) {
        uint64_t len = item->extent[i].end - item->extent[i].start;
        at += sprintf(at, "%llu\n%llu\n", (unsigned long long)item->extent[i].start,
                      (unsigned long long)len);
        *data += len;
    }
    if (tail)
        at += sprintf(at, "%llu\n0\n", (unsigned long long)item->attr.size);
    *n = ROUND_UP((size_t)(at - map), (size_t)BLOCK);
    return map;
}

static int begin_sparse(struct sink_tar *s, const struct copy_item *item)
{
    struct records r = {0};
    CLEANUP_FREE char *stand_in = NULL;
    size_t n;
    uint64_t data;
    CLEANUP_FREE char *map = sparse_map(item, &n, &data);
    const char *slash = strrchr(item->path, '/');
    int head = slash ? (int)(slash - item->path) : 0;
    if (!map || asprintf(&stand_in, "%.*s%sGNUSparseFile.0/%s", head, item->path, slash ? "/" : "",
                         slash ? slash + 1 : item->path) < 0)
        return -ENOMEM;
    record_text(&r, "GNU.sparse.major", "1");
    record_text(&r, "GNU.sparse.minor", "0");
    record_text(&r, "GNU.sparse.name", item->path);
    record_number(&r, "GNU.sparse.realsize", item->attr.size);
    int rc = put_header(s, item, stand_in, n + data, &r);
    s->left = data;
    return rc ? rc : put(s, map, n);
}

/* ---- The sink ---- */

static int tar_begin(struct copy_sink *sink, const struct copy_item *item, bool *skip)
{
    struct sink_tar *s = (struct sink_tar *)sink;
    CLEANUP_FREE char *name = NULL;
    struct records r = {0};
    bool data = S_ISREG(item->attr.mode) && !item->hard_link;
    s->left = 0;
    if (S_ISSOCK(item->attr.mode)) {
        err_set(ENOTSUP, "tar cannot hold a socket; it is left out");
        tool_error(s->t, -ENOTSUP, "%s", item->path);
        *skip = true;
        return 0;
    }
    if (data && is_sparse(item))
        return begin_sparse(s, item);
    bool dir = S_ISDIR(item->attr.mode);
    if (asprintf(&name, "%s%s", *item->path ? item->path : ".", dir ? "/" : "") < 0) {
        name = NULL;
        return -ENOMEM;
    }
    s->left = data ? item->attr.size : 0;
    return put_header(s, item, name, s->left, &r);
}

static int tar_data(struct copy_sink *sink, uint64_t off, const void *data, size_t n)
{
    struct sink_tar *s = (struct sink_tar *)sink;
    n = (size_t)MIN((uint64_t)n, s->left);
    s->left -= n;
    return put(s, data, n);
}

static int tar_lost(struct copy_sink *sink, uint64_t off, size_t n)
{
    return tar_data(sink, off, NULL, n);
}

static int tar_end(struct copy_sink *sink, const struct copy_item *item, bool damaged)
{
    struct sink_tar *s = (struct sink_tar *)sink;
    int rc = 0;
    while (s->left && rc == 0)
        rc = tar_data(sink, 0, NULL, (size_t)MIN(s->left, (uint64_t)BUFFER));
    return rc ? rc : pad(s);
}

static int tar_finish(struct copy_sink *sink)
{
    struct sink_tar *s = (struct sink_tar *)sink;
    int rc = put(s, NULL, 2 * BLOCK);
    if (rc == 0)
        rc = put(s, NULL,
                 (size_t)((10240 - s->written % 10240) % 10240)); /* whole records of 20 blocks */
    return rc ? rc : flush(s);
}

static void tar_free(struct copy_sink *sink)
{
    struct sink_tar *s = (struct sink_tar *)sink;
    free(s->buffer);
    free(s);
}

int sink_tar_new(struct copy_sink **out, struct tool *t, int fd)
{
    struct sink_tar *s = calloc(1, sizeof *s);
    unsigned char *buffer = malloc(BUFFER);
    if (!s || !buffer) {
        free(s);
        free(buffer);
        return -ENOMEM;
    }
    *s = (struct sink_tar){.t = t, .fd = fd, .buffer = buffer};
    s->sink = (struct copy_sink){.begin = tar_begin,
                                 .data = tar_data,
                                 .lost = tar_lost,
                                 .end = tar_end,
                                 .finish = tar_finish,
                                 .free = tar_free};
    *out = &s->sink;
    return 0;
}
