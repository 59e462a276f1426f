/* Zapified DSL objects and the features recorded in them (spec 04 3.1). */
#include <errno.h>
#include <stdlib.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/err.h"

int zapify(struct dsl *dsl, struct dnode *dn, struct tx *tx)
{
    int rc;

    if (dnode_type(dn) == OT_ZAP_METADATA)
        return 0;
    if (!feature_enabled(dsl, FEATURE_EXTENSIBLE_DATASET))
        return err_set(ENOTSUP, "feature extensible_dataset is not enabled");
    rc = zap_format(dn, 0, tx);
    if (rc == 0)
        rc = dnode_set_type(dn, OT_ZAP_METADATA, tx);
    if (rc == 0)
        rc = feature_change(dsl, FEATURE_EXTENSIBLE_DATASET, 1, tx);
    return rc;
}

int zapified_free(struct dsl *dsl, struct dnode *dn, struct tx *tx)
{
    if (dnode_type(dn) != OT_ZAP_METADATA)
        return 0;
    return feature_change(dsl, FEATURE_EXTENSIBLE_DATASET, -1, tx);
}

/* The features that the dataset declares, read once. */
uint64_t ds_features(struct dataset *ds)
{
    if (ds->features_known)
        return ds->features;
    ds->features = 0;
    if (dnode_type(ds->dn) == OT_ZAP_METADATA) {
        for (int f = 0; f < FEATURE_COUNT; f++) {
            unsigned size;
            size_t count;

            if ((feature_info(f)->flags & FEATURE_DATASET) &&
                zap_length(ds->dn, feature_info(f)->guid, &size, &count) == 0)
                ds->features |= 1ull << f;
        }
    }
    ds->features_known = 1;
    return ds->features;
}

int ds_feature_activate(struct dataset *ds, enum feature_id f, struct tx *tx)
{
    const uint64_t zero = 0;
    int rc;

    if (ds_features(ds) & 1ull << f)
        return 0;
    rc = zapify(ds->dsl, ds->dn, tx);
    if (rc == 0)
        rc = zap_add(ds->dn, feature_info(f)->guid, 8, 1, &zero, tx);
    if (rc == 0)
        rc = feature_change(ds->dsl, f, 1, tx);
    if (rc == 0)
        ds->features |= 1ull << f;
    return rc;
}

static int copy_one(struct dataset *from, struct dataset *to, enum feature_id f, struct tx *tx)
{
    const char *guid = feature_info(f)->guid;
    uint64_t *values = NULL;
    unsigned size;
    size_t count;
    int rc = zap_length(from->dn, guid, &size, &count);

    if (rc != 0)
        return rc;
    if (size != 8 || count > 1024)
        return err_set(EBADE, "feature %s of dataset %llu has a value of the wrong form", guid,
                       (unsigned long long)from->object);
    values = calloc(count ? count : 1, 8);
    if (!values)
        return -ENOMEM;
    rc = zap_lookup(from->dn, guid, 8, count, values);
    if (rc == 0)
        rc = zapify(to->dsl, to->dn, tx);
    if (rc == 0)
        rc = zap_add(to->dn, guid, 8, count, values, tx);
    if (rc == 0)
        rc = feature_change(to->dsl, f, 1, tx);
    free(values);
    if (rc == 0)
        to->features |= 1ull << f;
    return rc;
}

int ds_features_copy(struct dataset *from, struct dataset *to, struct tx *tx)
{
    uint64_t have = ds_features(from) & ~ds_features(to);

    for (int f = 0; f < FEATURE_COUNT; f++) {
        int rc = have & 1ull << f ? copy_one(from, to, f, tx) : 0;

        if (rc != 0)
            return rc;
    }
    return 0;
}

static int drop(struct dataset *ds, uint64_t have, struct tx *tx)
{

    for (int f = 0; f < FEATURE_COUNT; f++) {
        int rc = 0;

        if (have & 1ull << f) {
            rc = zap_remove(ds->dn, feature_info(f)->guid, tx);
            if (rc == 0)
                rc = feature_change(ds->dsl, f, -1, tx);
        }
        if (rc != 0)
            return rc;
    }
    ds->features &= ~have;
    return 0;
}

int ds_features_drop(struct dataset *ds, struct tx *tx)
{
    return drop(ds, ds_features(ds), tx);
}

int ds_features_become(struct dataset *ds, struct dataset *from, struct tx *tx)
{
    int rc = drop(ds, ds_features(ds) & ~ds_features(from), tx);

    return rc ? rc : ds_features_copy(from, ds, tx);
}
