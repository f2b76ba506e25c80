/* SPDX-License-Identifier: Apache-2.0 */
/* Its vtable ends before version 1 does. */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = 16,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("vtable_small"),
    .vtable = &vtable,
};
