/* SPDX-License-Identifier: Apache-2.0 */
/* A predictor without a fault, which says when it begins and when it is asked. */
#include "t/fault/fixture.h"

static int create(const struct lls_host *host, const void *params, void **self)
{
  host->log(host->context, LLS_LOG_INFO, "the good one begins");
  return fixture_create(host, params, self);
}

static int predict(void *self, uint64_t ticket, const struct lls_prompt *prompt,
                   struct lls_prediction *out)
{
  const struct lls_host *host = self; /* what fixture_create gave */
  host->log(host->context, LLS_LOG_DEBUG, "asked of %u tokens", prompt->n_tokens);
  return fixture_predict(self, ticket, prompt, out);
}

static const struct lls_predictor_vtable vtable = {
    FIXTURE_PREDICTOR_HEAD, .create = create,   .destroy = fixture_destroy,
    .flags = fixture_flags, .predict = predict,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_PREDICTOR),
    FIXTURE_TEXTS("good"),
    .vtable = &vtable,
};
