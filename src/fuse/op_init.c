/* INIT: what is negotiated with the kernel, and why. */
#include <errno.h>
#include <string.h>

#include "fuse/request_impl.h"
#include "util/bytes.h"

static const uint64_t wanted =
    FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES | FUSE_INIT_EXT |
    FUSE_EXPORT_SUPPORT | /* NFS handles: lookups of "." and ".." */
    FUSE_DONT_MASK |      /* the umask is applied where default ACLs are known */
    FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_PARALLEL_DIROPS |
    FUSE_HANDLE_KILLPRIV_V2 | /* without it the kernel asks for an xattr before each write */
    FUSE_CACHE_SYMLINKS |
    FUSE_EXPLICIT_INVAL_DATA | /* the automatism throws away what was just written */
    FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT | FUSE_SETXATTR_EXT | FUSE_ABORT_ERROR;
/* Left out on purpose: WRITEBACK_CACHE (slower here, and stale sizes), ATOMIC_O_TRUNC (there is no
 * OPEN that could carry it), POSIX_LOCKS and FLOCK_LOCKS (the kernel's own locks do: one machine).
 */

/* Names that do not exist are remembered for an hour if the kernel can be told to forget all names
 * (FUSE_NOTIFY_INC_EPOCH, or root's remount). */
static uint32_t negative_seconds(const struct fuse_conn *c)
{
    return c->minor >= 44 || c->privileged ? FUSE_VALID_SECONDS : 1;
}

int fuse_op_init(struct fuse_request *r)
{
    const struct fuse_init_in *in = r->arg;
    struct fuse_conn *c = r->c;
    uint64_t have = in->flags;
    uint64_t use = wanted | (c->posix_acl ? FUSE_POSIX_ACL : 0);
    struct fuse_init_out out = {
        .major = FUSE_KERNEL_VERSION,
        .minor = 45,
        .max_background = 64,
        .congestion_threshold = 48,
        .max_write = FUSE_PAYLOAD_MAX,
        .time_gran = 1,
    };

    if (in->major < FUSE_KERNEL_VERSION || (in->major == FUSE_KERNEL_VERSION && in->minor < 31))
        return -EPROTO;                    /* Linux 5.4 */
    if (in->major > FUSE_KERNEL_VERSION) { /* the kernel then asks again with our version */
        memcpy(r->out, &out, FUSE_COMPAT_INIT_OUT_SIZE);
        r->out_len = FUSE_COMPAT_INIT_OUT_SIZE;
        return 0;
    }
    if ((have & FUSE_INIT_EXT) && r->data_len >= sizeof in->flags2)
        have |= (uint64_t)in->flags2 << 32;
    if (c->offer_uring)
        use |= FUSE_OVER_IO_URING;
    use &= have;
    c->minor = in->minor;
    c->uring = use & FUSE_OVER_IO_URING;
    if (c->uring)
        out.max_write = c->ring_payload;
    c->setxattr_ext = use & FUSE_SETXATTR_EXT;
    c->keep_open = !(use & FUSE_NO_OPEN_SUPPORT) || !(use & FUSE_NO_OPENDIR_SUPPORT);
    c->negative_valid = negative_seconds(c);
    out.minor = MIN(out.minor, in->minor);
    out.max_readahead = in->max_readahead;
    out.max_pages = (uint16_t)(out.max_write / 4096);
    out.flags = (uint32_t)use;
    out.flags2 = (uint32_t)(use >> 32);
    memcpy(r->out, &out, sizeof out);
    r->out_len = sizeof out;
    return 0;
}
