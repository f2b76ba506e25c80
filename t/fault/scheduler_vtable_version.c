/* SPDX-License-Identifier: Apache-2.0 */
/* Its vtable is of an API that is not there yet. */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION + 1,
    .size = sizeof(struct lls_scheduler_vtable),
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("vtable_version"),
    .vtable = &vtable,
};
