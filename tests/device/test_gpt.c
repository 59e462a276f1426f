/* GUID partition tables, made by sgdisk and by hand. */
#include "device_test.h"

#include <errno.h>
#include <zlib.h>

#include "util/bytes.h"

enum { MIB = 1 << 20, IMAGE = 32 * MIB };

static char dir[PATH_MAX], path[PATH_MAX + 16];

static int setup(void **state)
{
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/disk", dir);
    make_file(path, IMAGE);
    return 0;
}

static int teardown(void **state)
{
    remove_dir(dir);
    return 0;
}

static int find(const char *name, uint64_t *start, uint64_t *size)
{
    struct device *d;
    assert_int_equal(device_open(&d, name, DEVICE_OPEN_NOLOCK), 0);
    int rc = device_find_gpt(d, start, size);
    device_close(d);
    return rc;
}

static bool have(const char *command)
{
    char line[200];
    snprintf(line, sizeof line, "PATH=$PATH:/usr/sbin:/sbin command -v %s >/dev/null 2>&1",
             command);
    return system(line) == 0;
}

static void run(const char *fmt, const char *arg)
{
    char line[PATH_MAX + 400], command[PATH_MAX + 200];
    snprintf(command, sizeof command, fmt, arg);
    snprintf(line, sizeof line, "PATH=$PATH:/usr/sbin:/sbin; %s >/dev/null", command);
    assert_int_equal(system(line), 0);
}

static void scribble(const char *name, uint64_t at, size_t n)
{
    int fd = open(name, O_RDWR | O_CLOEXEC);
    unsigned char junk[512];
    memset(junk, 0x5a, sizeof junk);
    assert_int_equal(pwrite(fd, junk, n, (off_t)at), n);
    close(fd);
}

static void test_sgdisk(void **state)
{
    uint64_t start = 0, size = 0;
    if (!have("sgdisk")) {
        printf("SKIP: no sgdisk here (package gdisk)\n");
        skip();
    }
    assert_int_equal(find(path, &start, &size), -ENOENT); /* nothing there yet */
    /* Whole disks as the reference partitions them: a data and a reserved partition. */
    run("sgdisk -n 1:2048:+20M -t 1:bf01 -n 9:0:+1M -t 9:bf07 %s", path);
    assert_int_equal(find(path, &start, &size), 0);
    assert_int_equal(start, 2048 * 512);
    assert_int_equal(size, 20 * MIB);
    /* The first copy damaged, then the second too. */
    scribble(path, 512 + 40, 8);
    start = size = 0;
    assert_int_equal(find(path, &start, &size), 0);
    assert_int_equal(start, 2048 * 512);
    assert_int_equal(size, 20 * MIB);
    scribble(path, IMAGE - 512 + 16, 4);
    assert_int_equal(find(path, &start, &size), -ENOENT);
}

static void test_sgdisk_table_damaged(void **state)
{
    uint64_t start = 0, size = 0;
    if (!have("sgdisk")) {
        printf("SKIP: no sgdisk here (package gdisk)\n");
        skip();
    }
    run("sgdisk -n 1:2048:+4M -t 1:8300 -n 2:0:+8M -t 2:a504 -n 3:0:+2M -t 3:bf01 %s", path);
    assert_int_equal(find(path, &start, &size), 0);
    assert_int_equal(start, 2048 * 512 + 4 * MIB); /* FreeBSD's type */
    assert_int_equal(size, 8 * MIB);
    scribble(path, 1024 + 32, 8); /* the header is right, its table is not */
    start = 0;
    assert_int_equal(find(path, &start, &size), 0);
    assert_int_equal(start, 2048 * 512 + 4 * MIB);
    scribble(path, IMAGE - 512 - 16384 + 128, 8);
    assert_int_equal(find(path, &start, &size), -ENOENT);
}

static void test_other_types(void **state)
{
    uint64_t start, size;
    if (!have("sgdisk")) {
        printf("SKIP: no sgdisk here (package gdisk)\n");
        skip();
    }
    run("sgdisk -n 1:2048:+4M -t 1:8300 -n 2:0:+8M -t 2:ef00 %s", path);
    assert_int_equal(find(path, &start, &size), -ENOENT);
}

/* A disk with sectors of 4096 bytes, and its image as a file. */
static void test_sgdisk_4096(void **state)
{
    char loop[64] = "", command[PATH_MAX + 100];
    uint64_t start = 0, size = 0;
    if (!have("sgdisk") || !have("losetup") || geteuid()) {
        printf("SKIP: needs root, sgdisk and losetup\n");
        skip();
    }
    snprintf(command, sizeof command, "PATH=$PATH:/usr/sbin:/sbin losetup -b 4096 -f --show %s",
             path);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    if (!fgets(loop, sizeof loop, p) || loop[0] != '/') {
        pclose(p);
        printf("SKIP: no loop devices here\n");
        skip();
    }
    pclose(p);
    loop[strcspn(loop, "\n")] = '\0';
    run("sgdisk -n 1:256:+20M -t 1:bf01 %s", loop);
    int on_device = find(loop, &start, &size);
    run("losetup -d %s", loop);
    assert_int_equal(on_device, 0);
    assert_int_equal(start, 256 * 4096);
    assert_int_equal(size, 20 * MIB);
    start = size = 0;
    assert_int_equal(find(path, &start, &size), 0);
    assert_int_equal(start, 256 * 4096);
    assert_int_equal(size, 20 * MIB);
    scribble(path, 4096, 92);
    start = 0;
    assert_int_equal(find(path, &start, &size), 0);
    assert_int_equal(start, 256 * 4096);
}

