/* Finding the encryption roots, and handing their keys to the pool process. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command_impl.h"
#include "cli/key_impl.h"
#include "codec/crypt.h"
#include "server/client.h"
#include "server/json.h"
#include "tool/key.h"
#include "util/err.h"

#define TRIES 3

/* ---- What the pool says about keys ---- */

static const char *value(struct json_object *row, const char *prop)
{
    return json_text(json_member(json_member(row, "props"), prop), "value", "-");
}

static int take_row(void *arg, struct json_object *row)
{
    json_object_array_add(arg, json_object_get(row));
    return 0;
}

/* An array of rows, which the caller puts; NULL after a message. */
static struct json_object *ask(struct client *c, const char *name, int depth)
{
    struct json_object *args = json_object_new_object(), *names = json_object_new_array(),
                       *rows = json_object_new_array();
    json_object_array_add(names, json_object_new_string(name));
    json_object_object_add(args, "names", names);
    json_object_object_add(args, "depth", json_object_new_int(depth));
    json_object_object_add(args, "types", split_list("filesystem,volume"));
    json_object_object_add(args, "props",
                           split_list("keyformat,keylocation,keystatus,encryptionroot"));
    int rc = client_call(c, "zfs.list", args, take_row, rows, NULL);
    if (rc == 0)
        return rows;
    fail(rc, "cannot open '%s'", name);
    json_object_put(rows);
    return NULL;
}

/* ---- One key ---- */

static int send_key(struct client *c, const char *name, bool check_only, const unsigned char *key,
                    size_t n)
{
    static const char digits[] = "0123456789abcdef";
    struct json_object *args = json_object_new_object();
    char *hex = crypt_secret_new(2 * KEY_BYTES_MAX + 1);
    if (!hex) {
        json_object_put(args);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = digits[key[i] >> 4];
        hex[2 * i + 1] = digits[key[i] & 15];
    }
    put_string(args, "name", name);
    put_string(args, "key", hex);
    put_flag(args, "check_only", check_only);
    crypt_secret_free(hex, 2 * KEY_BYTES_MAX + 1);
    return call_simple(c, "zfs.load_key", args);
}

/* Asks up to three times at a terminal. */
static int load_root(struct client *c, struct json_object *row, struct key_loading *l)
{
    const char *name = json_text(row, "name", "?"), *format = value(row, "keyformat");
    const struct key_source source = {
        .location = l->location ? l->location : value(row, "keylocation"), .terminal = stdout};
    unsigned char *key = crypt_secret_new(KEY_BYTES_MAX);
    bool again = key != NULL;
    int rc = key ? 0 : fail(-ENOMEM, "Key load error");
    for (int i = 0; i < TRIES && again; i++) {
        size_t n;
        rc = key_read(&source, format, name, key, &n, &again);
        if (rc == 0)
            rc = send_key(c, name, l->check_only, key, n);
        if (rc < 0)
            fprintf(stderr, "Key load error: %s\n", err_text(rc));
        again = again && rc == -EACCES;
    }
    crypt_secret_free(key, KEY_BYTES_MAX);
    l->tried++;
    l->loaded += rc == 0;
    return rc ? KEY_FAILED : 0;
}

static int load_row(struct client *c, struct json_object *row, struct key_loading *l)
{
    const char *name = json_text(row, "name", "?"), *root = value(row, "encryptionroot");
    if (strcmp(root, "-") == 0)
        fprintf(stderr, "Key load error: '%s' is not encrypted.\n", name);
    else if (strcmp(root, name) != 0)
        fprintf(stderr, "Key load error: Keys must be loaded for encryption root of '%s' (%s).\n",
                name, root);
    else if (!l->check_only && strcmp(value(row, "keystatus"), "available") == 0)
        fprintf(stderr, "Key load error: Key already loaded for '%s'.\n", name);
    else
        return load_root(c, row, l);
    return KEY_FAILED;
}

int key_load(struct client *c, const char *name, struct key_loading *l)
{
    struct json_object *rows = ask(c, name, 0);
    int rc = rows && json_count(rows) > 0 ? load_row(c, json_object_array_get_idx(rows, 0), l) : 1;
    json_object_put(rows);
    return rc;
}

/* ---- Several ---- */

int key_load_below(struct client *c, const char *name, struct key_loading *l)
{
    struct json_object *rows = ask(c, name, -1);
    int rc = rows ? 0 : 1;
    for (size_t i = 0; i < json_count(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        bool loaded = strcmp(value(row, "keystatus"), "available") == 0;
        if (strcmp(value(row, "encryptionroot"), json_text(row, "name", "?")) == 0 &&
            (!loaded || l->check_only))
            rc = load_root(c, row, l) ? KEY_FAILED : rc;
    }
    json_object_put(rows);
    return rc;
}

int key_load_for(struct client *c, const char *name, struct key_loading *l)
{
    struct json_object *rows = ask(c, name, 0);
    struct json_object *row = json_count(rows) > 0 ? json_object_array_get_idx(rows, 0) : NULL;
    int rc = rows ? 0 : 1;
    if (row && strcmp(value(row, "keystatus"), "unavailable") == 0)
        rc = key_load(c, value(row, "encryptionroot"), l);
    json_object_put(rows);
    return rc;
}
