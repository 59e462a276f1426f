/*
 * Any bytes as the blocks of a ZAP object: reading, listing and changing it must give errors at
 * worst. Input: a byte for the block size (even: 512 bytes per unit of its upper bits, odd: a power
 * of two), then the blocks one after another.
 */
#include <stdio.h>

#include "../dmu/fake_dnode.h"
#include "dmu/zap.h"
#include "fuzz.h"

static uint32_t fuzz_block_size(unsigned char b)
{
    return b & 1 ? 512u << (b >> 1) % 6 : 512u * (1 + (b >> 1));
}

static void fuzz_list(struct dnode *dn, char names[][ZAP_NAME_MAX], unsigned *n)
{
    static struct zap_entry e;
    struct zap_cursor c;
    zap_cursor_init(&c, dn, 0);
    for (unsigned i = 0; i < 4000 && zap_cursor_next(&c, &e) == 0; i++) {
        zap_cursor_cookie(&c);
        if (*n < 64 && e.key_words == 0 && i % 3 == 0)
            memcpy(names[(*n)++], e.name, ZAP_NAME_MAX);
    }
}

static void fuzz_change(struct dnode *dn, char names[][ZAP_NAME_MAX], unsigned n, struct tx *tx)
{
    static uint64_t value[1024];
    unsigned width;
    size_t count;
    char name[32];
    for (unsigned i = 0; i < n; i++) {
        if (zap_length(dn, names[i], &width, &count) == 0 && count * width <= sizeof value)
            zap_lookup(dn, names[i], width, count, value);
        zap_lookup(dn, names[i], 8, 1, value);
        if (i % 2)
            zap_remove(dn, names[i], tx);
        else
            zap_update(dn, names[i], 4, i * 7, value, tx);
    }
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "new-%u", i);
        zap_add(dn, name, 8, 1 + i % 5, value, tx);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char names[64][ZAP_NAME_MAX];
    struct tx tx = {0};
    struct dnode *dn;
    unsigned n = 0;
    if (size < 2 || size > 1 << 20)
        return 0;
    struct objset *os = fake_objset(1);
    struct object_params params = {.type = OT_DIRECTORY, .block_size = fuzz_block_size(data[0])};
    if (object_create(os, 0, &params, &tx, &dn) == 0) {
        uint64_t words[2] = {1, 2}, v;
        dnode_write(dn, 0, data + 1, size - 1, &tx);
        fuzz_list(dn, names, &n);
        zap_lookup_words(dn, words, 2, 8, 1, &v);
        zap_count(dn, &v);
        fuzz_change(dn, names, n, &tx);
        fuzz_list(dn, names, &n);
        fake_evict(dn);
        fuzz_list(dn, names, &n);
        dnode_rele(dn);
    }
    fake_objset_free(os);
    return 0;
}
