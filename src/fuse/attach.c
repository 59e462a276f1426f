/* Entering the mount table and leaving it: mount(2), umount2(2), fusermount3. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "fuse/attach_impl.h"
#include "fuse/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

#define READ_AHEAD_KB "256" /* the kernel's own is 128; more than this was slower */

static unsigned long mount_flags(const struct fuse_mount_options *o)
{
    unsigned long f = 0;

    f |= o->readonly ? MS_RDONLY : 0;
    f |= o->nosuid ? MS_NOSUID : 0;
    f |= o->nodev ? MS_NODEV : 0;
    f |= o->noexec ? MS_NOEXEC : 0;
    f |= o->noatime ? MS_NOATIME : o->strictatime ? MS_STRICTATIME : MS_RELATIME;
    return f;
}

static unsigned max_read(const struct fuse_mount_options *o)
{
    return o->max_read && o->max_read < FUSE_PAYLOAD_MAX ? o->max_read : FUSE_PAYLOAD_MAX;
}

static int cannot_mount(const struct fuse_mount_options *o, int error)
{
    return err_set(error, "cannot mount '%s' on '%s': %s", o->source, o->target, strerror(error));
}

/* place: an open descriptor of the mount point. */
static int attach_directly(struct fuse_attach *a, int place)
{
    const struct fuse_mount_options *o = a->opts;
    int fd CLEANUP_CLOSE = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    char data[200], target[40];

    if (fd < 0)
        return err_set(errno, "cannot open /dev/fuse: %m");
    snprintf(data, sizeof data,
             "fd=%d,rootmode=40000,user_id=%u,group_id=%u,default_permissions%s,max_read=%u", fd,
             geteuid(), getegid(), o->only_owner ? "" : ",allow_other", max_read(o));
    snprintf(target, sizeof target, "/proc/self/fd/%d", place);
    if (mount(o->source, target, FUSE_FS_TYPE, mount_flags(o), data))
        return cannot_mount(o, errno);
    a->fd = fd;
    fd = -1;
    return 0;
}

/* fusermount3 reads commas as separators; a backslash protects them. */
static void put_escaped(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == ',' || *s == '\\')
            fputc('\\', f);
        fputc(*s, f);
    }
}

static bool user_allow_other(void)
{
    FILE *f = fopen("/etc/fuse.conf", "re");
    char line[256];
    bool yes = false;

    if (!f)
        return false;
    while (!yes && fgets(line, sizeof line, f)) {
        line[strcspn(line, " \t\r\n#")] = 0;
        yes = !strcmp(line, "user_allow_other");
    }
    fclose(f);
    return yes;
}

static char *helper_options(const struct fuse_mount_options *o)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    fprintf(f, "%s,default_permissions,subtype=tarn,max_read=%u", o->readonly ? "ro" : "rw",
            max_read(o));
    fprintf(f, "%s%s%s%s", o->nosuid ? ",nosuid" : "", o->nodev ? ",nodev" : "",
            o->noexec ? ",noexec" : "", o->noatime ? ",noatime" : "");
    if (!o->only_owner && (geteuid() == 0 || user_allow_other()))
        fputs(",allow_other", f);
    fputs(",fsname=", f);
    put_escaped(f, o->source);
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}

static int attach_by_helper(struct fuse_attach *a)
{
    CLEANUP_FREE char *opts = helper_options(a->opts);
    int fd, rc;

    if (!opts)
        return err_set(ENOMEM, "no memory to mount %s", a->opts->source);
    rc = fuse_helper_mount(a->opts->target, opts, &fd);
    if (rc)
        return rc;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, O_NONBLOCK)) {
        rc = err_set(errno, "cannot set up the FUSE descriptor: %m");
        close(fd);
        return rc;
    }
    a->fd = fd;
    a->by_helper = true;
    return 0;
}

