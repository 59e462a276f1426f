/* The keys of tests/data/crypt: two datasets of a pool made by OpenZFS 2.4.4. */
#ifndef TESTS_SUPPORT_CRYPT_KEYS_H
#define TESTS_SUPPORT_CRYPT_KEYS_H

#include <string.h>

#include "codec/crypt.h"

struct sample_key {
    const char *name; /* of the files */
    unsigned format;
    const char *given; /* raw: in hex */
    uint64_t salt, iters, suite, guid;
    const char *iv, *mac, *master, *hmac;
};

static const struct sample_key sample_keys[] = {
    {"gcm", CRYPT_FORMAT_PASSPHRASE, "correct horse\n", 0x371990e023ad7b83, 100000, 8,
     0x7b166057d04d8ee6, "a983e57c345681d19541ab67", "2b24fdb836288bb5b9ed73a4c2477f2e",
     "68ce3fb513d7c2b9bfd7aa479522d1ab2bd2f3e71a50c378a8f82a748c636769",
     "c292a68d4b4475dc047144e66d1df7c1fd707a8f1deaf5ef42b225ba972f5323"
     "002bc9ec2d9253d589e22e986e0732d95c90bfc5faf7c06c5bd34600b3c172ba"},
    {"ccm", CRYPT_FORMAT_RAW, "706f6f6c206865616c20636f7069657320616e64206120373930373739393436", 0,
     0, 3, 0xe6ccb64629bf0334, "4cfd67016b27d0ab815b83bd", "9219743a20d0af507ab9093bb6e79dd5",
     "2b9b7f7dca1c0030a4332bcb55cad64700000000000000000000000000000000",
     "1a28e39f83bbe198b390f3d1b2b868085be180ff7bf472d6d835e240a382f551"
     "722a459113a52cbf28180c032de4806c0fa101bcffbcd3958bde9181ee838768"},
};

/* That of the log blocks: of another pool. */
static const struct sample_key sample_log_key = {
    "log", CRYPT_FORMAT_PASSPHRASE, "correct horse\n", 0xa01b36cc003852f0, 350000, 8,
    0x26dacd8442b70eae, "d5e3fb19123862a906a29f63", "1ee7db8db6ffc5c0fcee34e662f85c9d",
    "3b1ccb342c37de005fd43d830e115c6048859dadb33bec4b479630153a498677",
    "61a98d3a8aada33692ad30d53f3a215c186b7291cda91e5ee02efda6d190e056"
    "0466fc6fe3bcd4c27df5a19082a5a31995cd5fc1e10e1703d169e3c5e8bcf6fd"};

static inline void sample_unhex(const char *text, uint8_t *out)
{
    static const char digits[] = "0123456789abcdef";

    for (; text[0]; text += 2)
        *out++ =
            (uint8_t)((strchr(digits, text[0]) - digits) << 4 | (strchr(digits, text[1]) - digits));
}

static inline void sample_wrapped(const struct sample_key *k, struct crypt_wrapped *w)
{
    *w = (struct crypt_wrapped){.suite = k->suite, .guid = k->guid, .version = 1};
    sample_unhex(k->iv, w->iv);
    sample_unhex(k->mac, w->mac);
    sample_unhex(k->master, w->master);
    sample_unhex(k->hmac, w->hmac);
}

static inline int sample_wrapping(const struct sample_key *k, uint8_t out[CRYPT_WRAPPING_SIZE])
{
    uint8_t raw[CRYPT_WRAPPING_SIZE];

    if (k->format != CRYPT_FORMAT_RAW)
        return crypt_wrapping_key(k->format, k->given, strlen(k->given), k->salt, k->iters, out);
    sample_unhex(k->given, raw);
    return crypt_wrapping_key(k->format, raw, sizeof raw, k->salt, k->iters, out);
}

/* NULL if that fails. */
static inline struct crypt_key *sample_key(const struct sample_key *k)
{
    uint8_t wrapping[CRYPT_WRAPPING_SIZE];
    struct crypt_key *key = NULL;
    struct crypt_wrapped w;

    sample_wrapped(k, &w);
    if (sample_wrapping(k, wrapping) != 0 || crypt_key_unwrap(&key, &w, wrapping) != 0)
        return NULL;
    return key;
}

#endif
