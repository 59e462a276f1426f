/*
 * fsmanifest [--checkpoint] DEVICE-OR-DIRECTORY DATASET [ROOT=KEY-FILE]...: opens the pool read-only and prints one line of JSON per
 * file of the dataset, as tests/judge/manifest.py does for a mounted tree, but with names and
 * values in hex.
 */
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/keys.h"
#include "fs/fs.h"
#include "spa/spa.h"
#include "util/err.h"
#include "vdev/scan.h"

#define PIECE     1048576
#define HUGE_FILE (1ull << 32)

static struct fs *fs;
static int status;

static void hex(const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%02x", ((const unsigned char *)data)[i]);
}

static void complain(const char *path, const char *what, int rc)
{
    fprintf(stderr, "%s: %s: %s\n", path, what, err_text(rc));
    status = 1;
}

static void print_digest(EVP_MD_CTX *h, const char *key)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n;
    EVP_DigestFinal_ex(h, sum, &n);
    printf(", \"%s\": \"", key);
    hex(sum, n);
    printf("\"");
}

static void hash_all(const char *path, const struct fs_attr *a, EVP_MD_CTX *h)
{
    static unsigned char buf[PIECE];
    for (uint64_t off = 0; off < a->size;) {
        ssize_t n = fs_read(fs, a->ino, off, buf, sizeof buf);
        if (n <= 0) {
            complain(path, "reading", n);
            return;
        }
        EVP_DigestUpdate(h, buf, n);
        off += n;
    }
}

