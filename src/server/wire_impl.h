/* One JSON object per line over a socket. */
#ifndef SERVER_WIRE_IMPL_H
#define SERVER_WIRE_IMPL_H

#include <stddef.h>

#include "server/json.h"

struct json_object;

#define WIRE_LINE_MAX (4u << 20)

struct wire {
    int fd;
    char *buf;
    size_t have, cap;
};

void wire_init(struct wire *w, int fd);
void wire_destroy(struct wire *w); /* closes the descriptor */
/* Sends obj and puts it. 0 or -EPIPE. */
int wire_send(struct wire *w, struct json_object *obj);
/* The next object; -EPIPE at the end, -EBADMSG if a line is no JSON object or too long. */
int wire_receive(struct wire *w, struct json_object **out);

#endif
