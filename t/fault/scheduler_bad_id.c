/* SPDX-License-Identifier: Apache-2.0 */
/* Its id cannot stand in a section name. */
#include "t/fault/fixture.h"

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("Bad Id"),
    .vtable = &vtable,
};
