/* SPDX-License-Identifier: Apache-2.0 */
/* A predictor without a fault. */
#include "t/fault/fixture.h"

static const struct lls_predictor_vtable vtable = {
    FIXTURE_PREDICTOR_HEAD, .create = fixture_create,   .destroy = fixture_destroy,
    .flags = fixture_flags, .predict = fixture_predict,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_PREDICTOR),
    FIXTURE_TEXTS("good"),
    .vtable = &vtable,
};
