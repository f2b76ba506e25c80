/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, runs and cancels offline requests; see offline.h. */
#include "core/api/offline.h"

#include <stdlib.h>
#include <string.h>

#include "core/api/generation.h"
#include "core/base/json_memory.h"

int lls_offline_set_params(const struct lls_offline *offline,
                           struct lls_api_params *params, struct lls_api_error *error)
{
  LLS_ON_MAIN_THREAD();
  if (params->stream)
    return lls_api_fail(
        error, 400, NULL, "stream",
        "'stream' must be false: no client reads the answer as it is generated");
  params->request_class = LLS_CLASS_BEST_EFFORT;
  params->slo = (struct lls_slo){.ttft_ns = LLS_NEVER,
                                 .tbt_ns = LLS_NEVER,
                                 .tpot_ns = LLS_NEVER,
                                 .completion_ns = offline->deadline_ns};
  if (offline->tenant[0] != '\0')
    lls_api_params_set_tenant(params, offline->tenant);
  return 0;
}

void lls_offline_fail(struct lls_offline *offline, const struct lls_api_error *error)
{
  json_t *json = lls_api_error_json(error);
  char *text = lls_json_text(json, JSON_COMPACT);
  LLS_ON_MAIN_THREAD();
  if (text != NULL)
    offline->answer(offline, error->status, text, strlen(text));
  else
    offline->answer(offline, 503, NULL, 0);
  free(text);
  json_decref(json);
}

bool lls_offline_drop(struct lls_offline *offline)
{
  struct lls_generation *generation = offline->generation;
  LLS_ON_MAIN_THREAD();
  if (generation == NULL)
    return false;
  LLS_CHECK(generation->offline == offline);
  generation->offline = NULL;
  offline->generation = NULL;
  lls_generation_cancel(generation);
  return true;
}
