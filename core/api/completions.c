/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/completions: text or token ids in, text out. */
#include "core/api/generation.h"

static int read_prompts(const struct lls_api_config *config, const json_t *body,
                        const struct lls_api_params *params,
                        struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  return lls_prompts_read(config, json_object_get(body, "prompt"), params, prompts,
                          error);
}

void lls_handle_completions(void *context, struct lls_http_exchange *exchange)
{
  lls_generation_handle(context, exchange, LLS_COMPLETIONS, read_prompts);
}
