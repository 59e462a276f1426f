/* Private to codec: reading the bodies of intent log records, field by field. */
#ifndef CODEC_ZIL_RECORD_IMPL_H
#define CODEC_ZIL_RECORD_IMPL_H

#include "codec/zil_record.h"
#include "util/bytes.h"

#define ZIL_OBJECT_MASK ((1ull << 48) - 1)

struct zil_input {
    const unsigned char *p; /* the record */
    size_t size, at;
    bool big;
    bool bad;     /* a field reaches behind the end; what was read then is 0 or "" */
    bool foreign; /* a user or group of another domain */
};

uint64_t zil_word(struct zil_input *in);
uint64_t zil_object(struct zil_input *in);
uint32_t zil_id(struct zil_input *in);
struct zil_time zil_time(struct zil_input *in);
const char *zil_name(struct zil_input *in);
void zil_xvattr(struct zil_input *in, struct zil_xvattr *out);

void zil_read_create(struct zil_input *in, struct zil_record *r);
void zil_read_rename(struct zil_input *in, struct zil_record *r);

#endif
