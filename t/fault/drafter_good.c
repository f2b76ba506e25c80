/* SPDX-License-Identifier: Apache-2.0 */
/* A drafter without a fault. */
#include "t/fault/fixture.h"

static const struct lls_drafter_vtable vtable = {
    FIXTURE_DRAFTER_HEAD,   .create = fixture_create, .destroy = fixture_destroy,
    .flags = fixture_flags, .draft = fixture_draft,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_DRAFTER),
    FIXTURE_TEXTS("good"),
    .vtable = &vtable,
};
