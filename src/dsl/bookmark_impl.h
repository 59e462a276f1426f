/* The list of a head's bookmarks (spec 04 12): a ZAP named in the head's own, each entry an array
 * of words. */
#ifndef DSL_BOOKMARK_IMPL_H
#define DSL_BOOKMARK_IMPL_H

#include "dsl/dsl_impl.h"
#include "util/cleanup.h"

enum {
    BM_GUID,
    BM_TXG,
    BM_TIME,
    BM_REDACT,
    BM_FLAGS,
    BM_REF,
    BM_COMP,
    BM_UNCOMP,
    BM_FREED,
    BM_FREED_COMP,
    BM_FREED_UNCOMP,
    BM_IVSET,
    BM_WORDS
};
#define BM_HAS_FBN         1
#define BM_SNAPSHOT_EXISTS 2

struct bookmark_entry {
    char *name;
    size_t count; /* words; at most BM_WORDS */
    uint64_t w[BM_WORDS];
};

struct bookmark_list {
    struct dnode *zap; /* NULL: no bookmarks */
    struct bookmark_entry *e;
    size_t n, cap;
};

/* Loads all bookmarks of a head; there may be none. */
int bookmark_list_load(struct dataset *head, struct bookmark_list *l);
void bookmark_list_free(struct bookmark_list *l);
#define CLEANUP_LIST CLEANUP(bookmark_list_free)

/* Counts an entry of so many words, with these flags, in the features that it uses; delta 1 or -1.
 */
int bookmark_count(struct dsl *dsl, size_t count, uint64_t flags, int delta, struct tx *tx);

/* Does it know what was freed between its snapshot and the next one? */
static inline bool bookmark_has_fbn(const struct bookmark_entry *b)
{
    return b->count >= BM_WORDS && (b->w[BM_FLAGS] & BM_HAS_FBN);
}

#endif
