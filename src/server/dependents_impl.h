/* What depends on a dataset. */
#ifndef SERVER_DEPENDENTS_IMPL_H
#define SERVER_DEPENDENTS_IMPL_H

#include "server/names_impl.h"

struct dsl;

/* The datasets and snapshots named by tops with all that must go before them, in an order in which
 * they can be destroyed; each once. -ELOOP: a clone is above its origin, which only a promotion
 * parts. */
int dependents_order(struct dsl *dsl, const struct names *tops, struct names *out);
/* Adds the names of the clones made of a snapshot. */
int clones_of(struct dsl *dsl, const char *snapshot, struct names *out);

#endif
