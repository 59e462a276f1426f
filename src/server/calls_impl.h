/*
 * Calls as the history of the pool records them: the reference's name for them and their arguments.
 * They are collected per connection and written together with the command that made them, or when
 * the connection ends.
 */
#ifndef SERVER_CALLS_IMPL_H
#define SERVER_CALLS_IMPL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct call;
struct names;
struct nvlist;
struct server;

#define CALLS_MAX 32 /* that wait for their command; the rest is written without it */

struct calls {
    struct nvlist *list[CALLS_MAX];
    size_t n;
};

/* A call that was answered; in and out (each may be NULL) are consumed. Without memory it is not
 * recorded. The pool is in use. */
void call_note(struct call *c, const char *name, struct nvlist *in, struct nvlist *out);
/* Names as a list {name}, below a key unless that is NULL. NULL: no memory. */
struct nvlist *call_names(const char *key, const struct names *l);
/* Empties the list. The pool may have gone. */
void calls_write(struct server *s, struct calls *calls, const char *command, uid_t uid);

#endif
