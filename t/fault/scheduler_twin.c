/* SPDX-License-Identifier: Apache-2.0 */
/* One plugin, built twice with different versions: a file rebuilt in place. */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER), .id = "twin",
    .version = TWIN_VERSION,          .description = "a fixture of the tests",
    .licence = "Apache-2.0",          .vtable = &vtable,
};
