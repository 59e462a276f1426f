/* Private to src/dsl: the keys that are loaded. */
#ifndef DSL_KEYS_IMPL_H
#define DSL_KEYS_IMPL_H

#include <pthread.h>

struct crypt_key;
struct dir;
struct loaded;
struct unwrapped;

struct keystore {
    pthread_mutex_t lock; /* guards both lists; held while a stored key is read */
    struct loaded *loaded;
    struct unwrapped *unwrapped;
};

void keystore_init(struct keystore *ks);
void keystore_fini(struct keystore *ks);

/* The key of a directory's datasets with a reference, NULL if they are not encrypted. -EACCES: not
 * loaded. Caller holds dsl->lock. */
int keys_of_dir(struct dir *d, struct crypt_key **out);

#endif
