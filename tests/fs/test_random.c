/*
 * Random operations on a small tree, each compared with a model in memory: the tree of names, the
 * contents (a byte array), modes, link counts, xattrs. Between them txgs pass and the file system
 * is taken down, checked on disk by an independent reader, and opened again.
 */
#include "fs_test.h"

#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/xattr.h>

#define NODES     60
#define NAMES     12 /* different names in a directory */
#define SIZE_MAX_ (600 * 1024)
#define XATTRS    3

struct node {
    bool used, dir;
    uint64_t ino;
    uint32_t mode, uid, gid;
    unsigned links; /* names */
    unsigned refs;  /* lookup references we hold */
    unsigned char *data;
    size_t size;
    int child[NAMES]; /* of directories; -1 = none */
    int parent;
    struct {
        bool set;
        size_t n;
        unsigned char fill;
    } xattr[XATTRS];
};

struct world {
    struct fixture f;
    struct env env;
    struct node n[NODES]; /* 0: the root */
};

static uint64_t below(struct world *w, uint64_t n)
{
    return test_below(&w->env, n);
}

static const char *name_of(int i)
{
    static char names[4][64];
    static int turn;
    char *s = names[turn = (turn + 1) % 4];
    /* Some are too long for the small form of a directory. */
    snprintf(s, 64, i % 4 == 3 ? "name-%d-%050d" : "n%d", i, i);
    return s;
}

static int pick(struct world *w, bool dir, bool with_name)
{
    int start = below(w, NODES);
    for (int k = 0; k < NODES; k++) {
        int i = (start + k) % NODES;
        struct node *n = &w->n[i];
        if (n->used && n->dir == dir && (!with_name || n->links > 0))
            return i;
    }
    return -1;
}

static int free_node(struct world *w)
{
    for (int i = 0; i < NODES; i++)
        if (!w->n[i].used)
            return i;
    return -1;
}

static unsigned entries(const struct node *d)
{
    unsigned k = 0;
    for (int i = 0; i < NAMES; i++)
        k += d->child[i] >= 0;
    return k;
}

static unsigned subdirs(struct world *w, const struct node *d)
{
    unsigned k = 0;
    for (int i = 0; i < NAMES; i++)
        k += d->child[i] >= 0 && w->n[d->child[i]].dir;
    return k;
}

/* One more reference than before; the model counts them. */
static void drop_refs(struct world *w, int i)
{
    struct node *n = &w->n[i];
    if (n->refs)
        fs_forget(w->f.fs, n->ino, n->refs);
    n->refs = 0;
    if (n->links == 0 && i != 0) {
        free(n->data);
        *n = (struct node){0};
    }
}

/* A name less: gone from the model unless somebody still refers to it. */
static void lost_name(struct world *w, int i)
{
    struct node *n = &w->n[i];
    n->links--;
    if (n->links == 0 && n->refs == 0)
        drop_refs(w, i);
}

/* ---- Comparing ---- */

static void check_attr(struct world *w, int i, const struct fs_attr *a)
{
    struct node *n = &w->n[i];
    assert_int_equal(a->ino, n->ino);
    assert_int_equal(a->mode, n->mode);
    assert_int_equal(a->uid, n->uid);
    assert_int_equal(a->gid, n->gid);
    if (n->dir) {
        bool gone = n->links == 0 && i != 0;
        assert_int_equal(a->nlink, gone ? 0 : 2 + subdirs(w, n));
        assert_int_equal(a->size, 2 + entries(n));
    } else {
        assert_int_equal(a->nlink, n->links);
        assert_int_equal(a->size, n->size);
    }
}

static void check_node(struct world *w, int i)
{
    struct node *n = &w->n[i];
    struct fs_attr a = attr_of(&w->f, i == 0 ? FS_ROOT_INO : n->ino);
    check_attr(w, i, &a);
    static unsigned char got[SIZE_MAX_ + 10];
    if (!n->dir) {
        assert_int_equal(fs_read(w->f.fs, n->ino, 0, got, sizeof got), n->size);
        assert_memory_equal(got, n->data, n->size);
    }
    for (int x = 0; x < XATTRS; x++) {
        char name[20];
        snprintf(name, sizeof name, "user.x%d", x);
        ssize_t len = fs_getxattr(w->f.fs, n->ino, name, got, sizeof got);
        assert_int_equal(len, n->xattr[x].set ? (ssize_t)n->xattr[x].n : -ENODATA);
        for (ssize_t k = 0; k < len; k++)
            assert_int_equal(got[k], n->xattr[x].fill);
    }
}

