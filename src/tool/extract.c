/* tarn extract: a whole dataset or snapshot, to a folder or a tar archive. */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "spa/spa.h"
#include "tool/tool_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct extract {
    struct tool *t;
    bool recursive, resume, tar, verbose;
    unsigned flags;
    struct copy copy;
    const char *top;      /* the dataset that was asked for */
    const char *snapshot; /* with '@', or "" */
    struct dsl *dsl;
};

/* One dataset to the path `to` of the sink. */
static int extract_dataset(struct extract *x, struct dataset *ds, const char *to)
{
    struct tool *t = x->t;
    char name[DATASET_NAME_MAX];
    struct fs *fs;
    struct fs_attr root;
    dataset_name(ds, name);
    err_clear();
    if (dataset_type(ds) == OBJSET_ZVOL)
        return copy_volume(&x->copy, ds, name, *to ? to : "volume");
    int rc = tool_fs_open(x->t, ds, &fs);
    if (rc) {
        tool_error(t, rc, "%s", name);
        x->copy.lost_files++;
        return 0;
    }
    rc = fs_getattr(fs, FS_ROOT_INO, &root);
    if (rc) {
        tool_error(t, rc, "%s", name);
        x->copy.lost_files++;
        rc = 0;
    } else {
        rc = copy_tree(&x->copy, fs, &root, name, to);
    }
    fs_close(fs);
    return rc;
}

static int each(void *arg, struct dataset *ds)
{
    struct extract *x = arg;
    char name[DATASET_NAME_MAX], full[2 * DATASET_NAME_MAX];
    dataset_name(ds, name);
    const char *below = name + strlen(x->top);
    while (*below == '/')
        below++;
    if (!*x->snapshot)
        return extract_dataset(x, ds, below);
    struct dataset *snap;
    snprintf(full, sizeof full, "%s%s", name, x->snapshot);
    if (dataset_hold(x->dsl, full, &snap) != 0)
        return 0; /* it has no snapshot of that name */
    int rc = extract_dataset(x, snap, below);
    dataset_rele(snap);
    return rc;
}

static int run(struct extract *x, struct target *from)
{
    struct dataset_stats st;
    CLEANUP_FREE char *head = strdup(from->dataset);
    if (!head)
        return -ENOMEM;
    progress_begin(&x->copy.progress, "extract",
                   !x->recursive && dataset_stats(from->ds, &st) == 0 ? st.referenced : 0);
    x->dsl = spa_dsl(from->pool->spa);
    char *at = strchr(head, '@');
    x->snapshot = at ? from->dataset + (at - head) : "";
    if (at)
        *at = '\0';
    x->top = head;
    err_clear();
    int rc = x->recursive ? dataset_each(x->dsl, head, -1, false, each, x)
                          : extract_dataset(x, from->ds, "");
    if (rc == 0 && x->copy.sink->finish)
        rc = x->copy.sink->finish(x->copy.sink);
    progress_end(&x->copy.progress);
    return rc;
}

/* Makes the folder; one that has something in it only with --resume. */
static int prepare_folder(struct extract *x, const char *folder)
{
    if (mkdir(folder, 0777) == 0)
        return 0;
    if (errno != EEXIST)
        return err_set(errno, "cannot be made: %s", strerror(errno));
    if (x->resume || rmdir(folder) != 0) {
        struct stat st;
        if (x->resume && stat(folder, &st) == 0 && S_ISDIR(st.st_mode))
            return 0;
        return err_set(EEXIST, "is there and not empty (--resume goes on with what is missing)");
    }
    return mkdir(folder, 0777) == 0 ? 0 : err_set(errno, "cannot be made: %s", strerror(errno));
}

static int open_sink(struct extract *x, const char *to, int *fd)
{
    err_clear();
    if (!x->tar) {
        int rc = prepare_folder(x, to);
        return rc ? rc : sink_dir_new(&x->copy.sink, x->t, to, x->flags);
    }
    *fd = to && strcmp(to, "-") != 0 ? open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
                                     : dup(STDOUT_FILENO);
    return *fd < 0 ? err_set(errno, "cannot be written: %s", strerror(errno))
                   : sink_tar_new(&x->copy.sink, x->t, *fd);
}

