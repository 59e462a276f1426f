/* Walking a tree of files; what cannot be read is reported and left out. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/tool_impl.h"
#include "util/err.h"

#define DEPTH_MAX 4000

struct listing {
    struct name_list *list;
    int rc;
};

static bool take_name(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                      uint64_t next, const struct fs_attr *attr)
{
    struct listing *g = arg;
    struct name_list *l = g->list;
    if ((len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.'))
        return true;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        void *grown = realloc(l->entry, cap * sizeof *l->entry);
        if (!grown) {
            g->rc = -ENOMEM;
            return false;
        }
        l->entry = grown;
        l->cap = cap;
    }
    char *copy = strndup(name, len);
    if (!copy) {
        g->rc = -ENOMEM;
        return false;
    }
    l->entry[l->n++] = (struct name_entry){copy, ino};
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct name_entry *)a)->name, ((const struct name_entry *)b)->name);
}

int dir_list(struct fs *fs, uint64_t ino, struct name_list *out)
{
    struct listing g = {out, 0};
    *out = (struct name_list){0};
    err_clear();
    int rc = fs_readdir(fs, ino, 0, false, take_name, &g);
    if (out->n)
        qsort(out->entry, out->n, sizeof *out->entry, by_name);
    return rc < 0 ? rc : g.rc;
}

void dir_list_free(struct name_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->entry[i].name);
    free(l->entry);
    *l = (struct name_list){0};
}

struct walk {
    struct tool *t;
    struct fs *fs;
    walk_fn *fn;
    void *arg;
    char *path;
    size_t cap;
    char more[DEPTH_MAX + 1];
    uint64_t above[DEPTH_MAX]; /* directories that we are in */
};

/* Appends a component; the old length, or -ENOMEM. */
static ssize_t push(struct walk *w, const char *name)
{
    size_t n = strlen(w->path), m = strlen(name);
    if (n + m + 2 > w->cap) {
        char *grown = realloc(w->path, 2 * (n + m + 2));
        if (!grown)
            return -ENOMEM;
        w->path = grown;
        w->cap = 2 * (n + m + 2);
    }
    if (n && w->path[n - 1] != '/')
        w->path[n++] = '/', w->path[n] = '\0';
    memcpy(w->path + n, name, m + 1);
    return (ssize_t)n;
}

static int visit(struct walk *w, const char *name, const struct fs_attr *attr, size_t depth,
                 bool last);

static bool is_above(const struct walk *w, uint64_t ino, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        if (w->above[i] == ino)
            return true;
    return false;
}

static int enter(struct walk *w, uint64_t ino, size_t depth, bool last)
{
    struct name_list list;
    int rc = 0;
    if (depth + 1 >= DEPTH_MAX || is_above(w, ino, depth)) {
        err_set(ELOOP, depth + 1 >= DEPTH_MAX ? "too deep" : "a directory that contains itself");
        tool_error(w->t, -ELOOP, "%s", w->path);
        return 0;
    }
    w->above[depth] = ino;
    if (depth)
        w->more[depth - 1] = last ? ' ' : '|';
    w->more[depth] = '\0';
    rc = dir_list(w->fs, ino, &list);
    if (rc)
        tool_error(w->t, rc, "%s", w->path);
    rc = 0;
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        size_t before = strlen(w->path);
        struct fs_attr a;
        if (push(w, list.entry[i].name) < 0) {
            rc = -ENOMEM;
            break;
        }
        err_clear();
        if (strchr(list.entry[i].name, '/')) { /* it could lead a copy out of its folder */
            tool_error(w->t, err_set(EBADE, "a name with a slash in it"), "%s", w->path);
            w->path[before] = '\0';
            continue;
        }
        int one = fs_lookup(w->fs, ino, list.entry[i].name, &a);
        if (one) {
            tool_error(w->t, one, "%s", w->path);
        } else {
            rc = visit(w, list.entry[i].name, &a, depth + 1, i + 1 == list.n);
            fs_forget(w->fs, a.ino, 1);
        }
        w->path[before] = '\0';
        w->more[depth] = '\0';
    }
    dir_list_free(&list);
    return rc;
}

static int visit(struct walk *w, const char *name, const struct fs_attr *attr, size_t depth,
                 bool last)
{
    struct walk_entry e = {w->fs, w->path, name, depth, *attr, w->more, last};
    int rc = w->fn(w->arg, &e, WALK_ENTRY);
    if (rc != 0 || !S_ISDIR(attr->mode))
        return rc == 1 ? 0 : rc;
    rc = enter(w, attr->ino, depth, last);
    if (rc != 0)
        return rc;
    e.path = w->path;
    return w->fn(w->arg, &e, WALK_LEAVE);
}

int walk_tree(struct tool *t, struct fs *fs, const struct fs_attr *root, const char *path,
              walk_fn *fn, void *arg)
{
    struct walk *w = calloc(1, sizeof *w);
    int rc = -ENOMEM;
    if (w) {
        *w = (struct walk){.t = t, .fs = fs, .fn = fn, .arg = arg, .path = strdup(path)};
        w->cap = strlen(path) + 1;
        const char *slash = strrchr(path, '/');
        if (w->path)
            rc = visit(w, slash && slash[1] ? slash + 1 : path, root, 0, true);
        free(w->path);
    }
    free(w);
    if (rc == -ENOMEM)
        tool_error(t, rc, "%s", path);
    return rc;
}
