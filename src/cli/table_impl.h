/* Tables as zpool and zfs print them: columns by widest cell, two spaces between; or tab-separated.
 */
#ifndef CLI_TABLE_IMPL_H
#define CLI_TABLE_IMPL_H

#include <stdbool.h>
#include <stddef.h>

struct column {
    const char *head;
    bool left;
    size_t width; /* at least */
};

struct table {
    const struct column *columns;
    size_t n;
    char **cells; /* rows * n */
    bool *right;  /* of each row: all but the first cell are aligned right */
    size_t rows;
};

void table_init(struct table *t, const struct column *columns, size_t n);
int table_add(struct table *t, const char *const *cells); /* copies; 0 or -ENOMEM */
int table_add_right(struct table *t, const char *const *cells);
void table_print(const struct table *t, bool scripted); /* scripted: no head, tabs */
void table_free(struct table *t);

#endif
