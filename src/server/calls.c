#include "server/calls_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "nvlist/nvlist.h"
#include "server/names_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int fill(struct nvlist *r, struct call *c, const char *name, struct nvlist *in,
                struct nvlist *out)
{
    int rc = nvlist_add_string(r, "ioctl", name);
    if (rc == 0 && in)
        rc = nvlist_add_nvlist(r, "in_nvl", in);
    if (rc == 0 && out)
        rc = nvlist_add_nvlist(r, "out_nvl", out);
    if (rc == 0)
        rc = nvlist_add_int64(r, "elapsed_ns", (int64_t)(clock_ns() - c->started));
    return rc;
}

void call_note(struct call *c, const char *name, struct nvlist *in, struct nvlist *out)
{
    CLEANUP_NVLIST struct nvlist *input = in, *output = out, *r = nvlist_new();
    if (!r || fill(r, c, name, input, output) != 0)
        return;
    if (c->calls->n == CALLS_MAX)
        calls_write(c->s, c->calls, NULL, c->uid);
    c->calls->list[c->calls->n++] = STEAL(r);
}

struct nvlist *call_names(const char *key, const struct names *l)
{
    CLEANUP_NVLIST struct nvlist *inner = nvlist_new(), *outer = nvlist_new();
    int rc = inner && outer ? 0 : -ENOMEM;
    for (size_t i = 0; i < l->n && rc == 0; i++)
        rc = nvlist_add_boolean(inner, l->name[i]);
    if (rc == 0 && !key)
        return STEAL(inner);
    if (rc == 0)
        rc = nvlist_add_nvlist(outer, key, inner);
    return rc == 0 ? STEAL(outer) : NULL;
}

void calls_write(struct server *s, struct calls *calls, const char *command, uid_t uid)
{
    if (s->spa && (command || calls->n > 0))
        (void)spa_history_commands(s->spa, calls->list, calls->n, command, uid);
    for (size_t i = 0; i < calls->n; i++)
        nvlist_free(calls->list[i]);
    calls->n = 0;
}
