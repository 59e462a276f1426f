/*
 * Native and user properties of datasets (spec 04 5): one table that says for each what it is called, how
 * it is stored, which words and numbers it takes, and its default; lookup with inheritance; setting.
 */
#ifndef DSL_PROPS_H
#define DSL_PROPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dataset;
struct dsl;
struct nvlist;

enum prop_kind { PROP_NUMBER, PROP_INDEX, PROP_STRING };
enum prop_source { SOURCE_NONE, SOURCE_DEFAULT, SOURCE_LOCAL, SOURCE_INHERITED, SOURCE_RECEIVED,
                   SOURCE_TEMPORARY };

enum { PROP_INHERIT = 1, PROP_FILESYSTEM = 2, PROP_VOLUME = 4, PROP_SNAPSHOT = 8,
       PROP_READONLY = 16,     /* computed, cannot be set */
       PROP_SUPPORTED = 32,    /* setting it has its effect in this version */
       PROP_ONETIME = 64,      /* only at creation */
       PROP_KEPT = 128 };      /* may be set and is kept, but has no effect in this version */

struct prop_word { const char *word; uint64_t value; };

/* How a number is shown. */
enum prop_style {
    PROP_STYLE_PLAIN,      /* 8404942528709860457 */
    PROP_STYLE_BYTES,      /* 3.04M, 0B */
    PROP_STYLE_NICE,       /* 88K, 0 */
    PROP_STYLE_BYTES_NONE, /* as BYTES; 0 is "none" */
    PROP_STYLE_COUNT_NONE, /* plain; UINT64_MAX is "none" */
    PROP_STYLE_RATIO,      /* hundredths: 1.00x */
    PROP_STYLE_TIME,       /* Mon Nov 30 10:16 2026, local time */
    PROP_STYLE_TIME_SEC    /* Mon Nov 30 10:16:42 2026 */
};

struct prop_info {
    const char *name;
    const char *alias;             /* short form ("rdonly", "compress"), or NULL */
    enum prop_kind kind;
    unsigned flags;
    uint64_t number;               /* default */
    const char *string;            /* default of strings */
    const struct prop_word *words; /* of PROP_INDEX; ends with NULL */
    const char *values;            /* for messages and usage: "on | off | lz4" */
    const char *column;            /* header of zfs list; its lower-case form is an alias too */
    bool left;                     /* alignment there */
    enum prop_style style;         /* of PROP_NUMBER */
};
const struct prop_info *prop_info(const char *name_or_alias); /* NULL: not native */
const struct prop_info *prop_table(size_t *count);            /* in the order of "zfs get all" */
bool prop_user_name(const char *name);                        /* valid "module:name" */

/* Checks text and encodes it as stored. For strings *text is kept. -EINVAL with OpenZFS's wording. */
int prop_parse(const struct prop_info *p, const char *text, uint64_t *number);
/* The stored value as people read it; exact: plain numbers (-p). */
void prop_format(const struct prop_info *p, uint64_t number, const char *string, bool exact, char *out,
                 size_t cap);
/* "128K" -> 131072 and back, as zfs does (three significant digits). */
int prop_parse_size(const char *text, uint64_t *bytes);
void prop_format_size(uint64_t bytes, char out[16]);

/* Checks properties given as text for a new dataset and encodes them as dataset_create() takes them:
 * sizes and words as uint64, strings as strings. Errors as prop_set's. */
int prop_encode(const struct nvlist *text, struct nvlist **out);

struct prop_value {
    uint64_t number;
    char *string;                  /* malloc'ed; NULL for numbers */
    enum prop_source source;
    char from[256];                /* dataset it is inherited from */
};
void prop_value_clear(struct prop_value *v);
/* The effective value, computed ones included ("mounted" excepted). -ENOENT: a user property that is not
 * set, or a native one that this kind of dataset does not have; -EINVAL: no such property. */
int prop_get(struct dataset *ds, const char *name, struct prop_value *out);
uint64_t prop_get_number(struct dataset *ds, const char *name); /* the default on error */
/* All properties set here or inherited user properties: name -> for "zfs get all". */
int prop_user_list(struct dataset *ds, struct nvlist **out);
/* Where a file system is mounted: malloc'ed absolute path, "none" or "legacy" (04 5.2). */
int prop_mountpoint(struct dataset *ds, const char *altroot, char **out, struct prop_value *raw);

/* Tasks. values: name -> string as the user gave it. Checks all before it changes any. */
int prop_set(struct dsl *dsl, const char *dataset, const struct nvlist *values);
/* Would it be refused? Changes nothing. */
int prop_set_check(struct dsl *dsl, const char *dataset, const struct nvlist *values);
int prop_inherit(struct dsl *dsl, const char *dataset, const char *name, bool received);

/* Called (in any thread, no locks held) after properties of ds changed, own or inherited: mounts adapt. */
typedef void prop_changed_fn(void *arg, struct dataset *ds, const char *name);
void prop_on_change(struct dsl *dsl, prop_changed_fn *fn, void *arg);

#endif
