/* SPDX-License-Identifier: Apache-2.0 */
/* Its descriptor ends before version 1 does. */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = 8,
    .kind = LLS_KIND_SCHEDULER,
    FIXTURE_TEXTS("small"),
    .vtable = &vtable,
};
