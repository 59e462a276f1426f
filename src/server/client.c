#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/client.h"
#include "server/rundir_impl.h"
#include "server/wire_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct client {
    struct wire wire;
};

int client_open(struct client **out, const char *pool)
{
    char dirs[2][RUNDIR_MAX], path[RUNDIR_MAX + 300];
    size_t n = rundir_search(dirs);
    int fd = -ENOENT;
    for (size_t i = 0; i < n && fd < 0; i++) {
        if (rundir_path(dirs[i], pool, "sock", path, sizeof path) != 0)
            continue;
        int k = rundir_connect(path);
        if (k == -ECONNREFUSED)
            unlink(path);
        if (k >= 0 || k == -EACCES)
            fd = k;
    }
    if (fd < 0)
        return fd == -EACCES ? err_set(EACCES, "permission denied")
                             : err_set(ENOENT, "no such pool");
    struct client *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return -ENOMEM;
    }
    wire_init(&c->wire, fd);
    *out = c;
    return 0;
}

void client_close(struct client *c)
{
    if (!c)
        return;
    wire_destroy(&c->wire);
    free(c);
}

void client_limit(struct client *c, unsigned seconds)
{
    struct timeval t = {.tv_sec = seconds};
    setsockopt(c->wire.fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

static int take_error(struct json_object *error)
{
    int err = (int)json_number(error, "errno", EIO);
    return err_set(err > 0 ? err : EIO, "%s", json_text(error, "text", strerror(EIO)));
}

int client_call(struct client *c, const char *op, struct json_object *args, client_row_fn *row,
                void *arg, struct json_object **ok)
{
    struct json_object *req = json_object_new_object();
    json_object_object_add(req, "tarn", json_object_new_int(1));
    json_object_object_add(req, "op", json_object_new_string(op));
    json_object_object_add(req, "args", args ? args : json_object_new_object());
    int rc = wire_send(&c->wire, req), stop = 0;
    while (rc == 0) {
        struct json_object *reply, *part;
        rc = wire_receive(&c->wire, &reply);
        if (rc != 0)
            break;
        if ((part = json_member(reply, "row")) != NULL) {
            if (row && stop == 0)
                stop = row(arg, part);
            json_object_put(reply);
            continue;
        }
        if ((part = json_member(reply, "error")) != NULL) {
            rc = take_error(part);
            json_object_put(reply);
            return rc;
        }
        if ((part = json_member(reply, "ok")) != NULL) {
            if (ok)
                *ok = json_object_get(part);
            json_object_put(reply);
            return stop;
        }
        json_object_put(reply); /* progress */
    }
    return rc == -ETIMEDOUT ? err_set(ETIMEDOUT, "the pool process does not answer")
                            : err_set(EPIPE, "the pool process went away");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(char ***names, size_t *n, const char *name, size_t len)
{
    for (size_t i = 0; i < *n; i++)
        if (strlen((*names)[i]) == len && strncmp((*names)[i], name, len) == 0)
            return 0;
    char **more = realloc(*names, (*n + 1) * sizeof **names);
    if (!more)
        return -ENOMEM;
    *names = more;
    if (!((*names)[*n] = strndup(name, len)))
        return -ENOMEM;
    (*n)++;
    return 0;
}

/* Adds the pools whose sockets are in dir and answer. */
static int scan_dir(const char *dir, char ***names, size_t *n)
{
    DIR *d = opendir(dir);
    int rc = 0;
    for (struct dirent *e = d ? readdir(d) : NULL; e && rc == 0; e = readdir(d)) {
        char path[RUNDIR_MAX + 300];
        const char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".sock") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        int fd = rundir_connect(path);
        if (fd == -ECONNREFUSED)
            unlink(path);
        if (fd < 0)
            continue;
        close(fd);
        rc = add_name(names, n, e->d_name, (size_t)(dot - e->d_name));
    }
    if (d)
        closedir(d);
    return rc;
}

int client_pools(char ***names, size_t *n)
{
    char dirs[2][RUNDIR_MAX];
    size_t dir_count = rundir_search(dirs);
    int rc = 0;
    *names = NULL;
    *n = 0;
    for (size_t i = 0; i < dir_count && rc == 0; i++)
        rc = scan_dir(dirs[i], names, n);
    if (*n > 1)
        qsort(*names, *n, sizeof **names, compare_names);
    return rc;
}
