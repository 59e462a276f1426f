/* zfs project: the project of files and directories, and whether new files inherit it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/zfs_impl.h"
#include "util/cleanup.h"

#define FAILED 255 /* the status, as the reference has it */

enum mode { LIST, SET, CHECK, CLEAR };

struct project {
    enum mode mode;
    bool own_only, recursive, inherit, keep_id, zero, has_id;
    uint32_t id;
    int top;     /* the directory whose contents are looked at */
    size_t skip; /* the length of its path, with the slash */
};

/* ---- One file ---- */

/* What the command was given, links and all; what is below it (rel), through no link, however its
 * owner changes the tree meanwhile. */
static int open_below(int top, const char *path, const char *rel, int flags)
{
    flags |= O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    struct open_how how = {.flags = (uint64_t)flags,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    if (!rel)
        return open(path, flags);
    int fd = (int)syscall(SYS_openat2, top, rel, &how, sizeof how);
    return fd < 0 && errno == ENOSYS ? openat(top, rel, flags | O_NOFOLLOW) : fd;
}

static int open_file(int top, const char *path, const char *rel, struct fsxattr *x)
{
    struct stat st;
    if (!rel && stat(path, &st) != 0) {
        fprintf(stderr, "failed to stat %s: %s\n", path, strerror(errno));
        return -1;
    }
    if (!rel && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        fprintf(stderr, "only support project quota on regular file or directory\n");
        return -1;
    }
    int fd = open_below(top, path, rel, 0);
    if (fd < 0) {
        fprintf(stderr, "failed to open %s: %s\n", path, strerror(errno));
        return -1;
    }
    if (ioctl(fd, FS_IOC_FSGETXATTR, x) != 0) {
        fprintf(stderr, "failed to get xattr for %s: %s\n", path, strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

static bool inherits(const struct fsxattr *x)
{
    return x->fsx_xflags & FS_XFLAG_PROJINHERIT;
}

static void check(const struct project *p, const char *path, const struct fsxattr *x)
{
    bool other = x->fsx_projid != p->id;
    if (p->zero && (other || !inherits(x)))
        printf("%s%c", path, 0);
    else if (other)
        printf("%s - project ID is not set properly (%u/%u)\n", path, x->fsx_projid, p->id);
    if (!p->zero && !inherits(x))
        printf("%s - project inherit flag is not set\n", path);
}

static int change(const struct project *p, int fd, const char *path, const struct fsxattr *x)
{
    struct fsxattr want = *x;
    if (p->mode == CLEAR) {
        want.fsx_xflags &= ~(uint32_t)FS_XFLAG_PROJINHERIT;
        want.fsx_projid = p->keep_id ? x->fsx_projid : 0;
    } else {
        want.fsx_xflags |= p->inherit ? FS_XFLAG_PROJINHERIT : 0;
        want.fsx_projid = p->has_id ? p->id : x->fsx_projid;
    }
    if (want.fsx_xflags == x->fsx_xflags && want.fsx_projid == x->fsx_projid)
        return 0;
    if (ioctl(fd, FS_IOC_FSSETXATTR, &want) == 0)
        return 0;
    fprintf(stderr, "failed to set xattr for %s: %s\n", path, strerror(errno));
    return FAILED;
}

static int do_one(const struct project *p, const char *path, const char *rel)
{
    struct fsxattr x;
    CLEANUP_CLOSE int fd = open_file(p->top, path, rel, &x);
    if (fd < 0)
        return FAILED;
    if (p->mode == LIST)
        printf("%5u %c %s\n", x.fsx_projid, inherits(&x) ? 'P' : '-', path);
    else if (p->mode == CHECK)
        check(p, path, &x);
    else
        return change(p, fd, path, &x);
    return 0;
}

/* ---- What is below, level by level ---- */

struct queue {
    char **path;
    size_t n, cap;
};

static int queue_add(struct queue *q, char *path)
{
    if (q->n == q->cap) {
        size_t cap = q->cap ? 2 * q->cap : 64;
        char **more = realloc(q->path, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        q->path = more;
        q->cap = cap;
    }
    q->path[q->n++] = path;
    return 0;
}

static mode_t type_at(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode & S_IFMT : 0;
}

/* Others than files and directories have no project. */
static int do_entry(const struct project *p, DIR *d, const char *dir, const char *name,
                    struct queue *q)
{
    CLEANUP_FREE char *path = NULL;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    if (asprintf(&path, "%s/%s", dir, name) < 0) {
        path = NULL;
        return FAILED;
    }
    mode_t type = type_at(dirfd(d), name);
    if (type != S_IFDIR && type != S_IFREG)
        return 0;
    int rc = do_one(p, path, path + p->skip);
    if (p->recursive && type == S_IFDIR) {
        if (queue_add(q, path) != 0)
            return FAILED;
        path = NULL; /* the queue's now */
    }
    return rc;
}

static int do_entries(const struct project *p, const char *dir, struct queue *q)
{
    const char *rel = strlen(dir) < p->skip ? "." : dir + p->skip;
    int fd = open_below(p->top, dir, rel, O_DIRECTORY), rc = 0;
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    if (!d) {
        if (fd >= 0)
            close(fd);
        fprintf(stderr, "failed to opendir %s: %s\n", dir, strerror(errno));
        return FAILED;
    }
    while ((e = readdir(d)))
        rc |= do_entry(p, d, dir, e->d_name, q);
    closedir(d);
    return rc;
}

static int do_tree(struct project p, const char *top)
{
    struct queue q = {0};
    int rc = do_one(&p, top, NULL);
    CLEANUP_CLOSE int fd = open_below(-1, top, NULL, O_DIRECTORY);
    if (fd < 0) {
        fprintf(stderr, "failed to opendir %s: %s\n", top, strerror(errno));
        return FAILED;
    }
    p.top = fd;
    p.skip = strlen(top) + 1;
    rc |= do_entries(&p, top, &q);
    for (size_t i = 0; i < q.n; i++) {
        rc |= do_entries(&p, q.path[i], &q);
        free(q.path[i]);
    }
    free(q.path);
    return rc;
}

/* Without an id, that of the argument itself counts for what is below it. */
static int do_argument(struct project p, const char *path)
{
    bool changes = p.mode == SET || p.mode == CLEAR;
    if (!p.has_id && (p.mode == CHECK || (p.mode == SET && p.recursive))) {
        struct fsxattr x;
        CLEANUP_CLOSE int fd = open_file(-1, path, NULL, &x);
        if (fd < 0)
            return FAILED;
        p.id = x.fsx_projid;
        p.has_id = true;
    }
    if (type_at(AT_FDCWD, path) != S_IFDIR || p.own_only || (changes && !p.recursive))
        return do_one(&p, path, NULL);
    return do_tree(p, path);
}

/* ---- The command ---- */

static int parse_id(struct project *p, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long id = strtoull(text, &end, 0);
    if (*end || end == text)
        return usage_error("project ID must be less than %u", UINT32_MAX);
    if (errno || *text == '-' || id >= UINT32_MAX)
        return usage_error("invalid project ID");
    p->id = (uint32_t)id;
    p->has_id = true;
    return 0;
}

static int set_mode(struct project *p, enum mode mode)
{
    if (p->mode != LIST && p->mode != mode)
        return usage_error("cannot specify '-C' '-c' '-s' together");
    p->mode = mode;
    return 0;
}

static int option(struct project *p, int opt)
{
    switch (opt) {
    case '0':
        p->zero = true;
        return 0;
    case 'C':
        return set_mode(p, CLEAR);
    case 'c':
        return set_mode(p, CHECK);
    case 'd':
        p->own_only = true;
        p->recursive = false;
        return 0;
    case 'k':
        p->keep_id = true;
        return 0;
    case 'p':
        return parse_id(p, optarg);
    case 'r':
        p->recursive = true;
        p->own_only = false;
        return 0;
    case 's':
        p->inherit = true;
        return set_mode(p, SET);
    default:
        return usage_option(opt);
    }
}

static int check_options(struct project *p)
{
    if (p->has_id && p->mode == LIST)
        p->mode = SET;
    if (p->has_id && p->mode == CLEAR)
        return usage_error("'-p' is useless together with '-C'");
    if (p->keep_id && p->mode != CLEAR)
        return usage_error("'-k' is only valid together with '-C'");
    if (p->zero && p->mode != CHECK)
        return usage_error("'-0' is only valid together with '-c'");
    if (p->own_only && p->mode == CLEAR)
        return usage_error("'-d' is useless together with '-C'");
    if (p->own_only && p->mode == SET)
        return usage_error("'-d' is useless for set project ID and/or inherit flag");
    return 0;
}

int zfs_project(int argc, char **argv)
{
    struct project p = {.mode = LIST};
    int opt, rc = 0;
    if (argc < 2)
        return usage_shown();
    while (rc == 0 && (opt = getopt(argc, argv, ":0Ccdkp:rs")) != -1)
        rc = option(&p, opt);
    if (rc == 0)
        rc = check_options(&p);
    if (rc == 0 && optind == argc)
        rc = usage_error("missing file or directory target(s)");
    if (rc != 0)
        return rc;
    for (int i = optind; i < argc; i++)
        rc |= do_argument(p, argv[i]);
    return rc;
}
