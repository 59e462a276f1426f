/* zfs.load_key and zfs.unload_key */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "codec/crypt.h"
#include "dsl/keys.h"
#include "server/calls_impl.h"
#include "server/permissions_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "util/err.h"

#define KEY_BYTES_MAX 4096

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The bytes of the key as the user gave it, in hex; the text is overwritten. */
static int decode_key(char *text, unsigned char *out, size_t *n)
{
    size_t len = strlen(text);
    int rc = len % 2 == 0 && len / 2 <= KEY_BYTES_MAX ? 0 : -EINVAL;
    for (size_t i = 0; i < len / 2 && rc == 0; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        rc = high < 0 || low < 0 ? -EINVAL : 0;
        out[i] = (unsigned char)(high << 4 | low);
    }
    *n = len / 2;
    crypt_wipe(text, len);
    return rc ? err_set(EINVAL, "the key must come as hex digits") : 0;
}

static int op_load_key(struct call *c)
{
    struct json_object *key = json_member(c->args, "key");
    unsigned char *given = crypt_secret_new(KEY_BYTES_MAX);
    const char *name;
    size_t n;
    int rc = given ? need_name(c, &name) : -ENOMEM;
    if (rc == 0)
        rc = permission_need(c, name, "load-key");
    if (rc == 0 && !json_object_is_type(key, json_type_string))
        rc = err_set(EINVAL, "no key is given");
    if (rc == 0)
        rc = decode_key((char *)json_object_get_string(key), given, &n);
    if (rc == 0)
        rc = keys_load(spa_dsl(c->s->spa), name, given, n, json_flag(c->args, "check_only"));
    if (rc == 0 && !json_flag(c->args, "check_only"))
        call_note(c, "load-key", NULL, NULL); /* the arguments are secret */
    crypt_secret_free(given, KEY_BYTES_MAX);
    return rc;
}

static int op_unload_key(struct call *c)
{
    const char *name;
    int rc = need_name(c, &name);
    if (rc == 0)
        rc = permission_need(c, name, "load-key");
    if (rc == 0)
        rc = keys_unload(spa_dsl(c->s->spa), name);
    if (rc == 0)
        call_note(c, "unload-key", NULL, NULL);
    return rc;
}

const struct operation key_operations[] = {
    {"zfs.load_key", OP_BESIDE | OP_DELEGATED, op_load_key},
    {"zfs.unload_key", OP_DELEGATED, op_unload_key},
    {NULL, 0, NULL},
};
