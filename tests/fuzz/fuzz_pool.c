/*
 * A whole pool whose blocks lie, under the offline tools: what a block holds is changed after its
 * checksum was found right, as if it had been made again. Input: a byte that chooses the command, then
 * changes of 8 bytes each: in which blocks (type, lowest bytes of object and of level and number;
 * 255: all), what is done where. The tools may complain of anything, but not crash, hang or fill
 * the memory. The pool is made in a file of /tmp, or is what TARN_FUZZ_IMAGE names.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "fs/format.h"
#include "fs/fs.h"
#include "fuzz.h"
#include "pool/block.h"
#include "spa/spa.h"
#include "tool/tool.h"
#include "util/buf.h"

#define IMAGE_SIZE (64ll << 20)
#define CHANGE     8
#define FILES      300 /* more than a small directory holds */

static char image[] = "/tmp/tarn-fuzz-pool-XXXXXX";
static char *location;
static const uint8_t *changes;
static size_t change_count;

/* ---- Lying ---- */

static void change(const uint8_t *c, unsigned char *data, size_t size)
{
    static const uint64_t odd[] = {0, 1, 2, 0xff, 0x7fff, 0xffff, 1u << 31, 0xffffffff, 1ull << 40,
                                   1ull << 62, 1ull << 63, INT64_MAX, UINT64_MAX - 1, UINT64_MAX};
    size_t at = (size_t)(c[4] | c[5] << 8) * 8 % size, from = c[6] * 8u % size;
    uint64_t word = c[6];

    switch (c[3] % 8) {
    case 0:
        data[at + c[7] % 8] ^= c[6];
        break;
    case 1:
        word = odd[c[6] % (sizeof odd / sizeof odd[0])];
        memcpy(data + at, &word, 8);
        break;
    case 2:
        memcpy(data + at, &word, 8);
        break;
    case 3:
        memmove(data + at, data + from, 8);
        break;
    case 4:
        memset(data + at, c[6], size - at < 128 ? size - at : 128);
        break;
    case 5:
        memcpy(data + at + c[7] % 4 * 2u, c + 6, 2);
        break;
    case 6:
        memmove(data + at, data + from, size - at < size - from ? size - at : size - from);
        break;
    default:
        word = (uint64_t)c[6] << c[7] % 57;
        memcpy(data + at, &word, 8);
    }
}

static bool meant(uint8_t byte, uint64_t what)
{
    return byte == 255 || byte == (what & 255);
}

static int lie(int rc, const struct blkptr *bp, const struct bookmark *bm, struct buf *b)
{
    for (size_t i = 0; rc == 0 && i < change_count; i++) {
        const uint8_t *c = changes + i * CHANGE;
        if (meant(c[0], bp_type(bp)) && meant(c[1], bm ? bm->object : 0) &&
            meant(c[2], bm ? bm->blkid + (uint64_t)bm->level * 16 : 0))
            change(c, b->data, b->size / 8 * 8);
    }
    return rc;
}

/* The linker puts these before the real ones (--wrap). */
int __real_block_read(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                      struct buf **out);
int __wrap_block_read(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                      struct buf **out);
int __real_block_read_key(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                          const struct crypt_key *key, struct buf **out);
int __wrap_block_read_key(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                          const struct crypt_key *key, struct buf **out);

int __wrap_block_read(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                      struct buf **out)
{
    int rc = __real_block_read(pool, bp, bm, out);
    return lie(rc, bp, bm, rc ? NULL : *out);
}

int __wrap_block_read_key(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                          const struct crypt_key *key, struct buf **out)
{
    int rc = __real_block_read_key(pool, bp, bm, key, out);
    return lie(rc, bp, bm, rc ? NULL : *out);
}

/* ---- The pool ---- */

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void fill(struct fs *fs)
{
    static const char text[] = "some words of a file ";
    struct fs_new file = {.mode = S_IFREG | 0644}, folder = {.mode = S_IFDIR | 0755},
                  link = {.mode = S_IFLNK | 0777, .target = "many/1"};
    struct fs_attr big, many, attr;
    char name[16];

    must(fs_create(fs, FS_ROOT_INO, "big", &file, &big) == 0);
    for (unsigned i = 0; i < 40; i++)
        must(fs_write(fs, big.ino, i * 100000, text, sizeof text, 0) == (int64_t)sizeof text);
    must(fs_create(fs, FS_ROOT_INO, "link", &link, &attr) == 0);
    must(fs_create(fs, FS_ROOT_INO, "many", &folder, &many) == 0);
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "%u", i);
        must(fs_create(fs, many.ino, name, &file, &attr) == 0);
    }
    must(fs_setxattr(fs, attr.ino, "user.a", "value", 5, 0, false) == 0);
    must(fs_setxattr(fs, big.ino, "user.long", image, sizeof image, 0, false) == 0);
}

static void make_pool(void)
{
    const char *paths[] = {image};
    struct spa_create_args args = {.name = "tank", .paths = paths, .npaths = 1};
    struct fs_options options = {.xattr = FS_XATTR_SA};
    struct dataset *ds;
    struct spa *spa;
    struct fs *fs;
    int fd = mkstemp(image);

    must(fd >= 0 && ftruncate(fd, IMAGE_SIZE) == 0);
    close(fd);
    must(spa_create(&args, false, NULL, &spa) == 0);
    must(dataset_create(spa_dsl(spa), "tank/fs", NULL, 0, 0) == 0);
    must(dataset_hold(spa_dsl(spa), "tank/fs", &ds) == 0);
    must(fs_open(&fs, ds, &options) == 0);
    fill(fs);
    fs_close(fs);
    dataset_rele(ds);
    must(spa_close(spa, SPA_END_EXPORT) == 0);
}

static void remove_image(void)
{
    unlink(image);
}

static void prepare(void)
{
    dsl_register_format(fs_format);
    location = getenv("TARN_FUZZ_IMAGE");
    if (!location) {
        make_pool();
        atexit(remove_image);
        location = image;
    }
    must(freopen("/dev/null", "w", stdout));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const commands[][3] = {
        {"ls", "-lR"},        {"find"},           {"du"},
        {"extract", "--tar"}, {"verify"},         {"verify", "--json"},
        {"inspect", "mos"},   {"inspect", "config"}, {"inspect", "spacemaps"},
        {"inspect", "dataset"}, {"inspect", "history"}, {"inspect", "features"},
    };
    char *argv[6];
    int argc = 0;

    if (n < 1 || n > 1 + 64 * CHANGE)
        return 0;
    if (!location)
        prepare();
    changes = data + 1;
    change_count = (n - 1) / CHANGE;
    const char *const *command = commands[data[0] % (sizeof commands / sizeof commands[0])];
    for (unsigned i = 0; i < 3 && command[i]; i++)
        argv[argc++] = (char *)command[i];
    argv[argc++] = location;
    if (strcmp(argv[0], "extract") == 0)
        argv[argc++] = (char *)"/dev/null";
    argv[argc] = NULL;
    optind = 0; /* getopt starts anew */
    tool_main(argc, argv);
    return 0;
}
