/* SPDX-License-Identifier: Apache-2.0 */
/* A predictor without a fault, which says when it begins. */
#include "t/fault/fixture.h"

static int create(const struct lls_host *host, const void *params, void **self)
{
  host->log(host->context, LLS_LOG_INFO, "the good one begins");
  host->trace(host->context, "beginning", 0, 1);
  return fixture_create(host, params, self);
}

static const struct lls_predictor_vtable vtable = {
    FIXTURE_PREDICTOR_HEAD, .create = create,           .destroy = fixture_destroy,
    .flags = fixture_flags, .predict = fixture_predict,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_PREDICTOR),
    FIXTURE_TEXTS("good"),
    .vtable = &vtable,
};
