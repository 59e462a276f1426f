#include "util/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local int stored_err; /* positive; 0: no sentence */
static _Thread_local char stored_text[ERR_TEXT_MAX];
static _Thread_local char plain_text[128];

int err_set(int err, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX]; /* the arguments may point into stored_text */
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(stored_text, text, strlen(text) + 1);
    stored_err = err;
    return -err;
}

int err_prefix(int rc, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    size_t used;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    used = strlen(text);
    snprintf(text + used, sizeof text - used, ": %s", err_text(rc));
    memcpy(stored_text, text, strlen(text) + 1);
    stored_err = -rc;
    return rc;
}

const char *err_text(int rc)
{
    if (stored_err != 0 && stored_err == -rc)
        return stored_text;
    /* The GNU form: it returns the text, which may or may not be in the buffer. */
    return strerror_r(-rc, plain_text, sizeof plain_text);
}

void err_clear(void)
{
    stored_err = 0;
}
