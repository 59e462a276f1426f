/* zfs.bookmark */
#include <errno.h>

#include "dsl/bookmark.h"
#include "dsl/dsl.h"
#include "nvlist/nvlist.h"
#include "server/calls_impl.h"
#include "server/json.h"
#include "server/op_zfs_impl.h"
#include "server/permissions_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

int op_zfs_bookmark(struct call *c)
{
    const char *name, *source = json_text(c->args, "source", NULL);
    int rc = need_name(c, &name);
    if (rc == 0 && !source)
        rc = err_set(EINVAL, "no source is named");
    if (rc == 0)
        rc = permission_need(c, name, "bookmark");
    if (rc == 0)
        rc = permission_need(c, source, "bookmark");
    if (rc == 0)
        rc = bookmark_create(spa_dsl(c->s->spa), name, source);
    CLEANUP_NVLIST struct nvlist *in = rc == 0 ? nvlist_new() : NULL;
    if (in && nvlist_add_string(in, name, source) == 0)
        call_note(c, "bookmark", STEAL(in), NULL);
    return rc;
}
