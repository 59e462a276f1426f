/* Loading keys of encrypted datasets: what load-key, mount -l and import -l share. */
#ifndef CLI_KEY_IMPL_H
#define CLI_KEY_IMPL_H

#include <stdbool.h>
#include <stddef.h>

struct client;

struct key_loading {
    const char *location; /* instead of the stored one; or NULL */
    bool check_only;
    unsigned tried, loaded; /* counted up */
};
#define KEY_FAILED 255 /* OpenZFS's exit status for keys that cannot be (un)loaded */

/* The key of the encryption root `name`. 0, or after a message KEY_FAILED or 1 (no such dataset).
 */
int key_load(struct client *c, const char *name, struct key_loading *l);
/* Keys of all roots at and below a dataset that are not loaded yet. The same. */
int key_load_below(struct client *c, const char *name, struct key_loading *l);
/* The key that a dataset needs, if it needs one that is not loaded. The same. */
int key_load_for(struct client *c, const char *name, struct key_loading *l);

#endif
