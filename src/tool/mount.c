/* tarn mount --read-only: a dataset of an image as a mount of this user. The process that serves it
 * ends with the mount (umount, fusermount3 -u), or when it is told to (SIGTERM, Ctrl-C). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/props.h"
#include "fuse/fuse.h"
#include "tool/tool_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

static void signal_set(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(set, signals[i]);
}

static void gone(void *arg, struct fuse_mount *m)
{
    *(volatile sig_atomic_t *)arg = 1;
    kill(getpid(), SIGUSR1);
}

/* Until the mount has gone, by itself or because a signal says so. */
static void wait_for_end(struct tool *t, struct fuse_mount *m, volatile sig_atomic_t *went)
{
    sigset_t set;
    signal_set(&set);
    while (!*went) {
        int sig;
        sigwait(&set, &sig);
        if (sig == SIGUSR1)
            continue;
        int rc = fuse_mount_unmount(m, false);
        if (rc == 0)
            return;
        tool_error(t, rc, "%s", fuse_mount_target(m));
    }
}

/* Tells the waiting parent (fd >= 0) that all is well, and lets go of its terminal. */
static void settle(int fd)
{
    if (fd < 0)
        return;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3 && null >= 0; i++)
        dup2(null, i);
    if (write(fd, "", 1) != 1)
        _exit(1);
    close(fd);
}

static int serve(struct tool *t, struct target *x, const char *folder, int fd)
{
    volatile sig_atomic_t went = 0;
    struct fuse_server *server;
    struct fuse_mount *m;
    struct fs *fs;
    struct fuse_mount_options o = {.source = x->dataset,
                                   .target = folder,
                                   .readonly = true,
                                   .nosuid = true,
                                   .nodev = true,
                                   .noatime = true,
                                   .only_owner = geteuid() != 0,
                                   .gone = gone,
                                   .arg = (void *)&went};
    int rc = tool_fs_open(t, x->ds, &fs);
    if (rc)
        return rc;
    /* The kernel lets nobody in who is not the owner if it asks for lists and is told there are none. */
    o.posix_acl = prop_get_number(x->ds, "acltype") == FS_ACL_POSIX;
    rc = fuse_server_new(&server, NULL);
    if (rc == 0) {
        rc = fuse_mount_new(&m, server, fs, &o);
        if (rc == 0) {
            settle(fd);
            wait_for_end(t, m, &went);
            fuse_mount_free(m);
        }
        fuse_server_free(server);
    }
    fs_close(fs);
    return rc;
}

static int run(struct tool *t, const char *text, const char *folder, int fd)
{
    struct target x;
    sigset_t set;
    CLEANUP_FREE char *absolute = realpath(folder, NULL);
    signal_set(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (!absolute)
        return tool_error(t, err_set(errno, "%s", strerror(errno)), "%s", folder);
    if (target_open(t, text, TARGET_DATASET, &x) != 0)
        return 1;
    err_clear();
    int rc = serve(t, &x, absolute, fd);
    if (rc)
        tool_error(t, rc, "%s", folder);
    target_close(&x);
    return t->status;
}

/* Serves in a child (threads do not survive a fork, so nothing is open yet) and waits until it is
 * up. */
static int run_behind(struct tool *t, const char *text, const char *folder)
{
    int ends[2], status = 0;
    char byte;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return tool_error(t, -errno, "%s", folder);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return tool_error(t, -errno, "%s", folder);
    if (pid == 0) {
        close(ends[0]);
        setsid();
        int rc = run(t, text, folder, ends[1]);
        tool_close(t);
        if (t->json)
            tool_finish(t); /* of what kept it from starting; later, nobody reads it */
        fflush(NULL);
        _exit(rc);
    }
    close(ends[1]);
    bool up = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    if (up)
        return 0;
    waitpid(pid, &status, 0); /* it has said why, and ended the document */
    t->json = false;
    return t->status = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1;
}

int tool_mount(struct tool *t, int argc, char **argv)
{
    static const struct option longs[] = {
        {"read-only", no_argument, NULL, 'r'}, {"foreground", no_argument, NULL, 'f'}, {0}};
    bool readonly = false, foreground = false;
    int opt;
    while ((opt = tool_getopt(t, argc, argv, "rfo:", longs)) != -1) {
        if (opt == '?')
            return 2;
        if (opt == 'o' && strcmp(optarg, "ro") != 0)
            return tool_usage(t, "the only option for -o is ro");
        readonly |= opt == 'r' || opt == 'o';
        foreground |= opt == 'f';
    }
    if (!readonly)
        return tool_usage(t, "--read-only is missing: to write to a pool, import it");
    if (argc - optind != 2)
        return tool_usage(t, "a dataset and a folder are wanted");
    return foreground ? run(t, argv[optind], argv[optind + 1], -1)
                      : run_behind(t, argv[optind], argv[optind + 1]);
}
