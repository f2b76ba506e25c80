/* SPDX-License-Identifier: Apache-2.0 */
/* A scheduler that cannot plan. */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    .create = fixture_create,
    .destroy = fixture_destroy,
    .caps = fixture_caps,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("no_plan"),
    .vtable = &vtable,
};
