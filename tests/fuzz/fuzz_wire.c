/* What comes over the control socket, against a server whose pool has just gone: lines are read,
 * parsed and dispatched, and each is answered. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "server/server_impl.h"

#define INPUT_MAX 65536 /* more than a socket holds would need a second thread */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct server s;
    static bool ready;
    int fd[2], room = 4 << 20;

    if (!ready) {
        server_init_locks(&s);
        s.listener = s.log = -1;
        if (pipe(s.wake) != 0)
            abort();
        ready = true;
    }
    if (n > INPUT_MAX || socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0)
        return 0;
    setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (send(fd[0], data, n, MSG_DONTWAIT) != (ssize_t)n) {
        close(fd[0]);
        close(fd[1]);
        return 0;
    }
    shutdown(fd[0], SHUT_WR);
    server_serve(&s, fd[1], geteuid(), getegid());
    close(fd[0]);
    return 0;
}