struct listing {
    struct world *w;
    struct node *d;
    unsigned seen;
};

static bool list_one(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                     uint64_t next, const struct fs_attr *attr)
{
    struct listing *l = arg;
    if (name[0] == '.')
        return true;
    int i = atoi(name + (name[1] == 'a' ? 5 : 1));
    assert_true(i >= 0 && i < NAMES);
    assert_int_equal(len, strlen(name_of(i)));
    assert_memory_equal(name, name_of(i), len);
    assert_true(l->d->child[i] >= 0);
    assert_int_equal(ino, l->w->n[l->d->child[i]].ino);
    l->seen |= 1u << i;
    return true;
}

static void check_dir(struct world *w, int i)
{
    struct listing l = {w, &w->n[i], 0};
    assert_int_equal(fs_readdir(w->f.fs, w->n[i].ino, 0, false, list_one, &l), 0);
    for (int k = 0; k < NAMES; k++)
        assert_int_equal(!!(l.seen & 1u << k), w->n[i].child[k] >= 0);
}

static void check_world(struct world *w)
{
    for (int i = 0; i < NODES; i++) {
        if (!w->n[i].used)
            continue;
        check_node(w, i);
        if (w->n[i].dir)
            check_dir(w, i);
    }
}

/* ---- Operations ---- */

static void node_init(struct world *w, int i, const struct fs_attr *a, int parent)
{
    struct node *n = &w->n[i];
    *n = (struct node){.used = true,
                       .dir = S_ISDIR(a->mode),
                       .ino = a->ino,
                       .mode = a->mode,
                       .uid = a->uid,
                       .gid = a->gid,
                       .links = 1,
                       .refs = 1,
                       .parent = parent};
    for (int k = 0; k < NAMES; k++)
        n->child[k] = -1;
    n->data = calloc(1, SIZE_MAX_);
}

static void do_create(struct world *w)
{
    int d = pick(w, true, false), k = below(w, NAMES), i = free_node(w);
    struct fs_new n = {.mode = (below(w, 3) ? S_IFREG : S_IFDIR) | below(w, 01000),
                       .uid = below(w, 3),
                       .gid = below(w, 3)};
    struct fs_attr a;
    int rc = fs_create(w->f.fs, w->n[d].ino, name_of(k), &n, &a);
    if (w->n[d].child[k] >= 0) {
        assert_int_equal(rc, -EEXIST);
    } else if (w->n[d].links == 0) {
        assert_int_equal(rc, -ENOENT);
    } else {
        assert_int_equal(rc, 0);
        if (i < 0) { /* no room in the model */
            assert_int_equal(S_ISDIR(n.mode) ? fs_rmdir(w->f.fs, w->n[d].ino, name_of(k))
                                             : fs_unlink(w->f.fs, w->n[d].ino, name_of(k)),
                             0);
            fs_forget(w->f.fs, a.ino, 1);
            return;
        }
        node_init(w, i, &a, d);
        w->n[d].child[k] = i;
        check_attr(w, i, &a);
    }
}

static void do_remove(struct world *w)
{
    int d = pick(w, true, false), k = below(w, NAMES), c = w->n[d].child[k];
    bool rmdir = below(w, 2);
    int rc = rmdir ? fs_rmdir(w->f.fs, w->n[d].ino, name_of(k))
                   : fs_unlink(w->f.fs, w->n[d].ino, name_of(k));
    if (c < 0) {
        assert_int_equal(rc, -ENOENT);
    } else if (w->n[c].dir != rmdir) {
        assert_int_equal(rc, rmdir ? -ENOTDIR : -EISDIR);
    } else if (rmdir && entries(&w->n[c]) > 0) {
        assert_int_equal(rc, -ENOTEMPTY);
    } else {
        assert_int_equal(rc, 0);
        w->n[d].child[k] = -1;
        lost_name(w, c);
    }
}

static void do_link(struct world *w)
{
    int d = pick(w, true, false), k = below(w, NAMES), c = pick(w, below(w, 8) == 0, false);
    struct fs_attr a;
    if (c < 0)
        return;
    int rc = fs_link(w->f.fs, w->n[c].ino, w->n[d].ino, name_of(k), &a);
    if (w->n[c].dir) {
        assert_int_equal(rc, -EPERM);
    } else if (w->n[d].links == 0) {
        assert_int_equal(rc, -ENOENT);
    } else if (w->n[d].child[k] >= 0) {
        assert_int_equal(rc, -EEXIST);
    } else {
        assert_int_equal(rc, 0);
        w->n[c].links++;
        w->n[c].refs++;
        w->n[d].child[k] = c;
    }
}

