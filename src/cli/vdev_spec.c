/* The devices of zpool create. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/vdev_spec_impl.h"
#include "util/bytes.h"

/* ---- Words ---- */

static const struct {
    const char *word, *heading;
} headings[] = {{"log", "logs"},
                {"cache", "cache"},
                {"spare", "spares"},
                {"special", "special"},
                {"dedup", "dedup"}};

/* The fewest devices of a redundant group; 0: the word is no group. */
static unsigned group_minimum(const char *word)
{
    unsigned parity = 1;
    if (strcmp(word, "mirror") == 0)
        return 2;
    if (strncmp(word, "raidz", 5) != 0 && strncmp(word, "draid", 5) != 0)
        return 0;
    if (word[5] >= '1' && word[5] <= '3')
        parity = (unsigned)(word[5] - '0');
    else if (word[5] && word[5] != ':')
        return 0;
    return parity + 1;
}

static const char *heading_of(const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(headings); i++)
        if (strcmp(word, headings[i].word) == 0)
            return headings[i].heading;
    return NULL;
}

/* ---- Paths ---- */

/* Absolute paths stay as given (a link in /dev/disk/by-id is steadier than what it points to now);
 * bare names are looked up in /dev. */
static int resolve(const char *word, char **out)
{
    char dev[PATH_MAX];
    struct stat st;
    if (word[0] == '/') {
        *out = access(word, F_OK) == 0 ? strdup(word) : NULL;
    } else if (strchr(word, '/')) {
        *out = realpath(word, NULL);
    } else {
        snprintf(dev, sizeof dev, "/dev/%s", word);
        *out = access(dev, F_OK) == 0 ? strdup(dev) : NULL;
        if (!*out) {
            fprintf(stderr,
                    "cannot open '%s': no such device in /dev\n"
                    "must be a full path or shorthand device name\n",
                    word);
            return 1;
        }
    }
    if (!*out) {
        fprintf(stderr, "cannot resolve path '%s'\n", word);
        return 1;
    }
    if (stat(*out, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
        fprintf(stderr, "cannot use '%s': must be a block device or regular file\n", word);
        return 1;
    }
    return 0;
}

static int add_path(struct vdev_group *g, const char *word)
{
    char **more = realloc(g->path, (g->n + 1) * sizeof *more), *path = NULL;
    if (!more)
        return 1;
    g->path = more;
    int rc = resolve(word, &path);
    if (rc == 0)
        g->path[g->n++] = path;
    else
        free(path);
    return rc;
}

/* ---- The whole ---- */

static struct vdev_group *add_group(struct vdev_spec *s, const char *type, const char *heading)
{
    struct vdev_group *more = realloc(s->group, (s->n + 1) * sizeof *more);
    if (!more)
        return NULL;
    s->group = more;
    more[s->n] = (struct vdev_group){.type = type, .heading = heading};
    return &more[s->n++];
}

static int check_counts(const struct vdev_spec *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct vdev_group *g = &s->group[i];
        unsigned least = g->type ? group_minimum(g->type) : 1;
        if (g->n >= least)
            continue;
        if (g->type)
            fprintf(stderr, "invalid vdev specification: %s requires at least %u devices\n",
                    g->type, least);
        else
            fprintf(stderr,
                    "invalid vdev specification: at least one toplevel vdev must be specified\n");
        return 1;
    }
    return 0;
}

int vdev_spec_parse(struct vdev_spec *s, int argc, char **argv)
{
    struct vdev_group *g = NULL;
    const char *heading = NULL;
    int rc = 0;
    *s = (struct vdev_spec){0};
    for (int i = 0; i < argc && rc == 0; i++) {
        const char *h = heading_of(argv[i]);
        if (h || group_minimum(argv[i])) {
            heading = h ? h : heading;
            g = h ? NULL : add_group(s, argv[i], heading);
            continue;
        }
        if (!g && !(g = add_group(s, NULL, heading)))
            return 1;
        rc = add_path(g, argv[i]);
    }
    return rc ? rc : check_counts(s);
}

void vdev_spec_free(struct vdev_spec *s)
{
    for (size_t i = 0; i < s->n; i++) {
        for (size_t k = 0; k < s->group[i].n; k++)
            free(s->group[i].path[k]);
        free(s->group[i].path);
    }
    free(s->group);
    *s = (struct vdev_spec){0};
}

static void print_groups(const struct vdev_spec *s, const char *heading)
{
    bool any = false;
    for (size_t i = 0; i < s->n; i++) {
        const struct vdev_group *g = &s->group[i];
        if ((heading == NULL) != (g->heading == NULL) ||
            (heading && strcmp(heading, g->heading) != 0))
            continue;
        if (heading && !any)
            printf("\t%s\n", heading);
        any = true;
        if (g->type)
            printf("\t  %s\n", g->type);
        for (size_t k = 0; k < g->n; k++)
            printf("\t  %s%s\n", g->type ? "  " : "", g->path[k]);
    }
}

void vdev_spec_print_data(const struct vdev_spec *s)
{
    print_groups(s, NULL);
}

void vdev_spec_print(const struct vdev_spec *s, const char *pool)
{
    static const char *const order[] = {"dedup", "special", "logs", "cache", "spares"};
    printf("would create '%s' with the following layout:\n\n\t%s\n", pool, pool);
    print_groups(s, NULL);
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        print_groups(s, order[i]);
}

const char *vdev_spec_unsupported(const struct vdev_spec *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct vdev_group *g = &s->group[i];
        if (g->heading)
            return g->type ? g->type : g->heading;
        if (g->type && strncmp(g->type, "draid", 5) == 0)
            return g->type;
    }
    return NULL;
}