static bool is_zero(const unsigned char *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static void hash_extent(const struct fs_attr *a, uint64_t from, uint64_t to, EVP_MD_CTX *h)
{
    unsigned char buf[4096];
    char head[32];
    while (from < to) {
        ssize_t n = fs_read(fs, a->ino, from, buf, to - from < 4096 ? to - from : 4096);
        if (n <= 0)
            return;
        if (!is_zero(buf, n)) {
            EVP_DigestUpdate(h, head, sprintf(head, "%" PRIu64 ":", from));
            EVP_DigestUpdate(h, buf, n);
        }
        from += n;
    }
}

static void hash_extents(const struct fs_attr *a, EVP_MD_CTX *h)
{
    uint64_t pos = 0, end;
    while (fs_seek(fs, a->ino, pos, SEEK_DATA, &pos) == 0 &&
           fs_seek(fs, a->ino, pos, SEEK_HOLE, &end) == 0) {
        hash_extent(a, pos, end, h);
        pos = end;
    }
}

static void print_contents(const char *path, const struct fs_attr *a)
{
    EVP_MD_CTX *h = EVP_MD_CTX_new();
    bool sparse = a->size > HUGE_FILE;
    EVP_DigestInit_ex(h, EVP_sha256(), NULL);
    if (sparse)
        hash_extents(a, h);
    else
        hash_all(path, a, h);
    print_digest(h, sparse ? "extents_sha256" : "sha256");
    EVP_MD_CTX_free(h);
}

static void print_xattrs(const char *path, const struct fs_attr *a)
{
    static char names[65536], value[65536];
    ssize_t n = fs_listxattr(fs, a->ino, names, sizeof names, true);
    if (n < 0)
        complain(path, "listing attributes", n);
    for (ssize_t at = 0; at < n; at += strlen(names + at) + 1) {
        ssize_t len = fs_getxattr(fs, a->ino, names + at, value, sizeof value);
        if (len < 0)
            complain(path, names + at, len);
        printf("%s\"", at ? ", " : ", \"xattr\": {");
        hex(names + at, strlen(names + at));
        printf("\": \"");
        hex(value, len > 0 ? len : 0);
        printf("\"");
    }
    if (n > 0)
        printf("}");
}

static void print_file(const char *path, const struct fs_attr *a)
{
    char target[4096];
    printf("{\"path\": \"");
    hex(path, strlen(path));
    printf("\", \"mode\": \"0o%o\", \"uid\": %u, \"gid\": %u, \"mtime_ns\": %" PRId64, a->mode,
           a->uid, a->gid, (int64_t)a->mtime.tv_sec * 1000000000 + a->mtime.tv_nsec);
    if (!S_ISDIR(a->mode))
        printf(", \"nlink\": %u, \"size\": %" PRIu64, a->nlink, a->size);
    if (S_ISREG(a->mode))
        print_contents(path, a);
    if (S_ISLNK(a->mode)) {
        int n = fs_readlink(fs, a->ino, target, sizeof target);
        printf(", \"target\": \"");
        hex(target, n > 0 ? n : 0);
        printf("\"");
    }
    if (S_ISCHR(a->mode) || S_ISBLK(a->mode))
        printf(", \"rdev\": [%u, %u]", a->rdev >> 8 & 0xfff,
               (a->rdev & 0xff) | (a->rdev >> 12 & 0xfff00));
    print_xattrs(path, a);
    printf("}\n");
}

/* ---- Walking ---- */

struct names {
    char **name;
    size_t n, cap;
};

static bool collect(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                    uint64_t next, const struct fs_attr *attr)
{
    struct names *l = arg;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    if (l->n == l->cap)
        l->name = realloc(l->name, (l->cap = 2 * l->cap + 16) * sizeof *l->name);
    l->name[l->n++] = strdup(name);
    return true;
}

static void walk(uint64_t dir, const char *path)
{
    struct names l = {0};
    int rc = fs_readdir(fs, dir, 0, false, collect, &l);
    if (rc < 0)
        complain(path, "listing", rc);
    for (size_t i = 0; i < l.n; i++) {
        struct fs_attr a;
        char *child = malloc(strlen(path) + strlen(l.name[i]) + 2);
        sprintf(child, "%s%s%s", path, *path ? "/" : "", l.name[i]);
        rc = fs_lookup(fs, dir, l.name[i], &a);
        if (rc == 0) {
            print_file(child, &a);
            if (S_ISDIR(a.mode))
                walk(a.ino, child);
            fs_forget(fs, a.ino, 1);
        } else {
            complain(child, "looking it up", rc);
        }
        free(child);
        free(l.name[i]);
    }
    free(l.name);
}

static int fail(const char *what, int rc)
{
    fprintf(stderr, "%s: %s\n", what, err_text(rc));
    return 1;
}

static int load_key(struct spa *spa, char *assignment)
{
    static char key[4096];
    char *file = strchr(assignment, '=');
    FILE *f = file ? fopen(file + 1, "rb") : NULL;
    size_t n;
    if (!f)
        return -ENOENT;
    *file = 0;
    n = fread(key, 1, sizeof key, f);
    fclose(f);
    return keys_load(spa_dsl(spa), assignment, key, n, false);
}

int main(int argc, char **argv)
{
    static const struct fs_options options = {
        .readonly = true, .xattr = FS_XATTR_SA, .acltype = FS_ACL_POSIX};
    struct scan *scan;
    struct spa *spa;
    struct dataset *ds;
    bool checkpoint = argc > 1 && strcmp(argv[1], "--checkpoint") == 0;
    argc -= checkpoint;
    argv += checkpoint;
    if (argc < 3)
        return 2;
    int rc = scan_run(&scan, (const char *const[]){argv[1]}, 1);
    if (rc < 0 || scan->pools == 0)
        return fail("looking for a pool", rc < 0 ? rc : -ENOENT);
    struct spa_open_args args = {.config = scan->pool[0].config,
                                 .readonly = true,
                                 .force = true,
                                 .checkpoint = checkpoint};
    rc = spa_open(&args, &spa);
    if (rc < 0)
        return fail("opening the pool", rc);
    for (int i = 3; i < argc; i++)
        if ((rc = load_key(spa, argv[i])) < 0)
            return fail(argv[i], rc);
    rc = dataset_hold(spa_dsl(spa), argv[2], &ds);
    if (rc < 0)
        return fail(argv[2], rc);
    rc = fs_open(&fs, ds, &options);
    if (rc < 0)
        return fail("opening the file system", rc);
    struct fs_attr root;
    if (fs_getattr(fs, FS_ROOT_INO, &root) == 0)
        print_file("", &root);
    walk(FS_ROOT_INO, "");
    fs_close(fs);
    dataset_rele(ds);
    spa_close(spa, SPA_END_DROP);
    scan_free(scan);
    return status;
}
