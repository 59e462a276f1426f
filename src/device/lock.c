/*
 * Files are locked with open-file-description locks: they belong to the open file and not to the
 * process, so that two opens in one process conflict as well and closing another descriptor of the
 * file does not drop the lock. The kernel tells no owner for them (F_OFD_GETLK and /proc/locks say
 * process -1); but /proc/PID/fdinfo/FD shows the locks of each open file.
 *
 * Block devices are opened with O_EXCL, which mounted file systems, device mapper, md and the
 * kernel's pools use too; the lock on the device node is taken as well, because there is no shared
 * form of O_EXCL.
 */
#include "device/lock_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device/device.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"

int lock_take(int fd, const char *path, bool exclusive)
{
    struct flock lock = {.l_type = exclusive ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET};
    struct stat st;
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    int e = errno;
    if (e == EAGAIN || e == EACCES)
        return fstat(fd, &st) == 0 ? lock_busy(path, &st) : -EBUSY;
    log_warn("%s: cannot be locked (%s); do not open it twice", path, strerror(e));
    return 0;
}

static void close_dir(DIR **d)
{
    if (*d)
        closedir(*d);
}

static void close_file(FILE **f)
{
    if (*f)
        fclose(*f);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    if (S_ISBLK(a->st_mode))
        return S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev;
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* What /proc/PID/fdinfo/FD says: the inode number, and whether there is a lock. */
struct fdinfo {
    unsigned long long ino; /* 0: not told (before Linux 5.14) */
    bool lock;
};

static struct fdinfo read_fdinfo(int proc, const char *fd)
{
    char name[300], line[256];
    struct fdinfo out = {0};
    snprintf(name, sizeof name, "fdinfo/%s", fd);
    int f = openat(proc, name, O_RDONLY | O_CLOEXEC);
    FILE *in CLEANUP(close_file) = f >= 0 ? fdopen(f, "r") : NULL;
    while (in && fgets(line, sizeof line, in)) {
        sscanf(line, "ino: %llu", &out.ino);
        out.lock |= strncmp(line, "lock:", 5) == 0;
    }
    return out;
}

/* Can this be the file? Asked before it is looked at through the descriptor, because that waits for
 * the file system it is on, which can be one of ours whose process has died. */
static bool may_be(const struct stat *st, int fds, const char *fd, const struct fdinfo *info)
{
    char target[256];
    if (!S_ISBLK(st->st_mode))
        return info->ino == 0 || info->ino == st->st_ino;
    ssize_t n = readlinkat(fds, fd, target, sizeof target - 1);
    return n > 5 && strncmp(target, "/dev/", 5) == 0;
}

/* How process pid uses the file: 0 not at all, 1 it is open, 2 it is locked. */
static int usage(int proc, const struct stat *st)
{
    int best = 0;
    int fds = openat(proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d CLEANUP(close_dir) = fds >= 0 ? fdopendir(fds) : NULL;
    struct dirent *e;
    while (d && best < 2 && (e = readdir(d))) {
        struct stat other;
        if (e->d_name[0] == '.')
            continue;
        struct fdinfo info = read_fdinfo(proc, e->d_name);
        if (!may_be(st, fds, e->d_name, &info) || fstatat(fds, e->d_name, &other, 0) ||
            !same_file(st, &other))
            continue;
        best = info.lock ? 2 : 1;
    }
    return best;
}

static void read_command(int proc, char *out, size_t n)
{
    int f CLEANUP_CLOSE = openat(proc, "comm", O_RDONLY | O_CLOEXEC);
    ssize_t got = f >= 0 ? read(f, out, n - 1) : 0;
    out[got > 0 ? got : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

bool lock_holder(const struct stat *st, char *who, size_t n)
{
    int best = 0;
    DIR *d CLEANUP(close_dir) = opendir("/proc");
    struct dirent *e;
    while (d && best < 2 && (e = readdir(d))) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        int proc CLEANUP_CLOSE = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bool self = strtol(e->d_name, NULL, 10) == getpid();
        int use = proc >= 0 ? usage(proc, st) : 0;
        if (self && use < 2) /* our own descriptor is open because we have just tried */
            continue;
        if (use > best) {
            char command[64];
            read_command(proc, command, sizeof command);
            best = use;
            if (self)
                snprintf(who, n, "this process");
            else
                snprintf(who, n, "process %s (%s)", e->d_name, command);
        }
    }
    return best > 0;
}

/* A lock of another that conflicts with one of this type? */
static bool conflicts(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

enum device_held device_holder(const char *path, char *who, size_t cap)
{
    struct stat st;
    *who = '\0';
    if (stat(path, &st) || !(S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)))
        return DEVICE_FREE;
    int fd CLEANUP_CLOSE = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || !conflicts(fd, F_WRLCK))
        return DEVICE_FREE;
    bool write = conflicts(fd, F_RDLCK);
    if (!lock_holder(&st, who, cap))
        *who = '\0';
    return write ? DEVICE_HELD_WRITE : DEVICE_HELD_READ;
}

/* Where the device, or a partition of it, is mounted. */
static bool find_mount(const struct stat *st, char *where, size_t n)
{
    FILE *in CLEANUP(close_file) = fopen("/proc/self/mountinfo", "re");
    char *line CLEANUP_FREE = NULL;
    size_t size = 0;
    while (in && getline(&line, &size, in) > 0) {
        unsigned major_, minor_;
        char point[256], source[256];
        struct stat dev;
        if (sscanf(line, "%*d %*d %u:%u %*s %255s", &major_, &minor_, point) != 3)
            continue;
        bool same = makedev(major_, minor_) == st->st_rdev;
        const char *rest = strstr(line, " - ");
        if (!same && rest && sscanf(rest, " - %*s %255s", source) == 1 && source[0] == '/')
            same = stat(source, &dev) == 0 && S_ISBLK(dev.st_mode) && dev.st_rdev == st->st_rdev;
        if (same) {
            snprintf(where, n, "%s", point);
            return true;
        }
    }
    return false;
}

/* A device that is made of this one (device mapper, md). */
static bool find_user(const struct stat *st, char *name, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/holders", major(st->st_rdev),
             minor(st->st_rdev));
    DIR *d CLEANUP(close_dir) = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, n, "%s", e->d_name);
        return true;
    }
    return false;
}

bool lock_is_explained(const struct stat *st)
{
    char who[300];
    if (S_ISBLK(st->st_mode) && (find_mount(st, who, sizeof who) || find_user(st, who, sizeof who)))
        return true;
    return lock_holder(st, who, sizeof who);
}

int lock_busy(const char *path, const struct stat *st)
{
    char who[300];
    if (S_ISBLK(st->st_mode)) {
        if (find_mount(st, who, sizeof who))
            return err_set(EBUSY, "%s is mounted on %s", path, who);
        if (find_user(st, who, sizeof who))
            return err_set(EBUSY, "%s is in use by the device %s", path, who);
    }
    if (lock_holder(st, who, sizeof who))
        return err_set(EBUSY, "%s is in use by %s", path, who);
    return err_set(EBUSY, "%s is in use%s", path,
                   geteuid() ? " by another process, perhaps of another user"
                             : " by another process or by the kernel");
}
