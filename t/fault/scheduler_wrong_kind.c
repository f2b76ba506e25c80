/* SPDX-License-Identifier: Apache-2.0 */
/* A predictor by its own account. */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_PREDICTOR),
    FIXTURE_TEXTS("wrong_kind"),
    .vtable = &vtable,
};
