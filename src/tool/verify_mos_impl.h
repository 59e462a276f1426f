/* What the parts of verify_mos*.c share. */
#ifndef TOOL_VERIFY_MOS_IMPL_H
#define TOOL_VERIFY_MOS_IMPL_H

#include "dmu/zap.h"
#include "dsl/feature.h"
#include "tool/verify_impl.h"

struct mos_refs {
    struct verify *v;
    struct hashmap met;
    uint64_t zap;    /* whose entries are gone through: bookmarks only */
    bool incomplete; /* something could not be read: what seems to have leaked may have not */
    uint64_t features[FEATURE_COUNT]; /* what their reference counts should be */
    unsigned depth;  /* of datasets and directories, one in the other */
    int rc;          /* -ENOMEM; nothing more is done then */
};

typedef void mos_entry_fn(struct mos_refs *r, const struct zap_entry *e);
struct mos_entries {
    struct mos_refs *r;
    mos_entry_fn *fn;
};

/* Notes a reference; what (of what, for messages) refers to object. True if the object exists and
 * this was the first reference: then it is to be followed. 0 is no reference. A second one is
 * reported unless the object may be shared; perhaps: one that does not exist is no reference. */
bool mos_meet(struct mos_refs *r, uint64_t object, const char *what);
bool mos_meet_perhaps(struct mos_refs *r, uint64_t object, const char *what);
bool mos_meet_shared(struct mos_refs *r, uint64_t object, const char *what);
/* Reports the sentence of rc, if it is an error. */
void mos_damaged(struct mos_refs *r, uint64_t object, int rc);
void mos_each(struct mos_refs *r, uint64_t zap, mos_entry_fn *fn);
/* For mos_each: the value is the number of an object. */
void mos_values(struct mos_refs *r, const struct zap_entry *e);
/* Lists of block pointers, with all below them. */
void mos_list(struct mos_refs *r, uint64_t object);
void mos_deadlist(struct mos_refs *r, uint64_t object);
/* A word of an object's bonus; 0 if it has none. */
uint64_t mos_bonus_word(struct mos_refs *r, uint64_t object, unsigned word);

/* verify_mos_dir.c */
void mos_directory(struct mos_refs *r);
/* verify_mos_dsl.c: a directory of datasets and all below it */
void mos_dsl_dir(struct mos_refs *r, uint64_t object);

#endif
