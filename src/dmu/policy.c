/* What properties a new block gets (03 8). */
#include "codec/checksum.h"
#include "codec/compress.h"
#include "dmu/dmu_impl.h"
#include "util/cleanup.h"

enum { REDUNDANT_ALL, REDUNDANT_MOST, REDUNDANT_SOME, REDUNDANT_NONE };

struct block_batch *objset_batch(const struct objset *os)
{
    return os->type == OBJSET_META ? os->pool->batch : NULL;
}

static bool extra_copy(const struct policy_for *w, uint8_t redundant)
{
    bool type = object_type_metadata(w->type) || w->spill;

    switch (redundant) {
    case REDUNDANT_ALL:
        return true;
    case REDUNDANT_MOST:
        return w->level >= 2 || type;
    case REDUNDANT_SOME:
        return type && !w->spill && w->type != OT_DIRECTORY && w->type != OT_SA &&
               !(w->type == OT_DNODE && w->level == 0);
    default:
        return false;
    }
}

static uint8_t metadata_checksum(uint8_t wanted)
{
    const struct checksum_info *info;

    if (wanted <= CHECKSUM_ON)
        return CHECKSUM_FLETCHER4;
    info = checksum_info(wanted);
    return info && info->flags & CHECKSUM_METADATA && !(info->flags & CHECKSUM_EMBEDDED)
               ? wanted
               : CHECKSUM_FLETCHER4;
}

static void choose_metadata(struct objset *os, const struct policy_for *w,
                            const struct objset_props *props, struct block_policy *out)
{
    unsigned copies = MAX(props->copies, 1) + (extra_copy(w, props->redundant_metadata) ? 1u : 0);

    out->metadata = true;
    out->checksum = metadata_checksum(props->checksum);
    out->compress = os->pool->features.lz4 ? COMPRESS_LZ4 : COMPRESS_LZJB;
    out->copies = (uint8_t)MIN(copies, 3u);
    out->zero_to_hole = true;
}

static void choose_data(const struct policy_for *w, const struct objset_props *props,
                        struct block_policy *out)
{
    uint8_t checksum = w->checksum ? w->checksum : props->checksum;
    uint8_t compress = w->compress ? w->compress : props->compress;

    out->checksum = checksum <= CHECKSUM_ON ? CHECKSUM_FLETCHER4 : checksum;
    out->compress = compress <= COMPRESS_ON ? COMPRESS_LZ4 : compress;
    out->compress_level = props->compress_level;
    out->copies = (uint8_t)MIN(MAX(props->copies, 1), 3);
    out->zero_to_hole = out->compress != COMPRESS_OFF;
}

void policy_choose(struct objset *os, const struct policy_for *w, struct block_policy *out)
{
    bool metadata = w->level > 0 || w->spill || object_type_metadata(w->type);
    struct objset_props props;

    objset_props(os, &props);
    *out = (struct block_policy){.type = w->type, .level = (uint8_t)w->level, .fill = 1};
    out->embed = w->level == 0 && w->type != OT_DNODE && w->type != OT_OBJSET &&
                 os->pool->features.embedded_data;
    if (os->type == OBJSET_META) {
        props.checksum = CHECKSUM_FLETCHER4;
        props.compress = COMPRESS_ON;
        props.copies = 3;
    }
    if (metadata)
        choose_metadata(os, w, &props, out);
    else
        choose_data(w, &props, out);
}
