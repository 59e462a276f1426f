/* Key material as users give it, for the commands that load keys. */
#ifndef TOOL_KEY_H
#define TOOL_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define KEY_BYTES_MAX 4096

struct key_source {
    const char *location; /* "prompt" or "file:///path", as a keylocation */
    const char *file;     /* instead of it: a path */
    FILE *terminal; /* where a prompt is shown, if it is a terminal and standard input too; else
                       the key is read from standard input without one */
};
/*
 * Reads key material into out, which has room for KEY_BYTES_MAX bytes. format: "raw", "hex" or
 * "passphrase"; dataset: for the prompt. *again: asking once more makes sense if it was wrong.
 * -EIO, -EINVAL and what open(2) gives, with a sentence.
 */
int key_read(const struct key_source *s, const char *format, const char *dataset,
             unsigned char *out, size_t *n, bool *again);

#endif
