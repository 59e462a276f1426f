/* Where sockets are: docs/control-protocol.md. */
#ifndef SERVER_RUNDIR_IMPL_H
#define SERVER_RUNDIR_IMPL_H

#include <stddef.h>

#define RUNDIR_MAX 1024

/* The caller's own folder; made if create is set. */
int rundir_own(char out[RUNDIR_MAX], int create);
/* Folders to look in, own first; those that others could have put there are left out. */
size_t rundir_search(char out[2][RUNDIR_MAX]);
/* DIR/POOL.suffix; -ENAMETOOLONG. */
int rundir_path(const char *dir, const char *pool, const char *suffix, char *out, size_t cap);

/* Sockets by path, however long it is. connect: a connected socket, or a negative errno;
 * -ECONNREFUSED: nobody listens there any more. */
int rundir_connect(const char *path);
int rundir_bind(int fd, const char *dir, const char *path);

#endif
