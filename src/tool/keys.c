/* Keys of encrypted datasets for the tools: --load-keys, --key-location, --key-file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/crypt.h"
#include "dsl/dataset.h"
#include "dsl/keys.h"
#include "dsl/props.h"
#include "tool/key.h"
#include "tool/tool_impl.h"
#include "util/err.h"

#define TRIES 3

static const char *format_word(uint64_t format)
{
    return format == CRYPT_FORMAT_RAW ? "raw" : format == CRYPT_FORMAT_HEX ? "hex" : "passphrase";
}

/* From one source; at a terminal there are three tries. */
static int load_from(struct dsl *dsl, const struct keys_info *k, const struct key_source *s)
{
    unsigned char *key = crypt_secret_new(KEY_BYTES_MAX);
    bool again = key != NULL;
    int rc = key ? 0 : -ENOMEM;
    for (int i = 0; i < TRIES && again; i++) {
        size_t n;
        rc = key_read(s, format_word(k->format), k->root, key, &n, &again);
        if (rc == 0)
            rc = keys_load(dsl, k->root, key, n, false);
        again = again && rc == -EACCES;
        if (again && i + 1 < TRIES)
            fprintf(stderr, "%s\n", err_text(rc));
    }
    crypt_secret_free(key, KEY_BYTES_MAX);
    return rc;
}

/* From where the encryption root says. */
static int load_stored(struct dsl *dsl, const struct keys_info *k)
{
    struct prop_value v;
    struct dataset *root;
    int rc = dataset_hold(dsl, k->root, &root);
    if (rc)
        return rc;
    rc = prop_get(root, "keylocation", &v);
    if (rc == 0) {
        const struct key_source s = {.location = v.string ? v.string : "none", .terminal = stderr};
        rc = load_from(dsl, k, &s);
        prop_value_clear(&v);
    }
    dataset_rele(root);
    return rc;
}

int tool_keys_load(struct tool *t, struct dataset *ds)
{
    struct keys_info k;
    int rc = keys_info(ds, &k);
    if (rc || !k.encrypted || k.loaded)
        return rc;
    if (t->nkeys == 0 && !t->load_keys)
        return err_set(EACCES, "it is encrypted (--load-keys, --key-location and --key-file give "
                               "its key)");
    rc = -EACCES;
    for (size_t i = 0; i < t->nkeys && rc != 0; i++)
        rc = load_from(dataset_dsl(ds), &k, &t->keys[i]);
    if (rc && t->load_keys)
        rc = load_stored(dataset_dsl(ds), &k);
    return err_prefix(rc, "its key cannot be loaded");
}
