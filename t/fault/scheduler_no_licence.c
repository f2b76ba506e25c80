/* SPDX-License-Identifier: Apache-2.0 */
/* Does not say under what licence it is. */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),        .id = "no_licence", .version = "1.0",
    .description = "a fixture of the tests", .vtable = &vtable,
};
