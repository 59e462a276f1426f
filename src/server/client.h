/* The other end of the control socket: what commands use. */
#ifndef SERVER_CLIENT_H
#define SERVER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

struct json_object;
struct client;

/* Connects to the process that serves a pool. -ENOENT: no such pool is imported (a dead socket is
 * removed). */
int client_open(struct client **out, const char *pool);
void client_close(struct client *c);

/* The longest wait for a line of an answer; without it there is no limit, because some answers take
 * their time. -ETIMEDOUT if it has passed. */
void client_limit(struct client *c, unsigned seconds);

/* One request. args is consumed (may be NULL). row (may be NULL) is called for each row, which
 * stays owned by the client; a non-zero result ends the call with it. *ok (may be NULL) gets the
 * result object, to be put by the caller. Errors: the server's, with its sentence; -EPIPE if it
 * went away. */
typedef int client_row_fn(void *arg, struct json_object *row);
int client_call(struct client *c, const char *op, struct json_object *args, client_row_fn *row,
                void *arg, struct json_object **ok);

/* Names of all pools that are served, sorted; free each and the array. */
int client_pools(char ***names, size_t *n);

#endif
