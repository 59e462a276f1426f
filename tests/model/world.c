/* The two trees: choosing names in them, looking at them, comparing them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "model.h"

enum { DEPTH = 4, WINDOW = 256 << 10, WHOLE = 512 << 10 };

struct side side[SIDES];
struct pair open_files[MAX_OPEN];
static char buffer[SIDES][BUFFER];

/* ---- names */

static const char *const names[] = {
    "f0", "f1", "f2", "f3", "f4", "f5", "d0", "d1", "d2", "d3", "l0", "l1", "s0", "\xc3\xbc", " ", "-",
};

static void append(char path[PATH_ROOM], const char *name)
{
    size_t n = strlen(path);
    snprintf(path + n, PATH_ROOM - n, "%s%s", n ? "/" : "", name);
}

static void append_random(char path[PATH_ROOM])
{
    char long_name[300];
    if (one_in(60)) {
        size_t n = 250 + chance(8); /* 255 is allowed, 256 is not */
        memset(long_name, 'a' + (int)chance(3), n);
        long_name[n] = 0;
        append(path, long_name);
    } else {
        append(path, names[chance(sizeof names / sizeof *names)]);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct listing {
    char *name[4096];
    unsigned char type[4096];
    ino_t inode[4096];
    size_t count;
};

/* The entries of a directory without . and .., sorted. -1 with errno when it can't be read. */
static int list(int s, const char *path, struct listing *l)
{
    int fd = openat(side[s].root, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    l->count = 0;
    if (!d)
        return -1;
    while ((e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (l->count == sizeof l->name / sizeof *l->name)
            fail("more than %zu entries in %s", l->count, full(s, path));
        /* The name carries its type and inode behind its end, so that sorting moves them along. */
        size_t n = strlen(e->d_name) + 1;
        char *copy = malloc(n + 1 + sizeof(ino_t));
        if (!copy)
            fail("out of memory");
        memcpy(copy, e->d_name, n);
        copy[n] = (char)e->d_type;
        memcpy(copy + n + 1, &e->d_ino, sizeof(ino_t));
        l->name[l->count++] = copy;
    }
    closedir(d);
    qsort(l->name, l->count, sizeof *l->name, by_name);
    for (size_t i = 0; i < l->count; i++) {
        size_t n = strlen(l->name[i]) + 1;
        l->type[i] = (unsigned char)l->name[i][n];
        memcpy(&l->inode[i], l->name[i] + n + 1, sizeof(ino_t));
    }
    return 0;
}

static void list_free(struct listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->name[i]);
}

/* A random walk from the top over what exists on side B; wanted is a DT_ type, or 0 for any. */
static const char *walk(char path[PATH_ROOM], int wanted)
{
    static struct listing l;
    path[0] = 0;
    for (int depth = 0; depth < DEPTH; depth++) {
        if (list(B, path, &l) < 0 || l.count == 0)
            break;
        size_t first = chance(l.count), chosen = l.count;
        for (size_t i = 0; i < l.count && chosen == l.count; i++) {
            size_t k = (first + i) % l.count;
            if (!wanted || l.type[k] == wanted || l.type[k] == DT_DIR)
                chosen = k;
        }
        if (chosen == l.count) {
            list_free(&l);
            break;
        }
        bool dir = l.type[chosen] == DT_DIR, fits = !wanted || l.type[chosen] == wanted;
        append(path, l.name[chosen]);
        list_free(&l);
        if (!dir || (fits && one_in(3)))
            return path;
    }
    return path;
}

/* A name that is probably free, in a directory that probably exists. */
const char *pick_new(char path[PATH_ROOM])
{
    pick_dir(path);
    if (one_in(25))
        append_random(path); /* through a file, or through nothing */
    append_random(path);
    return path;
}

const char *pick_any(char path[PATH_ROOM])
{
    if (one_in(8))
        return pick_new(path);
    walk(path, 0);
    if (!*path)
        append_random(path);
    return path;
}

const char *pick_file(char path[PATH_ROOM])
{
    if (one_in(10))
        return pick_any(path);
    walk(path, DT_REG);
    if (!*path)
        append_random(path);
    return path;
}

const char *pick_dir(char path[PATH_ROOM])
{
    if (one_in(4)) {
        path[0] = 0;
        return path;
    }
    walk(path, DT_DIR);
    return path;
}

const char *full(int s, const char *path)
{
    static char out[4][PATH_ROOM + 600];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(out[turn], sizeof out[turn], "%s/%s", side[s].top, path);
    return out[turn];
}

void parent_of(const char *path, char parent[PATH_ROOM])
{
    snprintf(parent, PATH_ROOM, "%s", path);
    char *slash = strrchr(parent, '/');
    *(slash ? slash : parent) = 0;
}

/* ---- comparing */

void agree(void)
{
    if (err[A] != err[B])
        fail("errno: A %d (%s), B %d (%s)", err[A], strerror(err[A]), err[B], strerror(err[B]));
    if (ret[A] != ret[B])
        fail("result: A %ld, B %ld", ret[A], ret[B]);
}

static void compare_stat(const char *what, const struct stat st[SIDES])
{
    if (st[A].st_mode != st[B].st_mode)
        fail("%s: mode A %o, B %o", what, st[A].st_mode, st[B].st_mode);
    if (st[A].st_nlink != st[B].st_nlink)
        fail("%s: links A %ld, B %ld", what, (long)st[A].st_nlink, (long)st[B].st_nlink);
    if (st[A].st_uid != st[B].st_uid || st[A].st_gid != st[B].st_gid)
        fail("%s: owner A %u:%u, B %u:%u", what, st[A].st_uid, st[A].st_gid, st[B].st_uid,
             st[B].st_gid);
    if (!S_ISDIR(st[A].st_mode) && st[A].st_size != st[B].st_size)
        fail("%s: size A %lld, B %lld", what, (long long)st[A].st_size, (long long)st[B].st_size);
    if (st[A].st_rdev != st[B].st_rdev)
        fail("%s: device A %lx, B %lx", what, (long)st[A].st_rdev, (long)st[B].st_rdev);
}

/* Compares [off, off + len) of two open files; both must be readable. */
static void compare_range(const char *what, const int fd[SIDES], uint64_t off, uint64_t len)
{
    while (len) {
        size_t n = len < BUFFER ? len : BUFFER;
        ssize_t got[SIDES];
        for (int s = 0; s < SIDES; s++) {
            got[s] = pread(fd[s], buffer[s], n, (off_t)off);
            if (got[s] < 0)
                fail("%s: read at %llu on %c: %s", what, (unsigned long long)off, "AB"[s],
                     strerror(errno));
        }
        if (got[A] != got[B])
            fail("%s: read at %llu gives A %zd, B %zd bytes of %zu", what, (unsigned long long)off,
                 got[A], got[B], n);
        for (ssize_t i = 0; i < got[A]; i++)
            if (buffer[A][i] != buffer[B][i])
                fail("%s: byte %llu is A %02x, B %02x", what, (unsigned long long)off + i,
                     (uint8_t)buffer[A][i], (uint8_t)buffer[B][i]);
        if (got[A] == 0)
            return;
        off += (uint64_t)got[A];
        len -= (uint64_t)got[A];
    }
}

/* Compares all that either side calls data. */
static void compare_extents(const char *what, const int fd[SIDES], uint64_t size)
{
    for (int s = 0; s < SIDES; s++) {
        off_t pos = 0;
        while ((uint64_t)pos < size && (pos = lseek(fd[s], pos, SEEK_DATA)) >= 0) {
            off_t end = lseek(fd[s], pos, SEEK_HOLE);
            if (end <= pos)
                fail("%s: %c has data at %lld and its hole at %lld", what, "AB"[s], (long long)pos,
                     (long long)end);
            compare_range(what, fd, (uint64_t)pos, (uint64_t)(end - pos));
            pos = end;
        }
        if (pos < 0 && errno != ENXIO)
            fail("%s: SEEK_DATA on %c: %s", what, "AB"[s], strerror(errno));
    }
}

static void compare_content(const char *what, const int fd[SIDES], uint64_t size)
{
    if (one_in(3)) /* what the kernel holds may differ from what the file system holds */
        posix_fadvise(fd[A], 0, 0, POSIX_FADV_DONTNEED);
    if (size <= WHOLE)
        compare_range(what, fd, 0, size + 1);
    else
        compare_extents(what, fd, size);
}

void compare_pair(const struct pair *p, uint64_t off, uint64_t len)
{
    struct stat st[SIDES];
    for (int s = 0; s < SIDES; s++)
        if (fstat(p->fd[s], &st[s]) < 0)
            fail("fstat of open %s on %c: %s", p->path, "AB"[s], strerror(errno));
    compare_stat(p->path, st);
    if ((p->flags & O_ACCMODE) == O_WRONLY)
        return;
    if (one_in(3))
        posix_fadvise(p->fd[A], 0, 0, POSIX_FADV_DONTNEED);
    uint64_t from = off > WINDOW ? off - WINDOW : 0;
    compare_range(p->path, p->fd, from, off - from + len + WINDOW);
}

static void compare_xattrs(const char *path)
{
    static char names_[SIDES][1 << 16], value[SIDES][1 << 16];
    size_t bytes[SIDES] = {0};
    char *sorted[SIDES][400];
    size_t count[SIDES] = {0};
    for (int s = 0; s < SIDES; s++) {
        ssize_t n = llistxattr(full(s, path), names_[s], sizeof names_[s]);
        if (n < 0 && errno != EOPNOTSUPP)
            fail("%s: listxattr on %c: %s", path, "AB"[s], strerror(errno));
        bytes[s] = n < 0 ? 0 : (size_t)n;
        for (char *p = names_[s]; p < names_[s] + bytes[s]; p += strlen(p) + 1)
            /* security.* may be added by the host's security modules */
            if (strncmp(p, "security.", 9) && count[s] < 400)
                sorted[s][count[s]++] = p;
        qsort(sorted[s], count[s], sizeof(char *), by_name);
    }
    for (size_t i = 0; i < count[A] || i < count[B]; i++) {
        if (i >= count[A] || i >= count[B] || strcmp(sorted[A][i], sorted[B][i]))
            fail("%s: xattr %zu is A %s, B %s", path, i, i < count[A] ? sorted[A][i] : "(none)",
                 i < count[B] ? sorted[B][i] : "(none)");
        EACH(lgetxattr(full(s, path), sorted[A][i], value[s], sizeof value[s]));
        agree();
        if (ret[A] > 0 && memcmp(value[A], value[B], (size_t)ret[A]))
            fail("%s: value of xattr %s differs", path, sorted[A][i]);
    }
}

/* Everything about one path but a directory's entries. */
void compare_path(const char *path)
{
    struct stat st[SIDES];
    const char *at = *path ? path : ".";
    be_user(false); /* comparing is not part of the operation */
    EACH(fstatat(side[s].root, at, &st[s], AT_SYMLINK_NOFOLLOW));
    agree();
    if (ret[A] < 0)
        return;
    compare_stat(path, st);
    compare_xattrs(path);
    if (S_ISREG(st[A].st_mode)) {
        int fd[SIDES];
        for (int s = 0; s < SIDES; s++)
            if ((fd[s] = openat(side[s].root, at, O_RDONLY | O_NOFOLLOW)) < 0)
                fail("%s: open on %c: %s", path, "AB"[s], strerror(errno));
        compare_content(path, fd, (uint64_t)st[A].st_size);
        close(fd[A]);
        close(fd[B]);
    } else if (S_ISLNK(st[A].st_mode)) {
        EACH(readlinkat(side[s].root, at, buffer[s], BUFFER));
        agree();
        if (ret[A] > 0 && memcmp(buffer[A], buffer[B], (size_t)ret[A]))
            fail("%s: link target differs", path);
    }
}

void compare_dir(const char *path)
{
    static struct listing l[SIDES];
    be_user(false);
    EACH(list(s, path, &l[s]));
    agree();
    if (ret[A] < 0)
        return;
    for (size_t i = 0; i < l[A].count || i < l[B].count; i++) {
        if (i >= l[A].count || i >= l[B].count || strcmp(l[A].name[i], l[B].name[i]))
            fail("directory /%s: entry %zu of A is %s, of B %s", path, i,
                 i < l[A].count ? l[A].name[i] : "(none)",
                 i < l[B].count ? l[B].name[i] : "(none)");
        if (l[A].type[i] != l[B].type[i] && l[A].type[i] != DT_UNKNOWN)
            fail("directory /%s: type of %s is A %d, B %d", path, l[A].name[i], l[A].type[i],
                 l[B].type[i]);
        struct stat st;
        char entry[PATH_ROOM];
        snprintf(entry, sizeof entry, "%s", path);
        append(entry, l[A].name[i]);
        if (fstatat(side[A].root, entry, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_ino != l[A].inode[i])
            fail("directory /%s: inode of %s is %llu in the listing, %llu by stat", path,
                 l[A].name[i], (unsigned long long)l[A].inode[i], (unsigned long long)st.st_ino);
    }
    list_free(&l[A]);
    list_free(&l[B]);
}

static void compare_below(const char *path)
{
    struct listing *l = calloc(1, sizeof *l);
    if (!l)
        fail("out of memory");
    compare_dir(path);
    if (list(B, path, l) < 0)
        fail("listing /%s on B: %s", path, strerror(errno));
    for (size_t i = 0; i < l->count; i++) {
        char entry[PATH_ROOM];
        snprintf(entry, sizeof entry, "%s", path);
        append(entry, l->name[i]);
        compare_path(entry);
        if (l->type[i] == DT_DIR)
            compare_below(entry);
    }
    list_free(l);
    free(l);
}

void compare_tree(void)
{
    say("compare the whole trees");
    be_user(false);
    compare_path("");
    compare_below("");
    for (int i = 0; i < MAX_OPEN; i++)
        if (open_files[i].used)
            compare_pair(&open_files[i], 0, BUFFER);
}

/* ---- open files */

struct pair *any_open(void)
{
    size_t first = chance(MAX_OPEN);
    for (size_t i = 0; i < MAX_OPEN; i++) {
        struct pair *p = &open_files[(first + i) % MAX_OPEN];
        if (p->used)
            return p;
    }
    return NULL;
}

struct pair *open_slot(void)
{
    struct pair *p = &open_files[chance(MAX_OPEN)];
    if (p->used)
        close_pair(p);
    return p;
}

void close_pair(struct pair *p)
{
    BOTH(close(p->fd[s]));
    p->used = false;
}

void close_all(void)
{
    for (int i = 0; i < MAX_OPEN; i++)
        if (open_files[i].used)
            close_pair(&open_files[i]);
}

/* Effective user and group 1000, without privileges; and back. Returns what was. */
bool be_user(bool yes)
{
    static bool now;
    bool was = now;
    if (yes == now || getuid() != 0)
        return was;
    int r = yes ? setegid(1000) || seteuid(1000) : seteuid(0) || setegid(0);
    if (r)
        fail("changing the effective user: %s", strerror(errno));
    now = yes;
    return was;
}

/* ---- times */

static bool since(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec >= b.tv_nsec;
}

/* Waits for the next tick of the clock that stamps files, and puts old times on the paths. What
 * carries a newer time afterwards was stamped by the operation. */
void times_arm(struct times *t, const char *path, const char *other)
{
    struct timespec old[2] = {{1000000, 5}, {2000000, 7}}, before;
    t->armed = one_in(12);
    if (!t->armed)
        return;
    bool was = be_user(false);
    snprintf(t->path[0], PATH_ROOM, "%s", path);
    snprintf(t->path[1], PATH_ROOM, "%s", other);
    for (int i = 0; i < 2; i++)
        for (int s = 0; s < SIDES; s++)
            utimensat(side[s].root, *t->path[i] ? t->path[i] : ".", old, AT_SYMLINK_NOFOLLOW);
    clock_gettime(CLOCK_REALTIME, &before);
    do /* the coarse clock lags behind by a tick or more */
        clock_gettime(CLOCK_REALTIME_COARSE, &t->start);
    while (since(before, t->start));
    be_user(was);
}

/* With content false, only directories are looked at (the operation's effect on the file itself is
 * not the same everywhere). */
void times_check(const struct times *t, bool content)
{
    for (int i = 0; t->armed && i < 2; i++) {
        struct stat st[SIDES];
        const char *at = *t->path[i] ? t->path[i] : ".";
        EACH(fstatat(side[s].root, at, &st[s], AT_SYMLINK_NOFOLLOW));
        agree();
        if (ret[A] < 0 || (!content && !S_ISDIR(st[A].st_mode)))
            continue;
        bool m[SIDES], c[SIDES];
        for (int s = 0; s < SIDES; s++) {
            m[s] = since(st[s].st_mtim, t->start);
            c[s] = since(st[s].st_ctim, t->start);
        }
        if (m[A] != m[B])
            fail("%s: mtime %s on A, %s on B", at, m[A] ? "moved" : "did not move",
                 m[B] ? "moved" : "did not");
        if (c[A] != c[B])
            fail("%s: ctime %s on A, %s on B", at, c[A] ? "moved" : "did not move",
                 c[B] ? "moved" : "did not");
    }
}
