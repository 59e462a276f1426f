/* The names of files in which data is lost, for zpool status -v. */
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "dsl/dataset.h"
#include "fs/diff.h"
#include "pool/errors.h"
#include "pool/pool.h"
#include "server/mounts_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"

/* "" if the dataset is not mounted. */
static void find_mountpoint(struct server *s, const char *name, char *out, size_t cap)
{
    pthread_mutex_lock(&s->lock);
    struct mount *m = mounts_find(s, name);
    snprintf(out, cap, "%s", m ? m->target : "");
    pthread_mutex_unlock(&s->lock);
}

/* As the reference names them: /mnt/file, dataset:/file, dataset:<0x22> or <0x44>:<0x22>. */
static void print_name(struct server *s, const struct damaged_object *o, char *out, size_t cap)
{
    char name[DATASET_NAME_MAX], mountpoint[PATH_MAX], path[PATH_MAX];
    struct dataset *ds;
    if (o->objset == 0) {
        snprintf(out, cap, "<metadata>:<0x%llx>", (unsigned long long)o->object);
        return;
    }
    if (dataset_hold_object(spa_dsl(s->spa), o->objset, &ds) != 0) {
        snprintf(out, cap, "<0x%llx>:<0x%llx>", (unsigned long long)o->objset,
                 (unsigned long long)o->object);
        return;
    }
    dataset_name(ds, name);
    if (fs_object_path(ds, o->object, path, sizeof path) != 0) {
        snprintf(out, cap, "%s:<0x%llx>", name, (unsigned long long)o->object);
    } else {
        find_mountpoint(s, name, mountpoint, sizeof mountpoint);
        snprintf(out, cap, "%s%s%s", *mountpoint ? mountpoint : name, *mountpoint ? "" : ":", path);
    }
    dataset_rele(ds);
}

int put_damage(struct call *c, struct json_object *o)
{
    const struct pool *pool = spa_pool(c->s->spa);
    CLEANUP_FREE struct damaged_object *list = NULL;
    size_t n = 0, count = pool_errors_count(pool);
    char text[2 * PATH_MAX + DATASET_NAME_MAX];
    int rc = c->trusted && json_flag(c->args, "verbose") ? pool_errors_objects(pool, &list, &n) : 0;
    if (rc != 0)
        return rc;
    if (count == 0)
        snprintf(text, sizeof text, "No known data errors");
    else
        snprintf(text, sizeof text, "%zu data errors, use '-v' for a list", count);
    put_text(o, "errors", text);
    put_number(o, "error_count", count);
    struct json_object *files = json_object_new_array();
    for (size_t i = 0; i < n; i++) {
        print_name(c->s, &list[i], text, sizeof text);
        json_object_array_add(files, json_object_new_string(text));
    }
    json_object_object_add(o, "damaged", files);
    return 0;
}
