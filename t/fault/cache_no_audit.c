/* SPDX-License-Identifier: Apache-2.0 */
/* A cache manager that shows nobody its state. */
#include "t/fault/fixture_cache.h"

static const struct lls_cache_vtable vtable = {
    FIXTURE_CACHE_HEAD,
    FIXTURE_CACHE_CALLBACKS_BUT_AUDIT,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_CACHE),
    FIXTURE_TEXTS("no_audit"),
    .vtable = &vtable,
};
