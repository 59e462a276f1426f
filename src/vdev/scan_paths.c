/* What a scan looks at: files and block devices by all their names. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/scan_impl.h"

static void close_dir(DIR **d)
{
    if (*d)
        closedir(*d);
}

/* Takes name. */
static int append(struct candidates *c, char *name, const struct stat *st)
{
    char **names = malloc(sizeof *names);
    if (c->n == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 64;
        struct candidate *item = realloc(c->item, capacity * sizeof *item);
        if (item) {
            c->item = item;
            c->capacity = capacity;
        }
    }
    if (!names || !name || c->n == c->capacity) {
        free(names);
        free(name);
        return -ENOMEM;
    }
    bool block = S_ISBLK(st->st_mode);
    names[0] = name;
    c->item[c->n] = (struct candidate){.name = names,
                                       .names = 1,
                                       .order = c->n,
                                       .block = block,
                                       .dev = block ? st->st_rdev : st->st_dev,
                                       .ino = block ? 0 : st->st_ino};
    c->n++;
    return 0;
}

static int add_directory(struct candidates *c, const char *path, bool only_block)
{
    DIR *d CLEANUP(close_dir) = opendir(path);
    struct dirent *e;
    int rc = 0;
    if (!d)
        return -errno;
    size_t length = strlen(path);
    const char *slash = length && path[length - 1] == '/' ? "" : "/";
    while (rc == 0 && (e = readdir(d))) {
        struct stat st;
        char *name;
        /* The type spares a stat for most of what is in /dev. */
        if (e->d_type != DT_BLK && e->d_type != DT_LNK && e->d_type != DT_UNKNOWN &&
            (only_block || e->d_type != DT_REG))
            continue;
        if (fstatat(dirfd(d), e->d_name, &st, 0))
            continue;
        if (!S_ISBLK(st.st_mode) && (only_block || !S_ISREG(st.st_mode)))
            continue;
        if (asprintf(&name, "%s%s%s", path, slash, e->d_name) < 0)
            return -ENOMEM;
        rc = append(c, name, &st);
    }
    return rc;
}

int candidates_add(struct candidates *c, const char *path, bool only_block)
{
    struct stat st;
    if (stat(path, &st)) {
        int e = errno;
        return err_set(e, "cannot search '%s': %s", path, strerror(e));
    }
    if (S_ISDIR(st.st_mode)) {
        int rc = add_directory(c, path, only_block);
        return rc ? err_set(-rc, "cannot search '%s': %s", path, strerror(-rc)) : 0;
    }
    if (S_ISBLK(st.st_mode) || S_ISREG(st.st_mode))
        return append(c, strdup(path), &st);
    return 0; /* a FIFO, say: there is no pool in it */
}

int candidates_add_default(struct candidates *c)
{
    /* Names that stay the same when disks are plugged differently come first. */
    static const char *const dirs[] = {"/dev/disk/by-vdev", "/dev/mapper", "/dev/disk/by-id",
                                       "/dev/disk/by-path", "/dev"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof dirs / sizeof *dirs; i++)
        if (add_directory(c, dirs[i], true) == -ENOMEM)
            rc = -ENOMEM; /* the directories need not exist */
    return rc;
}

static int by_identity(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    if (a->block != b->block)
        return a->block ? -1 : 1;
    if (a->dev != b->dev)
        return a->dev < b->dev ? -1 : 1;
    if (a->ino != b->ino)
        return a->ino < b->ino ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static int by_order(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    return a->order < b->order ? -1 : a->order > b->order;
}

int candidates_merge(struct candidates *c)
{
    size_t kept = 0;
    if (c->n == 0)
        return 0;
    qsort(c->item, c->n, sizeof *c->item, by_identity);
    for (size_t i = 1; i < c->n; i++) {
        struct candidate *a = &c->item[kept], *b = &c->item[i];
        if (a->block != b->block || a->dev != b->dev || a->ino != b->ino) {
            struct candidate moved = *b;
            b->names = 0; /* so that nothing is freed twice, whatever happens */
            b->name = NULL;
            c->item[++kept] = moved;
            continue;
        }
        char **name = realloc(a->name, (a->names + 1) * sizeof *name);
        if (!name)
            return -ENOMEM;
        a->name = name;
        a->name[a->names++] = b->name[0];
        free(b->name);
        b->names = 0;
        b->name = NULL;
    }
    c->n = kept + 1;
    qsort(c->item, c->n, sizeof *c->item, by_order);
    return 0;
}

void candidates_free(struct candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct candidate *k = &c->item[i];
        for (size_t j = 0; j < k->names; j++)
            free(k->name[j]);
        free(k->name);
        if (k->labelled)
            label_set_free(&k->set);
    }
    free(c->item);
    *c = (struct candidates){0};
}
