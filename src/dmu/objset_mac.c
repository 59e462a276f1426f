/* The two authentication codes in the root block of an encrypted object set (spec 09 8.2). */
#include <errno.h>
#include <openssl/crypto.h>

#include "codec/crypt.h"
#include "dmu/dmu_impl.h"
#include "pool/mac.h"
#include "util/err.h"

#define OBJSET_MAC_SIZE 32

/* What does not change when the set is sent raw: its type, and the dnode of all dnodes. */
static int portable(const struct crypt_key *key, const unsigned char *block, bool big,
                    uint8_t mac[CRYPT_HASH_SIZE])
{
    uint8_t input[16 + MAC_DNODE_SIZE] = {0};
    size_t n;

    put_be64(input, get_u64(block + OBJSET_OFF_TYPE, big)); /* alone in this order */
    /* Behind the flags, of which none is portable. */
    n = mac_dnode(block, big, crypt_key_version(key), input + 16);
    if (n == 0)
        return -EBADE;
    crypt_hmac(key, input, 16 + n, mac);
    return 0;
}

/* The accounting objects; *covered says whether there is anything to authenticate. */
static int local(const struct crypt_key *key, const unsigned char *block, size_t size, bool big,
                 uint8_t mac[CRYPT_HASH_SIZE], bool *covered)
{
    uint8_t input[8 + 3 * MAC_DNODE_SIZE];
    uint64_t flags = get_u64(block + OBJSET_OFF_FLAGS, big);
    size_t n = 8;

    put_le64(input, flags);
    for (unsigned i = 0; i < 3; i++) {
        size_t at = OBJSET_OFF_SPECIAL + i * DNODE_MIN_SIZE, len;

        if (at + DNODE_MIN_SIZE > size || block[at + DN_TYPE] == OT_NONE)
            continue;
        len = mac_dnode(block + at, big, crypt_key_version(key), input + n);
        if (len == 0)
            return -EBADE;
        n += len;
    }
    *covered = n > 8 && flags & OBJSET_FLAG_USERACCOUNTING;
    crypt_hmac(key, input, n, mac);
    return 0;
}

static bool is_zero(const unsigned char *p, size_t n)
{
    while (n > 0 && p[n - 1] == 0)
        n--;
    return n == 0;
}

int objset_authenticate(const struct crypt_key *key, const unsigned char *block, size_t n, bool big)
{
    uint8_t mac[CRYPT_HASH_SIZE];
    const unsigned char *stored = block + OBJSET_OFF_LOCAL_MAC;
    bool covered, bad;

    if (portable(key, block, big, mac) != 0 ||
        CRYPTO_memcmp(mac, block + OBJSET_OFF_PORTABLE_MAC, OBJSET_MAC_SIZE) != 0)
        return err_set(EBADE, "its authentication code does not match");
    /* Zero after a raw receive: the accounting objects are to be made anew. */
    if (is_zero(stored, OBJSET_MAC_SIZE))
        return 0;
    bad = local(key, block, n, big, mac, &covered) != 0 || !covered ||
          CRYPTO_memcmp(mac, stored, OBJSET_MAC_SIZE) != 0;
    return bad ? err_set(EBADE, "the authentication code of its accounts does not match") : 0;
}
