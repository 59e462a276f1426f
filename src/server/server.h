/*
 * The pool process: it owns one open pool, its mounts, and the control socket
 * (docs/control-protocol.md).
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "spa/spa.h"

struct server_options {
    const char *altroot; /* -R, or NULL */
    bool no_mount;       /* -N */
    bool foreground;     /* do not fork: tests and service managers */
    const char *command; /* for the pool's history, or NULL */
};

/* Start a process for a new or an imported pool and return when it is serving, or with its error
 * (negative errno, sentence by err_text). *warning (may be NULL) is malloc'ed text that is not an
 * error, such as mounts that failed, or NULL. */
int server_create(const struct spa_create_args *args, const struct server_options *opts,
                  char **warning);
int server_import(const struct spa_open_args *args, const struct server_options *opts,
                  char **warning);

#endif
