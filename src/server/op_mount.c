/* zfs.mount, zfs.unmount, zfs.mounts */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/dataset.h"
#include "server/mounts_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static struct json_object *mount_row(const char *name, const char *target)
{
    struct json_object *row = json_object_new_object();
    put_text(row, "name", name);
    put_text(row, "mountpoint", target);
    return row;
}

static void tell_made(void *arg, const char *name, const char *target)
{
    (void)call_row(arg, mount_row(name, target)); /* whoever asked may have gone */
}

static int op_mount(struct call *c)
{
    CLEANUP_FREE char *warning = NULL;
    struct mount_request r = {.name = json_text(c->args, "name", NULL),
                              .target = json_text(c->args, "target", NULL),
                              .options = json_text(c->args, "options", NULL),
                              .overlay = json_flag(c->args, "overlay")};
    r.explicitly = r.name != NULL;
    if (r.target && r.target[0] != '/')
        return err_set(EINVAL, "the mount point must be an absolute path");
    if (r.name)
        return mounts_mount(c->s, &r);
    mounts_mount_all(c->s, NULL, &r, &warning, tell_made, c);
    return warning ? err_set(EIO, "%s", warning) : 0;
}

static int op_unmount(struct call *c)
{
    const char *name = json_text(c->args, "name", NULL);
    bool force = json_flag(c->args, "force");
    return name ? mounts_unmount(c->s, name, force) : mounts_unmount_all(c->s, force);
}

/* The rows are made with the lock held and sent without it: the other end may be slow. */
static int op_mounts(struct call *c)
{
    struct json_object *rows = json_object_new_array();
    struct mount *m;
    int rc = 0;
    pthread_mutex_lock(&c->s->lock);
    TAILQ_FOREACH (m, &c->s->mounts, link) {
        char name[DATASET_NAME_MAX];
        dataset_name(m->ds, name);
        if (!m->gone)
            json_object_array_add(rows, mount_row(name, m->target));
    }
    pthread_mutex_unlock(&c->s->lock);
    for (size_t i = 0; i < json_count(rows) && rc == 0; i++)
        rc = call_row(c, json_object_get(json_object_array_get_idx(rows, i)));
    json_object_put(rows);
    return rc;
}

const struct operation mount_operations[] = {
    {"zfs.mounts", OP_READ, op_mounts},
    {"zfs.mount", 0, op_mount},
    {"zfs.unmount", 0, op_unmount},
    {NULL, 0, NULL},
};
