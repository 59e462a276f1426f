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
    char *out; /* queued, not sent yet */
    size_t queued, out_cap;
};

void wire_init(struct wire *w, int fd);
void wire_destroy(struct wire *w); /* closes the descriptor */
/* Puts obj after noting its text down: many small messages go out together, at the latest with the
 * next one that is sent. 0, -EPIPE or -ENOMEM. */
int wire_queue(struct wire *w, struct json_object *obj);
/* Sends what is queued, and obj, and puts it. 0 or -EPIPE. */
int wire_send(struct wire *w, struct json_object *obj);
/* The next object; -EPIPE at the end, -EBADMSG if a line is no JSON object or too long. */
int wire_receive(struct wire *w, struct json_object **out);

#endif
