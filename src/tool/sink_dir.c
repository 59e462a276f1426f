/* Files copied into a folder. Paths are made below an open folder, and never through a symbolic
 * link that is part of what is copied: a hostile image must not write elsewhere. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tool/tool_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct sink_dir {
    struct copy_sink sink;
    struct tool *t;
    char *folder;
    unsigned flags;
    int top;    /* open folder */
    int parent; /* of the present item, -1 = none */
    const char *leaf;
    int file; /* the present one, -1 = none */
    bool told_xattr;
};

/* ---- Places ---- */

/* Has it a component ".."? The walk gives none; what copies into the file system looks for itself.
 */
static bool leads_out(const char *path)
{
    for (; path; path = strchr(path, '/') ? strchr(path, '/') + 1 : NULL)
        if (strncmp(path, "..", 2) == 0 && (path[2] == '/' || path[2] == '\0'))
            return true;
    return false;
}

/* Opens the folder an item is in; its last component goes to s->leaf. */
static int enter(struct sink_dir *s, const char *path)
{
    int at = dup(s->top);
    const char *part = path, *slash;
    if (strstr(path, "..") && leads_out(path)) {
        close(at);
        return err_set(EBADE, "%s: a path that leads out of the folder", path);
    }
    while (at >= 0 && (slash = strchr(part, '/'))) {
        CLEANUP_FREE char *name = strndup(part, (size_t)(slash - part));
        int next = name ? openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        int e = errno;
        close(at);
        errno = e;
        at = next;
        part = slash + 1;
    }
    if (at < 0)
        return err_set(errno, "%s/%s: %s", s->folder, path, strerror(errno));
    s->parent = at;
    s->leaf = part;
    return 0;
}

static void leave_place(struct sink_dir *s)
{
    if (s->file >= 0)
        close(s->file);
    if (s->parent >= 0)
        close(s->parent);
    s->file = s->parent = -1;
}

static int fail(struct sink_dir *s, const char *path)
{
    int e = errno;
    leave_place(s);
    return err_set(e, "%s/%s: %s", s->folder, path, strerror(e));
}

/* ---- Attributes ---- */

static void set_xattrs(struct sink_dir *s, const struct copy_item *item)
{
    char path[64 + 1024]; /* names of at most 1023 bytes */
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", s->parent, s->leaf);
    for (size_t i = 0; s->flags & SINK_XATTRS && i < item->nxattr; i++) {
        const struct copy_xattr *x = &item->xattr[i];
        if (lsetxattr(path, x->name, x->value, x->n, 0) == 0 || s->told_xattr)
            continue;
        if (geteuid() != 0 && strncmp(x->name, "user.", 5) != 0)
            continue; /* as cp and tar: what only root may set */
        s->told_xattr = true;
        tool_error(s->t, -errno, "%s/%s: extended attribute %s cannot be set (told once)",
                   s->folder, item->path, x->name);
    }
}

