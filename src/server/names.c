/* Lists of dataset names. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/names_impl.h"

static int make_room(struct names *l)
{
    if (l->n < l->cap)
        return 0;
    size_t cap = l->cap ? 2 * l->cap : 64;
    void *more = realloc(l->name, cap * sizeof *l->name);
    if (!more)
        return -ENOMEM;
    l->name = more;
    l->cap = cap;
    return 0;
}

int names_add(struct names *l, const char *name)
{
    int rc = make_room(l);
    if (rc == 0)
        snprintf(l->name[l->n++], DATASET_NAME_MAX, "%s", name);
    return rc;
}

int names_collect(void *arg, struct dataset *ds)
{
    struct names *l = arg;
    int rc = make_room(l);
    if (rc == 0)
        dataset_name(ds, l->name[l->n++]);
    return rc;
}

void names_free(struct names *l)
{
    free(l->name);
    *l = (struct names){0};
}
