/*
 * Keys of encrypted datasets (spec 09 3, 4, 10). A dataset's own key is stored wrapped by the key
 * of its encryption root, which the user knows; that one is kept in memory from loading to
 * unloading.
 */
#ifndef DSL_KEYS_H
#define DSL_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsl/dataset.h"

struct keys_info {
    bool encrypted; /* the rest is valid only then */
    bool is_root, loaded;
    uint64_t suite, format, iters; /* format and iters of the root */
    char root[DATASET_NAME_MAX];   /* the encryption root's name */
};
int keys_info(struct dataset *ds, struct keys_info *out);

/*
 * Loads the key of an encryption root. given: n bytes as read from where keylocation says. With
 * check_only it is only tried. -EACCES: wrong key; -EEXIST: it is loaded already; -EINVAL: not
 * encrypted, not a root, or not of the key's format; all with OpenZFS's sentence. The derivation
 * from a passphrase takes a good part of a second and holds no lock.
 */
int keys_load(struct dsl *dsl, const char *name, const void *given, size_t n, bool check_only);
/* -ENOENT: not loaded; -EBUSY: a dataset that uses it is open (mounted); -EINVAL as above. */
int keys_unload(struct dsl *dsl, const char *name);

#endif
