/* Delegated permissions, inside the layer. */
#ifndef DSL_DELEG_IMPL_H
#define DSL_DELEG_IMPL_H

#include "dsl/deleg.h"
#include "dsl/dsl_impl.h"

/* Keys or permissions; name is freed by whoever has the list. */
struct deleg_perms {
    char (*name)[DELEG_WHO_MAX + 4];
    size_t n, cap;
};
int deleg_perms_add(struct deleg_perms *l, const char *name);
/* Adds what is delegated under a key of a directory; none is no error. */
int deleg_perms_load(struct dir *d, const char *key, struct deleg_perms *l);
/* A new directory, as its user left it. */
int deleg_give_maker(struct dir *made, uint32_t uid, struct tx *tx);

#endif
