/* tarn ls. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tool/tool_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct item {
    char *name;
    char *link; /* where a symbolic link points */
    struct fs_attr attr;
};

struct ls {
    struct tool *t;
    bool all, almost, classify, recursive, human, inode, blocks, lengthy, itself, reverse;
    char sort; /* 'n' name, 't' time, 'S' size, 'U' none */
    unsigned printed;
    struct item *item;
    size_t n, cap;
};

static const struct ls *sorting; /* qsort has no argument; one thread */

static int compare(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    const struct timespec *s = &x->attr.mtime, *u = &y->attr.mtime;
    int r = 0;
    if (sorting->sort == 't')
        r = s->tv_sec != u->tv_sec     ? (s->tv_sec < u->tv_sec ? 1 : -1)
            : s->tv_nsec != u->tv_nsec ? (s->tv_nsec < u->tv_nsec ? 1 : -1)
                                       : 0;
    else if (sorting->sort == 'S')
        r = x->attr.size != y->attr.size ? (x->attr.size < y->attr.size ? 1 : -1) : 0;
    if (r == 0)
        r = strcmp(x->name, y->name);
    return sorting->reverse ? -r : r;
}

static char *read_link(struct fs *fs, const struct fs_attr *a)
{
    char target[65536];
    int n = S_ISLNK(a->mode) ? fs_readlink(fs, a->ino, target, sizeof target - 1) : -1;
    return n < 0 ? NULL : strndup(target, (size_t)n);
}

static int add(struct ls *l, struct fs *fs, const char *name, const struct fs_attr *a)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        void *grown = realloc(l->item, cap * sizeof *l->item);
        if (!grown)
            return -ENOMEM;
        l->item = grown;
        l->cap = cap;
    }
    char *copy = strdup(name);
    if (!copy)
        return -ENOMEM;
    l->item[l->n++] = (struct item){copy, l->lengthy || l->t->json ? read_link(fs, a) : NULL, *a};
    return 0;
}

static void clear(struct ls *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->item[i].name);
        free(l->item[i].link);
    }
    l->n = 0;
}

static void print_time(const struct timespec *ts)
{
    char text[64];
    struct tm tm;
    time_t now = time(NULL), s = ts->tv_sec;
    localtime_r(&s, &tm);
    bool recent = s <= now && now - s < 31556952 / 2;
    strftime(text, sizeof text, recent ? "%b %e %H:%M" : "%b %e  %Y", &tm);
    printf(" %s ", text);
}

struct widths {
    int inode, blocks, links, uid, gid, size;
};

static int digits(uint64_t v)
{
    char text[32];
    return snprintf(text, sizeof text, "%llu", (unsigned long long)v);
}

static void size_text(const struct ls *l, const struct fs_attr *a, char buf[32])
{
    if (S_ISCHR(a->mode) || S_ISBLK(a->mode))
        snprintf(buf, 32, "%u, %u", (a->rdev >> 8) & 0xfff,
                 (a->rdev & 0xff) | ((a->rdev >> 12) & 0xfff00));
    else
        tool_size(a->size, l->human, buf);
}

static void blocks_text(const struct ls *l, const struct fs_attr *a, char buf[32])
{
    if (l->human)
        tool_size(a->blocks * 512, true, buf);
    else
        tool_size((a->blocks + 1) / 2, false, buf);
}

static int wider(int a, int b)
{
    return a > b ? a : b;
}

static struct widths measure(const struct ls *l)
{
    struct widths w = {0};
    char buf[32];
    for (size_t i = 0; i < l->n; i++) {
        const struct fs_attr *a = &l->item[i].attr;
        w.inode = wider(w.inode, digits(a->ino));
        blocks_text(l, a, buf);
        w.blocks = wider(w.blocks, (int)strlen(buf));
        w.links = wider(w.links, digits(a->nlink));
        w.uid = wider(w.uid, digits(a->uid));
        w.gid = wider(w.gid, digits(a->gid));
        size_text(l, a, buf);
        w.size = wider(w.size, (int)strlen(buf));
    }
    return w;
}

static void print_mark(const struct ls *l, const struct fs_attr *a)
{
    if (l->classify && S_ISDIR(a->mode))
        putchar('/');
    else if (l->classify && S_ISLNK(a->mode) && !l->lengthy)
        putchar('@');
    else if (l->classify && S_ISFIFO(a->mode))
        putchar('|');
    else if (l->classify && S_ISSOCK(a->mode))
        putchar('=');
    else if (l->classify && S_ISREG(a->mode) && a->mode & 0111)
        putchar('*');
}

static void print_item(const struct ls *l, const struct item *e, const struct widths *w)
{
    char buf[32], mode[11];
    const struct fs_attr *a = &e->attr;
    if (l->inode)
        printf("%*llu ", w->inode, (unsigned long long)a->ino);
    if (l->blocks) {
        blocks_text(l, a, buf);
        printf("%*s ", w->blocks, buf);
    }
    if (l->lengthy) {
        tool_mode_text(a->mode, mode);
        size_text(l, a, buf);
        printf("%s %*u %*u %*u %*s", mode, w->links, a->nlink, w->uid, a->uid, w->gid, a->gid,
               w->size, buf);
        print_time(&a->mtime);
    }
    tool_print_name(l->t, stdout, e->name);
    print_mark(l, a);
    if (l->lengthy && e->link) {
        printf(" -> ");
        tool_print_name(l->t, stdout, e->link);
    }
    putchar('\n');
}

