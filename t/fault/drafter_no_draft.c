/* SPDX-License-Identifier: Apache-2.0 */
/* A drafter that lacks the required callback draft. */
#include "t/fault/fixture.h"

static const struct lls_drafter_vtable vtable = {
    FIXTURE_DRAFTER_HEAD,
    .create = fixture_create,
    .destroy = fixture_destroy,
    .flags = fixture_flags,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_DRAFTER),
    FIXTURE_TEXTS("no_draft"),
    .vtable = &vtable,
};
