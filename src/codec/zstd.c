/*
 * Zstandard (02 6.7): length, level and library version, then a frame without its magic number.
 * The encoder writes an ordinary frame four bytes before its place and covers the magic number with
 * the second half of the header.
 */
#define ZSTD_STATIC_LINKING_ONLY /* for the number of the parameter ZSTD_d_format */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "codec/compress_impl.h"
#include "util/bytes.h"

#define HEADER        8
#define MAGIC         4
#define LEVEL_DEFAULT 3
/* Contexts are kept per thread, but the memory of high levels is given back at once. */
#define KEEP_BYTES ((size_t)4 << 20)

struct contexts {
    ZSTD_CCtx *encoder;
    ZSTD_DCtx *decoder;
};

static pthread_key_t contexts_key;
static pthread_once_t contexts_once = PTHREAD_ONCE_INIT;
static bool contexts_key_made;

static void free_contexts(void *arg)
{
    struct contexts *c = arg;

    ZSTD_freeCCtx(c->encoder);
    ZSTD_freeDCtx(c->decoder);
    free(c);
}

static void make_key(void)
{
    contexts_key_made = pthread_key_create(&contexts_key, free_contexts) == 0;
}

static struct contexts *contexts(void)
{
    struct contexts *c;

    pthread_once(&contexts_once, make_key);
    if (!contexts_key_made)
        return NULL;
    c = pthread_getspecific(contexts_key);
    if (c)
        return c;
    c = calloc(1, sizeof *c);
    if (c && pthread_setspecific(contexts_key, c) != 0) {
        free(c);
        c = NULL;
    }
    return c;
}

/* The library's level for a level code; false if there is none of that code. */
static bool level_of_code(unsigned code, int *level)
{
    if (code >= 1 && code <= 19)
        *level = (int)code;
    else if (code >= 103 && code <= 112)
        *level = -(int)(code - 102);
    else if (code >= 113 && code <= 121)
        *level = -10 * (int)(code - 111);
    else if (code == 122 || code == 123)
        *level = code == 122 ? -500 : -1000;
    else
        return false;
    return true;
}

static int encode_frame(struct contexts *c, int level, const uint8_t *src, size_t n, uint8_t *dst,
                        size_t cap, size_t *len)
{
    if (!c->encoder)
        c->encoder = ZSTD_createCCtx();
    if (!c->encoder)
        return -ENOMEM;
    ZSTD_CCtx_reset(c->encoder, ZSTD_reset_session_only); /* the last call may have failed */
    ZSTD_CCtx_setParameter(c->encoder, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(c->encoder, ZSTD_c_contentSizeFlag, 0);
    ZSTD_CCtx_setParameter(c->encoder, ZSTD_c_checksumFlag, 0);
    *len = ZSTD_compress2(c->encoder, dst, cap, src, n);
    if (ZSTD_sizeof_CCtx(c->encoder) > KEEP_BYTES) {
        ZSTD_freeCCtx(c->encoder);
        c->encoder = NULL;
    }
    if (ZSTD_isError(*len))
        return ZSTD_getErrorCode(*len) == ZSTD_error_memory_allocation ? -ENOMEM : -ENOSPC;
    return 0;
}

int zstd_encode(int level, const uint8_t *src, size_t n, uint8_t *dst, size_t cap, size_t *out)
{
    unsigned code = level == 0 ? LEVEL_DEFAULT : (unsigned)level;
    struct contexts *c = contexts();
    size_t len;
    int rc;

    if (!level_of_code(code, &level))
        return -EINVAL;
    if (cap <= HEADER)
        return -ENOSPC;
    if (!c)
        return -ENOMEM;
    rc = encode_frame(c, level, src, n, dst + HEADER - MAGIC, cap - (HEADER - MAGIC), &len);
    if (rc < 0)
        return rc;
    put_be32(dst, (uint32_t)(len - MAGIC));
    put_be32(dst + 4, code << 24 | ZSTD_versionNumber());
    *out = len + HEADER - MAGIC;
    return 0;
}

/* Early big-endian writers put the level last; the version's first byte is 0 in both forms. */
static bool known_level(const uint8_t *word)
{
    int level;

    return level_of_code(word[0] != 0 ? word[0] : word[3], &level);
}

int zstd_decode(const uint8_t *src, size_t psize, uint8_t *dst, size_t n)
{
    struct contexts *c;
    size_t len, got;

    if (psize < HEADER)
        return -EILSEQ;
    len = get_be32(src);
    if (len > psize - HEADER || !known_level(src + 4))
        return -EILSEQ;
    c = contexts();
    if (c && !c->decoder)
        c->decoder = ZSTD_createDCtx();
    if (!c || !c->decoder)
        return -ENOMEM;
    if (ZSTD_isError(ZSTD_DCtx_setParameter(c->decoder, ZSTD_d_format, ZSTD_f_zstd1_magicless)))
        return -ENOTSUP;
    got = ZSTD_decompressDCtx(c->decoder, dst, n, src + HEADER, len);
    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
        return -ENOMEM;
    return got == n ? 0 : -EILSEQ;
}