static void summary(struct extract *x)
{
    const struct copy *c = &x->copy;
    char size[32];
    if (x->t->json) {
        struct json_object *o = json_object_new_object();
        json_put_number(o, "files", c->files);
        json_put_number(o, "skipped", c->skipped);
        json_put_number(o, "bytes", c->bytes);
        json_put_number(o, "damaged_files", c->lost_files);
        json_put_number(o, "unreadable_bytes", c->lost_bytes);
        json_put_number(o, "nfs4_acls_left_out", c->nfs4_acls);
        x->t->summary = o;
    } else if (c->lost_files || x->verbose) {
        fprintf(stderr, "%llu files, %s", (unsigned long long)c->files,
                tool_size(c->bytes, true, size));
        if (c->skipped)
            fprintf(stderr, ", %llu were there already", (unsigned long long)c->skipped);
        fprintf(stderr, "; %llu damaged, %llu bytes unreadable\n",
                (unsigned long long)c->lost_files, (unsigned long long)c->lost_bytes);
    }
    if (c->nfs4_acls)
        fprintf(stderr, "note: the NFSv4 access lists of %llu files are left out (tarn stat shows them)\n",
                (unsigned long long)c->nfs4_acls);
}

static bool set(struct extract *x, int opt)
{
    switch (opt) {
    case 'R':
        x->recursive = true;
        return true;
    case 'v':
        x->verbose = x->copy.verbose = true;
        return true;
    case TOOL_OPT:
        x->resume = true;
        x->flags |= SINK_RESUME;
        return true;
    case TOOL_OPT + 1:
        x->tar = true;
        return true;
    case TOOL_OPT + 2:
        x->flags &= ~(unsigned)SINK_OWNER;
        return true;
    case TOOL_OPT + 3:
        x->flags &= ~(unsigned)SINK_XATTRS;
        return true;
    default:
        return false;
    }
}

int tool_extract(struct tool *t, int argc, char **argv)
{
    static const struct option longs[] = {{"recursive", no_argument, NULL, 'R'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {"resume", no_argument, NULL, TOOL_OPT},
                                          {"tar", no_argument, NULL, TOOL_OPT + 1},
                                          {"no-owner", no_argument, NULL, TOOL_OPT + 2},
                                          {"no-xattrs", no_argument, NULL, TOOL_OPT + 3},
                                          {0}};
    struct extract x = {.t = t, .flags = SINK_ALL, .copy = {.t = t, .rows = true}};
    struct target from;
    int opt, fd = -1;
    while ((opt = tool_getopt(t, argc, argv, "Rv", longs)) != -1)
        if (!set(&x, opt))
            return 2;
    int n = argc - optind;
    if (n < 1 || n > 2 || (!x.tar && n != 2))
        return tool_usage(t, n < 1   ? "missing dataset"
                             : n > 2 ? "too many arguments"
                                     : "missing folder");
    const char *to = n == 2 ? argv[optind + 1] : NULL;
    bool standard = x.tar && (!to || strcmp(to, "-") == 0);
    if (x.tar && x.resume)
        return tool_usage(t, "an archive cannot be resumed");
    if (standard && t->json)
        return tool_usage(t, "--json and an archive cannot both go to standard output");
    if (standard && t->terminal)
        return tool_usage(t, "an archive is not written to a terminal");
    if (target_open(t, argv[optind], TARGET_DATASET, &from) != 0)
        return 0;
    int rc = open_sink(&x, to, &fd);
    if (rc == 0)
        rc = run(&x, &from);
    if (rc)
        tool_error(t, rc, "%s", to ? to : "standard output");
    if (x.copy.sink) {
        summary(&x);
        x.copy.sink->free(x.copy.sink);
    }
    if (fd >= 0 && close(fd) != 0)
        tool_error(t, -errno, "%s", to ? to : "standard output");
    target_close(&from);
    return 0;
}
