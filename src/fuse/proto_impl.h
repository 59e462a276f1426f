/*
 * The FUSE protocol: the kernel's header, and what later minor versions added. Numbers and layouts
 * are the kernel's interface (7.39 to 7.45).
 */
#ifndef FUSE_PROTO_IMPL_H
#define FUSE_PROTO_IMPL_H

#include <linux/fuse.h>
#include <stdint.h>

#if FUSE_KERNEL_MINOR_VERSION < 39
#define FUSE_STATX 52

struct fuse_sx_time {
    int64_t tv_sec;
    uint32_t tv_nsec;
    int32_t reserved;
};

struct fuse_statx {
    uint32_t mask;
    uint32_t blksize;
    uint64_t attributes;
    uint32_t nlink;
    uint32_t uid;
    uint32_t gid;
    uint16_t mode;
    uint16_t spare0;
    uint64_t ino;
    uint64_t size;
    uint64_t blocks;
    uint64_t attributes_mask;
    struct fuse_sx_time atime, btime, ctime, mtime;
    uint32_t rdev_major;
    uint32_t rdev_minor;
    uint32_t dev_major;
    uint32_t dev_minor;
    uint64_t spare2[14];
};

struct fuse_statx_in {
    uint32_t getattr_flags;
    uint32_t reserved;
    uint64_t fh;
    uint32_t sx_flags;
    uint32_t sx_mask;
};

struct fuse_statx_out {
    uint64_t attr_valid;
    uint32_t attr_valid_nsec;
    uint32_t flags;
    uint64_t spare[2];
    struct fuse_statx stat;
};
#endif

#if FUSE_KERNEL_MINOR_VERSION < 42
#define FUSE_OVER_IO_URING (1ull << 41)

/* The two fixed parts of a ring request's header hold the in or out header, and the operation's
 * own structure; what follows in a classic message (names, data, all of a reply) is the payload. */
#define FUSE_URING_IN_OUT_HEADER_SZ 128
#define FUSE_URING_OP_IN_OUT_SZ     128

struct fuse_uring_ent_in_out {
    uint64_t flags;
    uint64_t commit_id;
    uint32_t payload_sz;
    uint32_t padding;
    uint64_t reserved;
};

struct fuse_uring_req_header {
    char in_out[FUSE_URING_IN_OUT_HEADER_SZ];
    char op_in[FUSE_URING_OP_IN_OUT_SZ];
    struct fuse_uring_ent_in_out ring_ent_in_out;
};

enum fuse_uring_cmd {
    FUSE_IO_URING_CMD_INVALID = 0,
    FUSE_IO_URING_CMD_REGISTER = 1,
    FUSE_IO_URING_CMD_COMMIT_AND_FETCH = 2,
};

struct fuse_uring_cmd_req {
    uint64_t flags;
    uint64_t commit_id;
    uint16_t qid;
    uint8_t padding[6];
};
#endif

#if FUSE_KERNEL_MINOR_VERSION < 44
#define FUSE_NOTIFY_INC_EPOCH 8
#endif

#if FUSE_KERNEL_MINOR_VERSION < 45
#define FUSE_COPY_FILE_RANGE_64 53

struct fuse_copy_file_range_out {
    uint64_t bytes_copied;
};
#endif

#define FUSE_OPCODE_LIMIT 64 /* all we know are below */

/* A WRITE's data follows this many bytes of headers. */
#define FUSE_WRITE_HEAD (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))

#endif
