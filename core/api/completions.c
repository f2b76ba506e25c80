/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/completions: text or token ids in, text out. */
#include "core/api/generation.h"

static int read_request(struct lls_api *api, const json_t *body,
                        struct lls_api_params *params, struct lls_prompt_list *prompts,
                        struct lls_api_error *error)
{
  const struct lls_params_context context = {
      .endpoint = LLS_COMPLETIONS,
      .model_name = api->model_name,
      .vocab = api->config.vocab,
      .defaults = &api->config.sampling,
  };
  if (lls_api_params_read(body, &context, params, error) != 0)
    return -1;
  int status = lls_prompts_read(api, json_object_get(body, "prompt"),
                                params->add_special_tokens, prompts, error);
  if (status != 0)
    lls_api_params_free(params);
  return status;
}

void lls_handle_completions(void *context, struct lls_http_exchange *exchange)
{
  lls_generation_handle(context, exchange, LLS_COMPLETIONS, read_request);
}
