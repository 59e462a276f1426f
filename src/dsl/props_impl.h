/* Inside the property code: the word lists and the shared steps. */
#ifndef DSL_PROPS_IMPL_H
#define DSL_PROPS_IMPL_H

#include "dmu/objset.h"
#include "dsl/props.h"

struct dataset;
struct dir;
struct dsl;
struct nvlist;
struct tx;

extern const struct prop_word words_onoff[], words_compression[], words_checksum[], words_dedup[],
    words_type[], words_yesno[], words_copies[], words_redundant[], words_sync[], words_logbias[],
    words_cache[], words_direct[], words_dnodesize[], words_snapdir[], words_snapdev[], words_volmode[],
    words_aclmode[], words_aclinherit[], words_acltype[], words_xattr[], words_canmount[],
    words_version[], words_case[], words_normalization[], words_encryption[], words_keyformat[],
    words_keystatus[];

#define PROP_NONE_MAX UINT64_MAX /* "none" of the count limits */
#define PROP_VALUE_MAX 8192      /* bytes of a string value, with NUL */

/* Is number a value of p that this version knows? (numbers: always) */
bool prop_known(const struct prop_info *p, uint64_t number);

/* Computes a property that is not stored in a property ZAP; -ENODATA if it is. Caller holds the DSL's lock. */
int prop_compute(struct dataset *ds, const struct prop_info *p, struct prop_value *out);
/* Effective number of a property for a dir, by inheritance; the default if nothing is set or readable. */
uint64_t prop_dir_number(struct dir *d, const char *name);

/* Sets an encoded list on a head in syncing context: values and side effects. */
int prop_apply(struct dataset *ds, const struct nvlist *encoded, struct tx *tx);
/* Takes a local value away: inherited again, or received. */
int prop_clear(struct dataset *ds, const char *name, bool received, struct tx *tx);
/* Whether it may be set; ds NULL: on a new file system. */
int prop_apply_check(struct dsl *dsl, struct dataset *ds, const struct nvlist *encoded);
/* Recomputes what open object sets at and below d write with. */
void prop_refresh(struct dsl *dsl, struct dir *d);
/* The properties that decide how a dataset writes. */
void prop_objset(struct dir *d, struct objset_props *out);

#endif
