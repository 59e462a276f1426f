/* tarn cp: files out of a pool into a folder of the system. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/tool_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct cp {
    struct tool *t;
    bool recursive, verbose;
    unsigned flags;
};

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* What a copy of the target is called: its file's name, else its dataset's. */
static const char *base_name(const struct target *x)
{
    const char *name = *x->path ? x->path : x->dataset, *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static int copy_to(struct cp *cp, struct target *x, const char *folder, const char *name)
{
    struct copy c = {.t = cp->t, .verbose = cp->verbose};
    int rc = sink_dir_new(&c.sink, cp->t, folder, cp->flags);
    if (rc)
        return rc;
    progress_begin(&c.progress, "cp", 0);
    rc = x->fs ? copy_tree(&c, x->fs, &x->attr, x->text, name)
               : copy_volume(&c, x->ds, x->text, name);
    progress_end(&c.progress);
    c.sink->free(c.sink);
    return rc;
}

static void copy_one(struct cp *cp, const char *text, const char *to)
{
    struct target x;
    CLEANUP_FREE char *folder = strdup(to);
    if (!folder || target_open(cp->t, text, TARGET_VOLUME, &x) != 0)
        return;
    if (S_ISDIR(x.attr.mode) && !cp->recursive) {
        err_set(EISDIR, "-r not specified; omitting directory");
        tool_error(cp->t, -EISDIR, "%s", text);
        target_close(&x);
        return;
    }
    const char *name = base_name(&x);
    if (!is_folder(to)) { /* the copy gets this name */
        size_t n = strlen(folder);
        while (n > 1 && folder[n - 1] == '/')
            folder[--n] = '\0';
        char *slash = strrchr(folder, '/');
        name = to + (slash ? slash + 1 - folder : 0);
        if (slash)
            slash[slash == folder] = '\0';
        else
            strcpy(folder, *folder ? "." : "");
    }
    CLEANUP_FREE char *plain = strdup(name);
    size_t n = plain ? strcspn(plain, "/") : 0;
    if (plain)
        plain[n] = '\0';
    err_clear();
    int rc = plain ? copy_to(cp, &x, folder, plain) : -ENOMEM;
    if (rc)
        tool_error(cp->t, rc, "%s", text);
    target_close(&x);
}

int tool_cp(struct tool *t, int argc, char **argv)
{
    static const struct option longs[] = {{"archive", no_argument, NULL, 'a'},
                                          {"recursive", no_argument, NULL, 'r'},
                                          {"preserve", no_argument, NULL, 'p'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {0}};
    struct cp cp = {.t = t, .flags = SINK_MODE};
    int opt;
    while ((opt = tool_getopt(t, argc, argv, "aprRv", longs)) != -1) {
        if (opt == '?')
            return 2;
        cp.recursive |= opt == 'a' || opt == 'r' || opt == 'R';
        cp.verbose |= opt == 'v';
        if (opt == 'a')
            cp.flags = SINK_ALL;
        if (opt == 'p')
            cp.flags |= SINK_OWNER | SINK_TIMES;
    }
    if (argc - optind < 2)
        return tool_usage(t, "missing target or destination");
    const char *to = argv[argc - 1];
    if (argc - optind > 2 && !is_folder(to))
        return tool_usage(t, "'%s' is not a directory", to);
    for (int i = optind; i < argc - 1; i++)
        copy_one(&cp, argv[i], to);
    return 0;
}