static bool is_above(struct world *w, int above, int below_)
{
    for (int i = below_;; i = w->n[i].parent) {
        if (i == above)
            return true;
        if (i == 0 || (w->n[i].dir && w->n[i].links == 0))
            return false;
    }
}

static int rename_expected(struct world *w, int d, int c, int nd, int t, unsigned flags)
{
    struct node *n = w->n;
    if (c < 0 || (t < 0 && flags & RENAME_EXCHANGE))
        return -ENOENT;
    if (t >= 0 && flags & RENAME_NOREPLACE)
        return -EEXIST;
    if (c == t)
        return 0;
    if (n[c].dir && d != nd && is_above(w, c, nd))
        return -EINVAL;
    if (t >= 0 && n[t].dir && d != nd && is_above(w, t, d))
        return flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
    if (n[nd].links == 0)
        return -ENOENT;
    if (t >= 0 && !(flags & RENAME_EXCHANGE)) {
        if (n[c].dir != n[t].dir)
            return n[c].dir ? -ENOTDIR : -EISDIR;
        if (n[t].dir && entries(&n[t]))
            return -ENOTEMPTY;
    }
    return 0;
}

static void do_rename(struct world *w)
{
    static const unsigned modes[] = {0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
    unsigned flags = modes[below(w, 5)];
    int d = pick(w, true, false), nd = below(w, 3) ? pick(w, true, false) : d;
    int k = below(w, NAMES), nk = below(w, NAMES);
    int c = w->n[d].child[k], t = w->n[nd].child[nk];
    int want = rename_expected(w, d, c, nd, t, flags);
    int rc = fs_rename(w->f.fs, w->n[d].ino, name_of(k), w->n[nd].ino, name_of(nk), flags);
    assert_int_equal(rc, want);
    if (rc < 0 || c == t)
        return;
    w->n[nd].child[nk] = c;
    w->n[d].child[k] = flags & RENAME_EXCHANGE ? t : -1;
    w->n[c].parent = nd;
    if (flags & RENAME_EXCHANGE)
        w->n[t].parent = d;
    else if (t >= 0)
        lost_name(w, t);
}

static void do_write(struct world *w)
{
    static unsigned char buf[100000];
    int c = pick(w, false, false);
    if (c < 0)
        return;
    struct node *n = &w->n[c];
    size_t off = below(w, below(w, 4) ? n->size + 1000 : SIZE_MAX_ - sizeof buf);
    size_t len = 1 + below(w, below(w, 2) ? 1000 : sizeof buf);
    bool append = below(w, 4) == 0;
    if (append)
        off = n->size;
    if (off + len > SIZE_MAX_)
        return;
    memset(buf, below(w, 5), len);
    if (below(w, 2))
        test_fill(&w->env, buf, MIN(len, 2000));
    assert_int_equal(
        fs_write(w->f.fs, n->ino, append ? 0 : off, buf, len, append ? FS_WRITE_APPEND : 0), len);
    memcpy(n->data + off, buf, len);
    n->size = MAX(n->size, off + len);
}

static void do_truncate(struct world *w)
{
    int c = pick(w, false, false);
    if (c < 0)
        return;
    struct node *n = &w->n[c];
    struct fs_attr a;
    struct fs_setattr s = {.mask = FS_SET_SIZE,
                           .size = below(w, below(w, 2) ? n->size + 1 : SIZE_MAX_)};
    assert_int_equal(fs_setattr(w->f.fs, n->ino, &s, &a), 0);
    if (s.size < n->size)
        memset(n->data + s.size, 0, n->size - s.size);
    n->size = s.size;
    check_attr(w, c, &a);
}

static void do_punch(struct world *w)
{
    int c = pick(w, false, false);
    if (c < 0)
        return;
    struct node *n = &w->n[c];
    bool keep = below(w, 2);
    size_t off = below(w, n->size + 100), len = 1 + below(w, 300000);
    int mode = keep ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : FALLOC_FL_ZERO_RANGE;
    if (!keep && off + len > SIZE_MAX_)
        return;
    assert_int_equal(fs_fallocate(w->f.fs, n->ino, mode, off, len), 0);
    if (off < n->size)
        memset(n->data + off, 0, MIN(len, n->size - off));
    if (!keep)
        n->size = MAX(n->size, off + len);
}

static void do_setattr(struct world *w)
{
    int c = pick(w, below(w, 2), false);
    if (c < 0)
        return;
    struct node *n = &w->n[c];
    struct fs_attr a;
    struct fs_setattr s = {
        .mask = below(w, 8), .mode = below(w, 010000), .uid = below(w, 4), .gid = below(w, 4)};
    assert_int_equal(fs_setattr(w->f.fs, n->ino, &s, &a), 0);
    if (s.mask & FS_SET_MODE)
        n->mode = (n->mode & S_IFMT) | s.mode;
    if (s.mask & FS_SET_UID)
        n->uid = s.uid;
    if (s.mask & FS_SET_GID)
        n->gid = s.gid;
    check_attr(w, c, &a);
}

static void do_xattr(struct world *w)
{
    static const size_t sizes[] = {0, 10, 100, 150, 400, 3000, 33000};
    static unsigned char value[33000];
    char name[16];
    int c = pick(w, below(w, 3) == 0, false), x = below(w, XATTRS);
    if (c < 0)
        return;
    struct node *n = &w->n[c];
    snprintf(name, sizeof name, "user.x%d", x);
    if (below(w, 3) == 0) {
        assert_int_equal(fs_removexattr(w->f.fs, n->ino, name), n->xattr[x].set ? 0 : -ENODATA);
        n->xattr[x].set = false;
        return;
    }
    n->xattr[x].set = true;
    n->xattr[x].n = sizes[below(w, ARRAY_LEN(sizes))];
    n->xattr[x].fill = below(w, 256);
    memset(value, n->xattr[x].fill, n->xattr[x].n);
    assert_int_equal(fs_setxattr(w->f.fs, n->ino, name, value, n->xattr[x].n, 0, false), 0);
}

static void do_forget(struct world *w)
{
    int i = 1 + below(w, NODES - 1);
    if (w->n[i].used)
        drop_refs(w, i);
}

static void do_lookup(struct world *w)
{
    int d = pick(w, true, false), k = below(w, NAMES), c = w->n[d].child[k];
    struct fs_attr a;
    int rc = fs_lookup(w->f.fs, w->n[d].ino, name_of(k), &a);
    assert_int_equal(rc, c < 0 ? -ENOENT : 0);
    if (rc == 0) {
        w->n[c].refs++;
        check_attr(w, c, &a);
    }
}

static void do_remount(struct world *w)
{
    static const int xattr[] = {FS_XATTR_SA, FS_XATTR_DIR};
    struct fs_options o = test_options;
    o.xattr = xattr[below(w, 2)];
    for (int i = 1; i < NODES; i++) /* what has no name does not survive */
        if (w->n[i].used)
            drop_refs(w, i);
    fixture_remount(&w->f, &o);
    check_world(w);
}

static void step(struct world *w)
{
    switch (below(w, 32)) {
    case 0 ... 5:
        do_create(w);
        break;
    case 6 ... 8:
        do_remove(w);
        break;
    case 9 ... 10:
        do_link(w);
        break;
    case 11 ... 14:
        do_rename(w);
        break;
    case 15 ... 19:
        do_write(w);
        break;
    case 20 ... 21:
        do_truncate(w);
        break;
    case 22:
        do_punch(w);
        break;
    case 23 ... 24:
        do_setattr(w);
        break;
    case 25 ... 27:
        do_xattr(w);
        break;
    case 28:
        do_forget(w);
        break;
    default:
        do_lookup(w);
    }
}

static void run(struct env *env, const struct objset_props *props, bool projid, unsigned steps)
{
    struct world *w = calloc(1, sizeof *w);
    w->env = *env;
    fixture_new(&w->f, props, projid);
    struct fs_attr root = attr_of(&w->f, FS_ROOT_INO);
    node_init(w, 0, &root, 0);
    w->n[0].refs = 0;
    for (unsigned i = 0; i < steps; i++) {
        step(w);
        if (below(w, 40) == 0)
            fixture_sync(&w->f);
        if (below(w, 100) == 0)
            check_world(w);
        if (below(w, 300) == 0)
            do_remount(w);
    }
    do_remount(w);
    for (int i = 0; i < NODES; i++)
        free(w->n[i].data);
    *env = w->env;
    fixture_free(&w->f);
    free(w);
}

static void test_random(void **state)
{
    struct env env = test_env();
    struct objset_props small = test_props, large = test_props;
    const char *more = getenv("TARN_STEPS");
    unsigned steps = more ? strtoul(more, NULL, 0) : 1500;
    small.recordsize = 4096;
    large.dnodesize = 1024;
    large.recordsize = 1 << 20;
    run(&env, &test_props, true, steps);
    run(&env, &small, false, steps);
    run(&env, &large, true, steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
