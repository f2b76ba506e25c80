/* SPDX-License-Identifier: Apache-2.0 */
/* Built for an API that is not there yet. */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION + 98,
    .size = sizeof(struct lls_plugin),
    .kind = LLS_KIND_SCHEDULER,
    FIXTURE_TEXTS("api_version"),
    .vtable = &vtable,
};
