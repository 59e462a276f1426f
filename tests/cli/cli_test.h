/* Catching what the commands print. */
#ifndef TESTS_CLI_TEST_H
#define TESTS_CLI_TEST_H

#include "../support/test.h"

#include <string.h>
#include <unistd.h>

struct caught {
    FILE *file;
    int fd, saved; /* the descriptor that is redirected, and where it went before */
    char text[65536];
};

static inline void catch_begin(struct caught *c, int fd)
{
    fflush(NULL);
    c->file = tmpfile();
    assert_non_null(c->file);
    c->fd = fd;
    c->saved = dup(fd);
    dup2(fileno(c->file), fd);
}

static inline const char *catch_end(struct caught *c)
{
    fflush(NULL);
    dup2(c->saved, c->fd);
    close(c->saved);
    rewind(c->file);
    size_t n = fread(c->text, 1, sizeof c->text - 1, c->file);
    c->text[n] = 0;
    fclose(c->file);
    return c->text;
}

#endif
