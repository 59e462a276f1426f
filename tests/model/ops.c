/* Operations on names, modes, owners and attributes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "model.h"

static char one[PATH_ROOM], two[PATH_ROOM], parent[PATH_ROOM];
static struct times times;

static mode_t any_mode(void)
{
    return one_in(6) ? chance(010000) : (const mode_t[]){0644, 0755, 0700, 0666}[chance(4)];
}

/* The path itself and its parent, before and after an operation that makes or removes it. */
static void arm(const char *path)
{
    parent_of(path, parent);
    times_arm(&times, path, parent);
}

static void done(const char *path)
{
    parent_of(path, parent);
    compare_path(path);
    compare_path(parent);
    times_check(&times, true);
}

static void op_create(void)
{
    pick_new(one);
    int flags = O_CREAT | O_RDWR;
    flags |= one_in(2) ? O_EXCL : one_in(3) ? O_TRUNC : 0;
    mode_t mode = any_mode();
    say("open %s flags %x mode %o", one, flags, mode);
    arm(one);
    int fd[SIDES];
    BOTH((fd[s] = openat(side[s].root, one, flags, mode)) < 0 ? -1 : 0);
    if (ret[A] >= 0) {
        close(fd[A]);
        close(fd[B]);
    }
    done(one);
}

static void op_open_kept(void)
{
    struct pair *p = open_slot();
    pick_file(p->path);
    int how[] = {O_RDONLY, O_RDWR, O_RDWR | O_APPEND, O_WRONLY | O_APPEND, O_RDWR | O_CREAT,
                 O_WRONLY | O_TRUNC, O_RDWR | O_NOFOLLOW, O_RDWR | O_CREAT | O_SYNC};
    p->flags = how[chance(sizeof how / sizeof *how)];
    say("keep open %s flags %x", p->path, p->flags);
    struct stat st;
    if (fstatat(side[B].root, p->path, &st, 0) == 0 && !S_ISREG(st.st_mode) &&
        !S_ISDIR(st.st_mode))
        return; /* a fifo would wait, a device is a device */
    BOTH((p->fd[s] = openat(side[s].root, p->path, p->flags, 0644)) < 0 ? -1 : 0);
    p->used = ret[A] == 0;
    if (p->used && fstat(p->fd[B], &st) == 0 && S_ISDIR(st.st_mode))
        close_pair(p);
    compare_path(p->path);
}

static void op_close(void)
{
    struct pair *p = any_open();
    if (!p)
        return;
    say("close %s", p->path);
    close_pair(p);
}

static void op_tmpfile(void)
{
    pick_dir(one);
    struct pair *p = open_slot();
    say("O_TMPFILE in /%s", one);
    BOTH((p->fd[s] = openat(side[s].root, *one ? one : ".", O_TMPFILE | O_RDWR, 0640)) < 0 ? -1
                                                                                         : 0);
    if (ret[A] < 0)
        return;
    p->used = true;
    p->flags = O_RDWR;
    snprintf(p->path, PATH_ROOM, "(unnamed)");
    char data[3000];
    chance_bytes(data, sizeof data);
    BOTH(write(p->fd[s], data, sizeof data));
    compare_pair(p, 0, sizeof data);
    if (one_in(3))
        return; /* stays without a name */
    pick_new(two);
    say("linkat of it to %s", two);
    char self[SIDES][64];
    for (int s = 0; s < SIDES; s++)
        snprintf(self[s], sizeof self[s], "/proc/self/fd/%d", p->fd[s]);
    BOTH(linkat(AT_FDCWD, self[s], side[s].root, two, AT_SYMLINK_FOLLOW));
    compare_path(two);
}

static void op_mkdir(void)
{
    pick_new(one);
    mode_t mode = any_mode();
    say("mkdir %s %o", one, mode);
    arm(one);
    BOTH(mkdirat(side[s].root, one, mode));
    done(one);
}

static void op_rmdir(void)
{
    one_in(3) ? pick_any(one) : pick_dir(one);
    if (!*one)
        return;
    say("rmdir %s", one);
    arm(one);
    BOTH(unlinkat(side[s].root, one, AT_REMOVEDIR));
    done(one);
}

static void op_unlink(void)
{
    pick_any(one);
    say("unlink %s", one);
    arm(one);
    BOTH(unlinkat(side[s].root, one, 0));
    done(one);
}

static void op_link(void)
{
    pick_any(one);
    pick_new(two);
    say("link %s %s", one, two);
    arm(one);
    BOTH(linkat(side[s].root, one, side[s].root, two, 0));
    done(one);
    compare_path(two);
}

static void op_symlink(void)
{
    char target[4200];
    pick_new(one);
    if (one_in(4)) {
        size_t n = (const size_t[]){1, 17, 100, 143, 144, 145, 500, 4000}[chance(8)];
        memset(target, 'x', n);
        target[n] = 0;
    } else {
        static const char *const to[] = {"f0", "f1", "d0", "l0", "l1", "./f2", "d1/f0", "../f3"};
        snprintf(target, sizeof target, "%s", to[chance(8)]);
    }
    say("symlink %s -> %.40s", one, target);
    arm(one);
    BOTH(symlinkat(target, side[s].root, one));
    done(one);
}

