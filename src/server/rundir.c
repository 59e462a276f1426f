/*
 * The folders with the control sockets. The address of a socket has room for 107 bytes only; a
 * longer path is reached through /proc/self/fd: connect(2) follows it to a socket opened with
 * O_PATH, bind(2) into an open folder, from where the new socket is renamed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/rundir_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

#define SYSTEM_DIR "/run/tarn"

static void own_name(char out[RUNDIR_MAX])
{
    const char *set = getenv("TARN_RUN_DIR"), *runtime = getenv("XDG_RUNTIME_DIR");
    if (set && *set)
        snprintf(out, RUNDIR_MAX, "%s", set);
    else if (geteuid() == 0)
        snprintf(out, RUNDIR_MAX, "%s", SYSTEM_DIR);
    else if (runtime && *runtime)
        snprintf(out, RUNDIR_MAX, "%s/tarn", runtime);
    else
        snprintf(out, RUNDIR_MAX, "/tmp/tarn-%u", (unsigned)geteuid());
}

/* Below /tmp somebody else may have put a folder or a link of that name. */
static bool is_trusted(const char *dir)
{
    struct stat st;
    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
           (st.st_uid == geteuid() || st.st_uid == 0);
}

int rundir_own(char out[RUNDIR_MAX], int create)
{
    own_name(out);
    if (!create)
        return 0;
    if (mkdir(out, geteuid() == 0 ? 0755 : 0700) != 0 && errno != EEXIST)
        return err_set(errno, "cannot create %s: %s", out, strerror(errno));
    if (!is_trusted(out) && geteuid() != 0)
        return err_set(EPERM, "%s is not a folder of ours", out);
    return 0;
}

size_t rundir_search(char out[2][RUNDIR_MAX])
{
    const char *set = getenv("TARN_RUN_DIR");
    size_t n = 0;
    own_name(out[0]);
    if ((set && *set) || strcmp(out[0], SYSTEM_DIR) == 0)
        return 1;
    n += is_trusted(out[0]);
    snprintf(out[n], RUNDIR_MAX, "%s", SYSTEM_DIR);
    return n + 1;
}

int rundir_path(const char *dir, const char *pool, const char *suffix, char *out, size_t cap)
{
    int n = snprintf(out, cap, "%s/%s.%s", dir, pool, suffix);
    if (n < 0 || (size_t)n >= cap)
        return err_set(ENAMETOOLONG, "the path of %s's control socket is too long", pool);
    return 0;
}

static int set_address(struct sockaddr_un *sa, const char *path)
{
    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof sa->sun_path)
        return -ENAMETOOLONG;
    strcpy(sa->sun_path, path);
    return 0;
}

int rundir_connect(const char *path)
{
    CLEANUP_CLOSE int node = -1;
    struct sockaddr_un sa;
    char link[64];
    if (set_address(&sa, path) != 0) {
        node = open(path, O_PATH | O_CLOEXEC);
        if (node < 0)
            return -errno;
        snprintf(link, sizeof link, "/proc/self/fd/%d", node);
        set_address(&sa, link);
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0)
        return fd;
    int rc = -errno;
    close(fd);
    return rc;
}

/* Under a short name first, so that the one others look for appears when it can be connected to. */
int rundir_bind(int fd, const char *dir, const char *path)
{
    CLEANUP_CLOSE int folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct sockaddr_un sa;
    char name[32], address[100];
    snprintf(name, sizeof name, ".new-%d", (int)getpid());
    snprintf(address, sizeof address, "/proc/self/fd/%d/%s", folder, name);
    if (folder < 0 || set_address(&sa, address) != 0)
        return err_set(errno, "cannot open %s: %s", dir, strerror(errno));
    unlinkat(folder, name, 0);
    if (bind(fd, (struct sockaddr *)&sa, sizeof sa) != 0)
        return err_set(errno, "cannot make the control socket %s: %s", path, strerror(errno));
    fchmodat(folder, name, 0666, 0); /* who may do what is decided by the peer's user id */
    if (renameat(folder, name, AT_FDCWD, path) == 0)
        return 0;
    int rc = err_set(errno, "cannot make the control socket %s: %s", path, strerror(errno));
    unlinkat(folder, name, 0);
    return rc;
}