static void row(struct ls *l, const char *dir, const struct item *e)
{
    char *path = NULL;
    if (dir && asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", e->name) < 0)
        path = NULL;
    struct json_object *o = tool_attr_row(path ? path : e->name, &e->attr);
    if (e->link)
        json_put_name(o, "target", e->link);
    tool_row(l->t, o);
    free(path);
}

/* Prints and empties the list. dir: the folder they are in, for JSON. */
static void flush_items(struct ls *l, const char *dir)
{
    sorting = l;
    if (l->sort != 'U' && l->n)
        qsort(l->item, l->n, sizeof *l->item, compare);
    struct widths w = measure(l);
    for (size_t i = 0; i < l->n; i++) {
        if (l->t->json)
            row(l, dir, &l->item[i]);
        else
            print_item(l, &l->item[i], &w);
    }
}

static bool hidden(const struct ls *l, const char *name)
{
    return name[0] == '.' && !l->all && !l->almost;
}

static int gather(struct ls *l, struct fs *fs, const struct fs_attr *dir, const char *path)
{
    struct name_list names;
    struct fs_attr a;
    int rc = dir_list(fs, dir->ino, &names);
    if (rc)
        tool_error(l->t, rc, "%s", path);
    rc = 0;
    if (l->all) {
        rc = add(l, fs, ".", dir);
        if (fs_parent(fs, dir->ino, &a) == 0) {
            rc = rc ? rc : add(l, fs, "..", &a);
            fs_forget(fs, a.ino, 1);
        }
    }
    for (size_t i = 0; i < names.n && rc == 0; i++) {
        if (hidden(l, names.entry[i].name))
            continue;
        err_clear();
        int one = fs_lookup(fs, dir->ino, names.entry[i].name, &a);
        if (one) {
            tool_error(l->t, one, "%s/%s", path, names.entry[i].name);
            continue;
        }
        rc = add(l, fs, names.entry[i].name, &a);
        fs_forget(fs, a.ino, 1);
    }
    dir_list_free(&names);
    return rc;
}

static void list_folder(struct ls *l, struct fs *fs, const struct fs_attr *dir, const char *path,
                        bool title)
{
    if (!l->t->json && title) {
        printf("%s", l->printed ? "\n" : "");
        tool_print_name(l->t, stdout, path);
        printf(":\n");
    }
    l->printed++;
    clear(l);
    int rc = gather(l, fs, dir, path);
    if (rc)
        tool_error(l->t, rc, "%s", path);
    if (l->lengthy && !l->t->json) {
        uint64_t total = 0;
        char buf[32];
        for (size_t i = 0; i < l->n; i++)
            total += l->item[i].attr.blocks;
        printf("total %s\n",
               l->human ? tool_size(total * 512, true, buf) : tool_size(total / 2, false, buf));
    }
    flush_items(l, path);
    clear(l);
}

static int visit(void *arg, const struct walk_entry *e, enum walk_when when)
{
    struct ls *l = arg;
    if (when != WALK_ENTRY || !S_ISDIR(e->attr.mode))
        return 0;
    if (e->depth > 0 && hidden(l, e->name))
        return 1;
    list_folder(l, e->fs, &e->attr, e->path, true);
    return 0;
}

static void list_target(struct ls *l, const char *text, bool title)
{
    struct target x;
    if (target_open(l->t, text, 0, &x) != 0)
        return;
    if (!S_ISDIR(x.attr.mode) || l->itself) {
        if (add(l, x.fs, text, &x.attr) == 0)
            flush_items(l, NULL);
        clear(l);
        l->printed++;
    } else if (l->recursive) {
        walk_tree(l->t, x.fs, &x.attr, text, visit, l);
    } else {
        list_folder(l, x.fs, &x.attr, text, title);
    }
    target_close(&x);
}

static void set(struct ls *l, int opt)
{
    switch (opt) {
    case 'a':
        l->all = true;
        break;
    case 'A':
        l->almost = true;
        break;
    case 'F':
        l->classify = true;
        break;
    case 'R':
        l->recursive = true;
        break;
    case 'h':
        l->human = true;
        break;
    case 'i':
        l->inode = true;
        break;
    case 'l':
    case 'n':
        l->lengthy = true;
        break;
    case 'r':
        l->reverse = true;
        break;
    case 's':
        l->blocks = true;
        break;
    case 'S':
    case 't':
    case 'U':
        l->sort = (char)opt;
        break;
    case TOOL_OPT:
        l->itself = true;
        break;
    default:
        break;
    }
}

int tool_ls(struct tool *t, int argc, char **argv)
{
    static const struct option longs[] = {
        {"directory", no_argument, NULL, TOOL_OPT}, {"all", no_argument, NULL, 'a'},
        {"almost-all", no_argument, NULL, 'A'},     {"classify", no_argument, NULL, 'F'},
        {"recursive", no_argument, NULL, 'R'},      {"human-readable", no_argument, NULL, 'h'},
        {"inode", no_argument, NULL, 'i'},          {"reverse", no_argument, NULL, 'r'},
        {"size", no_argument, NULL, 's'},           {0}};
    struct ls l = {.t = t, .sort = 'n'};
    int opt;
    while ((opt = tool_getopt(t, argc, argv, "1aAFRhilnrsStU", longs)) != -1) {
        if (opt == '?')
            return 2;
        set(&l, opt);
    }
    if (optind == argc)
        return tool_usage(t, "missing target");
    for (int i = optind; i < argc; i++)
        list_target(&l, argv[i], argc - optind > 1);
    free(l.item);
    return 0;
}
