#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table_impl.h"
#include "util/bytes.h"

#define COLUMNS_MAX 128

void table_init(struct table *t, const struct column *columns, size_t n)
{
    *t = (struct table){.columns = columns, .n = n};
}

static int add(struct table *t, const char *const *cells, bool right)
{
    bool *flags = realloc(t->right, (t->rows + 1) * sizeof *flags);
    if (!flags)
        return -ENOMEM;
    t->right = flags;
    t->right[t->rows] = right;
    char **more = realloc(t->cells, (t->rows + 1) * t->n * sizeof *t->cells);
    if (!more)
        return -ENOMEM;
    t->cells = more;
    for (size_t i = 0; i < t->n; i++)
        if (!(t->cells[t->rows * t->n + i] = strdup(cells[i])))
            return -ENOMEM;
    t->rows++;
    return 0;
}

int table_add(struct table *t, const char *const *cells)
{
    return add(t, cells, false);
}

int table_add_right(struct table *t, const char *const *cells)
{
    return add(t, cells, true);
}

static void print_row(const struct table *t, const size_t *width, char *const *cells, bool right)
{
    for (size_t i = 0; i < t->n; i++) {
        bool last = i + 1 == t->n, left = t->columns[i].left && (!right || i == 0);
        if (i > 0)
            fputs("  ", stdout);
        if (left && last)
            fputs(cells[i], stdout);
        else
            printf(left ? "%-*s" : "%*s", (int)width[i], cells[i]);
    }
    putchar('\n');
}

static void print_scripted(const struct table *t)
{
    for (size_t r = 0; r < t->rows; r++)
        for (size_t i = 0; i < t->n; i++)
            printf("%s%c", t->cells[r * t->n + i], i + 1 == t->n ? '\n' : '\t');
}

void table_print(const struct table *t, bool scripted)
{
    size_t width[COLUMNS_MAX];
    char *head[COLUMNS_MAX];
    if (scripted || t->n > COLUMNS_MAX) {
        print_scripted(t);
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        head[i] = (char *)t->columns[i].head;
        width[i] = MAX(strlen(head[i]), t->columns[i].width);
        for (size_t r = 0; r < t->rows; r++) {
            size_t n = strlen(t->cells[r * t->n + i]);
            width[i] = n > width[i] ? n : width[i];
        }
    }
    print_row(t, width, head, false);
    for (size_t r = 0; r < t->rows; r++)
        print_row(t, width, t->cells + r * t->n, t->right[r]);
}

void table_free(struct table *t)
{
    for (size_t i = 0; i < t->rows * t->n; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t->right);
    t->cells = NULL;
    t->right = NULL;
    t->rows = 0;
}
