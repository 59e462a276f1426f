/* memfs_mount [-o options] DIR: mounts a file system in memory until SIGINT, SIGTERM or umount(8).
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuse/fuse.h"
#include "memfs.h"
#include "util/err.h"

static void gone(void *arg, struct fuse_mount *m)
{
    kill(getpid(), SIGTERM);
}

static int usage(void)
{
    fprintf(stderr, "usage: memfs_mount [-o ro,device,acl,noacl,strictatime,noatime,counts] DIR\n");
    return 2;
}

static void print_counts(struct fuse_mount *m)
{
    for (unsigned op = 0; op < 64; op++) {
        uint64_t n = fuse_mount_request_count(m, op);

        if (n)
            printf("opcode %u: %llu\n", op, (unsigned long long)n);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct fs_options fo = {
        .atime = true, .relatime = true, .xattr = FS_XATTR_SA, .acltype = FS_ACL_POSIX};
    struct fuse_server_options so = {0};
    const char *opts = argc == 4 && !strcmp(argv[1], "-o") ? argv[2] : "";
    const char *dir = argc == 4 ? argv[3] : argc == 2 ? argv[1] : NULL;
    struct fuse_mount_options mo = {.source = "mem/test", .gone = gone};
    struct fuse_server *server;
    struct fuse_mount *m;
    struct fs *fs;
    char target[PATH_MAX];
    sigset_t set;
    int sig, rc;

    if (!dir)
        return usage();
    fo.readonly = mo.readonly = strstr(opts, "ro") != NULL;
    fo.acltype = strstr(opts, "noacl") ? FS_ACL_OFF : FS_ACL_POSIX;
    mo.posix_acl = fo.acltype == FS_ACL_POSIX && strstr(opts, "acl");
    fo.relatime = !strstr(opts, "strictatime");
    mo.strictatime = !fo.relatime;
    fo.atime = !strstr(opts, "noatime");
    mo.noatime = !fo.atime;
    so.transport = strstr(opts, "device") ? FUSE_TRANSPORT_DEVICE : FUSE_TRANSPORT_AUTO;
    /* A dead mount cannot be resolved, but it can be replaced. */
    if (!realpath(dir, target) && errno != ENOTCONN) {
        perror(dir);
        return 1;
    }
    mo.target = target[0] ? target : dir;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    fs = memfs_new(&fo, 0);
    rc = fs ? fuse_server_new(&server, &so) : -ENOMEM;
    if (rc || (rc = fuse_mount_new(&m, server, fs, &mo))) {
        fprintf(stderr, "memfs_mount: %s\n", err_text(rc));
        return 1;
    }
    printf("mounted on %s%s\n", target, fuse_mount_uses_uring(m) ? ", over io_uring" : "");
    fflush(stdout);
    while (sigwait(&set, &sig) == 0 && sig == SIGUSR1)
        print_counts(m);
    rc = fuse_mount_unmount(m, true);
    if (rc)
        fprintf(stderr, "memfs_mount: %s\n", err_text(rc));
    if (strstr(opts, "counts"))
        print_counts(m);
    fuse_mount_free(m);
    fuse_server_free(server);
    fs_close(fs);
    return rc ? 1 : 0;
}
