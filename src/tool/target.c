/* From an argument to a dataset and a file in it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "spa/spa.h"
#include "tool/tool_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static bool path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* The longest beginning of the name that is a dataset; *rest is what follows it. */
static int find_dataset(struct dsl *dsl, const char *pool, const char *name, struct target *out,
                        const char **rest)
{
    char full[sizeof out->dataset];
    size_t first = strcspn(name, "/@");
    snprintf(full, sizeof full, "%s", pool);
    *rest = name + first;
    int rc = dataset_hold(dsl, full, &out->ds);
    while (rc == 0 && **rest) {
        size_t n = 1 + strcspn(*rest + 1, "/"), used = strlen(full);
        struct dataset *next;
        if (n == 1 || used + n + 1 > sizeof full || strchr(full, '@'))
            break;
        snprintf(full + used, sizeof full - used, "%.*s", (int)n, *rest);
        int one = dataset_hold(dsl, full, &next);
        if (one) {
            const char *at = memchr(*rest, '@', n);
            /* The snapshot of a dataset that exists must exist too; else it is a file's name. */
            if (at == *rest)
                rc = err_set(ENOENT, "there is no snapshot '%s'", full);
            else if (one != -ENOENT && one != -EINVAL && one != -ENAMETOOLONG)
                rc = one;
            full[used] = '\0';
            break;
        }
        dataset_rele(out->ds);
        out->ds = next;
        *rest += n;
    }
    snprintf(out->dataset, sizeof out->dataset, "%s", full);
    return rc;
}

static int lookup_path(struct target *x)
{
    CLEANUP_FREE char *copy = strdup(x->path);
    char *save = NULL;
    if (!copy)
        return -ENOMEM;
    int rc = fs_getattr(x->fs, FS_ROOT_INO, &x->attr);
    x->ino = x->attr.ino;
    for (char *part = strtok_r(copy, "/", &save); part && rc == 0;
         part = strtok_r(NULL, "/", &save)) {
        struct fs_attr a;
        if (strcmp(part, ".") == 0)
            continue;
        if (!S_ISDIR(x->attr.mode))
            return -ENOTDIR;
        rc = fs_lookup(x->fs, x->ino, part, &a);
        if (rc == 0) {
            x->attr = a; /* the reference stays until fs_close */
            x->ino = a.ino;
        }
    }
    return rc;
}

static char *clean_path(const char *rest)
{
    while (*rest == '/')
        rest++;
    char *path = strdup(rest);
    size_t n = path ? strlen(path) : 0;
    while (n && path[n - 1] == '/')
        path[--n] = '\0';
    return path;
}

static int open_inside(struct tool *t, struct target *x, unsigned flags)
{
    err_clear();
    if (flags & TARGET_DATASET && *x->path)
        return err_set(ENOENT, "there is no dataset '%s/%s'", x->dataset, x->path);
    if (flags & TARGET_DATASET)
        return t->nkeys || t->load_keys ? tool_keys_load(t, x->ds) : 0;
    if (dataset_type(x->ds) == OBJSET_ZVOL && flags & TARGET_VOLUME && !*x->path) {
        x->attr.mode = S_IFBLK | 0600;
        return tool_volume_open(t, x->ds, &x->attr.size);
    }
    if (dataset_type(x->ds) == OBJSET_ZVOL)
        return err_set(EINVAL, "'%s' is a volume: it has no files (cat and extract take it)",
                       x->dataset);
    int rc = tool_fs_open(t, x->ds, &x->fs);
    if (rc == 0) {
        err_clear();
        rc = lookup_path(x);
        if (rc == -ENOENT)
            rc = err_set(ENOENT, "no such file or dataset in '%s'", x->dataset);
    }
    return rc;
}

static int open_target(struct tool *t, unsigned flags, struct target *x)
{
    struct target_text text;
    const char *rest;
    int rc = target_split(x->text, t->ndirs == 0, path_exists, &text);
    if (rc)
        return rc;
    rc = tool_pool_open(t, &text, &x->pool);
    if (rc == 0 && flags & TARGET_POOL && strpbrk(text.name, "/@"))
        rc = err_set(EINVAL, "this wants the name of a pool only");
    if (rc == 0)
        rc = find_dataset(spa_dsl(x->pool->spa), x->pool->name, text.name, x, &rest);
    if (rc == 0 && !(x->path = clean_path(rest)))
        rc = -ENOMEM;
    if (rc == 0 && !(flags & TARGET_POOL))
        rc = open_inside(t, x, flags);
    target_text_free(&text);
    return rc;
}

int target_open(struct tool *t, const char *text, unsigned flags, struct target *out)
{
    *out = (struct target){.text = text};
    err_clear();
    int rc = open_target(t, flags, out);
    if (rc) {
        tool_error(t, rc, "%s", text);
        target_close(out);
    }
    return rc;
}

void target_close(struct target *x)
{
    if (x->fs)
        fs_close(x->fs);
    if (x->ds)
        dataset_rele(x->ds);
    free(x->path);
    *x = (struct target){0};
}
