/* Lists of dataset names. */
#ifndef SERVER_NAMES_IMPL_H
#define SERVER_NAMES_IMPL_H

#include <stddef.h>

#include "dsl/dataset.h"

struct names {
    char (*name)[DATASET_NAME_MAX];
    size_t n, cap;
};

int names_add(struct names *l, const char *name);
int names_collect(void *arg, struct dataset *ds); /* a dataset_each_fn; arg is the list */
void names_free(struct names *l);

#endif