static int set_attrs(struct sink_dir *s, const struct copy_item *item, bool times)
{
    const struct fs_attr *a = &item->attr;
    struct timespec ts[2] = {a->atime, a->mtime};
    bool link = S_ISLNK(a->mode);
    if (!*item->path) /* the folder itself */
        s->leaf = ".";
    if (s->flags & SINK_OWNER && geteuid() == 0 &&
        fchownat(s->parent, s->leaf, a->uid, a->gid, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    set_xattrs(s, item);
    if (!link && s->flags & SINK_MODE && fchmodat(s->parent, s->leaf, a->mode & 07777, 0) != 0)
        return -1;
    if (times && s->flags & SINK_TIMES &&
        utimensat(s->parent, s->leaf, ts, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    return 0;
}

/* ---- Items ---- */

/* Is it there from an earlier run, complete? Times are set last. */
static bool is_there(struct sink_dir *s, const struct copy_item *item)
{
    struct stat st;
    if (!(s->flags & SINK_RESUME) || fstatat(s->parent, s->leaf, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    return (st.st_mode & S_IFMT) == (item->attr.mode & S_IFMT) && !S_ISDIR(st.st_mode) &&
           (uint64_t)st.st_size == item->attr.size &&
           st.st_mtim.tv_sec == item->attr.mtime.tv_sec &&
           st.st_mtim.tv_nsec == item->attr.mtime.tv_nsec;
}

static int make_folder(struct sink_dir *s, const struct copy_item *item)
{
    struct stat st;
    if (!*item->path || mkdirat(s->parent, s->leaf, 0700) == 0)
        return 0;
    if (errno != EEXIST || fstatat(s->parent, s->leaf, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    errno = EEXIST;
    return S_ISDIR(st.st_mode) ? 0 : -1;
}

static int make_file(struct sink_dir *s, const struct copy_item *item)
{
    s->file =
        openat(s->parent, s->leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->file < 0 || ftruncate(s->file, (off_t)item->attr.size) == 0)
        return s->file < 0 ? -1 : 0;
    return -1;
}

static int make_link(struct sink_dir *s, const struct copy_item *item)
{
    int to = s->parent, rc;
    const char *leaf = s->leaf;
    s->parent = -1;
    rc = enter(s, item->hard_link);
    if (rc == 0)
        rc = linkat(s->parent, s->leaf, to, leaf, 0);
    if (s->parent >= 0)
        close(s->parent);
    s->parent = to;
    s->leaf = leaf;
    return rc;
}

static int make(struct sink_dir *s, const struct copy_item *item)
{
    const struct fs_attr *a = &item->attr;
    if (S_ISDIR(a->mode))
        return make_folder(s, item);
    if (unlinkat(s->parent, s->leaf, 0) != 0 && errno != ENOENT)
        return -1;
    if (item->hard_link)
        return make_link(s, item);
    if (S_ISREG(a->mode))
        return make_file(s, item);
    if (S_ISLNK(a->mode))
        return symlinkat(item->target, s->parent, s->leaf);
    return mknodat(s->parent, s->leaf, (a->mode & S_IFMT) | 0600,
                   makedev((a->rdev >> 8) & 0xfff, (a->rdev & 0xff) | ((a->rdev >> 12) & 0xfff00)));
}

static int dir_begin(struct copy_sink *sink, const struct copy_item *item, bool *skip)
{
    struct sink_dir *s = (struct sink_dir *)sink;
    int rc = enter(s, item->path);
    if (rc)
        return rc;
    *skip = is_there(s, item);
    if (*skip) {
        leave_place(s);
        return 0;
    }
    if (make(s, item) == 0)
        return 0;
    bool device = S_ISCHR(item->attr.mode) || S_ISBLK(item->attr.mode);
    if (!device || errno != EPERM)
        return fail(s, item->path);
    rc = fail(s, item->path); /* only root makes devices */
    tool_error(s->t, rc, "%s", item->path);
    *skip = true;
    return 0;
}

static int dir_data(struct copy_sink *sink, uint64_t off, const void *data, size_t n)
{
    struct sink_dir *s = (struct sink_dir *)sink;
    for (const char *p = data; n > 0;) {
        ssize_t done = pwrite(s->file, p, n, (off_t)off);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return err_set(done ? errno : EIO, "%s: %s", s->folder, strerror(done ? errno : EIO));
        p += done;
        off += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

static int dir_lost(struct copy_sink *sink, uint64_t off, size_t n)
{
    return 0; /* a hole */
}

static int dir_end(struct copy_sink *sink, const struct copy_item *item, bool damaged)
{
    struct sink_dir *s = (struct sink_dir *)sink;
    /* A damaged file does not get its time, so that --resume tries it again. */
    if (!item->hard_link && !S_ISDIR(item->attr.mode) && set_attrs(s, item, !damaged) != 0)
        return fail(s, item->path);
    leave_place(s);
    return 0;
}

static int dir_leave(struct copy_sink *sink, const struct copy_item *item)
{
    struct sink_dir *s = (struct sink_dir *)sink;
    int rc = enter(s, item->path);
    if (rc)
        return rc;
    if (set_attrs(s, item, true) != 0)
        return fail(s, item->path);
    leave_place(s);
    return 0;
}

static void dir_free(struct copy_sink *sink)
{
    struct sink_dir *s = (struct sink_dir *)sink;
    leave_place(s);
    if (s->top >= 0)
        close(s->top);
    free(s->folder);
    free(s);
}

int sink_dir_new(struct copy_sink **out, struct tool *t, const char *folder, unsigned flags)
{
    struct sink_dir *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    *s = (struct sink_dir){.t = t, .flags = flags, .top = -1, .parent = -1, .file = -1};
    s->sink = (struct copy_sink){.begin = dir_begin,
                                 .data = dir_data,
                                 .lost = dir_lost,
                                 .end = dir_end,
                                 .leave = dir_leave,
                                 .free = dir_free};
    s->folder = strdup(folder);
    s->top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = !s->folder   ? -ENOMEM
             : s->top < 0 ? err_set(errno, "%s: %s", folder, strerror(errno))
                          : 0;
    if (rc)
        dir_free(&s->sink);
    else
        *out = &s->sink;
    return rc;
}