static void op_mknod(void)
{
    pick_new(one);
    mode_t kind = (const mode_t[]){S_IFIFO, S_IFCHR, S_IFBLK, S_IFSOCK, S_IFREG}[chance(5)];
    dev_t dev = kind == S_IFCHR || kind == S_IFBLK
                    ? makedev(1 + chance(400), chance(one_in(2) ? 200 : 1 << 19))
                    : 0;
    mode_t mode = any_mode();
    say("mknod %s %o %lx", one, kind | mode, (long)dev);
    arm(one);
    BOTH(mknodat(side[s].root, one, kind | mode, dev));
    done(one);
}

static void op_rename(void)
{
    static const unsigned flags[] = {0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
    unsigned f = flags[chance(5)];
    pick_any(one);
    f == RENAME_EXCHANGE || one_in(2) ? pick_any(two) : pick_new(two);
    say("rename %s %s flags %u", one, two, f);
    char p2[PATH_ROOM];
    parent_of(one, parent);
    parent_of(two, p2);
    times_arm(&times, parent, p2);
    BOTH(renameat2(side[s].root, one, side[s].root, two, f));
    compare_path(one);
    compare_path(two);
    compare_path(parent);
    compare_path(p2);
    times_check(&times, false);
    if (one_in(4)) {
        compare_dir(parent);
        compare_dir(p2);
    }
}

static void op_chmod(void)
{
    pick_any(one);
    mode_t mode = any_mode();
    struct stat st;
    if (fstatat(side[B].root, one, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
        return;
    say("chmod %s %o", one, mode);
    arm(one);
    BOTH(fchmodat(side[s].root, one, mode, 0));
    done(one);
}

static void op_chown(void)
{
    static const int who[] = {-1, 0, 1000, 1001, 65534, 2000000000};
    pick_any(one);
    uid_t u = (uid_t)who[chance(6)];
    gid_t g = (gid_t)who[chance(6)];
    /* A user who changes neither may be refused, which a FUSE server cannot know (tests/posix). */
    if (geteuid() && u == (uid_t)-1 && g == (gid_t)-1)
        u = 0;
    say("chown %s %d:%d", one, (int)u, (int)g);
    arm(one);
    BOTH(fchownat(side[s].root, one, u, g, AT_SYMLINK_NOFOLLOW));
    done(one);
}

static void op_utimens(void)
{
    pick_any(one);
    struct timespec t[2] = {{(time_t)chance(1u << 31), (long)chance(1000000000)},
                            {(time_t)chance(1u << 31), (long)chance(1000000000)}};
    if (one_in(4))
        t[chance(2)].tv_nsec = UTIME_OMIT;
    if (one_in(8))
        t[1].tv_sec = -(time_t)chance(1000000000);
    say("utimens %s %lld.%09ld %lld.%09ld", one, (long long)t[0].tv_sec, t[0].tv_nsec,
        (long long)t[1].tv_sec, t[1].tv_nsec);
    BOTH(utimensat(side[s].root, one, t, AT_SYMLINK_NOFOLLOW));
    if (ret[A] < 0)
        return;
    compare_path(one);
    struct stat st[SIDES];
    BOTH(fstatat(side[s].root, one, &st[s], AT_SYMLINK_NOFOLLOW));
    if (ret[A] == 0 && t[1].tv_nsec != UTIME_OMIT &&
        (st[A].st_mtim.tv_sec != t[1].tv_sec || st[A].st_mtim.tv_nsec != t[1].tv_nsec))
        fail("mtime is %lld.%09ld", (long long)st[A].st_mtim.tv_sec, st[A].st_mtim.tv_nsec);
    if (ret[A] == 0 && t[0].tv_nsec != UTIME_OMIT && S_ISLNK(st[A].st_mode) == 0 &&
        (st[A].st_atim.tv_sec != t[0].tv_sec || st[A].st_atim.tv_nsec != t[0].tv_nsec) &&
        !S_ISREG(st[A].st_mode) && !S_ISDIR(st[A].st_mode)) /* others were read meanwhile */
        fail("atime is %lld.%09ld", (long long)st[A].st_atim.tv_sec, st[A].st_atim.tv_nsec);
}

static const char *xattr_name(char name[300])
{
    static const char *const space[] = {"user", "user", "user", "trusted"};
    if (one_in(20)) {
        memset(name, 'n', 250);
        memcpy(name, "user.", 5);
        name[250] = 0;
    } else {
        sprintf(name, "%s.k%d", space[chance(4)], (int)chance(6));
    }
    return name;
}

static void op_setxattr(void)
{
    static char value[20000];
    char name[300];
    size_t n = (const size_t[]){0, 1, 12, 100, 1000, 4000, 9000}[chance(7)];
    n += n ? chance(n) : 0;
    int flags = one_in(3) ? (one_in(2) ? XATTR_CREATE : XATTR_REPLACE) : 0;
    pick_any(one);
    xattr_name(name);
    chance_bytes(value, n);
    say("setxattr %s %s, %zu bytes, flags %d", one, name, n, flags);
    arm(one);
    /* Whether setting what is already there moves ctime, file systems don't agree upon. */
    static char old[70000];
    ssize_t have = lgetxattr(full(B, one), name, old, sizeof old);
    if (have == (ssize_t)n && !memcmp(old, value, n))
        times.armed = false;
    BOTH(lsetxattr(full(s, one), name, value, n, flags));
    done(one);
}

static void op_removexattr(void)
{
    char name[300];
    pick_any(one);
    xattr_name(name);
    say("removexattr %s %s", one, name);
    arm(one);
    BOTH(lremovexattr(full(s, one), name));
    done(one);
}

static void op_getxattr(void)
{
    static char value[SIDES][70000];
    char name[300];
    size_t room = one_in(3) ? chance(2000) : sizeof value[0];
    pick_any(one);
    xattr_name(name);
    say("getxattr %s %s into %zu bytes", one, name, room);
    BOTH(lgetxattr(full(s, one), name, value[s], room));
    if (ret[A] > 0 && room && memcmp(value[A], value[B], (size_t)ret[A]))
        fail("value differs");
}

/* POSIX ACLs in the kernel's form: version 2, then (tag, permissions, id). */
static size_t acl_entry(uint8_t *p, unsigned tag, unsigned perm, uint32_t id)
{
    p[0] = (uint8_t)tag;
    p[1] = 0;
    p[2] = (uint8_t)perm;
    p[3] = 0;
    memcpy(p + 4, &id, 4);
    return 8;
}

static void op_setacl(void)
{
    uint8_t acl[100] = {2};
    size_t n = 4;
    n += acl_entry(acl + n, 1, (unsigned)chance(8), UINT32_MAX); /* the owner */
    n += acl_entry(acl + n, 2, (unsigned)chance(8), 1000);       /* a user */
    n += acl_entry(acl + n, 4, (unsigned)chance(8), UINT32_MAX); /* the group */
    if (one_in(2))
        n += acl_entry(acl + n, 8, (unsigned)chance(8), 1001);    /* another group */
    n += acl_entry(acl + n, 16, (unsigned)chance(8), UINT32_MAX); /* the mask */
    n += acl_entry(acl + n, 32, (unsigned)chance(8), UINT32_MAX); /* all others */
    bool dflt = one_in(3), gone = one_in(4);
    pick_any(one);
    const char *name = dflt ? "system.posix_acl_default" : "system.posix_acl_access";
    struct stat st;
    if (fstatat(side[B].root, one, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
        return;
    say("%s %s on %s", gone ? "remove" : "set", name, one);
    if (gone)
        BOTH(removexattr(full(s, one), name));
    else
        BOTH(setxattr(full(s, one), name, acl, n, 0));
    compare_path(one);
}

static void op_access(void)
{
    pick_any(one);
    int how = (int)chance(8);
    say("access %s %d", one, how);
    BOTH(faccessat(side[s].root, one, how, AT_EACCESS));
}

static void op_readdir(void)
{
    pick_dir(one);
    say("list /%s", one);
    compare_dir(one);
}

static void op_readlink(void)
{
    static char text[SIDES][5000];
    size_t room = one_in(3) ? 1 + chance(30) : sizeof text[0];
    pick_any(one);
    say("readlink %s", one);
    BOTH(readlinkat(side[s].root, one, text[s], room));
    if (ret[A] > 0 && memcmp(text[A], text[B], (size_t)ret[A]))
        fail("target differs");
}

static void op_fsync_dir(void)
{
    pick_dir(one);
    say("fsync /%s", one);
    int fd[SIDES];
    BOTH((fd[s] = openat(side[s].root, *one ? one : ".", O_RDONLY | O_DIRECTORY)) < 0 ? -1 : 0);
    if (ret[A] < 0)
        return;
    BOTH(fsync(fd[s]));
    close(fd[A]);
    close(fd[B]);
}

const struct op name_ops[] = {
    {"create", 10, op_create},   {"keep open", 10, op_open_kept}, {"close", 4, op_close},
    {"tmpfile", 3, op_tmpfile},  {"mkdir", 7, op_mkdir},          {"rmdir", 3, op_rmdir},
    {"unlink", 6, op_unlink},    {"link", 4, op_link},            {"symlink", 3, op_symlink},
    {"mknod", 2, op_mknod},      {"rename", 9, op_rename},        {"chmod", 4, op_chmod},
    {"chown", 4, op_chown},      {"utimens", 4, op_utimens},      {"setxattr", 6, op_setxattr},
    {"rmxattr", 3, op_removexattr}, {"getxattr", 3, op_getxattr}, {"setacl", 3, op_setacl},
    {"access", 3, op_access},    {"readdir", 3, op_readdir},      {"readlink", 2, op_readlink},
    {"fsync dir", 1, op_fsync_dir}, {0},
};
