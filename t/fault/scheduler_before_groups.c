/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler that was built before 0.1.0, when an item of a plan had 32 bytes: its
 * vtable ends before on_session_end.
 */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    .api_version = 1,
    .size = offsetof(struct lls_scheduler_vtable, on_session_end),
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("before_groups"),
    .vtable = &vtable,
};
