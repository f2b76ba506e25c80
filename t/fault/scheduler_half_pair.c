/* SPDX-License-Identifier: Apache-2.0 */
/* Exports state that it cannot import. */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
    .export_state = fixture_export,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("half_pair"),
    .vtable = &vtable,
};
