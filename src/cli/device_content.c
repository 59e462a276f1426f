/*
 * What a block device holds already: signatures of the file systems, containers and partition
 * tables that people lose by naming the wrong device. Files are not looked at, as in the reference.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/vdev_spec_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"

static const struct {
    const char *name;
    off_t offset;
    const char *magic;
    size_t n;
} signatures[] = {
    {"ext4", 0x438, "\x53\xef", 2},
    {"xfs", 0, "XFSB", 4},
    {"btrfs", 0x10040, "_BHRfS_M", 8},
    {"swap", 4086, "SWAPSPACE2", 10},
    {"crypto_LUKS", 0, "LUKS\xba\xbe", 6},
    {"LVM2_member", 536, "LVM2 001", 8},
    {"linux_raid_member", 4096, "\xfc\x4e\x2b\xa9", 4},
    {"ntfs", 3, "NTFS    ", 8},
    {"exfat", 3, "EXFAT   ", 8},
    {"vfat", 82, "FAT32   ", 8},
    {"vfat", 54, "FAT1", 4},
    {"iso9660", 0x8001, "CD001", 5},
    {"squashfs", 0, "hsqs", 4},
    {"gpt", 512, "EFI PART", 8},
    {"f2fs", 1024, "\x10\x20\xf5\xf2", 4},
    {"bcachefs", 4120, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca", 8},
};

const char *device_content(const char *path)
{
    struct stat st;
    char buf[16];
    int fd CLEANUP_CLOSE = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(signatures); i++)
        if (pread(fd, buf, signatures[i].n, signatures[i].offset) == (ssize_t)signatures[i].n &&
            memcmp(buf, signatures[i].magic, signatures[i].n) == 0)
            return signatures[i].name;
    return NULL;
}
