/* The pool.* operations of docs/control-protocol.md. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuse/fuse.h"
#include "nvlist/nvlist.h"
#include "server/calls_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static int op_ping(struct call *c)
{
    struct spa_stats st;
    spa_stats(c->s->spa, &st);
    put_text(c->ok, "name", spa_name(c->s->spa));
    put_number(c->ok, "guid", st.guid);
    put_number(c->ok, "pid", (uint64_t)getpid());
    json_object_object_add(c->ok, "readonly", json_object_new_boolean(spa_readonly(c->s->spa)));
    put_text(c->ok, "altroot", c->s->altroot);
    return 0;
}

static int op_set(struct call *c)
{
    struct json_object *props = json_member(c->args, "props");
    int rc = 0;
    if (!props || !json_object_is_type(props, json_type_object))
        return err_set(EINVAL, "pool.set needs properties");
    json_object_object_foreach(props, name, value)
    {
        if (rc == 0 && value)
            rc = spa_prop_set(c->s->spa, name, json_text(props, name, ""));
    }
    return rc;
}

static int history_row(void *arg, const struct nvlist *r)
{
    struct call *c = arg;
    const char *command = nvlist_string_or(r, "history command", NULL);
    bool internal = command == NULL;
    CLEANUP_FREE char *ioctl = NULL;
    if (internal && !json_flag(c->args, "internal"))
        return 0;
    if (nvlist_exists(r, "ioctl") && !(ioctl = history_ioctl_text(r)))
        return -ENOMEM;
    struct json_object *row = json_object_new_object();
    put_number(row, "time", nvlist_uint64_or(r, "history time", 0));
    put_text(row, "text",
             command ? command
             : ioctl ? ioctl
                     : nvlist_string_or(r, "history internal str", ""));
    json_object_object_add(row, "internal", json_object_new_boolean(internal));
    put_text(row, "name", nvlist_string_or(r, "internal_name", ""));
    put_text(row, "host", nvlist_string_or(r, "history hostname", ""));
    put_text(row, "zone", nvlist_string_or(r, "history zone", ""));
    put_text(row, "dsname", nvlist_string_or(r, "dsname", ""));
    put_number(row, "dsid", nvlist_uint64_or(r, "dsid", 0));
    if (internal && !ioctl)
        put_number(row, "txg", nvlist_uint64_or(r, "history txg", 0));
    if (nvlist_exists(r, "history who"))
        put_number(row, "uid", nvlist_uint64_or(r, "history who", 0));
    return call_row(c, row);
}

static int op_history(struct call *c)
{
    return spa_history_each(c->s->spa, history_row, c);
}

#define COMMAND_MAX 4096 /* bytes that others may add to the history at a time */

/* Others than the trusted have what they could do recorded, and nothing else. */
static int op_command(struct call *c)
{
    const char *text = json_text(c->args, "text", "");
    if (!c->trusted && (!*c->changed || strlen(text) > COMMAND_MAX))
        return err_set(EPERM, "permission denied");
    calls_write(c->s, c->calls, text, c->uid);
    return 0;
}

static int op_sync(struct call *c)
{
    return spa_readonly(c->s->spa) ? err_set(EROFS, "pool is read-only") : spa_sync_now(c->s->spa);
}

static int end_pool(struct call *c, enum spa_end how)
{
    struct server *s = c->s;
    const char *command = json_text(c->args, "command", NULL);
    int rc = mounts_unmount_below(s, NULL, json_flag(c->args, "force"), true);
    if (rc == 0 && command && !spa_readonly(s->spa))
        (void)spa_history_command(s->spa, command, c->uid);
    if (rc != 0)
        return rc;
    rc = spa_close(s->spa, how);
    if (rc != 0) {
        char why[1024];
        snprintf(why, sizeof why, "%s", err_text(rc));
        mounts_mount_all(s, NULL, NULL, NULL, NULL, NULL);
        return err_set(-rc, "%s", why);
    }
    s->spa = NULL;
    server_hide(s);
    s->end = SERVER_ENDED;
    return 0;
}

static int op_export(struct call *c)
{
    return end_pool(c, SPA_END_EXPORT);
}

static int op_destroy(struct call *c)
{
    return end_pool(c, SPA_END_DESTROY);
}

const struct operation pool_operations[] = {
    {"pool.ping", OP_READ, op_ping},
    {"pool.status", OP_READ, op_pool_status},
    {"pool.get", OP_READ, op_pool_get},
    {"pool.history", OP_BESIDE, op_history},
    {"pool.set", 0, op_set},
    {"pool.command", OP_DELEGATED | OP_RECORDS, op_command},
    {"pool.sync", OP_BESIDE, op_sync},
    {"pool.export", OP_ENDS, op_export},
    {"pool.destroy", OP_ENDS, op_destroy},
    {NULL, 0, NULL},
};
