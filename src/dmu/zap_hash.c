/* Keys and their hash (spec 03 11.1-11.3): a CRC-64 that starts with the ZAP's salt. */
#include <errno.h>

#include "dmu/zap_impl.h"

#define CRC64_POLY 0xC96C5795D7870F42ull

static uint64_t crc_table[256];

__attribute__((constructor)) static void crc_table_fill(void)
{
    for (unsigned n = 0; n < 256; n++) {
        uint64_t c = n;
        for (int i = 0; i < 8; i++)
            c = (c >> 1) ^ (c & 1 ? CRC64_POLY : 0);
        crc_table[n] = c;
    }
}

static inline uint64_t crc_byte(uint64_t h, unsigned char b)
{
    return (h >> 8) ^ crc_table[(h ^ b) & 0xff];
}

uint64_t zap_crc(uint64_t salt, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = salt;
    while (n-- > 0)
        h = crc_byte(h, *p++);
    return h;
}

uint64_t zap_hash_mask(uint64_t hash, unsigned bits)
{
    return hash & ~((1ull << (64 - bits)) - 1);
}

/* The normalised hash, for names in ASCII: all composition forms leave those alone. */
static uint64_t hash_normalised(const struct zap *z, const char *name, bool *ascii)
{
    bool fold = z->normflags & ZAP_NORM_UPPER;
    uint64_t h = z->salt;
    *ascii = true;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        if (*p >= 0x80)
            *ascii = false;
        h = crc_byte(h, fold && *p >= 'a' && *p <= 'z' ? *p - 32 : *p);
    }
    return h;
}

int zap_key_string(struct zap_key *k, const struct zap *z, const char *name)
{
    size_t len = strnlen(name, ZAP_NAME_MAX);
    if (len >= ZAP_NAME_MAX)
        return -ENAMETOOLONG;
    if (len == 0 || z->flags & ZAP_FLAG_WORD_KEYS)
        return -EINVAL;
    k->foreign = false;
    k->bytes = (const unsigned char *)name;
    k->size = len + 1;
    k->ints = len + 1;
    uint64_t h;
    if (z->normflags == 0) {
        h = zap_crc(z->salt, name, len);
    } else {
        bool ascii;
        h = hash_normalised(z, name, &ascii);
        k->foreign = !ascii;
    }
    k->hash = zap_hash_mask(h, z->hash_bits);
    return 0;
}

int zap_key_words(struct zap_key *k, const struct zap *z, const uint64_t *words, unsigned n)
{
    if (n == 0 || n > ZAP_WORDS_MAX || !(z->flags & ZAP_FLAG_WORD_KEYS))
        return -EINVAL;
    uint64_t h = z->salt;
    for (unsigned i = 0; i < n; i++) {
        put_be64(k->words + 8 * i, words[i]);
        for (int b = 0; b < 64; b += 8)
            h = crc_byte(h, words[i] >> b & 0xff);
    }
    k->foreign = false;
    k->bytes = k->words;
    k->size = 8 * n;
    k->ints = n;
    k->hash = zap_hash_mask(z->flags & ZAP_FLAG_PREHASHED ? words[0] : h, z->hash_bits);
    return 0;
}
