#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "codec/crypt.h"
#include "server/wire_impl.h"

#define QUEUE 32768 /* bytes that are sent together */

void wire_init(struct wire *w, int fd)
{
    *w = (struct wire){.fd = fd};
}

void wire_destroy(struct wire *w)
{
    free(w->buf);
    free(w->out);
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    w->buf = w->out = NULL;
}

static int send_all(int fd, struct iovec *v, int n)
{
    while (n > 0) {
        struct msghdr m = {.msg_iov = v, .msg_iovlen = (size_t)n};
        ssize_t k = sendmsg(fd, &m, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return -EPIPE;
        for (; n > 0 && (size_t)k >= v->iov_len; v++, n--)
            k -= (ssize_t)v->iov_len;
        if (n > 0) {
            v->iov_base = (char *)v->iov_base + k;
            v->iov_len -= (size_t)k;
        }
    }
    return 0;
}

static int flush(struct wire *w)
{
    struct iovec v = {w->out, w->queued};
    int rc = w->queued ? send_all(w->fd, &v, 1) : 0;
    crypt_wipe(w->out, w->queued); /* there may have been a key in it */
    w->queued = 0;
    return rc;
}

static int append(struct wire *w, const char *text, size_t n)
{
    if (w->out_cap - w->queued < n + 1) {
        size_t cap = w->queued + n + 1 > QUEUE ? w->queued + n + 1 : QUEUE;
        char *more = realloc(w->out, cap);
        if (!more)
            return -ENOMEM;
        w->out = more;
        w->out_cap = cap;
    }
    memcpy(w->out + w->queued, text, n);
    w->queued += n + 1;
    w->out[w->queued - 1] = '\n';
    return 0;
}

int wire_queue(struct wire *w, struct json_object *obj)
{
    size_t n;
    const char *text = json_object_to_json_string_length(
        obj, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &n);
    int rc = text ? 0 : -ENOMEM;
    if (rc == 0 && w->queued > 0 && w->queued + n + 1 > QUEUE)
        rc = flush(w);
    if (rc == 0)
        rc = append(w, text, n);
    json_object_put(obj);
    return rc;
}

int wire_send(struct wire *w, struct json_object *obj)
{
    int rc = wire_queue(w, obj);
    return rc ? rc : flush(w);
}

/* Makes sure the buffer holds a whole line; *len is its length without the newline. */
static int fill_line(struct wire *w, size_t *len)
{
    size_t seen = 0;
    for (;;) {
        char *nl = w->have > seen ? memchr(w->buf + seen, '\n', w->have - seen) : NULL;
        if (nl) {
            *len = (size_t)(nl - w->buf);
            return 0;
        }
        seen = w->have;
        if (w->have == w->cap) {
            size_t cap = w->cap ? 2 * w->cap : 4096;
            char *more = cap > WIRE_LINE_MAX ? NULL : realloc(w->buf, cap);
            if (!more)
                return cap > WIRE_LINE_MAX ? -EBADMSG : -ENOMEM;
            w->buf = more;
            w->cap = cap;
        }
        ssize_t k = recv(w->fd, w->buf + w->have, w->cap - w->have, 0);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k < 0 && errno == EAGAIN ? -ETIMEDOUT : -EPIPE;
        w->have += (size_t)k;
    }
}

int wire_receive(struct wire *w, struct json_object **out)
{
    size_t len;
    int rc = fill_line(w, &len);
    if (rc != 0)
        return rc;
    struct json_tokener *t = json_tokener_new();
    if (!t)
        return -ENOMEM;
    json_tokener_set_flags(t, JSON_TOKENER_STRICT);
    struct json_object *o = json_tokener_parse_ex(t, w->buf, (int)len + 1);
    json_tokener_free(t);
    w->have -= len + 1;
    memmove(w->buf, w->buf + len + 1, w->have);
    crypt_wipe(w->buf + w->have, len + 1); /* there may have been a key in it */
    if (!o || !json_object_is_type(o, json_type_object)) {
        json_object_put(o);
        return -EBADMSG;
    }
    *out = o;
    return 0;
}