/* A table by hand, with one partition. */
struct fields {
    uint64_t my_lba, table_lba, first, last;
    uint32_t header_size, count, entry_size;
};

static void put_table(struct device *d, unsigned sector, const struct fields *f)
{
    static const unsigned char type[16] = {0xc3, 0x8c, 0x89, 0x6a, 0xd2, 0x1d, 0xb2, 0x11,
                                           0x99, 0xa6, 0x08, 0x00, 0x20, 0x73, 0x66, 0x31};
    unsigned char header[4096] = {0}, entries[16384] = {0};
    memcpy(entries + f->entry_size, type, 16); /* the second entry */
    put_le64(entries + f->entry_size + 32, f->first);
    put_le64(entries + f->entry_size + 40, f->last);
    memcpy(header, "EFI PART\0\0\1", 12);
    put_le32(header + 12, f->header_size);
    put_le64(header + 24, f->my_lba);
    put_le64(header + 72, f->table_lba);
    put_le32(header + 80, f->count);
    put_le32(header + 84, f->entry_size);
    uint64_t n = (uint64_t)f->count * f->entry_size;
    put_le32(header + 88, (uint32_t)crc32(0, entries, (uInt)MIN(n, sizeof entries)));
    put_le32(header + 16, (uint32_t)crc32(0, header, MIN(f->header_size, 4096u)));
    assert_int_equal(device_write(d, sector, header, sector), 0);
    if (n <= sizeof entries && f->table_lba < 1000)
        assert_int_equal(device_write(d, f->table_lba * sector, entries, n), 0);
}

static void test_by_hand(void **state)
{
    static const struct fields good = {1, 2, 64, 127, 92, 16, 128};
    for (unsigned sector = 512; sector <= 4096; sector *= 8) {
        uint64_t start, size, last = IMAGE / sector - 1;
        struct {
            struct fields f;
            int rc;
        } cases[] = {
            {good, 0},
            {{1, 2, 64, 127, 512, 16, 256}, 0},
            {{1, 2, 64, last, 92, 16, 128}, 0},
            {{2, 2, 64, 127, 92, 16, 128}, -ENOENT},
            {{1, 2, 64, 127, 91, 16, 128}, -ENOENT},
            {{1, 2, 64, 127, 4097, 16, 128}, -ENOENT},
            {{1, 2, 64, 127, UINT32_MAX, 16, 128}, -ENOENT},
            {{1, 2, 64, 63, 92, 16, 128}, -ENOENT},
            {{1, 2, 64, last + 1, 92, 16, 128}, -ENOENT},
            {{1, 2, 0, 127, 92, 16, 128}, -ENOENT},
            {{1, 2, UINT64_MAX, UINT64_MAX, 92, 16, 128}, -ENOENT},
            {{1, 2, 64, 127, 92, 16, 64}, -ENOENT},
            {{1, 2, 64, 127, 92, 16, 130}, -ENOENT},
            {{1, 2, 64, 127, 92, 0, 128}, -ENOENT},
            {{1, 2, 64, 127, 92, UINT32_MAX, 128}, -ENOENT},
            {{1, UINT64_MAX, 64, 127, 92, 16, 128}, -ENOENT},
            {{1, UINT64_MAX / 512, 64, 127, 92, 16, 128}, -ENOENT},
            {{1, last, 64, 127, 92, 16384 / 128, 128}, -ENOENT},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            struct device *d;
            assert_int_equal(device_memory(&d, IMAGE), 0);
            put_table(d, sector, &cases[i].f);
            int rc = device_find_gpt(d, &start, &size);
            if (rc != cases[i].rc)
                fail_msg("case %zu, sector %u: %d", i, sector, rc);
            if (rc == 0) {
                assert_int_equal(start, cases[i].f.first * sector);
                assert_int_equal(size, (cases[i].f.last - cases[i].f.first + 1) * sector);
            }
            device_close(d);
        }
    }
}

/* Any flipped bit of header or table makes it invalid, whatever it is. */
static void test_flipped_bits(void **state)
{
    static const struct fields good = {1, 2, 64, 127, 92, 16, 128};
    struct env e = test_env();
    struct device *d;
    uint64_t start, size;
    assert_int_equal(device_memory(&d, IMAGE), 0);
    put_table(d, 512, &good);
    for (int i = 0; i < 500; i++) {
        uint64_t at = test_below(&e, 92 + 2048);
        at = at < 92 ? 512 + at : 1024 + at - 92;
        unsigned char c, mask = (unsigned char)(1u << test_below(&e, 8));
        assert_int_equal(device_read(d, at, &c, 1), 0);
        c ^= mask;
        assert_int_equal(device_write(d, at, &c, 1), 0);
        assert_int_equal(device_find_gpt(d, &start, &size), -ENOENT);
        c ^= mask;
        assert_int_equal(device_write(d, at, &c, 1), 0);
    }
    assert_int_equal(device_find_gpt(d, &start, &size), 0);
    device_close(d);
}

static void test_small_devices(void **state)
{
    uint64_t start, size;
    for (uint64_t n = 0; n < 20000; n += 511) {
        struct device *d;
        assert_int_equal(device_memory(&d, n), 0);
        assert_int_equal(device_find_gpt(d, &start, &size), -ENOENT);
        device_close(d);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sgdisk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sgdisk_table_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_types, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sgdisk_4096, setup, teardown),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_small_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