bool fuse_attach_is_dead(const char *target)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    struct statx st;

    for (int i = 0; i < 100; i++) {
        if (statx(AT_FDCWD, target, AT_STATX_FORCE_SYNC, STATX_INO, &st) == 0)
            return false;
        if (errno != ECANCELED) /* it is just going down */
            break;
        nanosleep(&pause, NULL);
    }
    return errno == ENOTCONN || errno == ECONNABORTED || errno == ECANCELED;
}

/* A pool process that was killed leaves a mount that answers ENOTCONN to everything. */
static void remove_dead(const char *target)
{
    char type[64];

    if (fuse_mountinfo_type(target, type, sizeof type) || strcmp(type, FUSE_FS_TYPE) ||
        !fuse_attach_is_dead(target))
        return;
    if (fuse_detach(target, false, true))
        fuse_detach(target, true, true);
}

int fuse_attach(struct fuse_attach *a)
{
    const struct fuse_mount_options *o = a->opts;
    int place CLEANUP_CLOSE = -1, rc;
    struct stat st;

    remove_dead(o->target);
    rc = fuse_place_open(o->target, false, NULL, &place);
    if (rc == 0 && fstat(place, &st))
        rc = -errno;
    if (rc)
        return rc == -ELOOP || rc == -EINVAL ? rc : cannot_mount(o, -rc);
    if (!S_ISDIR(st.st_mode))
        return err_set(ENOTDIR, "cannot mount '%s' on '%s': not a directory", o->source, o->target);
    a->by_helper = false;
    if (geteuid() != 0)
        return attach_by_helper(a);
    rc = attach_directly(a, place);
    /* Root of a container may lack the right that the helper has. */
    if (rc == -EPERM && attach_by_helper(a) == 0)
        return 0;
    return rc;
}

int fuse_attach_change(const char *target, const struct fuse_mount_options *o)
{
    if (mount("none", target, NULL, MS_REMOUNT | mount_flags(o), NULL))
        return err_set(errno, "cannot change the mount options of '%s': %m", target);
    return 0;
}

int fuse_detach(const char *target, bool by_helper, bool lazy)
{
    int rc;

    if (by_helper)
        return fuse_helper_unmount(target, lazy);
    if (umount2(target, UMOUNT_NOFOLLOW | (lazy ? MNT_FORCE | MNT_DETACH : 0)) == 0)
        return 0;
    rc = -errno;
    if (rc == -EINVAL || rc == -ENOENT)
        return 0; /* no mount any more: its directory was taken away, as by a rollback above it */
    if (rc == -EBUSY)
        return err_set(EBUSY, "cannot unmount '%s': pool or dataset is busy", target);
    return err_set(-rc, "cannot unmount '%s': %s", target, strerror(-rc));
}

static bool write_file(const char *path, const char *text)
{
    int fd CLEANUP_CLOSE = open(path, O_WRONLY | O_CLOEXEC);

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

bool fuse_attach_abort(dev_t dev)
{
    char path[80];

    snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort", minor(dev));
    return write_file(path, "1");
}

void fuse_attach_tune(dev_t dev)
{
    char path[80];

    snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(dev), minor(dev));
    write_file(path, READ_AHEAD_KB);
}

int fuse_attach_refresh(const char *target)
{
    struct statvfs st;
    unsigned long f = 0;

    if (statvfs(target, &st))
        return -errno;
    f |= st.f_flag & ST_RDONLY ? MS_RDONLY : 0;
    f |= st.f_flag & ST_NOSUID ? MS_NOSUID : 0;
    f |= st.f_flag & ST_NODEV ? MS_NODEV : 0;
    f |= st.f_flag & ST_NOEXEC ? MS_NOEXEC : 0;
    f |= st.f_flag & ST_NOATIME    ? MS_NOATIME
         : st.f_flag & ST_RELATIME ? MS_RELATIME
                                   : MS_STRICTATIME;
    return mount("none", target, NULL, MS_REMOUNT | f, NULL) ? -errno : 0;
}
