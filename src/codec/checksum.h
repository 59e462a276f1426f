/* Block checksums (spec 02 5). */
#ifndef CODEC_CHECKSUM_H
#define CODEC_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum checksum {
    CHECKSUM_INHERIT, CHECKSUM_ON, CHECKSUM_OFF, CHECKSUM_LABEL, CHECKSUM_GANG_HEADER,
    CHECKSUM_ZILOG, CHECKSUM_FLETCHER2, CHECKSUM_FLETCHER4, CHECKSUM_SHA256, CHECKSUM_ZILOG2,
    CHECKSUM_NOPARITY, CHECKSUM_SHA512, CHECKSUM_SKEIN, CHECKSUM_EDONR, CHECKSUM_BLAKE3,
    CHECKSUM_COUNT
};

enum {
    CHECKSUM_METADATA = 1, /* may protect metadata */
    CHECKSUM_DEDUP = 2,    /* strong enough for dedup without verify */
    CHECKSUM_NOPWRITE = 4,
    CHECKSUM_SALTED = 8,
    CHECKSUM_EMBEDDED = 16 /* stored inside the block it protects */
};

#define CHECKSUM_SALT_SIZE 32

struct checksum_info {
    const char *name;    /* as the property value and zdb name it */
    unsigned flags;
    const char *feature; /* GUID of the per-dataset feature, NULL if none */
    /* big: the byte order of the block, i.e. of the words it holds. NULL for kinds without one. */
    void (*compute)(const void *data, size_t n, const uint8_t *salt, bool big, uint64_t out[4]);
};

/* NULL for a number that is out of range. compute is NULL where this build cannot compute it. */
const struct checksum_info *checksum_info(unsigned type);

/* Four words of the checksum of n bytes (a multiple of 512 for fletcher). -ENOTSUP if the kind has no
 * function here, -EINVAL if it is salted and salt (CHECKSUM_SALT_SIZE bytes) is NULL. For the kinds
 * with an embedded checksum this is the hash alone: the caller has put the verifier in place. */
int checksum_compute(unsigned type, const void *data, size_t n, const uint8_t *salt, bool big,
                     uint64_t out[4]);

/* Blocks with an embedded trailer (02 5.7: label, gang header): the 40-byte trailer is at the end
 * of the n bytes; verifier is what stands in the checksum words while hashing. seal fills the
 * trailer in host order; verify gives 0 or -EBADE and says whether the block is big-endian. */
#define CHECKSUM_TRAILER_SIZE  40
#define CHECKSUM_TRAILER_MAGIC 0x0210da7ab10c7a11ull
void checksum_seal_trailer(void *data, size_t n, const uint64_t verifier[4]);
int checksum_verify_trailer(const void *data, size_t n, const uint64_t verifier[4], bool *big);
/* The same for the gang header of a block whose pointer has the X bit: two words, and two of zero. */
int checksum_verify_trailer_folded(const void *data, size_t n, const uint64_t verifier[4],
                                   bool *big);

/* What the trailer's checksum words should be: for blocks that store them folded. n is at least
 * CHECKSUM_TRAILER_SIZE; the trailer's present contents do not matter. */
void checksum_trailer_words(const void *data, size_t n, const uint64_t verifier[4], bool big,
                            uint64_t out[4]);

/* The two words that blocks with the pointer's X bit keep (02 5.6), the other two 0. */
void checksum_fold(unsigned type, uint64_t words[4]);

/* Plain fletcher-4, for streams and tests; update continues sums that begin as four zeros. n is a
 * multiple of 4. */
void fletcher4(const void *data, size_t n, bool big, uint64_t out[4]);
void fletcher4_update(const void *data, size_t n, bool big, uint64_t sums[4]);
/* Name of the fletcher-4 implementation in use ("scalar", "avx2", ...). */
const char *fletcher4_implementation(void);

#endif
