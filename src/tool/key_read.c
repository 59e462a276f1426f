/* Key material from a prompt, a pipe or a file. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "tool/key.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define FILE_PREFIX "file://"

/* Up to a newline (lines) or the end. */
static int read_all(int fd, bool lines, unsigned char *out, size_t *n)
{
    ssize_t k = 1;
    *n = 0;
    while (*n < KEY_BYTES_MAX && k != 0) {
        k = read(fd, out + *n, lines ? 1 : KEY_BYTES_MAX - *n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -errno;
        *n += (size_t)k;
        if (lines && k > 0 && out[*n - 1] == '\n')
            break;
    }
    return 0;
}

/* The reference has no more to say of what cannot be read. */
static int check(int rc, const size_t *n)
{
    return rc == 0 && *n > 0 ? 0 : err_set(EIO, "encryption failure");
}

static int from_file(const char *path, unsigned char *out, size_t *n)
{
    CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(errno, "Failed to open key material file: %s", strerror(errno));
    return check(read_all(fd, false, out, n), n);
}

/* A signal that ends us while the terminal shows nothing must not leave it so. */
static struct termios shown;
static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

static void show_again(int sig)
{
    tcsetattr(0, TCSAFLUSH, &shown);
    raise(sig); /* it is as it was before: what it did then */
}

static void on_signals(bool catch, struct sigaction before[ARRAY_LEN(ending)])
{
    const struct sigaction ours = {.sa_handler = show_again,
                                   .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    for (size_t i = 0; i < ARRAY_LEN(ending); i++) {
        sigaction(ending[i], catch ? NULL : &before[i], catch ? &before[i] : NULL);
        if (catch && before[i].sa_handler == SIG_DFL)
            sigaction(ending[i], &ours, NULL);
    }
}

static int from_terminal(FILE *to, const char *format, const char *dataset, unsigned char *out,
                         size_t *n)
{
    struct sigaction before[ARRAY_LEN(ending)];
    struct termios silent;
    tcgetattr(0, &shown);
    silent = shown;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
    fprintf(to, "Enter %s%s for '%s':", strcmp(format, "passphrase") == 0 ? "" : format,
            strcmp(format, "passphrase") == 0 ? "passphrase" : " key", dataset);
    fflush(to);
    on_signals(true, before);
    tcsetattr(0, TCSAFLUSH, &silent);
    int rc = read_all(0, strcmp(format, "raw") != 0, out, n);
    tcsetattr(0, TCSAFLUSH, &shown);
    on_signals(false, before);
    putc('\n', to);
    return check(rc, n);
}

int key_read(const struct key_source *s, const char *format, const char *dataset,
             unsigned char *out, size_t *n, bool *again)
{
    bool raw = strcmp(format, "raw") == 0;
    const char *location = s->location;
    *again = false;
    if (s->file)
        return from_file(s->file, out, n);
    if (strncmp(location, FILE_PREFIX "/", strlen(FILE_PREFIX) + 1) == 0)
        return from_file(location + strlen(FILE_PREFIX), out, n);
    if (strncmp(location, "http", 4) == 0)
        return err_set(EINVAL, "fetching a key from '%s' is not supported yet", location);
    if (strcmp(location, "prompt") != 0)
        return err_set(EINVAL, "Invalid keylocation '%s'.", location);
    if (isatty(0) && isatty(fileno(s->terminal))) {
        *again = true;
        return from_terminal(s->terminal, format, dataset, out, n);
    }
    return check(read_all(0, !raw, out, n), n);
}
