/* Requests as the kernel would send them, but arbitrary ones. Each record of the input is a byte
 * for the opcode, one for the inode and the form (a message from /dev/fuse, or a ring's entry,
 * where the reply is written over the request), two for the length, and what follows the header. */
#include <stdlib.h>
#include <string.h>

#include "fuse/memfs.h"
#include "fuse/request_impl.h"
#include "fuzz.h"
#include "util/bytes.h"

#define LIMIT (16u << 20) /* of file data */

static uint64_t nodes[16];

/* Later requests can name what earlier ones made. */
static void remember(const struct fuse_request *r)
{
    const struct fuse_entry_out *e = (const void *)r->out;
    static unsigned next;

    if (r->out_len < sizeof *e)
        return;
    switch (r->in.opcode) {
    case FUSE_LOOKUP:
    case FUSE_MKNOD:
    case FUSE_MKDIR:
    case FUSE_SYMLINK:
    case FUSE_TMPFILE:
        nodes[1 + next++ % 15] = e->nodeid;
    }
}

static void check_reply(const struct fuse_request *r, int rc)
{
    if (rc > FUSE_NO_REPLY || rc <= -512 || r->out_len > r->out_cap || (rc && r->out_len))
        abort(); /* the kernel would not take it */
}

static void from_device(struct fuse_request *r, const uint8_t *body, size_t n)
{
    unsigned char *msg = malloc(sizeof r->in + n);
    int rc;

    if (!msg)
        return;
    r->in.len = (uint32_t)(sizeof r->in + n);
    memcpy(msg, &r->in, sizeof r->in);
    if (n)
        memcpy(msg + sizeof r->in, body, n);
    rc = fuse_request_split(r, msg, r->in.len);
    if (!rc) {
        rc = fuse_request_run(r);
        check_reply(r, rc);
        remember(r);
        if (r->in.unique & 1)
            fuse_request_undo(r);
    }
    free(msg);
}

static void from_ring(struct fuse_request *r, const uint8_t *body, size_t n)
{
    _Alignas(8) char op[FUSE_URING_OP_IN_OUT_SZ] = {0};
    size_t head = MIN(n, sizeof op), rest = n - head;

    if (head)
        memcpy(op, body, head);
    if (rest)
        memcpy(r->out, body + head, rest);
    r->arg = op;
    r->data = r->out;
    r->data_len = rest;
    check_reply(r, fuse_request_run(r));
    remember(r);
}

static void one(struct fuse_conn *c, unsigned char *out, const uint8_t *record, size_t n)
{
    struct fuse_request r = {.c = c, .out = out, .out_cap = FUSE_PAYLOAD_MAX};

    r.in = (struct fuse_in_header){
        .opcode = record[0] % (FUSE_OPCODE_LIMIT + 2),
        .unique = record[1] >> 5,
        .nodeid = nodes[record[1] % 16],
        .uid = record[1] & 0x40 ? 1000 : 0,
    };
    if (record[1] & 0x10)
        from_ring(&r, record + 4, n);
    else
        from_device(&r, record + 4, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static unsigned char *out;
    struct fs_options o = {.atime = true, .acltype = FS_ACL_POSIX};
    struct fuse_conn c = {.root_ino = 34, .setxattr_ext = true};

    memfs_forgiving = true;
    if (!out)
        out = aligned_alloc(4096, FUSE_PAYLOAD_MAX);
    c.fs = memfs_new(&o, LIMIT);
    if (!out || !c.fs)
        abort();
    for (int i = 0; i < 16; i++)
        nodes[i] = FUSE_ROOT_ID;
    while (n >= 4) {
        size_t len = MIN((size_t)get_le16(data + 2), n - 4);

        one(&c, out, data, len);
        data += 4 + len;
        n -= 4 + len;
    }
    fs_close(c.fs);
    return 0;
}
