/* Reading /proc/self/mountinfo: it asks no file system anything, so it cannot hang on a dead one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "fuse/attach_impl.h"
#include "fuse/server_impl.h"

struct line {
    dev_t dev;
    char *place; /* into the line */
    char *type;
    char *source;
};

/* Undoes the kernel's octal escapes (space, tab, newline, backslash) in place. */
static void unescape(char *s)
{
    char *w = s;

    while (*s) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
            s[3] >= '0' && s[3] <= '7') {
            *w++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 4;
        } else {
            *w++ = *s++;
        }
    }
    *w = 0;
}

/* id parent major:minor root place options [fields...] - type source options */
static bool parse(char *text, struct line *l)
{
    unsigned maj, min;
    char *save, *word, *rest = strstr(text, " - ");
    int n = 0;

    if (!rest)
        return false;
    *rest = 0;
    l->place = NULL;
    for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save), n++) {
        if (n == 2 && sscanf(word, "%u:%u", &maj, &min) != 2)
            return false;
        if (n == 4)
            l->place = word;
    }
    l->type = strtok_r(rest + 3, " ", &save);
    l->source = l->type ? strtok_r(NULL, " ", &save) : NULL;
    if (!l->place || !l->source)
        return false;
    l->dev = makedev(maj, min);
    unescape(l->place);
    unescape(l->source);
    return true;
}

/* Calls fn for each mount, in mount order, until it returns false. */
static int each(bool (*fn)(void *arg, const struct line *l), void *arg)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *text = NULL;
    size_t cap = 0;
    struct line l;

    if (!f)
        return -errno;
    while (getline(&text, &cap, f) > 0) {
        if (parse(text, &l) && !fn(arg, &l))
            break;
    }
    free(text);
    fclose(f);
    return 0;
}

struct by_dev {
    dev_t dev;
    const char *source;
    int count;
    char **first;
};

static bool match_dev(void *arg, const struct line *l)
{
    struct by_dev *q = arg;

    if (l->dev != q->dev || strcmp(l->type, FUSE_FS_TYPE) || strcmp(l->source, q->source))
        return true;
    if (q->count++ == 0 && q->first)
        *q->first = strdup(l->place);
    return true;
}

int fuse_attach_find(dev_t dev, const char *source, char **first)
{
    struct by_dev q = {.dev = dev, .source = source, .first = first};
    int rc;

    if (first)
        *first = NULL;
    rc = each(match_dev, &q);
    if (!rc && q.count && first && !*first)
        rc = -ENOMEM;
    return rc ? rc : q.count;
}

struct by_place {
    const char *place;
    char *type;
    size_t cap;
    bool found;
};

static bool match_place(void *arg, const struct line *l)
{
    struct by_place *q = arg;

    if (!strcmp(l->place, q->place)) { /* the last one is on top */
        snprintf(q->type, q->cap, "%s", l->type);
        q->found = true;
    }
    return true;
}

int fuse_mountinfo_type(const char *target, char *type, size_t cap)
{
    struct by_place q = {.place = target, .type = type, .cap = cap};
    int rc = each(match_place, &q);

    return rc ? rc : q.found ? 0 : -ENOENT;
}
