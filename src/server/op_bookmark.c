/* zfs.bookmark */
#include <errno.h>

#include "dsl/bookmark.h"
#include "dsl/dsl.h"
#include "server/json.h"
#include "server/op_zfs_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/err.h"

int op_zfs_bookmark(struct call *c)
{
    const char *name, *source = json_text(c->args, "source", NULL);
    int rc = need_name(c, &name);
    if (rc == 0 && !source)
        rc = err_set(EINVAL, "no source is named");
    return rc ? rc : bookmark_create(spa_dsl(c->s->spa), name, source);
}
