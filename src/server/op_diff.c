/* zfs.diff: a row for each file that changed. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "fs/diff.h"
#include "server/op_zfs_impl.h"
#include "server/permissions_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static struct dsl *dsl_of(struct call *c)
{
    return spa_dsl(c->s->spa);
}

struct diff {
    struct call *c;
    char fs[DATASET_NAME_MAX],
        to[2 * DATASET_NAME_MAX]; /* the newer side's file system and snapshot */
    char tag[40];                 /* holds the latter if it was made for this; else "" */
    char *mountpoint;
};

/* ---- Rows ---- */

/* Bytes that are no visible ASCII, and the backslash, as "\0ooo". */
static void escape(const char *prefix, const char *path, char *out)
{
    for (int part = 0; part < 2; part++)
        for (const unsigned char *p = (const unsigned char *)(part ? path : prefix); *p; p++)
            out += *p <= ' ' || *p >= 0x7f || *p == '\\' ? sprintf(out, "\\%04o", *p)
                                                         : (*out = (char)*p, 1);
    *out = 0;
}

static int put_path(struct json_object *row, const char *key, const struct diff *d,
                    const char *path)
{
    const char *prefix = strcmp(d->mountpoint, "/") == 0 ? "" : d->mountpoint;
    CLEANUP_FREE char *text = malloc(5 * (strlen(prefix) + strlen(path)) + 1);
    if (!text)
        return -ENOMEM;
    escape(prefix, path, text);
    put_text(row, key, text);
    return 0;
}

static int change_row(void *arg, const struct fs_change *c)
{
    struct diff *d = arg;
    struct json_object *row = json_object_new_object();
    char what[2] = {c->what};
    put_text(row, "change", what);
    put_number(row, "mode", c->mode);
    put_number(row, "ctime", (uint64_t)c->ctime.tv_sec);
    put_number(row, "nsec", (uint64_t)c->ctime.tv_nsec);
    json_object_object_add(row, "links", json_object_new_int64(c->links));
    int rc = put_path(row, "path", d, c->path);
    if (rc == 0 && c->new_path)
        rc = put_path(row, "new", d, c->new_path);
    if (rc == 0)
        return call_row(d->c, row);
    json_object_put(row);
    return rc;
}

/* ---- Both sides ---- */

static int no_such(int rc)
{
    return rc == -ENOENT ? err_set(ENOENT, "Unable to obtain diffs: No such file or directory")
                         : rc;
}

static int find_mountpoint(struct diff *d)
{
    pthread_mutex_lock(&d->c->s->lock);
    struct mount *m = mounts_find(d->c->s, d->fs);
    d->mountpoint = m ? strdup(m->target) : NULL;
    pthread_mutex_unlock(&d->c->s->lock);
    if (d->mountpoint)
        return 0;
    return err_set(ENOTSUP,
                   "Cannot diff an unmounted snapshot: operation not applicable to datasets "
                   "of this type");
}

/* The live state is compared as a snapshot. Several diffs may run at once. */
static int take_snapshot(struct diff *d)
{
    static _Atomic unsigned number;
    snprintf(d->to, sizeof d->to, "%s@zfs-diff-%d-%llx%04x", d->fs, getpid(),
             (unsigned long long)time(NULL), number++ & 0xffff);
    snprintf(d->tag, sizeof d->tag, "%%zfs-diff-%d", getpid());
    pthread_mutex_lock(&d->c->s->admin);
    int rc = dataset_snapshot_temporary(dsl_of(d->c), d->to, d->tag);
    pthread_mutex_unlock(&d->c->s->admin);
    if (rc != 0)
        *d->tag = 0;
    return rc;
}

/* While rows wait for their reader, others go on; only what is being read may not be destroyed. */
static int compare_pinned(struct diff *d, struct dataset *a, struct dataset *b)
{
    int rc = no_such(dataset_pin(a));
    if (rc != 0)
        return rc;
    rc = no_such(dataset_pin(b));
    if (rc == 0) {
        rc = fs_diff(a, b, change_row, d);
        dataset_unpin(b);
    }
    dataset_unpin(a);
    return rc;
}

static int compare(struct diff *d, const char *from)
{
    struct dataset *a, *b;
    uint64_t unused;
    int rc = no_such(dataset_hold(dsl_of(d->c), from, &a));
    if (rc != 0)
        return rc;
    rc = no_such(dataset_hold(dsl_of(d->c), d->to, &b));
    if (rc == 0) {
        rc = dataset_written_since(b, from, &unused); /* is it in its history? */
        if (rc == -ENOENT)
            rc = err_set(EXDEV,
                         "Unable to obtain diffs: \n   Not an earlier snapshot from the same fs");
        if (rc == 0)
            rc = compare_pinned(d, a, b);
        dataset_rele(b);
    }
    dataset_rele(a);
    return rc;
}

/* The snapshot made for this goes, also if somebody has found it in .zfs: it was never his. */
static int diff_end(struct diff *d)
{
    const char *name = d->to;
    free(d->mountpoint);
    if (!*d->tag)
        return 0;
    pthread_mutex_lock(&d->c->s->admin);
    int rc = mounts_release_snapshot(d->c->s, name, true);
    if (rc == 0)
        rc = dataset_userref_remove(dsl_of(d->c), &name, 1, d->tag);
    mounts_snapshots_changed(d->c->s);
    pthread_mutex_unlock(&d->c->s->admin);
    return err_prefix(rc, "the temporary snapshot '%s' remains", name);
}

/* A clone can be compared with its origin, anything else only with itself. */
static int check_lineage(struct diff *d, const char *from)
{
    size_t n = strcspn(from, "@");
    struct dataset *ds;
    uint64_t unused;
    int rc = dataset_hold(dsl_of(d->c), d->fs, &ds);
    if (rc != 0)
        return rc;
    if (strlen(d->fs) == n && strncmp(from, d->fs, n) == 0) {
        dataset_rele(ds);
        return 0;
    }
    rc = dataset_written_since(ds, from, &unused);
    dataset_rele(ds);
    return rc == -ENOENT ? err_set(EXDEV, "Not an earlier snapshot from the same fs: invalid name")
                         : rc;
}

int op_zfs_diff(struct call *c)
{
    struct diff d = {.c = c};
    const char *from, *to = json_text(c->args, "to", NULL);
    char why[ERR_TEXT_MAX];
    int rc = need_name(c, &from);
    if (rc == 0 && !strchr(from, '@'))
        rc = err_set(EINVAL, "missing '@' delimiter in snapshot name");
    if (rc != 0)
        return rc;
    if (!to)
        to = from;
    snprintf(d.fs, sizeof d.fs, "%.*s", (int)strcspn(to, "@"), to);
    rc = permission_need(c, from, "diff");
    if (rc == 0)
        rc = permission_need(c, d.fs, "diff");
    if (rc == 0)
        rc = check_lineage(&d, from);
    if (rc == 0)
        rc = find_mountpoint(&d);
    if (rc == 0 && to != from && strchr(to, '@'))
        snprintf(d.to, sizeof d.to, "%s", to);
    else if (rc == 0)
        rc = take_snapshot(&d);
    if (rc == 0)
        rc = compare(&d, from);
    snprintf(why, sizeof why, "%s", err_text(rc));
    int left = diff_end(&d);
    return rc ? err_set(-rc, "%s", why) : left;
}
