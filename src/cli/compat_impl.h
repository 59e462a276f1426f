/* The compatibility property: sets of features by name. */
#ifndef CLI_COMPAT_IMPL_H
#define CLI_COMPAT_IMPL_H

#include <stdbool.h>

#include "dsl/feature.h"

/* Features that every set of the list "a,b" allows; "off" allows all, "legacy" none. -ENOENT if a
 * set is not known. */
int compat_features(const char *sets, bool allowed[FEATURE_COUNT]);

#endif
