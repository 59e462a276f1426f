/* fusermount3: the set-user-id program that mounts and unmounts for ordinary users. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/attach_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

extern char **environ;

static const char *const programs[] = {"fusermount3", "fusermount"};

/* The environment with _FUSE_COMMFD, by which the helper finds its socket. The array is the
 * caller's, the strings are not. */
static char **env_with(char *entry)
{
    size_t n = 0, k = 0;
    char **env;

    while (environ[n])
        n++;
    env = calloc(n + 2, sizeof *env);
    if (!env)
        return NULL;
    env[k++] = entry;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], "_FUSE_COMMFD=", 13))
            env[k++] = environ[i];
    }
    return env;
}

/* Starts the helper; comm (or -1) stays open in it, its standard error goes to err. */
static int start(char *const *args, int comm, int err, pid_t *pid)
{
    posix_spawn_file_actions_t fa;
    char entry[40];
    CLEANUP_FREE char **env = NULL;
    int rc = ENOENT;

    snprintf(entry, sizeof entry, "_FUSE_COMMFD=%d", comm);
    env = env_with(entry);
    if (!env || posix_spawn_file_actions_init(&fa))
        return -ENOMEM;
    if (comm >= 0)
        posix_spawn_file_actions_adddup2(&fa, comm, comm); /* clears close-on-exec */
    posix_spawn_file_actions_adddup2(&fa, err, STDERR_FILENO);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0] && rc == ENOENT; i++)
        rc = posix_spawnp(pid, programs[i], &fa, NULL, args, env);
    posix_spawn_file_actions_destroy(&fa);
    return -rc;
}

static int receive_fd(int sock)
{
    char byte;
    struct iovec iov = {&byte, 1};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.room,
        .msg_controllen = sizeof control.room,
    };
    struct cmsghdr *c;
    ssize_t n;
    int fd;

    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return -1;
    memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* What the helper said last, without its name and the line's end. */
static void read_complaint(int fd, char *text, size_t cap)
{
    size_t n = 0;
    ssize_t got;
    char *at;

    while (n < cap - 1 && (got = read(fd, text + n, cap - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = 0;
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
        text[--n] = 0;
    at = strchr(text, ':');
    if (at && at[1] == ' ' && !strncmp(text, "fusermount", 10))
        memmove(text, at + 2, strlen(at + 2) + 1);
}

static int complaint_errno(const char *text)
{
    static const int known[] = {EBUSY, EPERM, EACCES, ENOENT, ENOTDIR, ENODEV, EINVAL};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strstr(text, strerror(known[i])))
            return known[i];
    }
    return EPERM;
}

/* Runs the helper to its end. fd may be NULL: no descriptor is expected. */
static int run(char *const *args, int *fd, char *complaint, size_t cap)
{
    int pair[2] = {-1, -1}, pipefd[2] = {-1, -1}, status = 0, rc;
    pid_t pid;

    complaint[0] = 0;
    if (pipe2(pipefd, O_CLOEXEC))
        return -errno;
    if (fd && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        rc = -errno;
        close(pipefd[0]);
        close(pipefd[1]);
        return rc;
    }
    rc = start(args, pair[0], pipefd[1], &pid);
    close(pipefd[1]);
    if (fd)
        close(pair[0]);
    if (!rc) {
        if (fd)
            *fd = receive_fd(pair[1]);
        read_complaint(pipefd[0], complaint, cap);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (fd ? *fd < 0 : !WIFEXITED(status) || WEXITSTATUS(status))
            rc = -complaint_errno(complaint);
    }
    close(pipefd[0]);
    if (fd)
        close(pair[1]);
    return rc;
}

static int explain(int rc, const char *what, const char *target, const char *complaint)
{
    if (rc == -ENOENT && !complaint[0])
        return err_set(ENOENT, "cannot %s '%s': fusermount3 is not installed (package fuse3)", what,
                       target);
    return err_set(-rc, "cannot %s '%s': %s", what, target,
                   complaint[0] ? complaint : strerror(-rc));
}

int fuse_helper_mount(const char *target, const char *opts, int *fd)
{
    const char *args[] = {"fusermount3", "-o", opts, "--", target, NULL};
    char complaint[512];
    int rc = run((char *const *)(uintptr_t)args, fd, complaint, sizeof complaint);

    return rc ? explain(rc, "mount", target, complaint) : 0;
}

int fuse_helper_unmount(const char *target, bool lazy)
{
    const char *args[] = {"fusermount3", "-u", "--", target, NULL};
    const char *lazy_args[] = {"fusermount3", "-u", "-z", "--", target, NULL};
    char complaint[512];
    int rc =
        run((char *const *)(uintptr_t)(lazy ? lazy_args : args), NULL, complaint, sizeof complaint);

    return rc ? explain(rc, "unmount", target, complaint) : 0;
}
