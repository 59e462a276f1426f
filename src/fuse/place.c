/*
 * The way to a mount point. Root mounts at places whose parents may belong to somebody else: a
 * symbolic link of his would lead the mount to wherever he likes. So each component is opened by
 * itself, and only links that root (or who runs the process) owns are followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuse/fuse.h"
#include "util/cleanup.h"
#include "util/err.h"

#define LINKS_MAX 40 /* as the kernel has it */

struct walk {
    const char *path;       /* as it was asked for */
    int at;                 /* O_PATH descriptor of where we are */
    char rest[2 * PATH_MAX]; /* what is still to go */
    unsigned links;
    bool make, made;
};

static void walk_close(struct walk *w)
{
    if (w->at >= 0)
        close(w->at);
}

static void step_to(struct walk *w, int fd)
{
    walk_close(w);
    w->at = fd;
}

/* Cuts the next component off; false at the end. */
static bool next_name(struct walk *w, char name[NAME_MAX + 1])
{
    size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");

    if (n == 0 || n > NAME_MAX)
        return false;
    memcpy(name, w->rest + skip, n);
    name[n] = 0;
    memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
    return true;
}

static int from_the_top(struct walk *w)
{
    int fd = open("/", O_PATH | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    step_to(w, fd);
    return 0;
}

/* What a link says goes in front of the rest. */
static int put_link(struct walk *w, const char *to)
{
    CLEANUP_FREE char *rest = strdup(w->rest);

    if (!rest)
        return -ENOMEM;
    if ((size_t)snprintf(w->rest, sizeof w->rest, "%s/%s", to, rest) >= sizeof w->rest)
        return -ENAMETOOLONG;
    return *to == '/' ? from_the_top(w) : 0;
}

/* The link is opened first, so that what is asked and what is read are one and the same. */
static int follow(struct walk *w, const char *name)
{
    int fd CLEANUP_CLOSE = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char to[PATH_MAX];
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return -errno;
    n = readlinkat(fd, "", to, sizeof to - 1);
    if (n < 0) { /* no link: only they can be read so, and a dead mount answers nothing else */
        step_to(w, fd);
        fd = -1;
        return 0;
    }
    to[n] = 0;
    if (fstat(fd, &st))
        return -errno;
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return err_set(ELOOP, "cannot mount '%s': '%s' in it is a symbolic link of another user",
                       w->path, name);
    if (++w->links > LINKS_MAX)
        return err_set(ELOOP, "cannot mount '%s': too many symbolic links", w->path);
    return put_link(w, to);
}

static int one(struct walk *w, const char *name)
{
    int rc;

    w->made = w->make && mkdirat(w->at, name, 0755) == 0;
    rc = w->make && !w->made && errno != EEXIST ? -errno : 0;
    /* What is there already need not be ours to change. */
    if (rc && faccessat(w->at, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        rc = 0;
    return rc ? rc : follow(w, name);
}

int fuse_place_open(const char *path, bool make, bool *made, int *fd)
{
    struct walk w CLEANUP(walk_close) = {.path = path, .at = -1, .make = make};
    char name[NAME_MAX + 1];
    int rc;

    if (*path != '/' || strlen(path) >= sizeof w.rest)
        return err_set(EINVAL, "'%s' is no place for a mount", path);
    snprintf(w.rest, sizeof w.rest, "%s", path);
    rc = from_the_top(&w);
    while (rc == 0 && next_name(&w, name))
        rc = one(&w, name);
    if (rc == 0 && w.rest[strspn(w.rest, "/")])
        rc = -ENAMETOOLONG;
    if (rc)
        return rc;
    if (made)
        *made = w.made;
    *fd = w.at;
    w.at = -1;
    return 0;
}
